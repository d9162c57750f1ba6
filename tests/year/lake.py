"""A lake in memory: the ledger's rows, the raw messages of each cell, and a pipeline whose flows read and write them.

So the flows' own functions decide; only Spark, files and Kafka are played.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

from dts_assets.errors import DtsAssetsError
from dts_assets.flows import find_work, looks, message_retention, settling, tables, tables_plan
from dts_assets.flows.layers import Layer
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import Column
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.ledger_rows import BacklogTable, Cut, IngestWindow, PausedTable, RawWindow, SettledDay
from dts_assets.model.message_retention import RAW, Removed, RemovedRows
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, day_of
from dts_assets.planning.copied_tables import Copies
from dts_assets.planning.partial_images import NO_PARTIAL_IMAGES, PartialImages
from dts_assets.planning.settled_past import NO_PAST, Past
from dts_assets.planning.topic_marks import TopicMarks
from tests.year.topic import Message

TABLES: dict[TableId, tuple[Column, ...]] = {TableId("shopdb", "", name): () for name in ("a", "b", "c")}


class BusyLakeError(DtsAssetsError):
    """A catalog that others keep busy."""

    retriable = True


@dataclass(frozen=True)
class Days:
    """The marks by day as they stand at one moment; a day's file has another name after each change."""

    files: dict[int, tuple[str, ...]]
    rows: dict[str, dict[int, tuple[Any, ...]]]

    def raw_windows(self, days: Iterable[int]) -> list[RawWindow]:
        return sorted(self._of("raw", days), key=lambda row: (row.window, row.kafka_partition))

    def windows(self, days: Iterable[int]) -> list[IngestWindow]:
        return sorted(self._of("entries", days), key=lambda row: (row.window, row.kafka_partition))

    def cuts(self, days: Iterable[int]) -> list[Cut]:
        return sorted(self._of("marks", days), key=lambda row: row.window)

    def files_of_windows(self, days: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            name for day in sorted(set(days)) for name in self.files.get(day, ()) if name.startswith("entries")
        )

    def count_of_windows(self) -> int:
        return sum(map(len, self.rows["entries"].values()))

    def _of(self, name: str, days: Iterable[int]) -> list[Any]:
        return [row for day in set(days) for row in self.rows[name].get(day, ())]


