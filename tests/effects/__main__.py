"""``python -m tests.effects``: every effect of two small runs fails once in each way; what was then wrong is listed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.effects.every import WORLDS, share


def main() -> int:
    """0 if the next run mended everything."""
    parser = argparse.ArgumentParser(prog="tests.effects", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="processes that share the work")
    parser.add_argument("--only", choices=list(WORLDS), help="one of the two runs")
    arguments = parser.parse_args()
    began, cases, wrong = time.monotonic(), 0, 0
    worlds = [arguments.only] if arguments.only else list(WORLDS)
    shares = [(world, number, arguments.processes) for world in worlds for number in range(arguments.processes)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool,
    ):
        jobs = [
            pool.submit(share, Path(folder) / f"{world}{number}", world, number, of) for world, number, of in shares
        ]
        for (world, number, of), job in zip(shares, jobs, strict=True):
            effects, tried, found = job.result()
            cases, wrong = cases + tried, wrong + len(found)
            print(f"{world}, share {number + 1} of {of}: {effects} effects, {tried} cases, {len(found)} wrong")
            for line in found:
                print(f"  {line}")
    print(f"{cases} cases, {wrong} wrong, {(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
