"""Entry sets whose head lies in a window that is not stored yet wait for it, and are joined once it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.model.problems import Completeness, ProblemCode
from dts_assets.model.spans import Cell
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import SECOND, insert, item, open_short, short_source
from tests.flows.source import Dml

pytestmark = pytest.mark.spark


def test_a_set_waits_for_the_window_of_its_head(bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    insert(source, border(0) + 10 * SECOND, range(6))
    table = source.tables["items"]
    rows = [(None, item(number)) for number in range(100, 120) if table.partition(item(number), 2) == 1]
    edges = [border(1) - 2 * SECOND, border(1) - SECOND, border(1) + SECOND]
    source.transaction(border(1) - 5 * SECOND, Dml(table, rows), split={1: edges})
    source.checkpoint(border(1) + 60 * SECOND)
    cut_set = next(change for change in source.changes if change.first_offset < change.last_offset)
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2)
    cell = Cell(1, harness.windows(1)[0])

    harness.raw(1)
    harness.entries(1)
    row = next(row for row in harness.pipeline.ledger.windows() if row.cell == cell)
    assert row.completeness is Completeness.INCOMPLETE
    waiting = [(one.code, one.first_offset, one.last_offset) for one in row.problems]
    assert waiting == [(ProblemCode.WAITING, cut_set.last_offset, cut_set.last_offset)]
    assert row.counts.waiting == 1
    assert row.counts.balanced
    assert harness.pipeline.ledger.quarantine() == []
    assert find_work(harness.pipeline).stale_entries == ()

    harness.raw(0)
    assert find_work(harness.pipeline).stale_entries == (cell,)
    harness.settle()
    row = next(row for row in harness.pipeline.ledger.windows() if row.cell == cell)
    assert (row.problems, row.counts.waiting, row.counts.carried_in) == ((), 0, 2)
    assert harness.pipeline.ledger.quarantine() == []
    assert len(harness.rows("changelog", "bank", "items")) == 6 + len(rows)
    assert harness.snapshots(source.tables)["items"] == source.rows["items"]
