"""Tables with a row filter whose columns change their types: events that the filter leaves out tell nothing of later rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.unproven import unproven_tables
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Message, write_capture
from tests.flows.source_tables import BIGINT, INT, Field, Table
from tests.flows.test_renamed_filters import Sold, rows_of

ITEMS = table_id("items")
NO_EVENT = "its row filter looks at amount, a name that no event of the table has reported"
BOTH = "its row filter looks at a column that a statement renamed, which its rows have by both names"


@pytest.mark.parametrize("left_out", ["before", "after"])
def test_an_event_that_a_filter_leaves_out_gives_kept_rows_no_type(tmp_path: Path, left_out: str) -> None:
    """Both events list equal names, and the statement stands between them."""
    table = Table("items", [Field("id", INT, True), Field("n", INT), Field("v", INT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Ddl("CREATE TABLE items (id INT PRIMARY KEY, n INT, v INT)"))
    source.transaction(border(0) + 2 * SECOND, Dml(table, [(None, {"id": 0, "n": 1, "v": 4})]))
    source.checkpoint(border(0) + 300 * SECOND)
    kept, other = (9, 1) if left_out == "before" else (1, 9)
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(None, {"id": 1, "n": kept, "v": 5})]))
    source.transaction(border(1) + 3 * SECOND, Ddl("ALTER TABLE items MODIFY v BIGINT"))
    table.columns[2] = Field("v", BIGINT)
    source.transaction(border(1) + 4 * SECOND, Dml(table, [(None, {"id": 2, "n": other, "v": 1 << 40})]))
    source.checkpoint(border(1) + 300 * SECOND)
    source.checkpoint(border(2) + 300 * SECOND)
    bench = bench_in_process(tmp_path, "filter")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2, rows={"bank.items": "n < 5"})
    harness.all(0)
    harness.all(1)
    rows = sorted((row["id"], row["v"]) for row in harness.rows("snapshot", *ITEMS.path))
    assert rows == [(0, 4), (2, 1 << 40) if left_out == "before" else (1, 5)]
    snapshot = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", ITEMS))
    assert snapshot is not None
    assert str(snapshot.schema().find_field("v").field_type) == "long"
    assert not unproven_tables(harness.pipeline).results


@pytest.mark.more
@pytest.mark.parametrize(("later", "clause"), [(False, NO_EVENT), (True, BOTH)])
def test_a_history_whose_rows_came_without_the_filters_column_is_named(
    tmp_path: Path, later: bool, clause: str
) -> None:
    """Another table, whose column had got another name, takes the name of the filtered one: its rows are in the snapshot."""
    items, others = (Table(name, [Field("id", INT, True), Field("n", INT)]) for name in ("items", "others"))
    source = short_source(items, others)
    for second, table in enumerate((items, others)):
        source.transaction(
            border(0) + (1 + second) * SECOND, Ddl(f"CREATE TABLE {table.name} (id INT PRIMARY KEY, n INT)")
        )
        rows = [(None, {"id": 10 * second + n, "n": n}) for n in (1, 9)]
        source.transaction(border(0) + (4 + second) * SECOND, Dml(table, rows))
    source.transaction(border(0) + 7 * SECOND, Ddl("ALTER TABLE others CHANGE n amount INT"))
    source.transaction(border(0) + 8 * SECOND, Ddl("RENAME TABLE items TO spare, others TO items, spare TO others"))
    items.columns[1] = Field("amount", INT)
    if later:
        source.transaction(border(0) + 9 * SECOND, Dml(items, [(None, {"id": 2, "amount": 2})]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.checkpoint(border(1) + 300 * SECOND)
    bench, filtered = bench_in_process(tmp_path, "filter"), {"bank.items": "n < 5"}
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=1, rows=filtered, history=["bank.items"])
    harness.all()
    ids = sorted((row["id"], row["amount"]) for row in harness.rows("snapshot", *ITEMS.path))
    assert ids == [(2, 2), (11, 1)][not later :]
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert paused.table == ITEMS
    assert clause in paused.reason


LIVE: dict[str, Any] = {"window": {"live": True, "end": None}, "rows": {"bank.items": "region = 'eu'"}}


def swapped() -> tuple[Sold, list[Message]]:
    """Two columns swap their names in the first window after its first messages, and rows of the second window follow."""
    sold = Sold()
    sold.put(0, id=1, region="eu", old="us")
    sold.put(0, id=2, region="us", old="eu")
    sold.source.checkpoint(border(0) + 100 * SECOND)
    first = list(sold.source.messages)
    sold.second = 200
    sold.rename(0, region="old", old="region")
    sold.source.checkpoint(border(0) + 500 * SECOND)
    sold.put(1, id=3, region="eu", old="us")
    sold.put(1, id=4, region="us", old="eu")
    return sold, first


def grown(bench: Bench, folder: Path, name: str | None, messages: Sequence[Message]) -> Harness:
    """A lake over a capture that has grown, with the entries of two windows."""
    write_capture(folder, messages)
    harness = bench.open(folder, name=name, partitions=LANES, complete=False, **LIVE)
    harness.raw(0, 1)
    harness.entries(0, 1)
    return harness


@pytest.mark.more
@pytest.mark.parametrize("later_first", [True, False])
def test_a_statement_that_comes_into_a_window_after_its_mark_judges_later_windows_anew(
    tmp_path: Path, later_first: bool
) -> None:
    """The first window is made while it is open. Two columns swap their names then, and the next window may be made first."""
    sold, messages = swapped()
    sold.source.checkpoint(border(1) + 500 * SECOND)
    sold.source.checkpoint(border(2) + 500 * SECOND)
    folder, bench = tmp_path / "capture", bench_in_process(tmp_path, "filter")
    first = open_short(bench, folder, messages, complete=False, **LIVE)
    first.all(0)
    harness = grown(bench, folder, first.pipeline.name, sold.source.messages)
    if later_first:
        harness.tables(1)
        assert {row["after"]["id"] for row in harness.rows("changelog", *ITEMS.path)} == {1, 3}
    harness.settle()
    assert [row["id"] for row in rows_of(harness)] == [1, 4]
    assert not harness.settle()


@pytest.mark.more
@pytest.mark.parametrize("at_once", [True, False])
def test_a_run_appends_to_no_window_that_a_filter_judged_by_former_names(tmp_path: Path, at_once: bool) -> None:
    """The second window is made while it is open, before the first one has the statement in its tables."""
    sold, messages = swapped()
    sold.source.checkpoint(border(1) + 250 * SECOND)
    folder, bench = tmp_path / "capture", bench_in_process(tmp_path, "filter")
    first = open_short(bench, folder, messages, complete=False, **LIVE)
    first.all(0)
    harness = grown(bench, folder, first.pipeline.name, sold.source.messages)
    harness.tables(1)
    assert {row["after"]["id"] for row in harness.rows("changelog", *ITEMS.path)} == {1, 3}
    sold.second = 300
    sold.put(1, id=5, region="us", old="eu")
    sold.source.checkpoint(border(1) + 500 * SECOND)
    sold.source.checkpoint(border(2) + 500 * SECOND)
    harness = grown(bench, folder, first.pipeline.name, sold.source.messages)
    if at_once:
        harness.tables(0, 1)
    else:
        harness.tables(1)
        harness.tables(0)
    harness.settle()
    assert [row["id"] for row in rows_of(harness)] == [1, 4, 5]
    assert not harness.settle()
