"""Topics in other formats followed live: DRS and Canal without CHECKPOINTs, of which all is shown, and DTS Avro."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
    [("drs-json-c", 0), ("drs-json", 0), ("drs-avro", 0), ("drs-json-c", 70), ("canal-json", 70)],
    ids=["JSON-C at once", "JSON at once", "Avro at once", "JSON-C over a window's end", "Canal over a window's end"],
)
def test_a_topic_without_checkpoints_shows_what_has_arrived(tmp_path: Path, form: str, seconds: float) -> None:
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


def in_millis(content: Path) -> None:
    """Cut the fractions of a dump's times to the milliseconds that a record of DTS holds."""
    for file in content.glob("*.parquet"):
        table = pq.read_table(file)
        columns = [
            pa.array(
                [
                    one if one is None else re.sub(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\d{3}$", r"\g<1>000", one)
                    for one in column.to_pylist()
                ],
                column.type,
            )
            if pa.types.is_string(column.type)
            else column
            for column in table.columns
        ]
        pq.write_table(pa.Table.from_arrays(columns, schema=table.schema), file)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", ["dts-avro", "dts-json"])
def test_a_topic_of_records_shows_the_database_at_its_checkpoints(tmp_path: Path, form: str) -> None:
    options = LiveOptions(tmp_path / "live", rate=50, tables=4, every="1m", format=form)
    with live_stack(options, say=lambda _: None) as stack:
        assert stack.wait_until(lambda: visible(stack) > 0, seconds=_PATIENCE), "no rows are visible"
        time.sleep(70)  # over the end of a window
        stack.supervisor.stop(WORKLOAD)
        dump_database(stack.server, DATABASE, tmp_path / "now")
        in_millis(tmp_path / "now")
        stack.wait_until(lambda: not unequal(stack, tmp_path / "now"), seconds=_PATIENCE, every=2)
        assert unequal(stack, tmp_path / "now") == []
        rows = stack.pipeline.ledger.windows()
        assert {row.closed_by for row in rows} >= {"message"}
        assert any(row.checkpoint for row in rows)
        assert not any(problem.code != "ddl" for row in rows for problem in row.problems)
        assert visible(stack) > 100
