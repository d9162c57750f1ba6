"""Troubles that nobody wants: brokers, machines, Spark and catalogs that are away, servers, clocks, and a topic that forgets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random

from tests.year.events import Away, Event, Shift
from tests.year.scheduler import Status
from tests.year.topic import Log, Topic
from tests.year.world import DAY, HOUR, KEEPS, MINUTE, NOTHING, World


@dataclass(frozen=True)
class BrokerAway(Away):
    weight, longest, what = 5, 40 * HOUR, "broker"


@dataclass(frozen=True)
class MachineAway(Away):
    """Nobody looks, and the runs that go on end without a word."""

    weight, longest, what, moves_times = 4, 60 * HOUR, "machine", True

    def begin(self, world: World) -> None:
        super().begin(world)
        for run in world.life.scheduler.runs:
            if run.status is Status.STARTED:
                world.meddle()
                run.dead, run.due = True, world.now


@dataclass(frozen=True)
class EngineAway(Away):
    """Every run fails until somebody mends it."""

    weight, longest, what, moves_times = 4, 40 * HOUR, "engine", True


@dataclass(frozen=True)
class MemoryShort(Away):
    """Half of the runs are killed, some of them after they took back marks."""

    weight, longest, what = 4, 12 * HOUR, "memory"


@dataclass(frozen=True)
class LakeBusy(Away):
    weight, longest, what = 3, 6 * HOUR, "lake"


@dataclass(frozen=True)
class Slow(Away):
    weight, longest, what = 2, 12 * HOUR, "speed"


@dataclass(frozen=True)
class TaskAway(Away):
    weight, longest, what, moves_times = 3, 30 * HOUR, "task", True
    holds_up = False


@dataclass(frozen=True)
class Silence(Event):
    """No message comes to a Kafka partition."""

    partition: int = 0

    weight, longest, moves_times = 4, 50 * HOUR, True
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Silence:
        return cls(at, cls.draw_length(random), random.randrange(3))

    def begin(self, world: World) -> None:
        world.task.silent.add(self.partition)

    def end(self, world: World) -> None:
        world.task.silent.discard(self.partition)


@dataclass(frozen=True)
class FailOver(Event):
    """The task goes on at another server, and tells some transactions again."""

    server: int = 1
    back: int = 0

    weight, longest = 4, NOTHING
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> FailOver:
        return cls(at, NOTHING, random.randrange(4), random.choice((0, 0, 1, 3, 20)))

    def begin(self, world: World) -> None:
        world.task.fail_over(world.now, self.server, self.back)
        world.meddle()


@dataclass(frozen=True)
class Restart(FailOver):
    """The task begins again at the same server."""

    weight, longest = 4, NOTHING

    def begin(self, world: World) -> None:
        world.task.begin_again(world.now, self.back)
        world.meddle()


@dataclass(frozen=True)
class BinlogReset(Event):
    weight, longest = 1, NOTHING
    holds_up = False

    def begin(self, world: World) -> None:
        world.task.reset()
        world.meddle()


@dataclass(frozen=True)
class TaskClock(Shift):
    """The clock that dates messages is wrong."""

    weight, longest, moves_times = 4, 30 * HOUR, True
    holds_up = False

    def begin(self, world: World) -> None:
        world.task.stamps += self.by

    def end(self, world: World) -> None:
        world.task.stamps -= self.by


@dataclass(frozen=True)
class SummerTime(TaskClock):
    """The task dates messages by a local clock that is put forward in spring and back in autumn."""

    weight, moves_times = 0, True
    holds_up = False


@dataclass(frozen=True)
class SourceClock(Shift):
    """The clock of the servers is wrong: event times go on elsewhere, and come back."""

    weight, longest = 3, 30 * HOUR
    holds_up = False

    def begin(self, world: World) -> None:
        world.task.source_stamps += self.by
        world.meddle()

    def end(self, world: World) -> None:
        world.task.source_stamps -= self.by
        world.meddle()


@dataclass(frozen=True)
class MachineClock(Shift):
    """The clock of the machine on which sensors and runs are is wrong."""

    weight, longest, moves_times = 4, 10 * HOUR, True

    def begin(self, world: World) -> None:
        world.clocks[0] += self.by
        world.meddle()

    def end(self, world: World) -> None:
        world.clocks[0] -= self.by
        world.meddle()


@dataclass(frozen=True)
class OtherMachine(Shift):
    """Sensors and runs move to another machine, whose clock is a little off."""

    weight, longest, most, moves_times = 2, 3 * DAY, 4, True

    def begin(self, world: World) -> None:
        world.machine, world.clocks[1] = 1, self.by

    def end(self, world: World) -> None:
        world.machine, world.clocks[1] = 0, NOTHING


@dataclass(frozen=True)
class Late(Shift):
    """A message comes with a time that is long gone, or far ahead."""

    partition: int = 0

    weight, longest, most, moves_times = 4, NOTHING, 30 * 60, True
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Late:
        return cls(at, NOTHING, random.randint(-cls.most, cls.most) * MINUTE, random.randrange(3))

    def begin(self, world: World) -> None:
        world.task.late(self.partition % len(world.topic.logs), world.now, self.by)

    @property
    def ends(self) -> timedelta:
        return self.at + abs(self.by)


@dataclass(frozen=True)
class Forgetting(Event):
    """The topic deletes by size: a share of its messages goes at once."""

    share: float = 0.5

    weight, longest, moves_times = 2, NOTHING, True
    holds_up = False

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Forgetting:
        return cls(at, NOTHING, random.random())

    def begin(self, world: World) -> None:
        for log in world.topic.logs:
            log.drop(int(len(log.messages) * self.share), world.now, None)


@dataclass(frozen=True)
class ShorterRetention(Event):
    weight, longest, moves_times = 2, 3 * DAY, True
    holds_up = False

    def begin(self, world: World) -> None:
        world.topic.keeps = KEEPS / 3
        for log in world.topic.logs:  # what is too old now goes at once, and nobody could have known
            log.drop(sum(one.time < world.now - KEEPS / 3 for one in log.messages), world.now, None)

    def end(self, world: World) -> None:
        world.topic.keeps = KEEPS


@dataclass(frozen=True)
class NewTopic(Event):
    """The topic is made anew; after a while a person begins another subscription for it."""

    weight, longest, moves_times = 1, DAY, True

    def begin(self, world: World) -> None:
        if all(log.high > 400 for log in world.topic.logs):
            world.topic = Topic.of(len(world.topic.logs), world.topic.keeps)
            world.task.move(world.topic)
            world.troubles["topic"] += 1

    def end(self, world: World) -> None:
        if world.troubles["topic"]:
            world.troubles["topic"] -= 1
            world.begin_life()


@dataclass(frozen=True)
class MorePartitions(Event):
    """The topic gets one Kafka partition more; after a while a person begins another subscription for it."""

    weight, longest, moves_times = 1, DAY, True

    def begin(self, world: World) -> None:
        if len(world.topic.logs) < 4:
            world.topic.logs.append(Log())
            world.troubles["topic"] += 1

    def end(self, world: World) -> None:
        if world.troubles["topic"]:
            world.troubles["topic"] -= 1
            world.begin_life()
