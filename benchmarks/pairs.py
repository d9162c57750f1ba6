"""Two versions of the project in turns: is the present code slower than a commit?

``python -m benchmarks.pairs BASE [BENCHMARK ...]`` runs benchmarks with the commit BASE (a worktree in a temporary folder, with
the present Python environment) and with the working tree, by turns and in the order base, present, present, base. It prints a
table for each benchmark and, as its last line, one JSON object. A line of a table is

- a cost of our own: CPU seconds or seconds among the benchmark's figures (:data:`OWN_FIGURES`), without those of its peers;
  where there are none, CPU seconds of all processes of the benchmark. The least of several runs, or the best speed.
- ``ratio CASE``: a ratio of the benchmark, the median of several runs. It also changes where only the peer became slower.

``change`` is the present figure by that of BASE. A ✗ marks what is more than 5 % worse. Ratios of wall times differ by more than
that between two runs of one commit: give the present commit as BASE to see by how much on your machine, and trust CPU seconds.
Both versions get traffic of one seed, each makes it with its own benchmark. BASE has to run with the packages that are installed
now.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.__main__ import NAMES, TABLE, machine
from benchmarks.command import finish, say
from benchmarks.processor_time import run_command
from benchmarks.worktrees import WORKING_TREE, Version, worktree

WORSE = 0.05
"""The part by which a line may be worse without a mark."""

OWN_FIGURES: Mapping[str, tuple[str, ...]] = {
    "decode": ("*/seconds/ours", "*/seconds/our_rows"),
    "decode_json": ("*/seconds/ours",),
    "decode_avro": ("*/seconds/ours",),
    "documents": ("*/seconds/ours", "patches/cpu/*"),
    "reassembly": ("*/joined",),
    "window": ("cpu/ours", "*/cpu/ours"),
    "copies": ("seconds/copy",),
    "truth": ("seconds/with", "seconds/redelivered"),
    "backfill": ("[0-9]*/wall",),
    "source": ("*/processor/ours",),
    "pipeline": ("seconds",),
    "startup": ("*/seconds", "*/beyond"),
    "age": ("load",),
    "sums": ("seconds/with", "microseconds_a_row"),
    "verification": ("cpu",),
    "snapshot": ("*/ours", "*/history"),
    "many_windows": ("first", "last"),
    "many_tables": ("*/cpu",),
    "thousand_tables": ("*/cpu",),
    "moments": ("between", "made", "pyiceberg", "plan", "back"),
    "flink": ("*/ours",),
    "definitions": ("*/ours/loaded", "*/ours/described"),
}
"""The figures of each benchmark that are costs of our own, as patterns of their paths."""

SPEEDS = ("reassembly",)
"""The benchmarks whose own figures are megabytes per second."""

WHOLE = "CPU seconds of all processes"


class Better(Enum):
    """The direction in which a figure is better; ``UNKNOWN`` for a ratio without a promise in the table."""

    SMALLER = "smaller"
    LARGER = "larger"
    UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a benchmark: its last line, and the CPU seconds of all its processes."""

    ratios: Mapping[str, float]
    figures: Mapping[str, Any]
    cpu: float


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of both versions."""

    name: str
    base: float
    present: float
    better: Better

    @property
    def change(self) -> float:
        """The present figure by that of the base; infinite if only the base has none of it."""
        if self.base:
            return self.present / self.base
        return math.inf if self.present else 1.0

    @property
    def is_worse(self) -> bool:
        """True if the present figure is more than 5 % worse."""
        if self.better is Better.UNKNOWN:
            return False
        better, worse = (self.base, self.present) if self.better is Better.SMALLER else (self.present, self.base)
        return worse > better * (1 + WORSE)


@dataclass(frozen=True, slots=True)
class Compared:
    """The lines of a benchmark, or the sentence that says why there are none."""

    benchmark: str
    lines: tuple[Line, ...] = ()
    sentence: str = ""
    failed: bool = False


Runner = Callable[[str, Version], Measured]
"""A function that runs a benchmark with a version; it raises :class:`FailedRunError`."""


class FailedRunError(Exception):
    """A benchmark did not come to its last line."""


def own_costs(benchmark: str, figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the costs of our own among figures, by their paths: ``{"1t-5c-1r/seconds/ours": 0.3}``."""
    patterns = OWN_FIGURES.get(benchmark, ())
    return {path: value for path, value in _leaves(figures) if any(fnmatchcase(path, one) for one in patterns)}