@dataclass
class Memory:
    """The ledger, as far as flows ask it, and what stands beside it in the lake."""

    busy: Callable[[], bool]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    raw: dict[Cell, RawWindow] = field(default_factory=dict)
    entries: dict[Cell, IngestWindow] = field(default_factory=dict)
    marks: dict[datetime, Cut] = field(default_factory=dict)
    paused: list[PausedTable] = field(default_factory=list)
    messages: dict[Cell, list[Message]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    reached: Frontier = EMPTY_FRONTIER
    runs: int = 0
    known: tuple[object, TopicMarks] | None = None
    """The marks of all windows, and what they were made from: nothing that changes comes between two looks mostly."""
    changes: int = 0
    version: int = 0
    settled: list[SettledDay] = field(default_factory=list)
    removed: list[RemovedRows] = field(default_factory=list)
    files: dict[str, dict[int, str]] = field(default_factory=lambda: {name: {} for name in ("raw", "entries", "marks")})
    by_day: dict[str, dict[int, tuple[Any, ...]]] = field(
        default_factory=lambda: {name: {} for name in ("raw", "entries", "marks")}
    )

    def raw_windows(self) -> list[RawWindow]:
        self._ask()
        return sorted(self.raw.values(), key=lambda row: (row.window, row.kafka_partition))

    def windows(self, windows: Iterable[Window] | None = None) -> list[IngestWindow]:
        self._ask()
        wanted = None if windows is None else set(windows)
        rows = (row for row in self.entries.values() if wanted is None or row.window in wanted)
        return sorted(rows, key=lambda row: (row.window, row.kafka_partition))

    def cuts(self, windows: Iterable[Window] | None = None) -> list[Cut]:
        self._ask()
        wanted = None if windows is None else set(windows)
        return sorted(
            (row for row in self.marks.values() if wanted is None or row.window in wanted), key=lambda row: row.window
        )

    def marks_by_day(self) -> Days:
        self._ask()
        days = {day for files in self.files.values() for day in files}
        paths = {day: tuple(files[day] for files in self.files.values() if day in files) for day in sorted(days)}
        return Days(paths, {name: dict(rows) for name, rows in self.by_day.items()})

    def settled_days(self) -> list[SettledDay]:
        return list(self.settled)

    def change_settled_days(self, change: Callable[[Sequence[SettledDay]], Sequence[SettledDay]]) -> None:
        self.settled = list(change(self.settled))
        self.version += 1

    def paused_tables(self) -> list[PausedTable]:
        return list(self.paused)

    def change_paused_tables(self, change: Callable[[Sequence[PausedTable]], Sequence[PausedTable]]) -> None:
        self.paused = list(change(self.paused))
        self.version += 1

    def copied_tables(self) -> list[CopiedTable]:
        return []  # no table of the year is copied

    def backlog(self) -> list[BacklogTable]:
        return []  # so all tables are looked at

    def removed_rows(self) -> list[RemovedRows]:
        return list(self.removed)

    def change_removed_rows(self, change: Callable[[Sequence[RemovedRows]], Sequence[RemovedRows]]) -> None:
        """Note what goes; messages go at once."""
        self.removed = list(change(self.removed))
        gone = Removed(tuple(self.removed)).among(RAW, list(self.messages))
        self.messages = {cell: some for cell, some in self.messages.items() if cell not in gone}

    def change_backlog(self, change: Callable[[Sequence[BacklogTable]], Sequence[BacklogTable]]) -> None:
        self._ask()

    def window_tables(self, _: object = None, *, since: object = None) -> list[Any]:
        return []

    def table_shapes(self, _: object = None) -> list[Any]:
        return []

    def enter_turn(self, *_: object) -> None:
        self._ask()

    def replace_raw(self, cells: Collection[Cell], rows: dict[Cell, RawWindow]) -> None:
        for cell in cells:
            self.raw.pop(cell, None)
        self.raw |= rows
        self._write("raw", self.raw, [cell.window.start for cell in (*cells, *rows)])

    def replace_entries(self, cells: Collection[Cell], rows: dict[Cell, IngestWindow]) -> None:
        for cell in cells:
            self.entries.pop(cell, None)
        self.entries |= rows
        self.changes += 1
        self._write("entries", self.entries, [cell.window.start for cell in (*cells, *rows)])

    def replace_marks(self, starts: Collection[datetime], rows: dict[datetime, Cut]) -> None:
        for start in starts:
            self.marks.pop(start, None)
        self.marks |= rows
        self._write("marks", self.marks, [*starts, *rows])

    def _write(self, name: str, rows: Mapping[Any, Any], starts: Iterable[datetime]) -> None:
        """Write the days of some windows anew, as the ledger does."""
        self.version += 1
        days: dict[int, list[Any]] = {day_of(start): [] for start in starts}
        for row in rows.values():
            if (day := day_of(row.window.start)) in days:
                days[day].append(row)
        for day, found in days.items():
            self.by_day[name][day] = tuple(found)
            self.files[name][day] = f"{name}-{day}-{self.version}"
            if not found:
                del self.by_day[name][day], self.files[name][day]

    def _ask(self) -> None:
        if self.busy():
            raise BusyLakeError


@dataclass(frozen=True)
class Shelf:
    """What a pipeline asks of a lake beside the ledger."""

    memory: Memory

    def table(self, _: Sequence[str]) -> Any:
        return SimpleNamespace(properties=self.memory.properties)

    def remember(self, _: Sequence[str], __: object, *, name: str, value: str) -> None:
        self.memory.properties.setdefault(name, value)

    def data_files(self, *_: object) -> list[Any]:
        return []

    def identity(self, _: str) -> str:
        return self.memory.name


@dataclass(frozen=True)
class MemoryPipeline(Pipeline):
    """A subscription over a topic and a lake in memory."""

    layers: tuple[Layer, ...] = ()
    memory: Memory = field(default_factory=lambda: Memory(lambda: False))
    decoding: str = "d"
    shaping: str = "s"

    @property
    def ledger(self) -> Any:
        return self.memory

    def decoding_settings(self) -> str:
        return self.decoding

    def shaping_settings(self) -> str:
        return self.shaping

    def new_run(self) -> str:
        self.memory.runs += 1
        return f"run{self.memory.runs}"

    def topic_marks(
        self,
        rows: Iterable[IngestWindow],
        tables: Iterable[TableId],
        *,
        copied: Copies,
        past: Past = NO_PAST,
        judged: Past = NO_PAST,
        partial: PartialImages = NO_PARTIAL_IMAGES,
    ) -> TopicMarks:
        rows = list(rows)
        made_from = (self.memory.changes, self.shaping, past.digest, judged.digest, partial.digest, len(rows))
        if self.memory.known is None or self.memory.known[0] != made_from:
            made = super().topic_marks(rows, tables, copied=copied, past=past, judged=judged, partial=partial)
            self.memory.known = made_from, made
        return self.memory.known[1]


def tables_of(_: Pipeline) -> dict[TableId, tuple[Column, ...]]:
    return TABLES


def no_new_tables(*_: object) -> Collection[TableId]:
    return ()


_ASKING = (find_work, looks, message_retention, settling, tables, tables_plan)
"""The modules that ask which tables are known."""


@contextmanager
def registry_in_memory() -> Iterator[None]:
    """The tables are known from the start, and no registry file is written."""
    with ExitStack() as stack:
        for module, name in product(_ASKING, ("known_tables", "known_names")):
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, tables_of))
        stack.enter_context(mock.patch.object(tables_plan, "register_shapes", no_new_tables))
        yield
