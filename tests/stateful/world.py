"""What a stateful test works on: a stream, its capture, a lake, settings, and the state that preconditions look at."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from dts_assets.errors import DtsAssetsError
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.removal import add_tables
from dts_assets.model.copied_tables import CopyKind, CopyState
from dts_assets.model.ledger_rows import PausedTable
from dts_assets.model.spans import Span
from dts_assets.model.windows import Window
from dts_assets.store import expiry
from tests.flows.copied import Read
from tests.flows.forgetful import here, shared_here
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import EVERY, START
from tests.flows.source_tables import Table
from tests.stateful import hostile
from tests.stateful.marked import RULES, persons
from tests.stateful.stream import Stream
from tests.stateful.workload import first_tables

_FLOWS_WITH_TASKS = (
    "raw",
    "entries",
    "tables_decode",
    "redelivered",
    "compaction",
    "snapshot_merges",
    "rewritten_files",
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shape:
    """What stays the same in a world: its seed decides it."""

    partitions: int
    gtids: bool
    fragmented: float
    consistency: str
    hostile: bool
    """Whether names and values are such as nobody expects."""

    @classmethod
    def of(cls, random: Random) -> Shape:
        return cls(
            partitions=random.choice((1, 2, 2, 3)),
            gtids=random.random() < 0.8,
            fragmented=random.choice((0.0, 0.3)),
            consistency="window" if random.random() < 0.15 else "cut",
            hostile=random.random() < 0.4,
        )


@dataclass(frozen=True)
class MadeCopy:
    """A copy of a table: its time, its columns then, the rows that were read, and what became of it."""

    at: datetime
    table: Table
    reads: tuple[Read, ...]
    kind: CopyKind
    state: CopyState


@dataclass
class World:
    """One subscription with its source. Settings change by opening it again."""

    bench: Bench
    seed: int
    shape: Shape
    stream: Stream
    capture: Path
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    set_back: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Tables that were set back to an earlier version, with the version that they stood at."""

    copies: dict[str, MadeCopy] = field(default_factory=dict)
    """The copies that were made beside the stream, by their names."""

    lines: list[str] = field(default_factory=list)
    """What runs have printed."""

    @classmethod
    def make(cls, bench: Bench, seed: int) -> World:
        """A new world in the bench's lake, under a name of its own."""
        shape = Shape.of(Random(seed))
        bench.made += 1
        name = f"{bench.prefix}_{bench.made}"
        tables = hostile.tables(Random(f"tables {seed}")) if shape.hostile else first_tables()
        stream = Stream(
            [*tables, persons()], START, partitions=shape.partitions, seed=seed, fragmented=shape.fragmented, gtids=shape.gtids
        )  # fmt: skip
        return cls(bench, seed, shape, stream, bench.folder / name / "capture", name)

    def open(self, *, name: str | None = None) -> Harness:
        """The subscription as the settings are now, over all that was sent; under another name, a lake of its own."""
        self.stream.publish(self.capture)
        opened = self.bench.open(
            self.capture,
            name=name or self.name,
            partitions=self.shape.partitions,
            complete=False,
            window={"end": None},
            consistency=self.shape.consistency,
            **{"history": ["*"], "columns": RULES, **self.settings},
        )
        opened.lines = self.lines
        return opened

    def windows(self) -> list[Window]:
        """All windows from that of the first message to that of the last one."""
        if not self.stream.messages:
            return []
        first, latest = ((pick(one.time for one in self.stream.messages) - START) // EVERY for pick in (min, max))
        return [Window(START + number * EVERY, START + (number + 1) * EVERY) for number in range(first, latest + 1)]

    def some_windows(self, random: Random, most: int = 5) -> list[Window]:
        """Some windows that follow each other, mostly late ones; the last one has not closed."""
        known = self.windows()[:-1]
        if not known:
            return []
        first = max(0, len(known) - random.choice((1, 2, 3, 4, 6, 20)))
        return known[first : first + random.randint(1, most)]

    def some_partitions(self, random: Random) -> list[int]:
        low, high = sorted(random.choices(range(self.shape.partitions), k=2))
        return list(range(low, high + 1)) if random.random() < 0.6 else list(range(self.shape.partitions))

    def takes(self, table: str) -> bool:
        """Whether the settings include a table."""
        return not any(table_id(table).matches(glob) for glob in self.settings.get("tables", {}).get("exclude", ()))

    def table_of(self, path: tuple[str, ...]) -> str:
        """The table whose asset has a path, ``("snapshot", "bank", "items")``."""
        return next(name for name in self.stream.tables if table_id(name).path == path[1:])

    def paused(self, harness: Harness) -> dict[str, PausedTable]:
        """The tables that stand still, with their pauses."""
        return {row.table.table: row for row in harness.pipeline.ledger.paused_tables()}

    def removed(self, harness: Harness) -> set[str]:
        """The tables that were taken out of the lake."""
        return {name for name, row in self.paused(harness).items() if row.is_removed}

    @property
    def is_soft(self) -> bool:
        """Whether deleted rows stay in snapshots."""
        return "deletes" in self.settings

    def resume_all(self) -> None:
        """Let all paused tables go on, and add all removed ones again."""
        if self.stream.transactions:
            harness = self.open()
            still = [row.table for row in self.paused(harness).values()]
            resume_tables(harness.pipeline, still)
            add_tables(harness.pipeline, still, progress=harness.lines.append)

    def close_all(self) -> None:
        """Let everything arrive: all is sent and vouched for, and a message behind it closes its window."""
        self.stream.vouch()
        latest = max((one.time for one in self.stream.messages), default=START)
        border = START + ((latest - START) // EVERY + 1) * EVERY
        self.stream.now = max(self.stream.now, border + timedelta(seconds=30))
        self.stream.vouch()


@dataclass(frozen=True)
class Work:
    """A piece of work that an operator starts: raw, entries, tables, all three, or ``run`` until nothing is left."""

    step: str
    windows: tuple[Window, ...]
    partitions: tuple[int, ...]

    def do(self, harness: Harness) -> None:
        span = Span(self.partitions, self.windows)
        if self.step == "run":
            harness.settle()
            return
        if self.step in ("raw", "all"):
            harness.raw_of(span)
        if self.step in ("entries", "all"):
            harness.entries_of(span)
        if self.step == "tables" or (
            self.step == "all" and len(self.partitions) == len(harness.pipeline.kafka_partitions)
        ):
            harness.tables_of(self.windows)

    def __str__(self) -> str:
        if self.step == "run":
            return "run"
        first, last = self.windows[0].start, self.windows[-1].start
        lanes = "" if self.step == "tables" else f" p{self.partitions[0]}-{self.partitions[-1]}"
        return f"{self.step} {first:%H:%M}-{last:%H:%M}{lanes}"


@contextmanager
def tasks_here() -> Iterator[None]:
    """Tasks run in this process, one after the other: a Spark job for a handful of messages is mostly waiting."""
    with ExitStack() as patches:
        for name in _FLOWS_WITH_TASKS:
            flow = importlib.import_module(f"dts_assets.flows.{name}")
            patches.enter_context(mock.patch.object(flow, "run_tasks", here))
        patches.enter_context(mock.patch("dts_assets.flows.snapshot_merges.run_shuffled", shared_here))
        yield


@contextmanager
def everything_expires() -> Iterator[None]:
    """Old Iceberg snapshots go at the end of each run of tables, all that may."""
    with mock.patch.multiple(expiry, KEEP_SNAPSHOTS=1, AT_ONCE=1, KEEP_FOR=timedelta(0)):
        yield


def refused_by_name(error: BaseException, kinds: Sequence[type[DtsAssetsError]]) -> bool:
    """Whether an operator was told what is wrong instead of getting it."""
    return isinstance(error, tuple(kinds))
