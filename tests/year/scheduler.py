"""Dagster, as far as sensors and runs need it: run keys that are remembered for ever, places for runs, what became of them.

The sensors call planning as ``defs/sensors.py`` does. Runs take the leases of their parts as ``flows/lease_keeper.py`` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import TypeVar

from dts_assets.model.ledger_rows import Lease
from dts_assets.model.spans import Cell, Span, partition_key
from dts_assets.model.turns import TABLES_TURN
from dts_assets.model.windows import Window
from dts_assets.planning.latches import Failure, Latch, Trouble, latch_after
from dts_assets.planning.leases import Observed, given_back, may_take, renewed, taken
from dts_assets.planning.ticks import Cursor, Runs, SpanRequest, WindowsRequest

MOST_FAILED = 100
"""The most failed runs that a sensor looks at."""

AT_ONCE = 3
Key = TypeVar("Key", bound=Hashable)


class Job(StrEnum):
    """The job of a run; what a person starts is of no sensor's job."""

    INGEST = auto()
    TABLES = auto()
    BY_HAND = auto()


class Status(StrEnum):
    """The state of a run."""

    QUEUED = auto()
    STARTED = auto()
    SUCCESS = auto()
    FAILURE = auto()
    CANCELED = auto()


class Step(StrEnum):
    """A step of a run."""

    RAW = auto()
    ENTRIES = auto()
    TABLES = auto()


@dataclass(slots=True)
class Run:
    """A run: the steps that it has still to do, on cells or on windows. ``cause`` says why it was asked for."""

    number: int
    job: Job
    key: str
    steps: list[Step]
    span: Span | None
    windows: tuple[Window, ...]
    created: datetime
    cause: Mapping[Cell | Window, str] = field(default_factory=dict)
    status: Status = Status.QUEUED
    began: datetime | None = None
    ended: datetime | None = None
    trouble: Trouble = Trouble.UNKNOWN
    machine: int = 0
    due: datetime | None = None
    dead: bool = False
    """True if its process was killed, which Dagster notices later."""
    forgotten: bool = False
    """True if the sensor lost its cursor while the run went on, so that it may ask for the run's parts again."""

    @property
    def id(self) -> str:
        return f"{self.number:08x}-run"

    @property
    def unfinished(self) -> bool:
        return self.status in (Status.QUEUED, Status.STARTED)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts whose leases the present step needs."""
        if self.steps and self.steps[0] is Step.TABLES:
            return (TABLES_TURN,)
        return () if self.span is None else tuple(map(partition_key, self.span.kafka_partitions))

    def failure(self) -> Failure:
        return Failure(self.id, self.began or self.created, self.ended or self.created, self.trouble)


@dataclass
class Leases:
    """The leases of a subscription, as the machines see them. Who runs gives a sign of life at every look."""

    held: dict[str, Lease] = field(default_factory=dict)
    observers: dict[int, Observed] = field(default_factory=lambda: defaultdict(Observed))
    names: dict[int, dict[str, str]] = field(default_factory=dict)
    """The leases of each run, by part."""
    alive: set[str] = field(default_factory=set)
    overtaken: list[str] = field(default_factory=list)
    """The parts that were taken from runs which gave signs of life."""

    def take(self, run: Run, parts: Iterable[str], *, seconds: float, now: datetime) -> bool:
        """Take parts for a run, if it may; ``seconds`` is the machine's own clock, which never goes back."""
        seen = self.observers[run.machine]
        seen.see(self.held.values(), seconds)
        mine = self.names.get(run.number, {})
        wanted = [part for part in parts if part not in mine]
        for part in wanted:
            unchanged = seen.unchanged_for(part, seconds)
            if not may_take(self.held.get(part), me=run.id, unchanged_for=unchanged, gone=lambda _: False):
                return False
        self.overtaken += [
            part for part in wanted if (lease := self.held.get(part)) and lease.held and lease.holder in self.alive
        ]
        self.held = taken(self.held, wanted, me=run.id, name=run.id, now=now)
        self.names[run.number] = mine | {part: self.held[part].name for part in wanted}
        return True

    def beat(self, alive: Iterable[Run]) -> None:
        """Give signs of life of runs."""
        self.alive = set()
        for run in alive:
            self.alive.add(run.id)
            self.held = renewed(self.held, self.names.get(run.number, {}))

    def abandon(self, run: Run) -> None:
        """A process has died: its leases stay held, and nobody gives signs of life."""
        self.names.pop(run.number, None)
        self.alive.discard(run.id)

    def give_back(self, run: Run) -> None:
        self.held = given_back(self.held, self.names.pop(run.number, {}))
        self.alive.discard(run.id)


