"""The retention of raw and entries: rows of old windows that nobody needs any more leave both tables.

First the ledger says which rows go. From then on whoever needs them is refused (``flows/removed_rows.py``). Then their files
leave the tables, whole partitions at a time, and the ledger says when. A run that is stopped in between leaves a note, and the
next one goes on. The files themselves go with the last Iceberg snapshot that reaches them (``store/expiry.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.looks import Look, look_from, look_over_all, pasts_of, settled_now, stands_alone
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import SettledDay
from dts_assets.model.message_retention import ENTRIES, RAW, Removed, RemovedRows
from dts_assets.model.tables import TableId
from dts_assets.model.windows import day_of
from dts_assets.planning.message_retention import (
    MESSAGES_KEPT,
    Stored,
    entries_until,
    later_of,
    old_until,
    over_until,
    raw_until,
)
from dts_assets.planning.settled_days import begin_of_look
from dts_assets.store.commit import Rectangle
from dts_assets.store.marks_by_day import MarksByDay
from dts_assets.store.stored_files import StoredFile

_MOST_ROWS = 100_000
"""The most marks of entries that are read to tell what may go, where looks cannot begin later. To read so many takes 45 s."""

_DECIDED: dict[str | None, object] = {}
"""The instants for which this process has decided last, by lake: days end seldom, and runs ask often."""


def remove_old_rows(pipeline: Pipeline, progress: Progress) -> None:
    """Remove the messages and entries of old windows that nobody needs any more. It is the caller's turn in the tables.

    An error is a line of progress: nothing rests on old rows being gone, and the next run tries again.
    """
    try:
        if pipeline.settings.message_ages.any:
            _note_what_goes(pipeline, progress)
        for row in pipeline.ledger.removed_rows():
            if row.gone_at is None:
                _remove(pipeline, row, progress)
    except Exception as error:
        progress(f"retention: no more old rows were removed ({type(error).__name__}); the next run tries again")


def last_gone(pipeline: Pipeline) -> dict[str, datetime]:
    """Return when rows last left raw and entries, by layer."""
    found: dict[str, datetime] = {}
    for row in pipeline.ledger.removed_rows():
        if row.gone_at is not None:
            found[row.layer] = max(row.gone_at, found.get(row.layer, row.gone_at))
    return found


def _note_what_goes(pipeline: Pipeline, progress: Progress) -> None:
    """Write down in the ledger which rows go now."""
    if notes := what_goes(pipeline, progress):
        pipeline.ledger.change_removed_rows(lambda rows: [*rows, *notes])


def what_goes(pipeline: Pipeline, progress: Progress) -> list[RemovedRows]:
    """Return the notes of the rows that may go now, and that the ledger does not name yet.

    There is none where the settings let all rows stay, and none before another day has ended.
    """
    now, ages, grace = pipeline.source.now(), pipeline.settings.message_ages, pipeline.settings.window.grace
    if not ages.any:
        return []
    tables = list(known_names(pipeline))
    stored = pipeline.ledger.marks_by_day()
    settled = settled_now(pipeline, stored, tables)
    days = [row.day for row in settled]
    if now is None:
        return []
    old = {
        layer: later_of(
            old_until(days, age, now=now, grace=grace), over_until(days, _sizes(pipeline, layer, most), most)
        )
        for layer, age, most in ((RAW, ages.raw, ages.raw_bytes), (ENTRIES, ages.entries, ages.entries_bytes))
    }
    asked = tuple(old.values()), tuple(pipeline.kafka_partitions)
    lake = pipeline.lake.identity(pipeline.name)
    removed = Removed(tuple(pipeline.ledger.removed_rows()))
    if _DECIDED.get(lake) == asked or not _any_older(pipeline, removed, old):
        return []
    told = _told(pipeline, stored, settled, tables, removed, old[RAW])
    if told is None:
        _DECIDED[lake] = asked
        progress("retention: too many windows would have to be read to tell which rows may go, so all stay for now")
        return []
    borders = _borders(pipeline, told, removed, old)
    notes = [note for layer, until in borders.items() for note in _notes(pipeline, layer, removed, until)]
    if not notes:
        _DECIDED[lake] = asked
    return notes


def _sizes(pipeline: Pipeline, layer: str, most: int | None) -> dict[datetime, int]:
    """Return the bytes of a layer's files by window, if there is a bound on them."""
    found: dict[datetime, int] = {}
    for file in pipeline.lake.data_files(pipeline.path(layer)) if most is not None else ():
        start = file.partition["window_start"]
        found[start] = found.get(start, 0) + file.bytes
    return found


def _any_older(pipeline: Pipeline, removed: Removed, old: Mapping[str, datetime | None]) -> bool:
    """Return whether old windows still have rows."""
    return any(
        until is not None and ((before := removed.until(layer, partition)) is None or before < until)
        for layer, until in old.items()
        for partition in pipeline.kafka_partitions
    )


