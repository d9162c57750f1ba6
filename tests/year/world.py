"""The simulated world of a year: a source, a topic, machines with clocks, runs, and the sensors that look at all of it.

Time goes in steps: long ones while nothing is to do, short ones while runs go on. Everything that decides is the product's:
the looks of sensors, the plans of flows, the marks. What is random comes from the seed alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.sources import SourceError
from dts_assets.flows.consumer_group import commit_group
from dts_assets.flows.find_work import find_work
from dts_assets.flows.topic import TopicState, find_topic_state
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.latches import Trouble
from dts_assets.planning.pauses import Fault
from dts_assets.planning.staleness import generation
from dts_assets.planning.ticks import Runs, ingest_tick, tables_tick
from dts_assets.planning.watching import WatchCursor, blind_tick, watch_tick
from dts_assets.planning.work import Work
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from tests.year.flows import KilledError, make_tables, store_entries, store_raw
from tests.year.lake import Memory, MemoryPipeline, Shelf
from tests.year.scheduler import AT_ONCE, Job, Run, Scheduler, Status, Step
from tests.year.task import Task
from tests.year.topic import BROKER, Group, Topic, TopicSource

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOTHING = timedelta()
GRACE, SKEW, KEEPS = 10 * MINUTE, 5 * MINUTE, DAY
SHORT = 6 * MINUTE
"""A step of time while runs go on: a run has a step of its own, or several, for raw, entries and tables."""


@dataclass(frozen=True)
class Shape:
    """What stays the same in a world: its seed decides it."""

    every: timedelta
    partitions: int
    live: bool

    @classmethod
    def of(cls, seed: int, every: timedelta) -> Shape:
        random = Random(seed)
        return cls(every, random.choice((1, 2, 2, 3)), live=random.random() < 0.2)

    @property
    def pace(self) -> timedelta:
        """The step of time while nothing is to do."""
        return max(SHORT, self.every / 6)

    @property
    def settles(self) -> timedelta:
        """After that time without trouble nothing may be left to do."""
        return 8 * HOUR + 3 * self.every


@dataclass
class Life:
    """A subscription: a lake and the runs that fill it. A topic that was recreated needs another one."""

    settings: Subscription
    topic: Topic
    memory: Memory
    group: Group
    scheduler: Scheduler = field(default_factory=Scheduler)
    watched: WatchCursor = field(default_factory=WatchCursor)
    stored_at: dict[Cell, datetime] = field(default_factory=dict)
    watches: list[tuple[datetime, dict[int, int]]] = field(default_factory=list)
    """The looks at the topic that succeeded, with the rank of the state of each Kafka partition."""
    served: Counter[tuple[Cell | Window, str]] = field(default_factory=Counter)
    asked: list[tuple[datetime, Cell | Window]] = field(default_factory=list)
    refused: str = ""
    found: tuple[object, Work] | None = None
    compared: int = -1
    reached: datetime | None = None
    """The frontier that the last run of the tables reached."""

    @property
    def grid(self) -> WindowGrid:
        return self.settings.grid


class World:
    """All of it. Events of the plan change its fields; laws read them."""

    def __init__(self, seed: int, every: timedelta, ages: Mapping[str, str]) -> None:
        self.seed = seed
        self.ages = ages
        self.shape = Shape.of(seed, every)
        self.random = Random(f"world {seed}")
        self.now = BEGIN
        self.topic = Topic.of(self.shape.partitions, KEEPS)
        self.task = Task(self.topic, Random(f"task {seed}"))
        self.clocks = [NOTHING, NOTHING]
        self.machine = 0
        self.troubles: Counter[str] = Counter()
        self.trouble_until = BEGIN
        self.under_way = 0
        self.stirred_until = BEGIN
        self.stirring = 0
        self.disturbed: list[tuple[datetime, datetime]] = []
        self.shaping, self.decoding = "s", "d"
        self.changed: datetime | None = None
        self.meddled = 0
        self.kills = self.cancels = 0
        self.faults: dict[TableId, Fault] = {}
        self.lives: list[Life] = []
        self.read: list[float] = []
        """The days that a look had to read, for each day on which one was tried in calm times."""
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._wrote_until = BEGIN
        self.begin_life()

    # What events do

    def begin_life(self) -> None:
        """Begin another subscription, as a person does whose topic was made anew."""
        start = self.now - (self.now - BEGIN) % self.shape.every
        settings = Subscription.model_validate(
            {
                "format": "dts-protobuf",
                "source": {"kafka": {"bootstrap_servers": BROKER, "topics": ["shop"], "group_id": "g"}},
                "partitions": len(self.topic.logs),
                "window": {
                    "every": self.shape.every, "start": start, "grace": GRACE, "max_clock_skew": SKEW,
                    "live": self.shape.live,
                },
                "automation": "conditions",
                "retention": KEEPS,
                "message_retention": self.ages,
                NAME_KEY: "shop",
                FOLDER_KEY: Path(),
            }
        )  # fmt: skip
        away = partial(self.is_away, "broker")
        memory = Memory(partial(self.is_away, "lake"))
        self.lives.append(Life(settings, self.topic, memory, Group(self.topic, away)))
        self.task.move(self.topic)

    def meddle(self) -> None:
        """Note that somebody has done something by which work may come a second time."""
        self.meddled += 1

    def is_away(self, what: str) -> bool:
        return self.troubles[what] > 0

    # What everybody sees

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def calm(self) -> bool:
        """Whether all troubles ended long enough ago."""
        return not self.under_way and self.now - self.trouble_until >= self.shape.settles

    @property
    def quiet(self) -> bool:
        """Whether nothing at all has happened for long enough."""
        return not self.stirring and self.now - self.stirred_until >= self.shape.settles

    def clock(self, machine: int) -> datetime:
        return self.now + self.clocks[machine]

    def pipeline(self, machine: int | None = None) -> MemoryPipeline:
        life = self.life
        clock = partial(self.clock, self.machine if machine is None else machine)
        source = TopicSource(self.topic, clock, partial(self.is_away, "broker"), life.settings.partitions)
        return MemoryPipeline(
            life.settings, source, Shelf(life.memory), memory=life.memory, decoding=self.decoding,  # type: ignore[arg-type]
            shaping=self.shaping,
        )  # fmt: skip

    # Time

    def go_on(self) -> None:
        """Let time go by to the next step: messages come and go, runs work, sensors look."""
        busy = any(run.unfinished for run in self.life.scheduler.runs[-AT_ONCE * 20 :]) or self.counts["asked"] != 0
        self.counts["asked"] = 0
        self.now += SHORT if busy else self.shape.pace
        self._write()
        self.topic.forget(self.now)
        if self.is_away("machine"):
            return
        self._work()
        self._look()

    def _write(self) -> None:
        """Let the task send what happened since the step before."""
        every = self.shape.every / 8
        while self._wrote_until + every <= self.now:
            self._wrote_until += every
            if self.is_away("task"):
                continue
            if self.task.random.random() < 0.6:
                self.task.write(self._wrote_until)
            self.task.mark(self._wrote_until)

    # Looks of sensors

    def _look(self) -> None:
        runs = self.life.scheduler.state_of_ingest(changed=self.changed, now=self.clock(self.machine))
        work = self._ask_planning()
        if work is not None:
            self._ask_for_ingest(work, runs)
            self._ask_for_tables(work)
        self._watch()
        self.counts["looks"] += 1

    def _ask_planning(self) -> Work | None:
        life = self.life
        life.refused = ""
        try:
            seen = self._seen()
            if life.found is None or life.found[0] != seen:
                life.found = seen, find_work(self.pipeline())
            return life.found[1]
        except DtsAssetsError as error:
            life.refused, life.found = type(error).__name__, None
            self.counts["looks that could not see"] += 1
            return None

    def _seen(self) -> tuple[object, ...]:
        """What decides about the work: looks that see the same find the same, and the second need not be paid for.

        Raises:
            DtsAssetsError: The source or the lake cannot be asked.
        """
        life, pipeline = self.life, self.pipeline()
        life.memory.enter_turn()
        now, number = pipeline.source.now(), life.grid.number
        assert now is not None
        marks = pipeline.source.watermarks()
        messages = [(one.latest and number(one.latest), one.high if self.shape.live else 0) for one in marks.values()]
        return (
            life.memory.version,
            self.shaping,
            self.decoding,
            number(now),
            number(now - GRACE),
            *messages,
            id(self.topic),
        )

    def _ask_for_ingest(self, work: Work, runs: Runs) -> None:
        scheduler = self.life.scheduler
        tick = ingest_tick(scheduler.cursor_now(), work, runs=runs)
        scheduler.cursor = tick.cursor.to_text()
        causes: dict[Cell | Window, str] = {
            cell: f"{'open, ' if cell in work.followed else ''}offsets {end}" for cell, end in work.ends.items()
        }
        causes |= {cell: _digest(inputs) for cell, inputs in work.entries_inputs.items()}
        self._note(scheduler.ask(tick.requests, causes, self.clock(self.machine)))

    def _ask_for_tables(self, work: Work) -> None:
        scheduler, now = self.life.scheduler, self.clock(self.machine)
        if scheduler.unfinished(Job.TABLES):
            return
        requests = tables_tick(work, latches=scheduler.latches_of_tables(changed=self.changed, now=now), now=now)
        causes: dict[Cell | Window, str] = {window: _digest(work.tables_inputs[window.start]) for window in work.tables}
        self._note(scheduler.ask(requests, causes, now))

    def _note(self, runs: list[Run]) -> None:
        for run in runs:
            self.counts.update(("asked", "runs"))
            self.life.asked += [(self.now, part) for part in run.cause]

    def _watch(self) -> None:
        life, now = self.life, self.clock(self.machine)
        if life.watches and self.now - life.watches[-1][0] < self.shape.pace:
            return
        try:
            state = find_topic_state(self.pipeline(), life.group, oldest=life.watched.oldest)
        except DtsAssetsError:
            life.watched = WatchCursor.of_text(blind_tick(life.watched, now=now).cursor.to_text())
            return
        tick = watch_tick(
            life.watched, numbers={"": repr([one.watermark for one in state.partitions])}, verdict=_verdict(state),
            trouble=False, oldest=state.oldest, now=state.now, looked_at=now,
        )  # fmt: skip
        life.watched = WatchCursor.of_text(tick.cursor.to_text())
        life.watches.append((self.now, {one.kafka_partition: one.loss.state.rank for one in state.partitions}))

    # Runs

    def _work(self) -> None:
        runs = [run for run in self.life.scheduler.runs[-400:] if run.unfinished]
        self.life.scheduler.leases.beat(run for run in runs if run.status is Status.STARTED and not run.dead)
        started = [run for run in runs if run.status is Status.STARTED]
        tables = any(run.steps == [Step.TABLES] for run in started)
        for run in runs:
            if run.status is Status.QUEUED and len(started) < AT_ONCE and not (tables and run.steps == [Step.TABLES]):
                run.status, run.began = Status.STARTED, self.clock(self.machine)
                run.machine = 1 if run.job is Job.BY_HAND else self.machine
                run.due = self.now + (6 * HOUR if self.is_away("speed") else NOTHING)
                started.append(run)
                tables = tables or run.steps == [Step.TABLES]
        for run in started:
            if run.due is not None and run.due <= self.now:
                self._advance(run)

    def _advance(self, run: Run) -> None:
        """Let a run do its next step, if it gets the leases for it."""
        scheduler = self.life.scheduler
        if run.dead:
            scheduler.leases.abandon(run)
            scheduler.end(run, Status.FAILURE, self.clock(self.machine))
            return
        elapsed = (self.now - BEGIN).total_seconds()
        if not scheduler.leases.take(run, run.parts, seconds=elapsed, now=self.clock(run.machine)):
            return
        self._check_leases()
        try:
            self._do(run, run.steps[0])
        except KilledError:
            self.counts["killed"] += 1
            self.meddle()
            run.dead, run.due = True, self.now + 5 * MINUTE
        except DtsAssetsError as error:
            trouble = Trouble.PASSING if error.retriable else Trouble.LASTING
            self._fail(run, trouble)
        else:
            run.steps = run.steps[1:]
            if not run.steps:
                self._succeed(run)

    def _do(self, run: Run, step: Step) -> None:
        if self.is_away("engine"):
            raise BrokenEngineError
        pipeline = self.pipeline(run.machine)
        kill = partial(self._maybe_kill, run)
        if step is Step.TABLES:
            self.life.reached = make_tables(pipeline, run.windows, faults=self.faults, kill=kill)
            self._check_frontier()
        elif run.span is not None and step is Step.RAW:
            store_raw(pipeline, run.span, kill=kill)
            self.life.stored_at |= dict.fromkeys(run.span.cells(), self.now)
        elif run.span is not None:
            store_entries(pipeline, run.span, kill=kill)
            self._move_group(pipeline)

    def _maybe_kill(self, run: Run) -> None:
        if self.cancels:
            self.cancels -= 1
            self.counts["cancelled"] += 1
            self.meddle()
            self.life.scheduler.end(run, Status.CANCELED, self.clock(self.machine))
            raise CancelledError
        if self.kills or (self.is_away("memory") and self.random.random() < 0.5):
            self.kills = max(0, self.kills - 1)
            raise KilledError

    def _fail(self, run: Run, trouble: Trouble) -> None:
        if run.status is Status.STARTED:
            self.counts["failed"] += 1
            self.life.scheduler.end(run, Status.FAILURE, self.clock(self.machine), trouble)

    def _succeed(self, run: Run) -> None:
        self.counts["done"] += 1
        self.life.scheduler.end(run, Status.SUCCESS, self.clock(self.machine))
        since = f"{self.meddled}{' as forgotten' if run.forgotten else ''}"
        for part, cause in run.cause.items():
            self.life.served[part, f"{cause} {since}"] += 1

    def _move_group(self, pipeline: MemoryPipeline) -> None:
        before = dict(self.life.group.stands)
        try:
            commit_group(pipeline, self.life.group)
        except SourceError:
            return
        for partition, offset in self.life.group.stands.items():
            self._check_group(partition, before.get(partition), offset)

    # Laws that hold at every moment

    def _check_leases(self) -> None:
        leases = self.life.scheduler.leases
        self.violations += [f"{self.now}: {part} was taken from a run that goes on" for part in leases.overtaken]
        leases.overtaken = []

    def _check_frontier(self) -> None:
        """No window before the frontier is without a mark while a run has just reached it."""
        life, reached = self.life, self.life.reached
        first = life.memory.properties.get("dts-assets.first-window")
        if reached is None or first is None:
            return
        window: Window | None = life.grid.of_start(datetime.fromisoformat(first))
        while window is not None and window.start <= reached:
            if window.start not in life.memory.marks:
                self.violations.append(f"{self.now}: the frontier is at {reached} and {window} has no mark")
                return
            window = life.grid.next(window)

    def _check_group(self, partition: int, before: int | None, offset: int) -> None:
        if before is not None and offset < before:
            self.violations.append(f"{self.now}: the group of p{partition:02d} went back from {before} to {offset}")
        rows = [row for row in self.life.memory.entries.values() if row.kafka_partition == partition]
        reached = max((row.offsets.end for row in rows), default=0)
        if offset > reached:
            self.violations.append(f"{self.now}: the group of p{partition:02d} is at {offset}, beyond {reached}")


class BrokenEngineError(DtsAssetsError):
    """A Spark that cannot be started."""


class CancelledError(DtsAssetsError):
    """A run that a person has ended."""


def _digest(texts: tuple[str, ...]) -> str:
    return generation(texts, code_version="")


def _verdict(state: TopicState) -> str:
    return ";".join(one.loss.state.value for one in state.partitions)
