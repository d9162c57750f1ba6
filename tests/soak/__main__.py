"""``python -m tests.soak``: very many mutated messages of each format, and a table of what became of them."""

from __future__ import annotations

import argparse
import os
import sys

from tests.soak.many import RUNS, many, table


def main() -> int:
    """0 if every fault was found or cannot be known, and no row is wrong."""
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="mutated messages of each format")
    parser.add_argument("--only", choices=RUNS, help="one format")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each run takes the next one")
    arguments = parser.parse_args()
    wrong = 0
    for name in [arguments.only] if arguments.only else RUNS:
        report = many(name, arguments.count, processes=os.cpu_count() or 1, first_seed=arguments.seed)
        print(f"{name}:")
        for line in (*table(report), *report.violations):
            print(line, flush=True)
        wrong += len(report.violations)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
