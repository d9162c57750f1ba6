"""Entry sets whose head lies in a window that is not stored yet wait for it, and are joined once it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.model.problems import Completeness, ProblemCode, Reason
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import SECOND, insert, item, open_short, short_source
from tests.flows.source import Dml, Source

pytestmark = pytest.mark.spark


def set_over_a_border() -> tuple[Source, int]:
    """Return a source whose last message is the tail of an entry set, and the number of rows of that set.

    Two fragments of the set lie in the first window, its tail in the second, all of them in Kafka partition 1.
    """
    source = short_source()
    insert(source, border(0) + 10 * SECOND, range(6))
    table = source.tables["items"]
    rows = [(None, item(number)) for number in range(100, 120) if table.partition(item(number), 2) == 1]
    edges = [border(1) - 2 * SECOND, border(1) - SECOND, border(1) + SECOND]
    source.transaction(border(1) - 5 * SECOND, Dml(table, rows), split={1: edges})
    return source, len(rows)


def test_a_set_waits_for_the_window_of_its_head(bench: Bench, tmp_path: Path) -> None:
    source, rows = set_over_a_border()
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
    assert len(harness.rows("changelog", "bank", "items")) == 6 + rows
    assert harness.snapshots(source.tables)["items"] == source.rows["items"]


@pytest.mark.more
def test_a_set_whose_tail_never_comes_is_named_by_the_window_that_knows_in_any_order(
    bench: Bench, tmp_path: Path
) -> None:
    source, _ = set_over_a_border()
    tail = source.messages[-1]
    insert(source, border(1) + 10 * SECOND, range(200, 206))
    source.checkpoint(border(1) + 60 * SECOND)
    insert(source, border(2) + 10 * SECOND, range(300, 306))
    messages = [one for one in source.messages if one is not tail]
    first, second = (Cell(1, Window(border(number), border(number + 1))) for number in (0, 1))

    found = []
    for name, order in (
        ("tail_at_once", [(0, 1, 2)]),
        ("tail_backwards", [(2,), (1,), (0,)]),
        ("tail_later", [(1, 2)]),
    ):
        harness = open_short(bench, tmp_path / "capture", messages, name=name)
        harness.raw()
        for numbers in order:
            harness.entries(*numbers)
        harness.settle()
        cells = {row.cell: row for row in harness.pipeline.ledger.windows()}
        assert (cells[first].counts.carried_out, cells[second].counts.carried_in) == (2, 2)
        assert (cells[second].counts.quarantined_fragments, cells[second].counts.carried_out) == (2, 0)
        assert cells[second].completeness is Completeness.INCOMPLETE
        (lost,) = harness.pipeline.ledger.quarantine()
        assert (lost.reason, lost.kafka_partition) == (Reason.MISSING_FRAGMENT, 1)
        judged = judge_ledger(harness.pipeline)
        assert all(one.balanced for one in judged)
        assert {one.partition for one in judged if not one.complete} == {str(second), second.window.key}
        found.append((cells, lost, harness.everything()["changelog.bank.items"]))
    facts = [
        (
            {cell: (row.counts, row.problems, row.generation, row.taken_over) for cell, row in cells.items()},
            lost,
            changes,
        )
        for cells, lost, changes in found
    ]
    assert facts[0] == facts[1] == facts[2]
