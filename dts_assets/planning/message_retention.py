"""The old rows of raw and entries that may go, and what cannot be made again without them.

Only windows of settled days go, and never the last of these: nothing is left to do in them. Of such windows the older ones go
first, so that what is left of a Kafka partition begins at one window. A window stays, however old, while one that is not old may
have to be made again from it: because a head was read back from its messages, because an entry set that is still open begins in
it, or because entries have to be compared with its entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.model.message_retention import ENTRIES, NOTHING_REMOVED, RAW, Removed, RemovedRows
from dts_assets.model.spans import Cell, partition_of_key
from dts_assets.model.tables import TableId
from dts_assets.model.windows import WindowGrid, day_of, start_of_day
from dts_assets.planning.staleness import ENTRIES_INPUT, RAW_INPUT

MESSAGES_KEPT = 2_048
"""The latest messages of a Kafka partition, which stay in raw however old they are.

A search for the head of a set, or for a set that is sent again, goes back over half as many messages (``stages/heads.py``).
"""


def old_until(days: Sequence[int], age: timedelta | None, *, now: datetime, grace: timedelta) -> datetime | None:
    """Return the instant before which all windows have closed longer ago than ``age``; None where no window has.

    ``days`` are the settled days, which follow each other; the last one never counts. A silent window closes ``grace`` after its
    end.
    """
    if age is None:
        return None
    old = [day for day in days[:-1] if start_of_day(day + 1) + grace + age <= now]
    return start_of_day(old[-1] + 1) if old else None


def over_until(days: Sequence[int], sizes: Mapping[datetime, int], most: int | None) -> datetime | None:
    """Return the instant before which all windows go for a table to become small enough.

    It has at most so many bytes then. It is None where nothing has to go. ``sizes`` has the bytes of each window. ``days`` are
    the settled days, which follow each other; the last one never counts, so more may stay than was asked for.
    """
    if most is None:
        return None
    by_day: dict[int, int] = {}
    for start, size in sizes.items():
        by_day[day_of(start)] = by_day.get(day_of(start), 0) + size
    left, until = sum(by_day.values()), None
    for day in days[:-1]:
        if left <= most:
            break
        left -= by_day.get(day, 0)
        until = start_of_day(day + 1)
    return until


def later_of(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the later one of two instants; None counts as the earliest."""
    return max((at for at in (one, other) if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Stored:
    """The marks that tell which rows may go.

    Those of all windows that are not old are among them, and of older ones as many as the caller likes; but ``cuts`` has all
    windows that have entries. ``compared`` has the earlier cells with whose entries the tables of a cell are compared.
    """

    raw: Mapping[Cell, RawWindow]
    entries: Mapping[Cell, IngestWindow]
    cuts: Mapping[datetime, Cut]
    compared: Mapping[Cell, Collection[Cell]] = field(default_factory=dict)


def raw_until(
    stored: Stored, old: datetime | None, grid: WindowGrid, *, kept: int = MESSAGES_KEPT
) -> dict[int, datetime]:
    """Return the start of the first window of each Kafka partition whose messages have to stay.

    Nothing goes before the instant ``old``, and at least so many messages are ``kept``. Kafka partitions are left out of which
    nothing may go, as far as their marks tell.
    """
    if old is None:
        return {}
    offsets: dict[int, int] = {}
    limits: dict[int, datetime | None] = {}
    for cell, mark in stored.entries.items():
        if cell.window.start < old:
            continue
        partition, needed = cell.kafka_partition, _windows_of(mark.inputs, RAW_INPUT, grid)
        limit = limits.get(partition, old)
        limits[partition] = None if needed is None or limit is None else min([limit, *needed])
        begins = [min(one.offsets) for one in (*mark.left_open, *mark.taken_over) if one.offsets]
        offsets[partition] = min([*begins, offsets.get(partition, mark.offsets.start)])
    left: dict[int, int] = {}
    found: dict[int, datetime] = {}
    ends: set[int] = set()
    for row in sorted(stored.raw.values(), key=lambda row: row.window, reverse=True):
        partition = row.kafka_partition
        if row.offsets.end > offsets.get(partition, 0) or left.get(partition, 0) < kept:
            found[partition] = row.window.start
        else:
            ends.add(partition)
        left[partition] = left.get(partition, 0) + row.messages
    return {
        partition: min(limit, found.get(partition, limit))
        for partition in ends
        if (limit := limits.get(partition)) is not None
    }


def entries_until(
    stored: Stored,
    old: datetime | None,
    grid: WindowGrid,
    *,
    raw_goes: datetime | None,
    removed_tables: Collection[TableId] = (),
) -> datetime | None:
    """Return the start of the first window whose entries have to stay; None where all do.

    ``raw_goes`` is the first window of which some Kafka partition still has messages: entries never go before messages. A window
    that lacks a paused table stays, since it is made again for this table; nobody misses ``removed_tables``.
    """
    if old is None or raw_goes is None:
        return None
    limit = min(old, raw_goes)
    for cell, earlier in stored.compared.items():
        if cell.window.start >= old:
            limit = min([limit, *(one.window.start for one in earlier)])
    for start, row in stored.cuts.items():
        if start >= old:
            compared = _windows_of(row.inputs, ENTRIES_INPUT, grid)
            if compared is None:
                return None
            limit = min([limit, *compared])
        if any(one.id not in removed_tables for one in row.paused):
            limit = min(limit, start)
    return limit


@dataclass(frozen=True, slots=True)
class Unmakeable:
    """The windows that cannot be made again, because rows were removed that they would be made from.

    They stay as they were made.
    """

    removed: Removed = NOTHING_REMOVED
    grid: WindowGrid | None = None

    def raw(self, cell: Cell) -> bool:
        """Return whether the messages of a cell were removed."""
        return self.removed.when(RAW, cell) is not None

    def sources_of(self, row: IngestWindow) -> dict[Cell, datetime]:
        """Return the cells whose messages some stored entries were made from and that were removed, with the moment."""
        if self.grid is None or not self.removed.rows:
            return {}
        return self.removed.among(RAW, {row.cell, *_cells_of(row.inputs, RAW_INPUT, self.grid)})

    def entries_of(self, inputs: Iterable[str]) -> dict[Cell, datetime]:
        """Return the cells among the inputs of tables whose entries were removed, with the moment."""
        if self.grid is None or not self.removed.rows:
            return {}
        return self.removed.among(ENTRIES, _cells_of(inputs, ENTRIES_INPUT, self.grid))

    def tables(self, row: Cut | None, inputs: Collection[str], entries: Mapping[Cell, IngestWindow]) -> bool:
        """Return whether the stored tables of a window have to stay as they are.

        They do not where none were made, or where a Kafka partition has changes that they never had: it was added later. Nor do
        those of a window that was made while it was open, if the changes that came since may repeat removed ones: it is asked
        for, refused, and so seen.
        """
        if row is None or not self.entries_of(inputs):
            return False
        if row.open_in and not self.entries_of(row.inputs):
            return False
        assert self.grid is not None, "nothing was removed without one"
        known = {text.rpartition("=")[0] for text in row.inputs}
        added = (text for text in inputs if text.rpartition("=")[0] not in known)
        own = (cell for cell in _cells_of(added, ENTRIES_INPUT, self.grid) if cell.window == row.window)
        return not any(cell in entries and entries[cell].counts.data for cell in own)


ALL_CAN_BE_MADE = Unmakeable()


def removed_lines(rows: Iterable[RemovedRows]) -> list[str]:
    """Return what was removed in words for a person, a line for each layer."""
    by_layer: dict[str, list[RemovedRows]] = {}
    for row in rows:
        by_layer.setdefault(row.layer, []).append(row)
    return [
        f"{layer}: {sum(row.rows for row in some):,} rows of windows before {max(row.until for row in some):%Y-%m-%d %H:%M} UTC "
        f"were removed by retention; what was made of them is kept as made, whatever settings say now"
        for layer, some in sorted(by_layer.items())
    ]


def _windows_of(inputs: Iterable[str], prefix: str, grid: WindowGrid) -> list[datetime] | None:
    """Return the starts of the windows that inputs name; None if a name cannot be read."""
    named = [_cell_of(text, prefix, grid) for text in inputs if text.startswith(prefix)]
    found = [cell.window.start for cell in named if cell is not None]
    return found if len(found) == len(named) else None


def _cells_of(inputs: Iterable[str], prefix: str, grid: WindowGrid) -> Iterator[Cell]:
    """Yield the cells that inputs name, as far as the names can be read."""
    for text in inputs:
        if text.startswith(prefix) and (cell := _cell_of(text, prefix, grid)) is not None:
            yield cell


def _cell_of(text: str, prefix: str, grid: WindowGrid) -> Cell | None:
    """Return the cell that an input names: ``raw:p00|2026-01-05-03:00=1f0c2a``; None if it cannot be read."""
    partition, _, key = text.rpartition("=")[0].removeprefix(prefix).partition("|")
    try:
        return Cell(partition_of_key(partition), grid.of_key(key))
    except ValueError:
        return None
