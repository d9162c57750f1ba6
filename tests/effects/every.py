"""All cases of a world: each effect in each of its ways, and shares and samples of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.effects.effects import Effects, Way, ways_of
from tests.effects.world import World, conditions, count, disturbed, made

WORLDS = {"live": True, "backlog": False}
"""The two runs: one that goes on with an open window, one that begins with nothing."""

_LANDS_AFTER = (1, 1, 2, 3, 8, 30)
"""The number of calls after which a request that was cut off lands; the last is in the next run."""


def cases_of(names: Sequence[str]) -> list[tuple[int, Way]]:
    """Return every effect, by number, with each way in which it can fail."""
    return [(number, way) for number, name in enumerate(names, start=1) for way in ways_of(name)]


def tried(world: World, case: tuple[int, Way]) -> str:
    """Return what is wrong after a case; empty if nothing is."""
    number, way = case
    wrong = disturbed(world, Effects(number, way, lands_after=Random(number).choice(_LANDS_AFTER)))
    return f"effect {number}, {wrong}" if wrong else ""


def share(folder: Path, name: str, number: int, of: int) -> tuple[int, int, list[str]]:
    """Try every ``of``-th case of a world, and return the numbers of effects and of cases, and what is wrong."""
    folder.mkdir(parents=True)
    with conditions():
        world = made(folder, live=WORLDS[name])
        names = count(world)
        mine = cases_of(names)[number::of]
        return len(names), len(mine), [wrong for case in mine if (wrong := tried(world, case))]
