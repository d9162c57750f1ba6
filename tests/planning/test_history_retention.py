"""The midnight from which on versions stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.planning.history_retention import versions_stay_from


@pytest.mark.parametrize(
    ("window", "days", "stay_from"),
    [
        (datetime(2026, 1, 5, 10, tzinfo=UTC), 30, datetime(2025, 12, 6, tzinfo=UTC)),
        (datetime(2026, 1, 5, tzinfo=UTC), 1, datetime(2026, 1, 4, tzinfo=UTC)),
        (datetime(2026, 1, 5, 23, 59, tzinfo=UTC), 0.5, datetime(2026, 1, 5, tzinfo=UTC)),
        (datetime(2024, 3, 1, 1, tzinfo=UTC), 1, datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_it_follows_from_the_frontier(window: datetime, days: float, stay_from: datetime) -> None:
    assert versions_stay_from(Frontier(window, window, None), timedelta(days=days)) == stay_from


def test_without_retention_or_a_frontier_all_stay() -> None:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    assert versions_stay_from(Frontier(start, start, None), None) is None
    assert versions_stay_from(EMPTY_FRONTIER, timedelta(days=1)) is None