@dataclass
class Scheduler:
    """The runs of a subscription, the cursor of its first sensor, and how often each cause was served."""

    runs: list[Run] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    cursor: str | None = None
    leases: Leases = field(default_factory=Leases)
    skipped: int = 0
    number: int = 0

    def ask(
        self,
        requests: Iterable[SpanRequest | WindowsRequest],
        causes: Mapping[Cell | Window, str],
        now: datetime,
    ) -> list[Run]:
        """Make a run of each request whose key was never seen."""
        made = []
        for request in requests:
            if request.run_key in self.keys:
                self.skipped += 1
                continue
            self.keys.add(request.run_key)
            if isinstance(request, SpanRequest):
                steps = [Step.ENTRIES] if request.entries_only else [Step.RAW, Step.ENTRIES]
                run = self.add(Job.INGEST, request.run_key, steps, now, span=request.span)
                mine: Iterable[Cell | Window] = request.span.cells()
            else:
                run = self.add(Job.TABLES, request.run_key, [Step.TABLES], now, windows=request.windows)
                mine = request.windows
            run.cause = {one: causes.get(one, "") for one in mine}
            made.append(run)
        return made

    def add(
        self,
        job: Job,
        key: str,
        steps: list[Step],
        now: datetime,
        *,
        span: Span | None = None,
        windows: tuple[Window, ...] = (),
    ) -> Run:
        self.number += 1
        run = Run(self.number, job, key, steps, span, windows, now)
        self.runs.append(run)
        return run

    def end(self, run: Run, status: Status, now: datetime, trouble: Trouble = Trouble.UNKNOWN) -> None:
        run.status, run.ended, run.trouble = status, now, trouble
        self.leases.give_back(run)

    def lose_cursor(self) -> None:
        """Begin again as a new sensor, which does not know what it has asked for."""
        self.cursor = None
        for run in self.runs:
            run.forgotten |= run.unfinished

    def forget_ended(self) -> None:
        """Purge the runs that have ended, and their keys."""
        self.runs = [run for run in self.runs if run.unfinished]
        self.keys = {run.key for run in self.runs}

    def unfinished(self, job: Job) -> list[Run]:
        return [run for run in self.runs if run.job is job and run.unfinished]

    def state_of_ingest(self, *, changed: datetime | None, now: datetime) -> Runs:
        """What the first sensor is told of runs."""
        busy = frozenset(cell for run in self.unfinished(Job.INGEST) for cell in _cells(run))
        return Runs(busy, _latches(self._failures(Job.INGEST, _cells), changed, now), now)

    def latches_of_tables(self, *, changed: datetime | None, now: datetime) -> dict[datetime, Latch]:
        """What the second sensor is told of failed runs."""
        failures = self._failures(Job.TABLES, lambda run: (window.start for window in run.windows))
        return _latches(failures, changed, now)

    def _failures(self, job: Job, parts_of: Callable[[Run], Iterable[Key]]) -> dict[Key, list[Failure]]:
        """The latest failures of a job, by each part that its runs were about."""
        latest = [run for run in reversed(self.runs) if run.job is job and run.status is Status.FAILURE][:MOST_FAILED]
        found: dict[Key, list[Failure]] = defaultdict(list)
        for run in latest:
            for part in parts_of(run):
                found[part].append(run.failure())
        return found

    def cursor_now(self) -> Cursor:
        return Cursor.of_text(self.cursor)

    def tidy(self, before: datetime) -> None:
        """Leave out runs that ended long ago and that no sensor looks at; their keys stay."""
        ended = [run for run in self.runs if not run.unfinished]
        old = {run.number for run in ended[: -3 * MOST_FAILED] if run.created < before - timedelta(days=2)}
        self.runs = [run for run in self.runs if run.number not in old]


def _cells(run: Run) -> Iterable[Cell]:
    return () if run.span is None else run.span.cells()


def _latches(failed: Mapping[Key, Iterable[Failure]], changed: datetime | None, now: datetime) -> dict[Key, Latch]:
    found = {part: latch_after(failures, changed=changed, now=now) for part, failures in failed.items()}
    return {part: latch for part, latch in found.items() if latch is not None}
