"""Plays the events of a plan in a world, checks the laws, and makes a plan that fails as short as it gets."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from statistics import median

from tests.stateful.shrinking import shortest
from tests.year.events import Event
from tests.year.lake import registry_in_memory
from tests.year.laws import asked_for_nothing, at_a_look, in_the_end, of_few_days, of_settled_days
from tests.year.plans import turns
from tests.year.world import BEGIN, DAY, World

Say = Callable[[str], None]
Numbered = tuple[int, Event]
"""An event and its number in the plan of its seed."""

MOST_NAMED = 5


@dataclass
class Played:
    """A world at its end, and the first sentences about broken laws."""

    world: World
    broken: list[str]

    @property
    def kind(self) -> str:
        """The first words of a broken law, without numbers and names."""
        return "" if not self.broken else " ".join(word for word in self.broken[0].split() if word.isalpha())[:60]

    def line(self) -> str:
        """All counts in a line."""
        world = self.world
        rows = sum(len(life.memory.entries) for life in world.lives)
        counted = ", ".join(f"{count} {name}" for name, count in sorted(world.counts.items()) if name != "asked")
        read = f", a look reads {median(world.read):.0f} days" if world.read else ""
        return f"{(world.now - BEGIN) / DAY:.0f} days, {rows} cells, {counted}, {len(self.broken)} laws broken{read}"


def play(
    seed: int,
    events: Sequence[Event],
    *,
    days: float,
    every: timedelta,
    say: Say = lambda line: None,
    ages: Mapping[str, str] = {},
) -> Played:
    """Play events, then a calm until everything must have settled, and judge; messages leave the lake with ``ages``."""
    world = World(seed, every, ages)
    todo, broken = list(turns(list(events))), list[str]()
    end, told = BEGIN + timedelta(days=days), BEGIN
    with registry_in_memory(), _without_collections():
        while world.now < end or not (world.calm and world.quiet):
            todo = _take_turns(world, todo)
            world.go_on()
            broken += [*world.violations, *islice(at_a_look(world), 1)]
            if world.counts["looks"] % 5 == 0:
                broken += islice(of_settled_days(world), 1)
            if world.quiet:
                broken += islice(asked_for_nothing(world), 1)
            if broken:
                return Played(world, broken[:MOST_NAMED])
            if world.now - told >= DAY:
                told = world.now
                broken += of_few_days(world)
                world.life.scheduler.tidy(world.now)
                if (world.now - BEGIN).days % 30 == 0:
                    say(Played(world, broken).line())
        return Played(world, list(islice(in_the_end(world), MOST_NAMED)))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Spare Python the searches for cycles: of a hundred thousand rows hardly any is garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _take_turns(
    world: World, todo: list[tuple[timedelta, int, bool, Event]]
) -> list[tuple[timedelta, int, bool, Event]]:
    """Let the events that are due begin and end; return the others."""
    at = world.now - BEGIN
    for due, _, ends, event in todo:
        if due > at:
            break
        if ends:
            event.end(world)
            world.stirred_until = world.now
            if event.holds_up:
                world.trouble_until = world.now
            if event.moves_times:
                world.disturbed.append((BEGIN + event.at, world.now))
        else:
            event.begin(world)
        change = -1 if ends else 1
        world.stirring += change
        world.under_way += change * event.holds_up
        world.counts["events"] += not ends
    return [turn for turn in todo if turn[0] > at]


def make_small(
    seed: int, events: Sequence[Event], *, kind: str, days: float, every: timedelta, say: Say, seconds: float = 900.0
) -> tuple[list[Event], Played | None]:
    """The shortest plan found that breaks a law in the same words, and what became of it."""
    began, tries = time.monotonic(), 0
    last: Played | None = None

    def fails(chosen: Sequence[Event]) -> bool:
        nonlocal tries, last
        tries += 1
        until = max((one.ends / DAY for one in chosen), default=0.0) + 3
        played = play(seed, chosen, days=min(days, until), every=every)
        if played.kind == kind:
            last = played
        say(f"shorter, try {tries}: {len(chosen)} events {'still fail' if played.kind == kind else 'do not'}")
        return played.kind == kind

    return shortest(events, fails, go_on=lambda: time.monotonic() - began < seconds), last


def report(seed: int, numbered: Sequence[Numbered], played: Played) -> list[str]:
    """The lines that tell of a broken law, the last one how to see it again."""
    numbers = ",".join(str(number) for number, _ in numbered)
    return [
        f"BROKEN with seed {seed}: {played.broken[0]}",
        *(f"  also: {line}" for line in played.broken[1:]),
        *(f"  {number:3d} {event}" for number, event in numbered),
        f"again: python -m tests.year --seed {seed} --events {numbers or 'none'} --as-found",
    ]
