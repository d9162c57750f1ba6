"""Hypothesis draws the same examples in each run of the first two tiers, whatever else the process has imported."""

from __future__ import annotations

from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers


def draw_without_constants_of_modules() -> None:
    """Keep constants of this project's modules out of the examples of this process.

    Hypothesis puts numbers and texts that it finds in imported modules into its examples, so ``derandomize`` alone gives other
    examples when another test was run before. No public setting leaves them out; a test notices when the private name goes.
    """
    empty = constants_ast.Constants()
    providers._get_local_constants = lambda: empty
