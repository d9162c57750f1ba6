"""Looks at the marks of a subscription, which begin behind the settled days.

They do so wherever that gives the answers of all windows.

A look reads the days that are not settled and one settled day before them; the past stands for everything earlier. Nothing rests
on the rows of ``settled_days`` being there: without them a look begins with the first window and gives equal answers.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow, SettledDay
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, day_of, start_of_day
from dts_assets.planning.cuts import frontier, window_cut
from dts_assets.planning.settled_days import (
    FROM_THE_FIRST,
    Begin,
    begin_of_look,
    day_key,
    days_referred_to,
    is_whole,
    rests_on_tables,
    still_settled,
    windows_of_day,
    windows_referred_to,
    with_days,
)
from dts_assets.planning.settled_past import NO_PAST, Past, past_after, reaches_back
from dts_assets.planning.topic_marks import TopicMarks, digest_of_tables
from dts_assets.planning.work import plan_work
from dts_assets.store.ledger import MarksByDay
from dts_assets.store.ledger_files import forget as forget_files

_FURTHER_BACK = (0, 7)
"""The settled days that are read besides one.

What a task sends again after a restart rarely is older than a day, and a topic rarely keeps messages for more than a week.
"""

_TRIES = ((0, 0), (0, 2), (7, 2))
"""The numbers of days that are read to tell whether a day is settled.

They are settled days before it, besides one, and days after it.

A failover at the end of a day shows whole only in the next one.
"""

_TRY_AGAIN = 600.0
"""Seconds until this process tries again to settle a day with the same files.

Each try costs some looks, and the live run asks every ten seconds.
"""

_IN_VAIN: dict[tuple[str | None, int, tuple[str, ...] | None], float] = {}
"""The last try in vain: the lake, the day and its files, and when it was."""

_TOPICS: OrderedDict[Hashable, TopicMarks] = OrderedDict()
"""The marks that the latest looks told, by all that they follow from. Ledger files never change."""

_MOST_TOPICS = 4
"""The number of them that a process keeps."""

_LOCK = Lock()

_MOST_DAYS = 10
"""The most days that one run settles.

A lake of years, which an earlier version made, is settled bit by bit.
"""


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
    if _can_settle(pipeline):
        settled = _settled(pipeline, stored, tables)
        begins = dict.fromkeys(begin_of_look(settled, stored.files, back=back) for back in _FURTHER_BACK)
        for begin in begins:
            look = None if begin.settled is None else _look_behind(pipeline, stored, begin, tables)
            if look is not None:
                yield look
    yield _look_from(pipeline, stored, tables, FROM_THE_FIRST, _NO_PASTS)


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
    if not _can_settle(pipeline):
        return RawMarks(stored, FROM_THE_FIRST)
    settled = _settled(pipeline, stored, list(known_tables(pipeline)))
    return RawMarks(stored, begin_of_look(settled, stored.files))


def settle_days(pipeline: Pipeline, progress: Progress, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Store the days that are settled and follow the settled ones.

    Days that are not settled any more are dropped. An error is a line of progress: nothing rests on these rows, and the next
    run tries again. After a try in vain this process waits a while, by ``clock``.
    """
    if not _can_settle(pipeline):
        return
    try:
        count = _settle(pipeline, clock())
    except Exception as error:
        progress(f"ledger: no day was settled ({type(error).__name__}); looks begin where they did")
        return
    if count:
        progress(f"ledger: {count} more days are settled")


def forget() -> None:
    """Forget all that this process remembers of lakes, as a fresh process does not know it."""
    with _LOCK:
        _TOPICS.clear()
    forget_files()


def _settle(pipeline: Pipeline, now: float) -> int:
    """Return the number of days that were settled and stored.

    Raises:
        LakeChangeError: Other runs changed the rows each time that this one tried.
    """
    tables = list(known_tables(pipeline))
    stored = pipeline.ledger.marks_by_day()
    settled = list(_settled(pipeline, stored, tables))
    known = len(settled)
    while len(settled) < known + _MOST_DAYS:
        row = _settled_next(pipeline, stored, settled, tables, now)
        if row is None:
            break
        settled.append(row)
    if len(settled) > known:
        pipeline.ledger.change_settled_days(lambda rows: with_days(rows, settled))
    return len(settled) - known


def _can_settle(pipeline: Pipeline) -> bool:
    """Return whether days can be settled.

    Where messages carry ids, each is compared with all earlier windows.
    """
    return pipeline.settings.traits.order is not ChangeOrder.MESSAGE_ID


def _settled(pipeline: Pipeline, stored: MarksByDay, tables: Iterable[TableId]) -> tuple[SettledDay, ...]:
    rows = pipeline.ledger.settled_days()
    if not rows:
        return ()
    return still_settled(rows, stored.files, settings=pipeline.judging_settings(), tables=digest_of_tables(tables))


def _look_behind(pipeline: Pipeline, stored: MarksByDay, begin: Begin, tables: Iterable[TableId]) -> Look | None:
    """Return the look that begins behind a settled day.

    It is None if it could give other answers than a look over all windows.
    """
    pasts = _pasts_of(begin)
    look = None if pasts is None else _look_from(pipeline, stored, tables, begin, pasts)
    return look if look is not None and _stands_alone(look, begin) else None


@dataclass(frozen=True, slots=True)
class _Pasts:
    """The past before the days that a look reads, and that behind those of them that are settled."""

    read: Past
    judged: Past


_NO_PASTS = _Pasts(NO_PAST, NO_PAST)


