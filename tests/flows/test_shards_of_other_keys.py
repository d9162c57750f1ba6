"""Merged tables whose shards have different primary keys: the snapshot names the first statement that its rows lack."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.unproven import unproven_tables
from dts_assets.flows.window_facts import window_doubts
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Table
from tests.flows.test_merged_tables import MERGE, ORDERS

WINDOWS = 3
KEYED_ANEW = "DROP PRIMARY KEY, ADD PRIMARY KEY (id)"
CASES: dict[str, tuple[list[tuple[int, int, str]], Collection[int]]] = {
    "the key of a shard gets another name": ([(1, 2, "RENAME COLUMN id TO ident")], (1, 2)),
    "the key of all shards gets another name, in one window after the other": (
        [(1, 2, "RENAME COLUMN id TO ident"), (2, 1, "RENAME COLUMN id TO ident")], (1,)
    ),
    "the key of a shard is converted": ([(1, 2, "MODIFY id varchar(20) NOT NULL")], (1, 2)),
    "a shard gets another key, and no value changes": ([(1, 2, KEYED_ANEW)], ()),
    "a shard gets another key, and a column whose values no row has": ([(1, 2, KEYED_ANEW + ", ADD c int")], ()),
    "another shard gets a default behind it": ([(1, 2, KEYED_ANEW), (2, 1, "ADD c int NOT NULL DEFAULT 7")], (2,)),
    "another shard spells a column otherwise behind it": ([(1, 2, KEYED_ANEW), (2, 1, "RENAME COLUMN note TO Note")], (2,)),
    "another shard loses a column behind it": ([(1, 2, KEYED_ANEW), (2, 1, "DROP COLUMN old")], (2,)),
    "all shards get another key, and one loses a column behind it": (
        [(1, 1, KEYED_ANEW), (1, 2, KEYED_ANEW), (2, 1, "DROP COLUMN old")], (2,)
    ),
    "all shards have one key, and each its statement": ([(1, 2, "MODIFY old varchar(9)"), (2, 1, "ADD c int DEFAULT 7")], ()),
}  # fmt: skip


def made(folder: Path, statements: Sequence[tuple[int, int, str]], order: Sequence[int]) -> Harness:
    """Two shards with rows, and the statements: each has its window, its shard and its clause."""
    tables = [
        Table(
            f"orders_{number}",
            [Field("id", INT, True), Field("n", INT, True), Field("note", TEXT), Field("old", INT)],
            ("shop_00", name),
        )
        for number in (1, 2)
        for name in (f"orders_{number:04}",)
    ]
    source = short_source(*tables)
    for window in range(WINDOWS):
        for table in tables if window == 0 else ():
            rows = [{"id": one, "n": one, "note": "tea", "old": 1} for one in (1, 2)]
            source.transaction(border(window) + SECOND, Dml(table, [(None, row) for row in rows]))
        for at, number, clause in statements:
            if at == window:
                sql = f"ALTER TABLE shop_00.orders_{number:04} {clause}"
                source.transaction(border(window) + 5 * SECOND, Ddl(sql))
        source.checkpoint(border(window) + 500 * SECOND)
    bench, capture = bench_in_process(folder, "shards"), folder / "capture"
    harness = open_short(bench, capture, source.messages, windows=WINDOWS, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    return harness


def windows_named(harness: Harness) -> list[int]:
    starts = [border(window) for window in range(WINDOWS)]
    columns = known_tables(harness.pipeline)
    # Each window by itself: the windows of a run may be any.
    return [
        window
        for window, start in enumerate(starts)
        if window_doubts(harness.pipeline, {ORDERS: [start]}, news={}, columns=columns).get(ORDERS)
    ]


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
@pytest.mark.parametrize("case", [*CASES])
def test_the_first_statement_that_rows_lack_is_named(case: str, order: tuple[int, ...], tmp_path: Path) -> None:
    statements, windows = CASES[case]
    harness = made(tmp_path, statements, order)
    assert not harness.pipeline.ledger.paused_tables()
    found = unproven_tables(harness.pipeline)
    assert not found.failures
    if WINDOWS - 1 not in windows:
        assert not found.results
    else:
        shard = next(number for window, number, _ in statements if window == min(windows))
        said = found.results[ORDERS]
        assert said.startswith(f"shop_00.orders_{shard:04} at 0:")
        assert said.endswith("its rows lack this statement, as not all rows have one primary key")
    assert windows_named(harness) == [*windows]


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
def test_once_all_shards_have_one_key_their_rows_are_followed(order: tuple[int, ...], tmp_path: Path) -> None:
    statements = [
        (1, 2, "RENAME COLUMN id TO ident"),
        (2, 1, "RENAME COLUMN id TO ident, ADD c int NOT NULL DEFAULT 7"),
    ]
    rows = made(tmp_path, statements, order).rows("snapshot", *ORDERS.path)
    assert sorted((row["_source_table"][-1], row["ident"], row["n"], row["c"]) for row in rows) == [
        ("1", 1, 1, 7), ("1", 2, 2, 7), ("2", 1, 1, None), ("2", 2, 2, None),
    ]  # fmt: skip
    assert not {"id"} & {*rows[0]}


def rolling(folder: Path, lags: Sequence[float]) -> Harness:
    """A shard gets a narrower key while rows come to both shards; this key does not find rows of the other one."""
    tables = [
        Table(name, [Field("id", INT, True), Field("n", INT, True)], ("shop_00", f"{name[:6]}_{name[-4:]}"))
        for name in ("orders_0001", "orders_0002")
    ]
    source, (first, second) = Source(tables, border(0), lags=lags), tables

    def put(at: float, table: Table, number: int, n: int) -> None:
        source.transaction(border(0) + at * SECOND, Dml(table, [(None, {"id": number, "n": n})]))

    for n in range(5):
        put(1 + n, second, 1, n)
        put(1 + n + 0.5, first, n, 1)
    source.transaction(border(0) + 10 * SECOND, Ddl(f"ALTER TABLE shop_00.orders_0001 {KEYED_ANEW}"))
    first.columns[:] = [Field("id", INT, True), Field("n", INT)]
    for n in range(5, 30):
        put(10 + n, second, 1, n)
        put(10 + n + 0.5, first, n, 1)
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("DROP TABLE shop_00.orders_0001"))
    source.transaction(border(1) + 2 * SECOND, Ddl("ALTER TABLE shop_00.orders_0002 ADD c int NOT NULL DEFAULT 7"))
    source.checkpoint(border(1) + 500 * SECOND)
    bench = bench_in_process(folder, "shards")
    harness = open_short(bench, folder / "capture", source.messages, windows=2, merge=MERGE)
    harness.all(0)
    return harness


def test_rows_of_shards_are_found_by_their_own_keys_in_one_partition(tmp_path: Path) -> None:
    harness = rolling(tmp_path, (0.2,))
    assert not harness.pipeline.ledger.paused_tables()
    assert not unproven_tables(harness.pipeline).results
    rows = sorted((row["_source_table"][-1], row["id"], row["n"]) for row in harness.rows("snapshot", *ORDERS.path))
    assert rows == [*(("1", n, 1) for n in range(30)), *(("2", 1, n) for n in range(30))]


@pytest.mark.more
def test_rows_of_shards_of_different_keys_are_not_proven_in_two_partitions(tmp_path: Path) -> None:
    """Each partition tells where its changes have one key, and other ones lie between in the other partition."""
    harness = rolling(tmp_path, (0.2, 0.3))
    found = unproven_tables(harness.pipeline)
    assert "its shards or sets have different primary keys" in found.results[ORDERS]
    harness.all(1)
    assert not unproven_tables(harness.pipeline).results
    rows = sorted((row["id"], row["n"], row["c"]) for row in harness.rows("snapshot", *ORDERS.path))
    assert rows == [(1, n, 7) for n in range(30)]
