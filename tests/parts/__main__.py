"""``python -m tests.parts [--part N]``: ``make test-all``, in numbered parts of which each takes at most two hours.

Without ``--part`` the parts run in order, and those that have passed on this commit are not run again, so that an interrupted
run goes on. Part 0 is the first tier, and which lines of the product it runs. Results stand in ``build/test-all.json``. They
count for one commit without uncommitted changes: a result of another commit is removed. Each part prints its number, the
commit, its result, and the seed with which it drew its random examples; the examples that fail are kept in
``build/test-all/``, to be written into their tests with ``@example``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from tests.parts.commands import call
from tests.parts.coverage_of_rooms import first_tier_under_coverage
from tests.parts.results import Result, command, commit_of, counts, found_examples, kept, left, load, store
from tests.tiers import PARTS

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
RESULTS = BUILD / "test-all.json"
COVERAGE = 0
INTERRUPTED = 130


def run(number: int, *, commit: str, seed: int, workers: int) -> Result:
    """Run a part, or the first tier under coverage, and say how it ended."""
    report = BUILD / "test-all" / f"part-{number}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    began = time.monotonic()
    if number == COVERAGE:
        code = first_tier_under_coverage(workers=workers, report=report)
    else:
        part = next(part for part in PARTS if part.number == number)
        environment = {**os.environ, "DTS_ASSETS_TESTS": "all", "PYTHONHASHSEED": str(seed)}
        code = call(command(part, seed=seed, workers=workers, report=report), environment, folder=ROOT)
    passed, failed, skipped = counts(report) if report.is_file() else (0, 0, 0)
    examples = found_examples(report) if report.is_file() else []
    if examples:
        file = report.with_suffix(".examples.txt")
        file.write_text("\n".join(f"{test}\n{example}" for test, example in examples))
        print(f"{len(examples)} examples failed: write them into their tests with @example ({file.relative_to(ROOT)})")
    return Result(number, commit, passed, failed, skipped, round(time.monotonic() - began, 1), seed, code)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Run all tests with full repetitions, in parts.")
    numbers = [COVERAGE, *(part.number for part in PARTS)]
    parser.add_argument("--part", type=int, choices=numbers, help="only this part, even if it has passed")
    parser.add_argument("--seed", type=int, help="of random examples; drawn by default")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args(arguments)
    commit, is_clean = commit_of(ROOT)
    results = kept(load(RESULTS), commit) if is_clean else []
    chosen = [asked.part] if asked.part is not None else left(results, numbers)
    for number in chosen:
        seed = asked.seed if asked.seed is not None else SystemRandom().randrange(1 << 32)
        title = next((part.title for part in PARTS if part.number == number), "the first tier, and the lines it runs")
        print(f"part {number} of {len(PARTS)} on {commit[:12]}: {title} (seed {seed})", flush=True)
        try:
            result = run(number, commit=commit, seed=seed, workers=asked.workers)
        except KeyboardInterrupt:
            print(f"Interrupted: part {number} does not count, and `make test-all` goes on with it.", flush=True)
            return INTERRUPTED
        print(result.sentence(), flush=True)
        results = [one for one in results if one.part != number] + [result]
        if (commit, True) == commit_of(ROOT):
            store(RESULTS, sorted(results, key=lambda one: one.part))
        else:
            print("The result does not count: the checkout has uncommitted changes, or another commit.", flush=True)
    return _ended(results, chosen, numbers)


def _ended(results: Sequence[Result], chosen: Sequence[int], numbers: Sequence[int]) -> int:
    for result in sorted(results, key=lambda one: one.part):
        print(result.sentence())
    missing = left(results, numbers)
    print(
        f"parts that have not passed on this commit: {', '.join(map(str, missing))}" if missing else "all parts passed"
    )
    return 1 if set(chosen) & set(missing) else 0


if __name__ == "__main__":
    sys.exit(main())
