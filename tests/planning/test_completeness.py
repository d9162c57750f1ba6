"""How complete a cell and a window are, from their problems."""

from __future__ import annotations

from itertools import permutations

import pytest

from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.planning.completeness import completeness_of_cell, completeness_of_window

INCOMPLETE, OBSERVED, CONTIGUOUS, PROVEN = (
    Completeness.INCOMPLETE, Completeness.OBSERVED, Completeness.CONTIGUOUS, Completeness.PROVEN,
)  # fmt: skip

LEVELS = {
    ProblemCode.WAITING: INCOMPLETE,
    ProblemCode.QUARANTINED: INCOMPLETE,
    ProblemCode.GAP: INCOMPLETE,
    ProblemCode.UNENDED: INCOMPLETE,
    ProblemCode.INTERRUPTED: OBSERVED,
    ProblemCode.TRANSACTION: INCOMPLETE,
    ProblemCode.GTIDS: INCOMPLETE,
    ProblemCode.SEQUENCE: OBSERVED,
    ProblemCode.CLOCK: OBSERVED,
    ProblemCode.FORMAT: OBSERVED,
    ProblemCode.ROLLBACK: OBSERVED,
    ProblemCode.LINEAGES: OBSERVED,
    ProblemCode.ID: Completeness.INCOMPLETE,
    ProblemCode.RELOAD: OBSERVED,
    ProblemCode.UNKNOWN: OBSERVED,
    ProblemCode.DDL: OBSERVED,
}


def problem(code: ProblemCode) -> Problem:
    return Problem(code, 3, 4, "a sentence")


def test_every_problem_has_a_level_here() -> None:
    assert set(LEVELS) == set(ProblemCode)


@pytest.mark.parametrize(("code", "level"), LEVELS.items())
def test_the_level_of_a_cell_with_one_problem(code: ProblemCode, level: Completeness) -> None:
    assert completeness_of_cell([problem(code)]) is level
    assert completeness_of_cell([problem(ProblemCode.CLOCK), problem(code)]) is level


def test_a_cell_without_problems_is_observed_and_no_more() -> None:
    assert completeness_of_cell([]) is OBSERVED


@pytest.mark.parametrize(
    ("cells", "window"),
    [((PROVEN, PROVEN), PROVEN), ((PROVEN, CONTIGUOUS), CONTIGUOUS), ((CONTIGUOUS, OBSERVED, PROVEN), OBSERVED),
     ((PROVEN, INCOMPLETE, OBSERVED), INCOMPLETE)],
)  # fmt: skip
def test_a_window_is_as_complete_as_its_weakest_cell(cells: tuple[Completeness, ...], window: Completeness) -> None:
    assert {completeness_of_window(order) for order in permutations(cells)} == {window}
