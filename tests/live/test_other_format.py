"""A topic of Huawei DRS followed live: no CHECKPOINTs, no heartbeats, and all that has arrived is shown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.live.live_stack import DATABASE, WORKLOAD, LiveOptions, LiveStack, live_stack
from tests.live.verdict import snapshots_at

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.long]

_PATIENCE = 240.0
"""Seconds until all is there; on a machine of its own it takes thirty."""


def visible(stack: LiveStack) -> int:
    """Rows in all snapshots."""
    return sum(rows.num_rows for rows in snapshots_at(stack, None).values())


def unequal(stack: LiveStack, content: Path) -> list[str]:
    """What the snapshots hold otherwise than a dump of the database, which nobody writes to any more."""
    return [str(verdict) for verdict in differences(snapshots_at(stack, None), content)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("form", "seconds"),
    [("drs-json-c", 0), ("drs-json", 0), ("drs-json-c", 70)],
    ids=["JSON-C at once", "JSON at once", "JSON-C over a window's end"],
)
def test_a_drs_topic_shows_what_has_arrived(tmp_path: Path, form: str, seconds: float) -> None:
    options = LiveOptions(tmp_path / "live", rate=50, tables=4, every="1m", format=form)
    with live_stack(options, say=lambda _: None) as stack:
        assert stack.wait_until(lambda: visible(stack) > 0, seconds=_PATIENCE), "no rows are visible"
        time.sleep(seconds)  # over the end of a window, which the next message closes
        stack.supervisor.stop(WORKLOAD)
        dump_database(stack.server, DATABASE, tmp_path / "now")
        stack.wait_until(lambda: not unequal(stack, tmp_path / "now"), seconds=_PATIENCE, every=2)
        assert unequal(stack, tmp_path / "now") == []
        if seconds:
            closed = {row.closed_by for row in stack.pipeline.ledger.windows()}
            assert closed >= {"message", "grace"}
        assert not any(row.checkpoint for row in stack.pipeline.ledger.windows())
        assert visible(stack) > 100
