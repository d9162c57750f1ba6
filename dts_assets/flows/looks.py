"""Looks at the marks of a subscription, which begin behind the settled days.

They do so wherever that gives the answers of all windows.

A look reads the days that are not settled and one settled day before them; the past stands for everything earlier. Nothing rests
on the rows of ``settled_days`` being there: without them a look begins with the first window and gives equal answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from threading import Lock

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.partial_images import judging_settings, partial_images
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow, SettledDay
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, day_of, start_of_day
from dts_assets.planning.settled_days import (
    FROM_THE_FIRST,
    Begin,
    begin_of_look,
    still_settled,
    windows_referred_to,
)
from dts_assets.planning.settled_ids import ids_reach_back
from dts_assets.planning.settled_past import NO_PAST, Past, reaches_back
from dts_assets.planning.topic_marks import TopicMarks, digest_of_tables
from dts_assets.store.ledger_files import forget as forget_files
from dts_assets.store.marks_by_day import MarksByDay

_FURTHER_BACK = (0, 7)
"""The settled days that are read besides one.

What a task sends again after a restart rarely is older than a day, and a topic rarely keeps messages for more than a week.
"""

_TOPICS: OrderedDict[Hashable, TopicMarks] = OrderedDict()
"""The marks that the latest looks told, by all that they follow from. Ledger files never change."""

_MOST_TOPICS = 4
"""The number of them that a process keeps."""

_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class Look:
    """The marks of the windows behind the past, and what the topic tells of them.

    ``before`` is the last window that is not judged because its day is settled, None where every window is. Rows of it and of its
    day are among ``raw``, ``entries`` and ``cuts``, which have all later rows. ``sources`` has the marks of all raw messages that
    entries of judged windows have read. ``judged`` is the past behind the settled days.
    """

    raw: Mapping[Cell, RawWindow]
    sources: Mapping[Cell, RawWindow]
    entries: Mapping[Cell, IngestWindow]
    cuts: Mapping[datetime, Cut]
    topic: TopicMarks
    judged: Past = NO_PAST
    before: Window | None = None

    @property
    def past(self) -> Past:
        """The past that stands for earlier windows."""
        return self.topic.history.past

    def judges(self, windows: Iterable[Window]) -> bool:
        """Return whether the look is about some windows."""
        return self.before is None or all(window.start > self.before.start for window in windows)


def looks(pipeline: Pipeline, tables: Iterable[TableId]) -> Iterator[Look]:
    """Yield looks, each of which reads more than the one before. The last one is a look over all windows.

    ``tables`` are all known tables. Whoever needs windows that a look does not judge goes on to the next one.
    """
    tables = list(tables)
    stored = pipeline.ledger.marks_by_day()
    settled = settled_now(pipeline, stored, tables)
    begins = dict.fromkeys(begin_of_look(settled, stored.files, back=back) for back in _FURTHER_BACK)
    for begin in begins:
        look = None if begin.settled is None else _look_behind(pipeline, stored, begin, tables)
        if look is not None:
            yield look
    yield look_over_all(pipeline, stored, tables)


def look_over_all(pipeline: Pipeline, stored: MarksByDay, tables: Iterable[TableId]) -> Look:
    """Return the look over all windows."""
    return look_from(pipeline, stored, tables, FROM_THE_FIRST, _NO_PASTS)


@dataclass(frozen=True, slots=True)
class RawMarks:
    """The marks of raw as they stood at one moment, of which settled days need not be read.

    In each Kafka partition the settled cells follow each other from the first window on, so that no offset is missing.
    """

    stored: MarksByDay
    begin: Begin

    def behind_settled(self, windows: Iterable[Window]) -> list[RawWindow] | None:
        """Return the marks of all cells behind the settled days, and of one of those.

        The result is None if some of ``windows`` do not lie behind them.
        """
        first = self.begin.first
        if first is None or any(window.start < start_of_day(first) for window in windows):
            return None
        return self.of_days(since=min(self.begin.known))

    def of_days(self, *, since: int | None = None) -> list[RawWindow]:
        """Return the marks of the days from ``since`` on, counted from 1970-01-01; None stands for all days."""
        return self.stored.raw_windows(day for day in self.stored.files if since is None or day >= since)


def raw_marks(pipeline: Pipeline) -> RawMarks:
    """Return the marks of raw as they stand now."""
    stored = pipeline.ledger.marks_by_day()
    settled = settled_now(pipeline, stored, list(known_names(pipeline)))
    return RawMarks(stored, begin_of_look(settled, stored.files))


def forget() -> None:
    """Forget all that this process remembers of lakes, as a fresh process does not know it."""
    with _LOCK:
        _TOPICS.clear()
    forget_files()


def settled_now(pipeline: Pipeline, stored: MarksByDay, tables: Iterable[TableId]) -> tuple[SettledDay, ...]:
    """Return the days that are settled now; ``tables`` are all known tables.

    They end with a day whose past is stored. Of most days it is not, and nothing could go on behind them.
    """
    rows = pipeline.ledger.settled_days()
    if not rows:
        return ()
    tables = list(tables)
    found = still_settled(
        rows,
        stored.files,
        settings=judging_settings(pipeline),
        tables=digest_of_tables(tables),
        paused=paused_now(pipeline, tables) if any(row.lacking for row in rows) else (),
    )
    return _until_known_past(found)


def _until_known_past(settled: Sequence[SettledDay]) -> tuple[SettledDay, ...]:
    """Return the settled days up to the last one whose past this version can read."""
    count = next((count for count in range(len(settled), 0, -1) if past_of(settled[count - 1]) is not None), 0)
    return tuple(settled[:count])


def paused_now(pipeline: Pipeline, tables: Collection[TableId]) -> set[TableId]:
    """Return the known tables that stand still."""
    return {row.table for row in pipeline.ledger.paused_tables() if row.table in tables}


def _look_behind(pipeline: Pipeline, stored: MarksByDay, begin: Begin, tables: Iterable[TableId]) -> Look | None:
    """Return the look that begins behind a settled day.

    It is None if it could give other answers than a look over all windows.
    """
    pasts = pasts_of(begin)
    look = None if pasts is None else look_from(pipeline, stored, tables, begin, pasts)
    return look if look is not None and stands_alone(pipeline, look, begin) else None


@dataclass(frozen=True, slots=True)
class Pasts:
    """The past before the days that a look reads, and that behind those of them that are settled."""

    read: Past
    judged: Past


_NO_PASTS = Pasts(NO_PAST, NO_PAST)


def pasts_of(begin: Begin) -> Pasts | None:
    """Return the pasts at which a look begins.

    The result is None if one is not stored, or cannot be read by this version.
    """
    read, judged = (NO_PAST if row is None else past_of(row) for row in (begin.settled, begin.last))
    return None if read is None or judged is None else Pasts(read, judged)


def past_of(row: SettledDay) -> Past | None:
    """Return the past behind a settled day.

    The result is None if it is not stored, or cannot be read by this version.
    """
    return None if row.past is None else _readable_past(row.past)


@lru_cache(maxsize=8)
def _readable_past(stored: bytes) -> Past | None:
    """Return a stored past, or None. Each look asks for some of them more than once."""
    try:
        return Past.of_bytes(stored)
    except ValueError:
        return None


def look_from(
    pipeline: Pipeline,
    stored: MarksByDay,
    tables: Iterable[TableId],
    begin: Begin,
    pasts: Pasts,
    *,
    to: int | None = None,
) -> Look:
    """Return the look over the days from the known ones on, up to the day ``to``.

    Without it the look is over all later days.
    """
    least = min(begin.known, default=None)
    days = [day for day in stored.files if (least is None or day >= least) and (to is None or day <= to)]
    raw = {row.cell: row for row in stored.raw_windows(days)}
    entries = {row.cell: row for row in stored.windows(days)}
    first = None if begin.first is None else start_of_day(begin.first)
    known = (row.window for row in raw.values() if first is not None and row.window.start < first)
    return Look(
        raw=raw,
        sources=raw if least is None else {**_read_before(pipeline, stored, entries, first, least), **raw},
        entries=entries,
        cuts={row.window.start: row for row in stored.cuts(days)},
        topic=_topic_marks(pipeline, stored.files_of_windows(days), entries.values(), tables, pasts),
        judged=pasts.judged,
        before=max(known, default=None),
    )


def _topic_marks(
    pipeline: Pipeline, files: tuple[str, ...], rows: Iterable[IngestWindow], tables: Iterable[TableId], pasts: Pasts
) -> TopicMarks:
    """Return the marks that ``rows`` tell, which stand in ``files``.

    A refresh asks for them three times, and only one of these times rows have changed.
    """
    copied, partial = pipeline.copies(), partial_images(pipeline)
    key = (
        (pipeline.lake.identity(pipeline.name), pipeline.shaping_settings(), pipeline.kafka_partitions, files),
        partial.digest,
        (frozenset(tables), pasts.read.digest, pasts.judged.digest, tuple(pipeline.comparisons())),
        # Nothing else of a copy changes once all is read.
        (tuple((one.copy, one.window_start) for one in copied.tables), copied.removed.rows),
    )
    found = _TOPICS.get(key)
    if found is None:
        found = pipeline.topic_marks(rows, tables, copied=copied, past=pasts.read, judged=pasts.judged, partial=partial)
        with _LOCK:
            _TOPICS[key] = found
            while len(_TOPICS) > _MOST_TOPICS:
                _TOPICS.popitem(last=False)
    return found


def _read_before(
    pipeline: Pipeline, stored: MarksByDay, entries: Mapping[Cell, IngestWindow], first: datetime | None, least: int
) -> dict[Cell, RawWindow]:
    """Return the marks of raw before the day ``least`` that entries have read.

    Entries of windows from ``first`` on count.
    """
    judged = (row for cell, row in entries.items() if first is None or cell.window.start >= first)
    windows = windows_referred_to(judged, pipeline.grid)
    days = set(stored.files) if windows is None else {day_of(window.start) for window in windows}
    return {row.cell: row for row in stored.raw_windows(day for day in days if day < least)}


def stands_alone(pipeline: Pipeline, look: Look, begin: Begin) -> bool:
    """Return whether no window that is judged may change what is not read or not judged."""
    if begin.first is None:
        return True
    first = start_of_day(begin.first)
    history = look.topic.history
    if pipeline.settings.traits.order is not ChangeOrder.MESSAGE_ID:
        known = [row for row in look.entries.values() if row.window.start < first]
        later = [row for row in look.entries.values() if row.window.start >= first]
        return not reaches_back(look.past, known, later, judged=look.judged, lineages=history.lineages)
    told = history.lineages.all[: len(look.judged.lineages)]
    return told == look.judged.lineages and not ids_reach_back(
        look.past.ids, look.judged.ids, until=first, rows=look.entries.values(), seen=history.ids
    )
