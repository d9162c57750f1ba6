"""Settled days: days in whose windows nothing is left to do. A look begins behind them.

A day is settled when each of its windows has closed in every Kafka partition, all marks are there, none is stale, and no table is
missing but those that are paused. Its row names everything that this rests on by a key, and the ledger's files never change. So
nothing is ever declared invalid: where a window was made again, a table was set back or a setting changed, keys differ from that
day on, and the days are judged anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow, SettledDay
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid, day_of, start_of_day
from dts_assets.planning.staleness import RAW_INPUT
from dts_assets.planning.topic_marks import digest_of_tables, is_tables_input

Files = Mapping[int, Collection[str]]
"""The paths of the ledger's files with marks, by day."""

LATEST_PASTS = 10
"""The number of days, counted from the last one, whose past is kept.

Of earlier days that of the first day of each month is kept.
"""

_CLOSED = frozenset({ClosedBy.MESSAGE, ClosedBy.GRACE})
"""The ways in which a window has closed for good. A recording that has ended may be replaced by one that has grown."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The place at which a look begins.

    ``settled`` is the last settled day before the days that are read, None where all days are. ``known`` are settled days that
    are read and not judged again, ``last`` is the last of them; ``first`` is the first day that is judged.
    """

    settled: SettledDay | None
    known: tuple[int, ...]
    last: SettledDay | None
    first: int | None


FROM_THE_FIRST = Begin(None, (), None, None)
"""The begin of a look over all windows."""


def day_key(day: int, files: Files, *, refers_to: Iterable[int], before: str, settings: str) -> str:
    """Return the key of a day: a digest (16 hex digits) of all that it was judged by.

    Files are those of the day and of the days that it refers to. ``before`` is the digest of the past before, ``settings`` of
    the settings that decide whether a window is stale.
    """
    named = tuple((one, tuple(sorted(files.get(one, ())))) for one in sorted({day, *refers_to}))
    return _digest(day, named, before, settings)


@lru_cache(maxsize=8_192)
def _digest(day: int, named: tuple[tuple[int, tuple[str, ...]], ...], before: str, settings: str) -> str:
    """Return the digest of a day's facts. Each look asks for those of all settled days."""
    return hashlib.sha256(json.dumps([day, named, before, settings]).encode()).hexdigest()[:16]


def still_settled(
    rows: Iterable[SettledDay], files: Files, *, settings: str, tables: str, paused: Collection[TableId] = ()
) -> tuple[SettledDay, ...]:
    """Return the stored days that are settled still.

    They end before the first day whose key would be another now, or that lacks a table which is not ``paused`` any more.
    ``files`` are the ledger's files as they are now, ``tables`` is a digest of the known tables.
    """
    found: list[SettledDay] = []
    after: dict[int, str] = {}
    still = {digest_of_tables([table]) for table in paused}
    ordered = sorted(rows, key=lambda row: row.day)
    if not ordered or not files or min(files) < ordered[0].day:
        return ()
    for row in ordered:
        if found and row.day != found[-1].day + 1:
            break
        before = after.get(row.began - 1, "")
        key = day_key(row.day, files, refers_to=row.refers_to, before=before, settings=settings)
        if key != row.key or row.tables not in ("", tables) or not still.issuperset(row.lacking):
            break
        found.append(row)
        after[row.day] = row.after
    return tuple(found)


def begin_of_look(settled: Sequence[SettledDay], files: Files, *, back: int = 0) -> Begin:
    """Return where a look begins: behind a day whose past is stored.

    Settled days that have windows follow it: windows that are judged are compared with these as they are. ``back`` is the
    number of further settled days that are read.
    """
    for place in range(len(settled) - 2 - back, -1, -1):
        row, known = settled[place], tuple(one.day for one in settled[place + 1 :])
        if row.past is not None and any(files.get(day) for day in known):
            return Begin(row, known, settled[-1], settled[-1].day + 1)
    return FROM_THE_FIRST


def with_days(stored: Iterable[SettledDay], settled: Sequence[SettledDay]) -> list[SettledDay]:
    """Return the rows to store: the ``settled`` days, and no other.

    Of most days the past is left out. What the ``stored`` rows have of it stays.
    """
    pasts = {(row.day, row.after): row.past for row in stored if row.past is not None}
    kept = []
    for place, row in enumerate(settled):
        latest = len(settled) - place <= LATEST_PASTS
        past = row.past or pasts.get((row.day, row.after)) if latest or start_of_day(row.day).day == 1 else None
        kept.append(replace(row, past=past))
    return kept


def windows_of_day(day: int, grid: WindowGrid, *, first: datetime) -> tuple[Window, ...]:
    """Return the windows that start in a day, none of them before the ``first`` one that counts."""
    begin, end = max(start_of_day(day), first), start_of_day(day + 1)
    number = max(0, -((grid.start - begin) // grid.every))
    found = []
    while (window := grid.at(number)).start < end:
        if grid.end is not None and window.end > grid.end:
            break
        found.append(window)
        number += 1
    return tuple(found)


def is_whole(
    cells: Collection[Cell],
    raw: Mapping[Cell, RawWindow],
    entries: Mapping[Cell, IngestWindow],
    cuts: Mapping[datetime, Cut],
    *,
    ends: Mapping[int, int],
    epoch: int,
) -> bool:
    """Return whether the marks of a day are those of ``cells``, all of which have closed.

    ``ends`` are the offsets at which the cells before the day end, by Kafka partition.
    """
    if raw.keys() != set(cells) or entries.keys() != set(cells):
        return False
    if cuts.keys() != {cell.window.start for cell in cells} or any(row.open_in for row in cuts.values()):
        return False
    end = dict(ends)
    for cell in sorted(cells):
        one, other = raw[cell], entries[cell]
        closed = one.closed_by in _CLOSED and other.closed_by in _CLOSED
        meets = end.get(cell.kafka_partition, one.offsets.start) == one.offsets.start
        if not closed or not meets or one.offsets != other.offsets or (one.epoch, other.epoch) != (epoch, epoch):
            return False
        end[cell.kafka_partition] = one.offsets.end
    return True


def rests_on_tables(cuts: Iterable[Cut]) -> bool:
    """Return whether a window depends on which tables are known."""
    return any(is_tables_input(text) for row in cuts for text in row.inputs)


def tables_lacking(cuts: Iterable[Cut]) -> tuple[str, ...]:
    """Return digests of the tables that some windows lack, in order."""
    return tuple(sorted({digest_of_tables([one.id]) for row in cuts for one in row.paused}))


def days_referred_to(entries: Iterable[IngestWindow], grid: WindowGrid) -> frozenset[int] | None:
    """Return the days of all cells whose raw messages some entries have read or looked for.

    The result is None if a name cannot be read.
    """
    windows = windows_referred_to(entries, grid)
    return None if windows is None else frozenset(day_of(window.start) for window in windows)


def windows_referred_to(entries: Iterable[IngestWindow], grid: WindowGrid) -> frozenset[Window] | None:
    """Return the windows of all cells whose raw messages some entries have read or looked for.

    The result is None if a name cannot be read.
    """
    names = {text.rpartition("=")[0] for row in entries for text in row.inputs if text.startswith(RAW_INPUT)}
    try:
        return frozenset(grid.of_key(name.partition("|")[2]) for name in names)
    except ValueError:
        return None
