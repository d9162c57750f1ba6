"""What an event of a year is: it begins at some time, lasts for a while, and ends what it began.

Any event can be left out of a plan, so that a plan that fails can be made short.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import ClassVar

from tests.year.world import HOUR, MINUTE, NOTHING, World


@dataclass(frozen=True)
class Event:
    """Something that happens ``at`` a time after the begin, and lasts."""

    at: timedelta
    lasts: timedelta

    weight: ClassVar[int] = 2
    longest: ClassVar[timedelta] = 6 * HOUR
    moves_times: ClassVar[bool] = False
    """Whether messages may lie in other windows than their times say."""
    holds_up: ClassVar[bool] = True
    """Whether the frontier may stand still for a while."""

    @property
    def ends(self) -> timedelta:
        return self.at + self.lasts

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Event:
        return cls(at, cls.draw_length(random))

    @classmethod
    def draw_length(cls, random: Random) -> timedelta:
        """Mostly short, now and then as long as may be."""
        return timedelta(minutes=int(cls.longest / MINUTE * random.random() ** 2))

    def begin(self, world: World) -> None:
        """Let it begin."""

    def end(self, world: World) -> None:
        """Let it end."""


@dataclass(frozen=True)
class Away(Event):
    what: ClassVar[str] = ""

    def begin(self, world: World) -> None:
        world.troubles[self.what] += 1

    def end(self, world: World) -> None:
        world.troubles[self.what] -= 1


@dataclass(frozen=True)
class Shift(Event):
    by: timedelta = NOTHING

    most: ClassVar[int] = 180

    @classmethod
    def of(cls, random: Random, at: timedelta) -> Shift:
        return cls(at, cls.draw_length(random), random.randint(-cls.most, cls.most) * MINUTE)
