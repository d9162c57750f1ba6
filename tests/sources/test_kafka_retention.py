"""What a topic's settings say of how long messages are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dts_assets.model.retention import BrokerRetention
from dts_assets.sources.kafka_retention import retention_of


@pytest.mark.parametrize(
    ("milliseconds", "age"),
    [("0", timedelta()), ("86400000", timedelta(days=1)), ("-1", None), (str((1 << 63) - 1), None), (None, None)],
    ids=["nothing", "a day", "no limit", "the greatest number", "not said"],
)
def test_an_age_beyond_all_dates_is_no_limit(milliseconds: str | None, age: timedelta | None) -> None:
    said = {"retention.ms": milliseconds, "retention.bytes": str((1 << 63) - 1)}
    assert retention_of(said) == BrokerRetention(age, (1 << 63) - 1)
    assert retention_of({**said, "cleanup.policy": "compact"}) == BrokerRetention(None, None)
