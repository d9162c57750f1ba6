"""The growth of a step in a new interpreter.

In a worker that has run a thousand tests, free memory lies in pieces: what is long is spread over them, and what is short is not.
A linear step has been measured 18 there for ten times as much, and 13 in a new interpreter.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.growth.long_histories import PLANNING
from tests.growth.small_steps import STEPS
from tests.timing import MOST_RATIO, growth

_ROOT = Path(__file__).parents[2]


def least_growth(kind: str, few: int) -> float:
    """Return how many times as long a case takes for ten times as much: here, or in a new interpreter where that is too much."""
    found = _growth(kind, few)
    if found <= MOST_RATIO:
        return found
    run = [sys.executable, "-m", "tests.growth.afresh", kind, str(few)]
    return float(subprocess.run(run, cwd=_ROOT, check=True, capture_output=True, text=True, timeout=300).stdout)


def _growth(kind: str, few: int) -> float:
    make, step = PLANNING[kind] if kind in PLANNING else STEPS[kind]
    return growth(make, step, few)


if __name__ == "__main__":
    sys.stdout.write(str(_growth(sys.argv[1], int(sys.argv[2]))))