def _told(
    pipeline: Pipeline,
    stored: MarksByDay,
    settled: Sequence[SettledDay],
    tables: Collection[TableId],
    removed: Removed,
    old: datetime | None,
) -> Stored | None:
    """Return the marks that tell which rows may go, those from the instant ``old`` on among them.

    The result is None where too many would have to be read.
    """
    look = None if old is None else _look_behind(pipeline, stored, settled, tables, day_of(old))
    few = stored.count_of_windows() <= _MOST_ROWS
    if look is None and few:
        look = look_over_all(pipeline, stored, tables)
    if look is None:
        return None
    borders = [removed.until(layer, one) for layer in (RAW, ENTRIES) for one in pipeline.kafka_partitions]
    first = min((border for border in borders if border is not None), default=None)
    days = [day for day in stored.files if first is None or None in borders or day >= day_of(first)]
    raw = {row.cell: row for row in stored.raw_windows(days)} if few else look.raw
    compared = {cell: one.earlier for cell, one in look.topic.history.suspicions.items()}
    return Stored(raw, look.entries, {row.window.start: row for row in stored.cuts(days)}, compared)


def _look_behind(
    pipeline: Pipeline, stored: MarksByDay, settled: Sequence[SettledDay], tables: Collection[TableId], day: int
) -> Look | None:
    """Return a look that has all windows from a day on.

    The result is None where windows might be compared with earlier ones.
    """
    begin = begin_of_look(settled, stored.files, back=sum(row.day >= day for row in settled))
    pasts = pasts_of(begin)
    look = None if pasts is None or begin.settled is None else look_from(pipeline, stored, tables, begin, pasts)
    return look if look is not None and stands_alone(pipeline, look, begin) else None


def _borders(
    pipeline: Pipeline, told: Stored, removed: Removed, old: Mapping[str, datetime | None]
) -> dict[str, dict[int, datetime]]:
    """Return the start of the first window whose rows stay, by layer and Kafka partition."""
    partitions = pipeline.kafka_partitions
    raw = raw_until(told, old[RAW], pipeline.grid, kept=MESSAGES_KEPT)
    after = [border for one in partitions if (border := later_of(removed.until(RAW, one), raw.get(one))) is not None]
    # Contents of messages with ids may be compared with any window later.
    may_go = pipeline.settings.traits.order is not ChangeOrder.MESSAGE_ID and len(after) == len(partitions)
    entries = entries_until(
        told,
        old[ENTRIES],
        pipeline.grid,
        raw_goes=min(after) if may_go else None,
        removed_tables={row.table for row in pipeline.ledger.paused_tables() if row.is_removed},
    )
    return {RAW: raw, ENTRIES: {} if entries is None else dict.fromkeys(partitions, entries)}


def _notes(pipeline: Pipeline, layer: str, removed: Removed, until: Mapping[int, datetime]) -> list[RemovedRows]:
    """Return the notes of the rows of a layer that go now.

    There is one for Kafka partitions with equal borders.
    """
    first = pipeline.first_window() or pipeline.grid.start
    groups: dict[tuple[datetime, datetime], list[int]] = {}
    for partition, border in sorted(until.items()):
        since = removed.until(layer, partition) or first
        if since < border:
            groups.setdefault((since, border), []).append(partition)
    now = datetime.now(UTC)
    notes = []
    for (since, border), partitions in groups.items():
        files = _files(pipeline, layer, partitions, border)
        cells = {tuple(file.partition.values()) for file in files}
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        notes.append(RemovedRows(layer, since, border, tuple(partitions), len(cells), rows, size, now))
    return notes


def _files(pipeline: Pipeline, layer: str, kafka_partitions: Iterable[int], until: datetime) -> list[StoredFile]:
    """Return the files of some Kafka partitions before the instant ``until``."""
    found = pipeline.lake.data_files(pipeline.path(layer), {"kafka_partition": set(kafka_partitions)})
    return [file for file in found if file.partition["window_start"] < until]


def _remove(pipeline: Pipeline, row: RemovedRows, progress: Progress) -> None:
    """Take the files that a row names out of their table, and note when that was done.

    Raises:
        StaleGenerationError: Another run has written to these windows meanwhile.
    """
    files = _files(pipeline, row.layer, row.kafka_partitions, row.until)
    if files:
        rectangle: Rectangle = {
            "kafka_partition": set(row.kafka_partitions),
            "window_start": {file.partition["window_start"] for file in files},
        }
        pipeline.lake.replace(pipeline.path(row.layer), rectangle, (), base=[file.path for file in files])
    done = replace(row, gone_at=datetime.now(UTC))
    pipeline.ledger.change_removed_rows(lambda rows: [done if one == row else one for one in rows])
    progress(
        f"retention: {row.rows:,} rows of {row.layer} in windows before {row.until:%Y-%m-%d %H:%M} UTC were removed; "
        f"what was made of them stays"
    )
