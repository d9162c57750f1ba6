"""What is missing and what is stale, from the rows of the ledger alone.

Each stored row names the inputs it was computed from, with their generations. It is stale when the inputs it would read now are
others: a head that has arrived since, newer entries, other settings. Nothing here is stored; it is computed at every look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.generations import ABSENT, changed_inputs, input_text


@dataclass(frozen=True, slots=True)
class Computed:
    """A stored row: the generation it has and the inputs it was computed from. ``is_open``: its window had not closed yet."""

    generation: str
    inputs: tuple[str, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What a subscription still lacks, in the order in which it is computed.

    ``ingest`` cells have no entries yet; ``stale_entries`` have entries, but would read other raw messages now; ``tables``
    windows are ready, and their tables are missing or stale; ``waiting`` windows are not ready: some Kafka partition lacks its
    entries, though the window has closed in all of them. ``live`` cells are open, are followed, and have got messages.
    """

    ingest: tuple[Cell, ...]
    stale_entries: tuple[Cell, ...]
    tables: tuple[Window, ...]
    waiting: tuple[Window, ...]
    live: tuple[Cell, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether all that could be computed is computed."""
        return not (self.ingest or self.stale_entries or self.tables)


def raw_input(cell: Cell) -> str:
    """The name under which entries record the raw messages of a cell."""
    return f"raw:{cell}"


def entries_input(cell: Cell) -> str:
    """The name under which tables record the entries of a cell."""
    return f"entries:{cell}"


FORMAT_INPUT = "format"
"""The name under which entries record the format and the settings that they were decoded with."""

SETTINGS_INPUT = "settings"
"""The name under which tables record the settings that shape their rows."""


NOTHING_BESIDE: Mapping[datetime, tuple[str, ...]] = MappingProxyType({})
NOTHING_FOLLOWED: Mapping[Cell, bool] = MappingProxyType({})


def tables_inputs(
    window: Window,
    kafka_partitions: Iterable[int],
    entries: Mapping[Cell, Computed],
    *,
    settings: str,
    beside: Mapping[datetime, Iterable[str]] = NOTHING_BESIDE,
) -> tuple[str, ...]:
    """The inputs that the tables of a window would read now.

    ``beside`` has, by window start, what they depend on beside their own entries: lineages, earlier windows to compare with.
    """
    cells = [Cell(kafka_partition, window) for kafka_partition in kafka_partitions]
    texts = [input_text(entries_input(cell), entries[cell].generation if cell in entries else ABSENT) for cell in cells]
    return (*texts, *beside.get(window.start, ()), input_text(SETTINGS_INPUT, settings))


def entries_sources(raw: Mapping[Cell, str], *, decoding: str) -> dict[str, str]:
    """Return the generations that entries would read now, by input: of raw messages, and ``decoding`` of the format."""
    return {FORMAT_INPUT: decoding} | {raw_input(cell): generation for cell, generation in raw.items()}


def stale_entries(entries: Mapping[Cell, Computed], raw: Mapping[Cell, str], *, decoding: str) -> tuple[Cell, ...]:
    """Return the cells whose entries would read other raw messages now, or read them with another format."""
    now = entries_sources(raw, decoding=decoding)
    return tuple(sorted(cell for cell, row in entries.items() if changed_inputs(row.inputs, now)))


def plan_work(
    closed: Mapping[int, Sequence[Window]],
    *,
    raw: Mapping[Cell, str],
    entries: Mapping[Cell, Computed],
    tables: Mapping[datetime, Computed],
    decoding: str,
    settings: str,
    beside: Mapping[datetime, Iterable[str]] = NOTHING_BESIDE,
    followed: Mapping[Cell, bool] = NOTHING_FOLLOWED,
) -> Work:
    """What is left to do. ``closed`` has, for every Kafka partition, the windows that have closed in it; ``followed`` are open
    cells that are read all the same, and whether they have got messages that are not stored."""
    cells = [Cell(partition, window) for partition, windows in closed.items() for window in windows]
    lacking = {cell for cell in cells if cell not in entries or entries[cell].is_open}
    outdated = [cell for cell in stale_entries(entries, raw, decoding=decoding) if cell not in lacking]
    there = {partition: set(windows) for partition, windows in closed.items()}
    stale = tuple(cell for cell in outdated if cell.window in there[cell.kafka_partition])
    live = tuple(sorted(cell for cell, more in followed.items() if more or cell not in entries or cell in outdated))
    for cell in followed:
        there[cell.kafka_partition].add(cell.window)
    everywhere = set.intersection(*there.values()) if there else set()
    is_open = {cell.window for cell in followed}
    ready, waiting = [], []
    for window in sorted(everywhere):
        if any(Cell(partition, window) not in entries for partition in closed):
            waiting += [] if window in is_open else [window]
            continue
        row = tables.get(window.start)
        if row is None or set(row.inputs) != set(
            tables_inputs(window, closed, entries, settings=settings, beside=beside)
        ):
            ready.append(window)
    return Work(tuple(sorted(lacking)), stale, tuple(ready), tuple(waiting), live)
