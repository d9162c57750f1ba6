"""All cases of a world: each effect in each of its ways, and shares and samples of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from random import Random

from dts_emulator.machine.rest_lake import can_start, private_rest_lake
from tests.effects.effects import Effects, Way, ways_of
from tests.effects.grounds import Ground, OnDisk, OnRest, own_spark
from tests.effects.world import World, conditions, disturbed, made

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
    effects, name = Effects(number, way, lands_after=Random(number).choice(_LANDS_AFTER)), world.names[number - 1]
    wrong = disturbed(world, effects)
    if not wrong and effects.name != name:
        wrong = f"it was {effects.name}, and {name} in the run that was counted: effects have to come in one order"
    return f"effect {number}, {wrong}" if wrong else ""


def share(folder: Path, name: str, number: int, of: int) -> tuple[int, int, list[str]]:
    """Try every ``of``-th case of a world, and return the numbers of effects and of cases, and what is wrong."""
    folder.mkdir(parents=True)
    ground = OnDisk(folder)
    with conditions(ground):
        world = made(folder, ground, live=WORLDS[name])
        mine = cases_of(world.names)[number::of]
        return len(world.names), len(mine), [wrong for case in mine if (wrong := tried(world, case))]


SAMPLE = 30
"""The number of cases where all would take hours: with Spark, and with a REST catalog."""


@contextmanager
def rest_ground(_: Path) -> Iterator[OnRest]:
    """Yield a ground with servers of its own."""
    if not can_start():  # 146 MB, which only tests of this kind need
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "rest"], check=True)
    with private_rest_lake() as properties:
        yield OnRest(properties)


GROUNDS: Mapping[str, Callable[[Path], AbstractContextManager[Ground]]] = {"spark": own_spark, "rest": rest_ground}
"""Where a sample of the effects of the live run is tried."""


def sampled(names: Sequence[str], count: int, seed: int) -> list[tuple[int, Way]]:
    """Return some cases, in turn one of each kind of effect and way: there are more reads than anything else."""
    random, kinds = Random(seed), dict[tuple[str, Way], list[tuple[int, Way]]]()
    for number, way in cases_of(names):
        kinds.setdefault((names[number - 1].partition(" ")[0], way), []).append((number, way))
    for cases in kinds.values():
        random.shuffle(cases)
    queues = list(kinds.values())
    random.shuffle(queues)
    in_turn = (case for one_of_each in zip_longest(*queues) for case in one_of_each if case is not None)
    return list(islice(in_turn, count))


def sample(folder: Path, ground: Ground, count: int, seed: int) -> tuple[int, int, list[str]]:
    """Try some cases of the live run, and return the numbers of effects and of cases, and what is wrong."""
    with conditions(ground):
        world = made(folder, ground, live=True, small=True)
        mine = sampled(world.names, count, seed)
        return len(world.names), len(mine), [wrong for case in mine if (wrong := tried(world, case))]


def sample_on(folder: Path, name: str, count: int, seed: int) -> tuple[int, int, list[str]]:
    """Try some cases on a ground that is made for it; see :func:`sample`."""
    folder.mkdir(parents=True)
    with GROUNDS[name](folder) as ground:
        return sample(folder, ground, count, seed)
