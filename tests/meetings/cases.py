"""A case: features, the statements of a database's life, and the pieces of work by which its lake is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from tests.meetings.features import Feature

WINDOWS: Final = 6
HOURS: Final = 12
"""The length of a window: old messages leave by days."""


class Said(NamedTuple):
    """A statement: the set that it is said to, from 1 on, its second since the life began, its default database and its text."""

    of_set: int
    second: int
    database: str
    sql: str


class Step(NamedTuple):
    """A piece of work on some windows and Kafka partitions, the last ones included.

    ``first`` is the number of a moment for ``copy``, of a table for ``pause`` and ``remove``.
    """

    work: str
    first: int = 0
    last: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Case:
    """All that decides what happens; ``seed`` draws what is not written."""

    seed: int
    features: frozenset[Feature]
    said: tuple[Said, ...] = ()
    steps: tuple[Step, ...] = ()

    def script(self) -> str:
        """The case as a script that a person can run and shorten."""
        return "\n".join(
            [
                "from tests.meetings.machine import again",
                "",
                "again(",
                f"    seed={self.seed},",
                f"    features={' '.join(sorted(self.features))!r},",
                "    said=[",
                *(f"        {tuple(one)!r}," for one in self.said),
                "    ],",
                "    steps=[",
                *(f"        {tuple(one)!r}," for one in self.steps),
                "    ],",
                ")",
            ]
        )


def drawn_steps(features: frozenset[Feature], random: Random, lanes: int) -> tuple[Step, ...]:
    """Pieces of work in any order, some of which are refused for what they need first."""
    found = []
    works = ["raw", "raw", "entries", "entries", "tables", "all", "all"]
    works += ["maintain"] * (Feature.MAINTENANCE in features)
    works += ["copy"] * (Feature.COPIES in features)
    works += ["break", "break", "redrive"] * (Feature.REDRIVE in features)
    works += ["pause", "pause", "remove", "resume"] * (Feature.PAUSES in features)
    for _ in range(random.randint(0, 14)):
        first, last = sorted(random.choices(range(WINDOWS), k=2))
        low, high = sorted(random.choices(range(lanes), k=2))
        step = Step(random.choice(works), first, last, low, high)
        found.append(step._replace(first=random.randrange(100)) if step.work in ("copy", "pause", "remove") else step)
    return tuple(found)


def lanes_of(features: frozenset[Feature]) -> int:
    """The number of Kafka partitions."""
    return 3 if Feature.LANES in features else 1


def sets_of(said: Sequence[Said]) -> list[int]:
    """The sets that something is said to."""
    return sorted({one.of_set for one in said})
