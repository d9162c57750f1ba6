"""The frame of benchmarks that time a decoder and a plain loop over equal messages, case by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from benchmarks.command import Options, finish
from dts_assets.stages.changelog_decoder import CHUNK_BYTES


class Named(Protocol):
    """A case, by its name."""

    @property
    def name(self) -> str:
        """Such as ``15c-1r``."""
        ...


Case = TypeVar("Case", bound=Named)
Given = TypeVar("Given", contravariant=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """Least seconds of processor time per way, and how much was decoded."""

    case: str
    megabytes: float
    changes: int
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """The loop's time by ours."""
        return self.seconds["loop"] / self.seconds["ours"]

    @property
    def figures(self) -> Mapping[str, object]:
        """The sizes and seconds behind the ratio."""
        seconds = {name: round(seconds, 4) for name, seconds in self.seconds.items()}
        return {"megabytes": round(self.megabytes, 2), "changes": self.changes, "seconds": seconds}


class Measure(Protocol[Given]):
    """A function that times one case."""

    def __call__(self, case: Given, /, *, turns: int, seed: int, size: int) -> Measured:
        """Check that both ways agree, then time them in turns."""
        ...


def compare(
    name: str, description: str | None, cases: Sequence[Case], measure: Measure[Case], *, decoder: Callable[[], str]
) -> int:
    """Run the command of a benchmark: a line for each case, then the ratios."""
    options = Options(name, description)
    options.add_cases(case.name for case in cases)
    options.add_turns(5)
    options.add_seed()
    options.add_megabytes(CHUNK_BYTES >> 20, "decoded in one call")
    chosen = options.parse_args()
    print(f"{name}: {decoder()}, seed {chosen.seed}; MB/s of messages, processor time of one thread")
    print(f"{'case':>12} {'MB':>6} {'changes':>8} {'loop':>9} {'ours':>9} {'ratio':>8}")
    measured = []
    for case in cases:
        if not chosen.case or case.name in chosen.case:
            one = measure(case, turns=chosen.turns, seed=chosen.seed, size=chosen.megabytes << 20)
            measured.append(one)
            speeds = {way: one.megabytes / seconds for way, seconds in one.seconds.items()}
            print(
                f"{case.name:>12} {one.megabytes:6.1f} {one.changes:8,} {speeds['loop']:9.0f} {speeds['ours']:9.0f} "
                f"{one.ratio:7.1f}x",
                flush=True,
            )
    finish(name, {one.case: round(one.ratio, 2) for one in measured}, {one.case: one.figures for one in measured})
    return 0
