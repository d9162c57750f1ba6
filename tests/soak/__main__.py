"""``python -m tests.soak``: very many mutated messages, and a table of what became of them."""

from __future__ import annotations

import argparse
import os
import sys

from tests.soak.many import many, table


def main() -> int:
    """0 if every fault was found or cannot be known, and no row is wrong."""
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="mutated messages")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each run takes the next one")
    arguments = parser.parse_args()
    report = many(arguments.count, processes=os.cpu_count() or 1, first_seed=arguments.seed)
    for line in (*table(report), *report.violations):
        print(line)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
