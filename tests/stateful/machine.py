"""The machine: plays the actions of a seed in a world, judges, and makes a failing list as short as it gets."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tests.flows.harness import Bench
from tests.stateful.action import Action
from tests.stateful.actions import plan
from tests.stateful.shrinking import shortest
from tests.stateful.verdict import Finding, check, check_fresh, check_marks
from tests.stateful.world import Say, World

Numbered = tuple[int, Action]
"""An action and its number in the plan of its seed."""

_LINES: Final = 6
"""Lines of a finding that are said at once: a stack ends with its error."""


@dataclass
class Played:
    """What became of a list of actions: those that could be done, how often it was judged, and the finding that ended it."""

    done: list[Numbered] = field(default_factory=list)
    verdicts: int = 0
    finding: Finding | None = None


def actions_of(seed: int, numbers: Iterable[int], kinds: Collection[type[Action]] = ()) -> list[Numbered]:
    """The actions with some numbers, in the plan of a seed and kinds."""
    wanted = sorted(set(numbers))
    found = list(islice(plan(seed, kinds), wanted[-1] + 1)) if wanted else []
    return [(number, found[number]) for number in wanted]


def play(bench: Bench, seed: int, actions: Sequence[Numbered], *, say: Say = lambda line: None) -> Played:
    """Play a list of actions in a new world, with the verdicts that are among them and both verdicts in the end."""
    world, played = World.make(bench, seed), Played()
    say(f"seed {seed}: {world.shape}")

    def step(name: str, do: Callable[[], str]) -> bool:
        began = time.monotonic()
        try:
            said = do()
        except Finding as finding:
            played.finding = finding
        except Exception as error:
            played.finding = Finding(f"{name.split()[-1]} ended in {type(error).__name__}", traceback.format_exc())
        if played.finding is not None:
            say(f"  {name}: FOUND {played.finding.kind}")
            for line in played.finding.detail.strip().splitlines()[-_LINES:]:
                say(f"    {line}")
            return False
        say(f"  {name}: {said}  ({time.monotonic() - began:.1f} s)")
        return True

    for number, action in actions:
        if not action.can(world):
            continue
        played.done.append((number, action))
        if not step(f"{number:3d} {type(action).__name__}", lambda action=action: action.do(world)):  # type: ignore[misc]
            return played
        played.verdicts += type(action).__name__ == "Run"
    world.settings.pop("on_incomplete", None)
    world.close_all()
    world.resume_all()
    if world.stream.transactions and step("    in the end", lambda: check(world)):
        played.verdicts += 1
        played.verdicts += step("    afresh", lambda: check_fresh(world)) and step(
            "    marks", lambda: check_marks(world)
        )
    return played


def make_small(
    bench: Bench, seed: int, actions: Sequence[Numbered], *, kind: str, say: Say, seconds: float = 600.0
) -> tuple[list[Numbered], Finding | None]:
    """The shortest list found that ends in a finding of a kind, and this finding."""
    began, tries = time.monotonic(), 0
    last: Finding | None = None

    def fails(chosen: Sequence[Numbered]) -> bool:
        nonlocal tries, last
        tries += 1
        found = play(bench, seed, chosen).finding
        same = found is not None and found.kind == kind
        say(f"  shorter, try {tries}: {len(chosen)} actions {'still fail' if same else 'do not'}")
        if same:
            last = found
        return same

    def go_on() -> bool:
        return time.monotonic() - began < seconds

    return shortest(actions, fails, go_on=go_on), last


def report(
    seed: int, actions: Sequence[Numbered], finding: Finding, *, kinds: Collection[type[Action]] = ()
) -> list[str]:
    """The lines that tell of a finding, the last one how to see it again."""
    numbers = ",".join(str(number) for number, _ in actions)
    of = f" --kinds {','.join(sorted(kind.__name__ for kind in kinds))}" if kinds else ""
    return [
        f"FOUND with seed {seed}: {finding.kind}",
        *(f"  {line}" for line in finding.detail.strip().splitlines()),
        *(f"  {number:3d} {action}" for number, action in actions),
        f"again: python -m tests.stateful --seed {seed}{of} --actions {numbers} --as-found",
    ]
