"""A shard of a merged table that gets the name of a table outside: its rows do not move, and that table says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.flows.unproven import unproven_tables
from dts_assets.planning.source_moments import AtWindow
from tests.flows.harness import table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml
from tests.flows.source_tables import DATE, INT, Field, Table
from tests.flows.test_merged_tables import MERGE, ORDERS

SHARD, OUTSIDE = "shop_00.orders_0001", f"{DATABASE}.outside"
SAID = f"the table was {SHARD}, a shard of shop.orders, whose rows do not move to it"
LEAVES = {
    "the shard gets a free name": f"RENAME TABLE {SHARD} TO {OUTSIDE}",
    "the shard gets a free name by way of another one": f"RENAME TABLE {SHARD} TO d.spare; RENAME TABLE d.spare TO {OUTSIDE}",
    "the two swap their names": f"RENAME TABLE {SHARD} TO d.spare, {OUTSIDE} TO {SHARD}, d.spare TO {OUTSIDE}",
}
LATER = {
    "nothing": (),
    "it is made anew": (f"DROP TABLE {OUTSIDE}", f"CREATE TABLE {OUTSIDE} (id int PRIMARY KEY, n int)"),
}


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
@pytest.mark.parametrize("later", [*LATER])
@pytest.mark.parametrize("leaves", [*LEAVES])
def test_a_table_outside_that_was_a_shard_is_not_proven(
    leaves: str, later: str, order: Sequence[int], tmp_path: Path
) -> None:
    fields = [Field("id", INT, True), Field("n", INT)]
    shards = [Table(f"orders_{number}", [*fields], ("shop_00", f"orders_{number:04}")) for number in (1, 2)]
    outside = Table("outside", [*fields])
    source = short_source(*shards, outside)
    is_swapped = "swap" in leaves
    for table in (*shards, *([outside] if is_swapped else [])):
        source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": one, "n": one}) for one in (1, 2)]))
    for sql in LEAVES[leaves].split("; "):
        source.transaction(border(1) + SECOND, Ddl(sql))
    source.rows["outside"].clear()
    for sql in LATER[later]:
        source.transaction(border(2) + SECOND, Ddl(sql))
    source.transaction(border(2) + 2 * SECOND, Dml(outside, [(None, {"id": 7, "n": 7})]))
    for window in range(3):
        source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "leaves"), tmp_path / "capture", source.messages, windows=3, merge=MERGE
    )
    for window in order:
        harness.all(window)
    harness.settle()
    found = unproven_tables(harness.pipeline)
    assert not found.failures
    if LATER[later]:
        assert not found.results
        assert [row["id"] for row in harness.rows("snapshot", DATABASE, "outside")] == [7]
    else:
        assert {table: one.split(": ")[-1] for table, one in found.results.items()} == {table_id("outside"): SAID}
    rows = harness.rows("snapshot", *ORDERS.path)
    left = [("1", 1), ("1", 2)] if is_swapped else []
    assert sorted((row["_source_table"][-1], row["id"]) for row in rows) == [*left, ("2", 1), ("2", 2)]
    for number, is_unproven in enumerate((False, True, not LATER[later])):
        then = tables_at(harness.pipeline, AtWindow(border(number)), tmp_path / f"moment_{number}")
        assert not then.failed
        said = {table: one.split(": ")[-1] for table, one in then.unproven.items()}
        assert said == ({table_id("outside"): SAID} if is_unproven else {}), number


@pytest.mark.parametrize(
    ("keyed_anew", "order"),
    [
        (True, ()),
        *(
            pytest.param(*one, marks=pytest.mark.more)
            for one in ((True, (0, 1, 2)), (True, (2, 0, 1)), (False, ()), (False, (0, 1, 2)), (False, (2, 0, 1)))
        ),
    ],
)
def test_a_shard_that_was_one_of_another_table_is_not_proven_whatever_the_keys(
    keyed_anew: bool, order: Sequence[int], tmp_path: Path
) -> None:
    fields = [Field("id", INT, True), Field("n", INT, True)]
    shard = Table("orders_1", [*fields], ("shop_00", "orders_0001"))
    people = [Table(f"people_{number}", [*fields], ("crm_00", f"people_{number}")) for number in (1, 2)]
    source = short_source(shard, *people)
    for table in (shard, people[0]):
        source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": one, "n": one}) for one in (1, 2)]))
    if keyed_anew:
        source.transaction(
            border(0) + 2 * SECOND, Ddl("ALTER TABLE crm_00.people_1 DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
        )
    source.transaction(border(1) + SECOND, Ddl(f"RENAME TABLE {SHARD} TO crm_00.people_2"))
    source.transaction(border(2) + SECOND, Dml(people[1], [(None, {"id": 7, "n": 7})]))
    for window in range(3):
        source.checkpoint(border(window) + 500 * SECOND)
    merge = {**MERGE, "crm.people": ["crm_*.people_*"]}
    harness = open_short(
        bench_in_process(tmp_path, "leaves"), tmp_path / "capture", source.messages, windows=3, merge=merge
    )
    for window in order:
        harness.all(window)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    found = unproven_tables(harness.pipeline)
    assert {f"{table}": one.split(": ")[-1] for table, one in found.results.items()} == {"crm.people": SAID}


def test_numbers_are_no_dates_of_a_shard_that_got_their_name(tmp_path: Path) -> None:
    shard = Table("orders_1", [Field("id", INT, True), Field("n", DATE)], ("shop_00", "orders_0001"))
    outside = Table("outside", [Field("id", INT, True), Field("n", INT)])
    source = short_source(shard, outside)
    source.transaction(border(0) + SECOND, Dml(shard, [(None, {"id": 1, "n": date(2026, 1, 5)})]))
    source.transaction(border(0) + SECOND, Dml(outside, [(None, {"id": one, "n": one}) for one in (1, 20260105)]))
    source.transaction(border(1) + SECOND, Ddl(LEAVES["the two swap their names"]))
    outside.columns[1] = Field("n", DATE)
    source.transaction(border(1) + 2 * SECOND, Dml(outside, [(None, {"id": 7, "n": date(2026, 1, 7)})]))
    for window in range(2):
        source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "leaves"), tmp_path / "capture", source.messages, windows=2, merge=MERGE
    )
    harness.all(0)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    rows = {row["id"]: (row["n"], row["_invalid"]) for row in harness.rows("snapshot", DATABASE, "outside")}
    assert rows == {1: (None, [("n", "1")]), 20260105: (None, [("n", "20260105")]), 7: (date(2026, 1, 7), None)}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("where", ["id < 2", "id < 99"])
@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 0, 1)])
def test_a_shard_that_was_outside_lacks_the_rows_that_its_filter_left_out(
    where: str, order: Sequence[int], tmp_path: Path
) -> None:
    fields = [Field("id", INT, True), Field("n", INT)]
    outside, other = Table("outside", [*fields]), Table("orders_2", [*fields], ("shop_00", "orders_0002"))
    source = short_source(outside, other)
    for table in (outside, other):
        source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": one, "n": one}) for one in (1, 2)]))
    source.transaction(border(1) + SECOND, Ddl(f"RENAME TABLE {OUTSIDE} TO {SHARD}"))
    source.rows["orders_1"] = {}
    shard = Table("orders_1", [*fields], ("shop_00", "orders_0001"))
    source.transaction(border(2) + SECOND, Dml(shard, [(None, {"id": 7, "n": 7})]))
    for window in range(3):
        source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "comes"), tmp_path / "capture", source.messages, windows=3, merge=MERGE, rows={OUTSIDE: where}
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    found = unproven_tables(harness.pipeline)
    said = {table: one.split(": ")[-1] for table, one in found.results.items()}
    lacks = f"the row filter of {OUTSIDE} left out rows, which the table lacks"
    assert said == ({ORDERS: lacks} if where == "id < 2" else {})


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
@pytest.mark.parametrize("gone", ["DROP TABLE d.moved", "TRUNCATE TABLE d.moved"])
def test_a_name_that_a_shard_had_loses_the_rows_of_its_next_table(
    gone: str, order: Sequence[int], tmp_path: Path
) -> None:
    """The snapshot with the rows of another name may be there before the changelog with the truncation is."""
    fields = [Field("id", INT, True), Field("n", INT)]
    shard = Table("orders_1", [*fields], ("shop_00", "orders_0001"))
    pairs = Table("pairs", [Field("a", INT, True), Field("n", INT)], ("d", "pairs"))
    source = short_source(shard, pairs)
    source.transaction(border(0) + SECOND, Dml(shard, [(None, {"id": 1, "n": 1})]))
    source.transaction(border(0) + SECOND, Dml(pairs, [(None, {"a": one, "n": 1}) for one in (5, 6)]))
    exchange = "RENAME TABLE d.moved TO d.spare, d.pairs TO d.moved, d.spare TO d.pairs"
    for second, sql in enumerate((f"RENAME TABLE {SHARD} TO d.moved", exchange, gone)):
        source.transaction(border(1) + (1 + second) * SECOND, Ddl(sql))
    for window in range(3):
        source.checkpoint(border(window) + 500 * SECOND)
    bench = bench_in_process(tmp_path, "leaves")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=3, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    assert [str(table) for table in unproven_tables(harness.pipeline).results] == ["d.pairs"]
    assert not harness.rows("snapshot", "d", "moved")