def _pasts_of(begin: Begin) -> _Pasts | None:
    """Return the pasts at which a look begins.

    The result is None if one is not stored, or cannot be read by this version.
    """
    read, judged = (NO_PAST if row is None else _past_of(row) for row in (begin.settled, begin.last))
    return None if read is None or judged is None else _Pasts(read, judged)


def _past_of(row: SettledDay) -> Past | None:
    try:
        return None if row.past is None else Past.of_bytes(row.past)
    except ValueError:
        return None


def _look_from(
    pipeline: Pipeline,
    stored: MarksByDay,
    tables: Iterable[TableId],
    begin: Begin,
    pasts: _Pasts,
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
    pipeline: Pipeline, files: tuple[str, ...], rows: Iterable[IngestWindow], tables: Iterable[TableId], pasts: _Pasts
) -> TopicMarks:
    """Return the marks that ``rows`` tell, which stand in ``files``.

    A refresh asks for them three times, and only one of these times rows have changed.
    """
    key = (
        (pipeline.lake.identity(pipeline.name), pipeline.judging_settings(), files),
        (frozenset(tables), pasts.read.digest, pasts.judged.digest, tuple(pipeline.comparisons())),
    )
    found = _TOPICS.get(key)
    if found is None:
        found = pipeline.topic_marks(rows, tables, past=pasts.read, judged=pasts.judged)
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


def _stands_alone(look: Look, begin: Begin) -> bool:
    """Return whether no window that is judged may change what is not read or not judged."""
    first = None if begin.first is None else start_of_day(begin.first)
    known = [row for row in look.entries.values() if first is not None and row.window.start < first]
    later = [row for row in look.entries.values() if first is None or row.window.start >= first]
    return not reaches_back(look.past, known, later, judged=look.judged, lineages=look.topic.history.lineages)


def _settled_next(
    pipeline: Pipeline, stored: MarksByDay, settled: list[SettledDay], tables: Iterable[TableId], now: float
) -> SettledDay | None:
    """Return the row of the day behind the settled ones.

    The result is None if the day is not settled, or was not a while ago.
    """
    day = settled[-1].day + 1 if settled else min(stored.files, default=None)
    first, before = pipeline.first_window(), _past_of(settled[-1]) if settled else NO_PAST
    if day is None or first is None or before is None or day > max(stored.files):
        return None
    windows = windows_of_day(day, pipeline.grid, first=first)
    tried = (pipeline.lake.identity(pipeline.name), day, stored.files.get(day))
    if now - _IN_VAIN.get(tried, -_TRY_AGAIN) < _TRY_AGAIN or not _is_whole(pipeline, stored, day, windows, before):
        return None
    for back, ahead in _TRIES:
        begin = begin_of_look(settled, stored.files, back=back)
        if begin.settled is None:
            begin = Begin(None, tuple(row.day for row in settled), settled[-1] if settled else None, day)
        pasts = _pasts_of(begin)
        look = None if pasts is None else _look_from(pipeline, stored, tables, begin, pasts, to=day + ahead)
        if look is not None and _stands_alone(look, begin) and _is_done(pipeline, look, windows):
            return _row_of_day(pipeline, stored, day, begin=begin, look=look, before=before)
    _IN_VAIN.clear()
    _IN_VAIN[tried] = now
    return None


def _is_whole(pipeline: Pipeline, stored: MarksByDay, day: int, windows: Sequence[Window], before: Past) -> bool:
    return is_whole(
        pipeline.cells(windows),
        {row.cell: row for row in stored.raw_windows([day])},
        {row.cell: row for row in stored.windows([day])},
        {row.window.start: row for row in stored.cuts([day])},
        ends={chain.kafka_partition: chain.end for chain in before.proofs.chains},
        epoch=pipeline.settings.epoch,
    )


def _row_of_day(
    pipeline: Pipeline, stored: MarksByDay, day: int, *, begin: Begin, look: Look, before: Past
) -> SettledDay | None:
    """Return the row of a settled day; ``before`` is the past before it. None if its inputs cannot be read."""
    entries, cuts = stored.windows([day]), stored.cuts([day])
    refers_to = days_referred_to(entries, pipeline.grid)
    if refers_to is None:
        return None
    refers_to |= set(begin.known)
    frontier_behind = frontier(
        {row.window.start: window_cut(row) for row in cuts},
        pipeline.grid,
        first=pipeline.first_window(),
        behind=before.frontier,
    )
    past = past_after(
        before,
        entries,
        until=start_of_day(day + 1),
        proofs=look.topic.proven_behind(before.proofs, entries),
        frontier=frontier_behind,
        lineages=look.topic.history.lineages,
    )
    key = day_key(
        day,
        stored.files,
        refers_to=refers_to,
        before="" if begin.settled is None else begin.settled.after,
        settings=pipeline.judging_settings(),
    )
    return SettledDay(
        day=day,
        began=min(begin.known, default=day),
        refers_to=tuple(sorted(refers_to)),
        tables=look.topic.history.tables if rests_on_tables(cuts) else "",
        key=key,
        after=past.digest,
        past=past.to_bytes(),
    )


def _is_done(pipeline: Pipeline, look: Look, windows: Iterable[Window]) -> bool:
    """Return whether nothing is left to do in some windows."""
    windows = list(windows)
    work = plan_work(
        dict.fromkeys(pipeline.kafka_partitions, windows),
        raw=look.sources,
        entries=look.entries,
        cuts=look.cuts,
        decoding=pipeline.decoding_settings(),
        settings=pipeline.shaping_settings(),
        beside={window.start: look.topic.beside(window) for window in windows},
    )
    return work.nothing and not work.waiting
