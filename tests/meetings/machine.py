"""Draws cases, plays them, and makes those that end in a finding as small as they get."""

from __future__ import annotations

import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

from tests.dts_emulator.server_lives import FIRST, Life, LifeRecorder, life_recorder
from tests.meetings.cases import Case, Said, Step, drawn_steps, lanes_of, sets_of
from tests.meetings.features import Feature, drawn
from tests.meetings.lakes import opened, work
from tests.meetings.plots import Plot, begin
from tests.meetings.streams import messages_of
from tests.meetings.verdict import judge
from tests.stateful.shrinking import shortest

LENGTH = 50
"""Statements of a life."""


@dataclass
class Played:
    """What became of a case."""

    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def signs(self) -> set[str]:
        """The kinds of its faults: their words without names and values."""
        return {sign(one) for one in self.faults}


def sign(fault: str) -> str:
    """What kind of fault it is."""
    first = fault.strip().splitlines()[-1] if "Traceback" in fault else fault
    words = re.sub(r"[\[({].*|\d+|behind .*?:|\bd\.\w+|shop\w*\.\w+|sales\.\w+", "", first)
    return " ".join(words.split())[:90]


def drawn_case(
    recorder: LifeRecorder,
    seed: int,
    *,
    length: int = LENGTH,
    features: frozenset[Feature] | None = None,
    always: Collection[Feature] = (),
) -> Case:
    """A case by its seed: its features, a life that was lived to draw its statements, and its steps."""
    random = Random(seed)
    chosen = drawn(random, always)
    chosen = chosen if features is None else features
    said: list[Said] = []
    for number in (1, 2) if Feature.SETS in chosen else (1,):
        plot = Plot(recorder, Random(f"{seed} plot {number}"), chosen, of_set=number, earlier=tuple(said))
        plot.live(length)
        said += plot.said
    return Case(seed, chosen, tuple(said), drawn_steps(chosen, Random(f"{seed} steps"), lanes_of(chosen)))


def lived(recorder: LifeRecorder, said: Sequence[Said], features: frozenset[Feature]) -> Life | None:
    """The life of some statements of one set; those that the server refuses are left out."""
    begin(recorder, features)
    for one in said:
        recorder.go_to(FIRST + timedelta(seconds=one.second))
        if not recorder.say(one.sql, one.database):
            break
    return recorder.end() if recorder.has_lived else None


def play(recorder: LifeRecorder, case: Case) -> Played:
    """Let everything of a case happen and judge the lake."""
    lives: dict[int, Life] = {}
    for number in sets_of(case.said):
        life = lived(recorder, [one for one in case.said if one.of_set == number], case.features)
        if life is not None and life.moments:
            lives[number] = life
    if not lives:
        return Played()
    with tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            messages, gtids = messages_of(case, lives)
            harness = opened(case, messages, folder)
            work(harness, case, next(iter(lives.values())))
            found = judge(harness, case, lives, gtids, folder)
        except Exception:
            return Played([traceback.format_exc()])
        return Played(found.faults, found.counts)


def make_small(
    recorder: LifeRecorder, case: Case, signs: set[str], *, say: Callable[[str], None], seconds: float = 900.0
) -> tuple[Case, Played]:
    """The least case found that ends in a fault of a kind that the whole one had."""
    began, best = time.monotonic(), (case, Played())

    def go_on() -> bool:
        return time.monotonic() - began < seconds

    def fails(tried: Case) -> bool:
        nonlocal best
        played = play(recorder, tried)
        same = bool(played.signs & signs)
        say(f"  smaller: {len(tried.features)} features, {len(tried.said)} statements, {len(tried.steps)} steps "
            f"{'still fail' if same else 'do not'}")  # fmt: skip
        if same:
            best = (tried, played)
        return same

    if not fails(case):
        return case, Played([f"not seen again: {sorted(signs)}"])
    before = None
    while before != best[0] and go_on():
        before = best[0]
        shortest(before.steps, lambda some: fails(replace(best[0], steps=tuple(some))), go_on=go_on)
        shortest(sorted(before.features), lambda some: fails(replace(best[0], features=frozenset(some))), go_on=go_on)
        shortest(before.said, lambda some: fails(replace(best[0], said=tuple(some))), go_on=go_on)
    return best


def again(*, seed: int, features: str, said: Sequence[Sequence[object]], steps: Sequence[Sequence[object]]) -> None:
    """Play a case as a script has it, and say its faults."""
    chosen = frozenset(Feature(one) for one in features.split())
    case = Case(seed, chosen, tuple(Said(*one) for one in said), tuple(Step(*one) for one in steps))  # type: ignore[arg-type]
    with life_recorder() as recorder:
        for fault in play(recorder, case).faults:
            sys.stdout.write(f"{fault}\n")
