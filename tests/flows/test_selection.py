"""Runs of some tables only: they change these tables and mark nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import Selection
from dts_assets.model.problems import Reason
from dts_assets.protocol import subscribe_pb2 as pb
from tests.dts_messages import entry
from tests.flows.harness import Bench, table_id
from tests.flows.history import border
from tests.flows.short import SECOND, item, items, open_short, three_windows
from tests.flows.source import DATABASE, dml_event, folded

pytestmark = pytest.mark.spark


def test_a_run_of_some_tables_does_not_mark_its_windows(bench: Bench, tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    ragged = dml_event(source.tables["two"], "insert", [(None, item(7000))])
    del ragged.dmlEvent.rows[0].newColumns[1:]
    place = {"schemaName": DATABASE, "tableName": "two", "fileName": "mysql-bin.9", "position": 999_999}
    source.send(0, border(2) + 550 * SECOND, entry(pb.DML, ragged, timestamp=0, **place))
    final = folded(source.tables, source.changes)
    harness = open_short(bench, tmp_path / "capture", source.messages)
    harness.raw()
    harness.entries()
    one = frozenset({table_id("one")})

    harness.tables(0, selection=Selection({"changelog": one, "snapshot": one}))
    ledger = harness.pipeline.ledger
    assert ledger.cuts() == []
    assert {row.table for row in ledger.window_tables()} == one
    assert harness.rows("changelog", DATABASE, "two") == []
    assert harness.rows("snapshot", DATABASE, "one") == []  # its window is not marked, so nothing is to be shown yet
    assert len(find_work(harness.pipeline).tables) == 3

    harness.settle()
    assert harness.snapshots(source.tables) == final
    everything = harness.everything()
    assert [row.reason for row in ledger.quarantine()] == [Reason.RAGGED_ROW]

    harness.tables(selection=Selection({"changelog": one, "snapshot": ()}))
    harness.tables(selection=Selection({"changelog": (), "snapshot": one}))
    assert harness.everything() == everything
    assert find_work(harness.pipeline).nothing