def _leaves(figures: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers among nested objects and lists with their paths."""
    if isinstance(figures, Mapping):
        for name, one in figures.items():
            yield from _leaves(one, f"{path}/{name}" if path else str(name))
    elif isinstance(figures, list | tuple):
        for number, one in enumerate(figures):
            yield from _leaves(one, f"{path}/{number}")
    elif isinstance(figures, int | float):
        yield path, float(figures)


def better_ratio(benchmark: str, case: str) -> Better:
    """Return the direction of a case.

    Its promise in the README's table says it, or else the words of the table.
    """
    against = ""
    for row in TABLE:
        against = against if row.against == "the same" else row.against
        if row.benchmark == benchmark and row.cases(case):
            if row.promised != "-":
                return Better.LARGER if row.promised.startswith(">=") else Better.SMALLER
            return Better.LARGER if against.endswith("by ours") else Better.SMALLER
    return Better.UNKNOWN


def compare(benchmark: str, base: Sequence[Measured], present: Sequence[Measured]) -> list[Line]:
    """Return the lines of a benchmark from the runs of both versions. What only one of them has is left out."""
    speeds = benchmark in SPEEDS
    best = max if speeds else min
    costs = [{name: best(each) for name, each in _together(_costs(benchmark, runs))} for runs in (base, present)]
    ratios = [
        {name: statistics.median(each) for name, each in _together([one.ratios for one in runs])}
        for runs in (base, present)
    ]
    if not costs[0].keys() & costs[1].keys():
        costs, speeds = [{WHOLE: min(one.cpu for one in runs)} for runs in (base, present)], False
    direction = Better.LARGER if speeds else Better.SMALLER
    return [
        *(Line(name, costs[0][name], costs[1][name], direction) for name in costs[0] if name in costs[1]),
        *(
            Line(f"ratio {name}", ratios[0][name], ratios[1][name], better_ratio(benchmark, name))
            for name in ratios[0]
            if name in ratios[1]
        ),
    ]


def _costs(benchmark: str, runs: Sequence[Measured]) -> list[dict[str, float]]:
    return [own_costs(benchmark, one.figures) for one in runs]


def _together(runs: Sequence[Mapping[str, float]]) -> Iterator[tuple[str, list[float]]]:
    """Yield each name that all runs have, with its values."""
    for name in runs[0]:
        if all(name in one for one in runs):
            yield name, [one[name] for one in runs]


def table(compared: Compared) -> list[str]:
    """Return the lines that are printed for a benchmark."""
    if compared.sentence:
        return [compared.sentence]
    width = max(len(line.name) for line in compared.lines)
    head = f"{compared.benchmark:<{width}} {'base':>10} {'present':>10} {'change':>8}  better"
    return [head, *(_shown(line, width) for line in compared.lines)]


def _shown(line: Line, width: int) -> str:
    mark = " ✗" if line.is_worse else ""
    return (
        f"{line.name:<{width}} {line.base:>10.4g} {line.present:>10.4g} {line.change:>7.3f}x  {line.better.value}{mark}"
    )


def turns(times: int) -> list[bool]:
    """Return whether each run is one of the present version: base, present, present, base, and so on."""
    return [(number % 2 == 1) is first for number in range(times) for first in (True, False)]


def compared(benchmark: str, versions: tuple[Version, Version], *, times: int, run: Runner) -> Compared:
    """Run a benchmark with the base and the present version and compare them."""
    for version in versions:
        if not _module(benchmark, version).is_file():
            return Compared(benchmark, sentence=f"{benchmark}: {version.name} has no such benchmark.")
    found: tuple[list[Measured], list[Measured]] = ([], [])
    for is_present in turns(times):
        version = versions[is_present]
        try:
            found[is_present].append(run(benchmark, version))
        except FailedRunError as error:
            return Compared(benchmark, sentence=f"{benchmark}: it failed in {version.name}: {error}", failed=True)
    return Compared(benchmark, tuple(compare(benchmark, *found)))


def _module(benchmark: str, version: Version) -> Any:
    return version.folder / "benchmarks" / f"{benchmark}.py"


def runner(options: Sequence[str], *, seed: int) -> Runner:
    """Return what runs a benchmark in a process of its own. It gets the options, and the seed where it takes one."""

    def run(benchmark: str, version: Version) -> Measured:
        seeded = "add_seed(" in _module(benchmark, version).read_text() and "--seed" not in options
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{benchmark}", *options]
        command += ["--seed", str(seed)] if seeded else []
        ran = run_command(command, folder=version.folder, environment=version.environment())
        last = last_line(ran.output)
        if ran.code or last is None:
            raise FailedRunError(f"exit code {ran.code}\n{ran.output[-2000:].rstrip()}")
        say(f"{benchmark}, {version.name}: {ran.cpu:.1f} CPU seconds, {ran.wall:.0f} s")
        return Measured(last["ratios"], last["figures"], ran.cpu)

    return run


def last_line(output: str) -> Mapping[str, Any] | None:
    """Return the last JSON object of a benchmark; warnings of a process that ends may follow it."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"benchmark"'):
            found: Mapping[str, Any] = json.loads(line)
            return found
    return None


def require_names(names: Sequence[str]) -> None:
    """Refuse names of benchmarks that are not in the README's table.

    Raises:
        SystemExit: There is no such benchmark.
    """
    if unknown := [name for name in names if name not in NAMES]:
        raise SystemExit(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}.")


def report(found: Sequence[Compared], *, base: str) -> None:
    """Print what is worse, and the last line: changes by benchmark and line, and their figures."""
    lines = {f"{one.benchmark} {line.name}": line for one in found for line in one.lines}
    worse = [name for name, line in lines.items() if line.is_worse]
    say(f"More than {WORSE:.0%} worse: {', '.join(worse) or 'nothing'}." if lines else "Nothing was compared.")
    say(machine())
    figures = {
        name: {"base": line.base, "present": line.present, "better": line.better.value, "worse": line.is_worse}
        for name, line in lines.items()
    }
    not_compared = {one.benchmark: one.sentence for one in found if one.sentence}
    changes = {name: round(line.change, 3) for name, line in lines.items() if math.isfinite(line.change)}
    finish("pairs", changes, {"base": base, "lines": figures, "not_compared": not_compared})


def exit_code(found: Sequence[Compared], *, strict: bool) -> int:
    """Return 1 if a benchmark failed or, if that is asked for, if a line is worse."""
    worse = any(line.is_worse for one in found for line in one.lines)
    return int(any(one.failed for one in found) or (strict and worse))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairs", description=(__doc__ or "").split("\n")[0], allow_abbrev=False
    )
    parser.add_argument("base", metavar="BASE", help="a commit")
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=f"some of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--times", type=int, default=2, help="how often each version runs (default 2)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a line is more than 5 %% worse")
    parser.add_argument("--options", default="", help='of the benchmarks, such as "--turns 1 --megabytes 8"')
    chosen = parser.parse_args(arguments)
    if chosen.times < 1:
        parser.error("--times is at least 1")
    require_names(chosen.names)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the worktree goes then, too
    run = runner(shlex.split(chosen.options), seed=time.time_ns() % 1_000_000)
    found = []
    with worktree(chosen.base) as base:
        for version in (base, WORKING_TREE):
            version.require_own_code()
        say(f"pairs: {base.name} and {WORKING_TREE.name}, {chosen.times} runs each")
        for name in chosen.names or NAMES:
            found.append(compared(name, (base, WORKING_TREE), times=chosen.times, run=run))
            say("\n".join(["", *table(found[-1]), ""]))
    report(found, base=base.name)
    return exit_code(found, strict=chosen.strict)


if __name__ == "__main__":
    sys.exit(main())
