"""``python -m tests.effects``: every effect of two small runs fails once in each way; what was then wrong is listed.

With a real Spark, and on a REST catalog with S3, a sample by seed stands for all.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.effects.every import GROUNDS, SAMPLE, WORLDS, sample_on, share


def main() -> int:
    """0 if the next run mended everything."""
    parser = argparse.ArgumentParser(prog="tests.effects", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="processes that share the work")
    parser.add_argument("--only", choices=[*WORLDS, *GROUNDS], help="one run of the four")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="cases where not all are tried (spark, rest)")
    parser.add_argument("--seed", type=int, default=1, help="which cases these are")
    arguments = parser.parse_args()
    began, cases, wrong = time.monotonic(), 0, 0
    chosen = [arguments.only] if arguments.only else [*WORLDS, *GROUNDS]
    worlds = [world for world in WORLDS if world in chosen]
    shares = [(world, number, arguments.processes) for world in worlds for number in range(arguments.processes)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool,
    ):
        jobs = []
        for world, number, of in shares:
            job = pool.submit(share, Path(folder) / f"{world}{number}", world, number, of)
            jobs.append((f"{world}, share {number + 1} of {of}", job))
        for ground in (one for one in GROUNDS if one in chosen):
            job = pool.submit(sample_on, Path(folder) / ground, ground, arguments.sample, arguments.seed)
            jobs.append((f"{ground}, seed {arguments.seed}", job))
        for name, job in jobs:
            effects, tried, found = job.result()
            cases, wrong = cases + tried, wrong + len(found)
            print(f"{name}: {effects} effects, {tried} cases, {len(found)} wrong")
            for line in found:
                print(f"  {line}")
    print(f"{cases} cases, {wrong} wrong, {(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
