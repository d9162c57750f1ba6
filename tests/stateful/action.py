"""An action on a world, and the pieces of work that operators start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dts_assets.errors import SetBackTableError
from dts_assets.errors.windows import IncompleteWindowError, NotClosedError, NotReadyError
from tests.flows.harness import Harness
from tests.stateful.world import Work, World, refused_by_name

REFUSALS = (NotClosedError, NotReadyError)
"""What an operator is told who asks for a part before its time."""


@dataclass(frozen=True)
class Action:
    """An action; ``seed`` decides all that is random in it."""

    seed: int

    def can(self, world: World) -> bool:
        """Whether the state allows it."""
        return bool(world.stream.transactions)

    def do(self, world: World) -> str:
        """Do it and say what was done."""
        raise NotImplementedError

    @property
    def random(self) -> Random:
        return Random(self.seed)


class Operator(Action):
    """An action on the lake, for which there are windows."""

    def can(self, world: World) -> bool:
        return bool(world.windows()[:-1])


def work_of(world: World, random: Random, steps: tuple[str, ...]) -> Work:
    """A piece of work on some windows."""
    step = random.choice(steps)
    partitions = world.some_partitions(random) if step in ("raw", "entries") else list(range(world.shape.partitions))
    return Work(step, tuple(world.some_windows(random)), tuple(partitions))


def tried(world: World, do: Callable[[Harness], object]) -> str:
    """What became of a piece of work, if it was refused."""
    kinds = [*REFUSALS, *([IncompleteWindowError] if world.settings.get("on_incomplete") == "block" else [])]
    if world.set_back:
        kinds.append(SetBackTableError)
    try:
        do(world.open())
    except Exception as error:
        if not refused_by_name(error, kinds):
            raise
        return f": refused, {type(error).__name__}"
    return ""
