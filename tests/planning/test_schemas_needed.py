"""Schemas of a table are read where its snapshot may get other columns, and where nothing says that it may not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.frontier import Frontier
from dts_assets.planning.snapshot_plans import EMPTY_STATE, SnapshotPlan, needs_schemas

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("held", "before", "now", "expected"),
    [
        (False, "", ["a"], False),
        (False, "", ["a", "b"], True),
        (True, "a", ["a"], False),
        (True, "a", ["b"], True),
        (True, "a", [], False),
        (True, "", ["a"], True),
        (True, "", [], False),
    ],
)
def test_schemas_are_read_where_events_may_have_other_columns_than_rows(
    held: bool, before: str, now: list[str], expected: bool
) -> None:
    """A shape that is empty stands for several: nothing says then which of them the rows have."""
    frontier = Frontier(START, START, None) if held else EMPTY_STATE.frontier
    state = replace(EMPTY_STATE, frontier=frontier, shape=before)
    plan = SnapshotPlan(state, (START + HOUR,), (), None, False)
    assert needs_schemas(state, plan, [], [], now, names=(), made_again=()) is expected
