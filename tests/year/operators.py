"""What people do to a subscription: backfills, kills, pauses, other settings, lost records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random

from dts_assets.flows.pauses import pause_tables, resume_tables
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.spans import Span
from dts_assets.planning.pauses import Fault
from tests.year.events import Event
from tests.year.lake import TABLES
from tests.year.scheduler import Job, Step
from tests.year.world import DAY, NOTHING, World


@dataclass(frozen=True)
class Backfill(Event):
    """A person makes some windows again, all of it or from a step on."""

    first: int = 0
    count: int = 1
    step: Step = Step.RAW

    weight, longest = 6, NOTHING
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Backfill:
        return cls(at, NOTHING, random.choice((1, 2, 5, 100)), random.choice((1, 1, 3, 20)), random.choice(list(Step)))

    def begin(self, world: World) -> None:
        life = world.life
        last = life.grid.number(world.now) - self.first
        numbers = [one for one in range(max(0, last - self.count + 1), last + 1) if life.grid.at(one).end <= world.now]
        windows = tuple(map(life.grid.at, numbers))
        made = [window for window in windows if window.start in life.memory.marks]
        if not made or made != list(windows) or life.refused:
            return
        world.meddle()
        span = Span(tuple(range(life.settings.partitions)), windows)
        steps = {Step.RAW: list(Step), Step.ENTRIES: [Step.ENTRIES, Step.TABLES], Step.TABLES: [Step.TABLES]}
        life.scheduler.add(Job.BY_HAND, "", steps[self.step], world.now, span=span, windows=windows)


@dataclass(frozen=True)
class Kill(Event):
    """The next run that replaces something is killed when it has taken back its marks."""

    weight, longest = 4, NOTHING

    def begin(self, world: World) -> None:
        world.kills += 1
        world.meddle()


@dataclass(frozen=True)
class Cancel(Event):
    """A person cancels the next run while it works."""

    weight, longest = 3, NOTHING

    def begin(self, world: World) -> None:
        world.cancels += 1
        world.meddle()


@dataclass(frozen=True)
class Pause(Event):
    """A person pauses a table, and resumes it."""

    table: int = 0

    weight, longest = 4, 3 * DAY
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Pause:
        return cls(at, cls.draw_length(random), random.randrange(len(TABLES)))

    def begin(self, world: World) -> None:
        table = list(TABLES)[self.table]
        pause_tables(world.pipeline(), [PausedTable(table, "", "r", PausedBy.PERSON, world.now)])

    def end(self, world: World) -> None:
        resume_tables(world.pipeline(), [list(TABLES)[self.table]])
        world.meddle()


@dataclass(frozen=True)
class BrokenTable(Pause):
    """A table fails in every run until somebody mends it; it is resumed then."""

    def begin(self, world: World) -> None:
        world.faults[list(TABLES)[self.table]] = Fault("snapshot", "KeyError at a place")

    def end(self, world: World) -> None:
        world.faults.pop(list(TABLES)[self.table], None)
        super().end(world)


@dataclass(frozen=True)
class OtherTypes(Event):
    """A person changes the settings that shape rows, and changes them back."""

    weight, longest = 1, 2 * DAY

    def begin(self, world: World) -> None:
        world.shaping += "x"
        world.changed = world.clock(world.machine)
        world.meddle()

    def end(self, world: World) -> None:
        world.shaping = world.shaping[:-1]
        world.changed = world.clock(world.machine)
        world.meddle()


@dataclass(frozen=True)
class OtherDecoding(Event):
    """The format decodes otherwise for a while."""

    weight, longest = 1, 2 * DAY

    def begin(self, world: World) -> None:
        world.decoding += "x"
        world.meddle()

    def end(self, world: World) -> None:
        world.decoding = world.decoding[:-1]
        world.meddle()


@dataclass(frozen=True)
class CursorLost(Event):
    weight, longest = 1, NOTHING
    holds_up = False

    def begin(self, world: World) -> None:
        world.life.scheduler.lose_cursor()
        world.meddle()


@dataclass(frozen=True)
class RunsPurged(Event):
    weight, longest = 1, NOTHING
    holds_up = False

    def begin(self, world: World) -> None:
        world.life.scheduler.forget_ended()
        world.meddle()
