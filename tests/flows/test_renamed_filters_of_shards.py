"""Row filters of merged tables and of a TDSQL with sets: each shard and each set has statements of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.pauses import resume_tables
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Table
from tests.flows.tdsql import Sets
from tests.flows.test_merged_tables import MERGE, ORDERS

FIELDS = (Field("id", INT, True), Field("region", TEXT), Field("old", TEXT))


def shard(number: int) -> Table:
    return Table(f"orders_{number}", list(FIELDS), ("shop_00", f"orders_{number:04}"))


class Shards:
    """Two shards whose columns get other names, each at its own moment."""

    def __init__(self) -> None:
        self.tables = [shard(1), shard(2)]
        self.source: Source = short_source(*self.tables)
        self.second = 0

    def put(self, window: int, number: int, **row: Any) -> None:
        self.second += 1
        table = self.tables[number - 1]
        full = {one.name: None for one in table.columns} | row
        before = self.source.rows[table.name].get((row["id"],))
        self.source.transaction(border(window) + self.second * SECOND, Dml(table, [(before, full)]))

    def alter(self, window: int, number: int, clause: str, names: dict[str, str | None]) -> None:
        """Alter a shard; ``names`` has for each column behind the statement the one whose values it has."""
        self.second += 1
        table = self.tables[number - 1]
        sql = f"ALTER TABLE {'.'.join(table.sent_as or ())} {clause}"
        self.source.transaction(border(window) + self.second * SECOND, Ddl(sql))
        table.columns[:] = [FIELDS[0], *(Field(name, TEXT) for name in names)]
        rows = self.source.rows[table.name]
        for key, row in rows.items():
            rows[key] = {"id": row["id"], **{new: None if old is None else row[old] for new, old in names.items()}}

    def end(self, window: int) -> None:
        self.source.checkpoint(border(window) + 500 * SECOND)


def made(source: Shards, folder: Path, order: Sequence[int], where: Any, *, windows: int = 3) -> Harness:
    harness = open_short(
        bench_in_process(folder, "shards"), folder / "capture", source.source.messages, windows=windows, merge=MERGE,
        rows={"shop.orders": where},
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    return harness


def ids_of(harness: Harness, layer: str = "snapshot") -> list[tuple[str, int]]:
    rows = harness.rows(layer, *ORDERS.path)
    if layer == "changelog":
        rows = [row["after"] or row["before"] for row in rows]
    return sorted({(row["_source_table"][-1], row["id"]) for row in rows})


def swapped() -> Shards:
    """The filter's column is another one in one shard, and has another name in the other shard from the last window on."""
    made = Shards()
    for number in (1, 2):
        made.put(0, number, id=1, region="eu", old="us")
        made.put(0, number, id=2, region="us", old="eu")
    made.end(0)
    made.alter(1, 1, "RENAME COLUMN region TO old, RENAME COLUMN old TO region", {"region": "old", "old": "region"})
    for number in (1, 2):
        made.put(1, number, id=3, region="eu", old="us")
        made.put(1, number, id=4, region="us", old="eu")
    made.put(1, 1, id=2, region="eu", old="eu")
    made.end(1)
    made.alter(
        2, 2, "RENAME COLUMN region TO area, ADD region varchar(80)", {"area": "region", "old": "old", "region": None}
    )
    made.put(2, 2, id=5, area="eu", region="us")
    made.put(2, 2, id=6, area="us", region="eu")
    made.put(2, 1, id=5, region="eu", old="us")
    made.end(2)
    return made


@pytest.mark.parametrize(
    "order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 1, 0), (1, 0, 2)))]
)
def test_each_shard_is_judged_by_the_names_that_its_own_statements_give(order: tuple[int, ...], tmp_path: Path) -> None:
    harness = made(swapped(), tmp_path, order, "region = 'eu'")
    assert not harness.pipeline.ledger.paused_tables()
    assert ids_of(harness) == [("1", 1), ("1", 2), ("1", 4), ("2", 1), ("2", 3), ("2", 5)]
    assert ids_of(harness, "changelog") == ids_of(harness), "no row outside of the filter is stored"


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_filters_that_follow_one_another_follow_in_each_shard(order: tuple[int, ...], tmp_path: Path) -> None:
    """Both shards drop the column of the first filter in the same window, at different moments.

    A window behind the drop that is made first has events without the column, which nothing explains yet: the table stands still.
    """
    source = Shards()
    for number in (1, 2):
        source.put(0, number, id=1, region="eu", old="n")
        source.put(0, number, id=2, region="us", old="x")
    source.end(0)
    for number in (1, 2):
        source.put(1, number, id=3, region="us", old="x")
        source.alter(1, number, "DROP region", {"old": "old"})
        source.put(1, number, id=4, old="x")
        source.put(1, number, id=5, old="n")
    source.end(1)
    source.put(2, 1, id=2, old="x")
    source.end(2)
    where = [{"until": "2026-03-01-10:10", "where": "region = 'eu'"}, {"where": "old = 'x'"}]
    harness = made(source, tmp_path, order, where)
    if order == (2, 0, 1):
        (paused,) = harness.pipeline.ledger.paused_tables()
        assert "events lack a column of its row filter" in paused.reason
        resume_tables(harness.pipeline, [ORDERS])
        harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert ids_of(harness) == [("1", 1), ("1", 2), ("1", 4), ("2", 1), ("2", 4)]


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1)])
def test_a_shard_without_the_column_pauses_the_merged_table(order: tuple[int, ...], tmp_path: Path) -> None:
    source = Shards()
    for number in (1, 2):
        source.put(0, number, id=1, region="eu")
    source.end(0)
    source.alter(1, 2, "DROP region", {"old": "old"})
    source.put(1, 2, id=4, old="x")
    source.put(1, 1, id=4, region="eu")
    source.end(1)
    harness = made(source, tmp_path, order, "region = 'eu'", windows=2)
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "lack region, which its row filter needs" in paused.reason


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
def test_each_set_of_a_tdsql_is_judged_by_the_names_of_its_own_statements(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    sets = Sets(lambda: [Table("items", list(FIELDS))], names=("set_1", "set_2"))
    for name in sets.of:
        sets.put(name, 0, 1, "items", {"id": 1 if name == "set_1" else 11, "region": "eu", "old": "us"})
    sets.checkpoint(0)
    for name in sets.of:
        if name == "set_1":
            clause = "RENAME COLUMN region TO old, RENAME COLUMN old TO region"
            sets.alter(name, 1, 2, "items", clause, [FIELDS[0], FIELDS[2], FIELDS[1]])
        first = 2 if name == "set_1" else 12
        sets.put(
            name,
            1,
            5,
            "items",
            {"id": first, "region": "eu", "old": "us"},
            {"id": first + 1, "region": "us", "old": "eu"},
        )
    sets.checkpoint(1)
    harness = open_short(
        bench_in_process(tmp_path, "sets"),
        tmp_path / "capture",
        sets.messages,
        windows=2,
        rows={"bank.items": "region = 'eu'"},
    )
    for window in order:
        harness.all(window)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    rows = harness.rows("snapshot", *table_id("items").path)
    assert sorted((row["_source_set"], row["id"]) for row in rows) == [
        ("set_1", 1),
        ("set_1", 3),
        ("set_2", 11),
        ("set_2", 12),
    ]
