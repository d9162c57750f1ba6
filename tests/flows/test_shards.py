"""Single shards of merged tables: new ones, bad ones, left out ones, and shards that are not alike."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_sources, known_tables
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.statement_export import Exported, Wanted, export_statements
from dts_assets.flows.unproven import unproven_tables
from dts_assets.stages.sql_dialects import dialect_of
from tests.flows.drs_task import DrsTask
from tests.flows.harness import Bench, Harness, refresh, settle_open
from tests.flows.history import WINDOWS, border
from tests.flows.in_process import bench_in_process
from tests.flows.redelivery import again
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source, write_capture
from tests.flows.source_tables import BIGINT, DATE, INT, TEXT, UNSIGNED, Field, Kind, Table
from tests.flows.test_live import pieces
from tests.flows.test_merged_tables import MERGE, ORDERS, Shards, assert_balanced, ordered, shard, shards_of, shown
from tests.tiers import chosen


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "shards")


def rows_of(harness: Harness, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in harness.rows("snapshot", "shop", "orders"))


def put(source: Source, window: int, second: int, table: Table, *numbers: int, **given: Any) -> None:
    names = [column.name for column in table.columns]
    made = [{"id": number, "n": number, "note": None, **given} for number in numbers]
    rows = [{name: row.get(name) for name in names} for row in made]
    source.transaction(border(window) + second * SECOND, Dml(table, [(None, row) for row in rows]))


def end(source: Source, windows: int) -> None:
    for window in range(windows):
        source.checkpoint(border(window) + 500 * SECOND)


@pytest.mark.more
def test_a_shard_that_appears_is_there_without_a_person(bench_of: Bench, tmp_path: Path) -> None:
    """Statements about shards that nobody has seen do no harm, in any order of windows."""
    one, other, late = shard(0, 1), shard(1, 1), shard(7, 9)
    source = short_source(one, other, late)
    put(source, 0, 1, one, 1, 2)
    source.transaction(border(0) + 2 * SECOND, Ddl("TRUNCATE TABLE shop_07.orders_0009"), Ddl("DROP DATABASE shop_07"))
    put(source, 0, 5, other, 1, 2)
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(
        border(1) + SECOND, Ddl("DROP TABLE shop_00.orders_0001, shop_03.orders_0001, shop_01.orders_0001")
    )
    put(source, 1, 5, late, 1, 3)
    source.checkpoint(border(1) + 500 * SECOND)
    source.transaction(border(2) + SECOND, Ddl("TRUNCATE TABLE shop_07.orders_0009"), Ddl("TRUNCATE TABLE shop.orders"))
    put(source, 2, 5, late, 4)
    source.transaction(border(2) + 9 * SECOND, Ddl("DROP DATABASE other"), Ddl("TRUNCATE TABLE other.orders_1"))
    source.checkpoint(border(2) + 500 * SECOND)
    behind = [
        [("shop_00", 1), ("shop_00", 2), ("shop_01", 1), ("shop_01", 2)], [("shop_07", 1), ("shop_07", 3)], [("shop_07", 4)],
    ]  # fmt: skip
    orders = [(0, 1, 2), *[*permutations(range(3))][:0:-1]]
    for number, order in enumerate(chosen(orders, 2)):
        harness = open_short(bench_of, tmp_path / f"{number}", source.messages, merge=MERGE)
        for window in order:
            harness.all(window)
            if order == (0, 1, 2):
                assert rows_of(harness, "_source_database", "id") == behind[window]
        harness.settle()
        assert rows_of(harness, "_source_database", "id") == behind[-1]
        truncations = [row for row in harness.rows("changelog", "shop", "orders") if row["op"] == "truncate"]
        places = [(row["source_position"]["position"], row["row_number"]) for row in truncations]
        assert len(set(places)) == len(places) == 6
        assert {row["before"]["_source_table"] for row in truncations} == {"", "orders_0001", "orders_0009"}
        (sources,) = known_sources(harness.pipeline).values()
        assert [source.database for source in sources] == ["shop_00", "shop_01", "shop_07"]


def test_a_shard_that_is_left_out_is_nowhere(bench_of: Bench, tmp_path: Path) -> None:
    one, other = shard(0, 1), shard(1, 1)
    source = short_source(one, other)
    put(source, 0, 1, one, 1)
    put(source, 0, 2, other, 1)
    source.transaction(border(0) + 4 * SECOND, Ddl("TRUNCATE TABLE shop_01.orders_0001"))
    source.rows[other.name].clear()
    put(source, 0, 5, other, 2)
    end(source, 1)
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=1, merge=MERGE, tables={"exclude": ["shop_01.*"]}
    )
    harness.all()
    assert rows_of(harness, "_source_database", "id") == [("shop_00", 1)]
    assert [row["op"] for row in harness.rows("changelog", "shop", "orders")] == ["insert"]
    assert_balanced(harness)
    assert find_work(harness.pipeline).nothing


@pytest.mark.more
def test_columns_are_those_of_all_shards_and_types_hold_all_values(bench_of: Bench, tmp_path: Path) -> None:
    """A shard that gets a column before the others, and a shard whose column is text already."""
    one, other = shard(0, 1), shard(1, 1)
    other.columns[1] = Field("n", TEXT)
    source = short_source(one, other)
    put(source, 0, 1, one, 1)
    put(source, 0, 2, other, 1, n="one")
    source.checkpoint(border(0) + 500 * SECOND)
    one.columns.append(Field("more", BIGINT))
    put(source, 1, 1, one, 2, more=7)
    put(source, 1, 2, other, 2, n="two")
    source.checkpoint(border(1) + 500 * SECOND)
    hashes = []
    for order in ((0, 1), (1, 0)):
        harness = open_short(bench_of, tmp_path / f"{order}", source.messages, windows=2, merge=MERGE)
        for window in order:
            harness.all(window)
        harness.settle()
        counts = harness.pipeline.ledger.window_tables()
        hashes.append({(row.window_start, row.kafka_partition): row.row_hash for row in counts})
        types = {column.name: column.type for column in known_tables(harness.pipeline)[ORDERS]}
        assert types == {
            "id": "int", "n": "string", "note": "string", "more": "bigint",
            "_source_database": "string", "_source_table": "string",
        }  # fmt: skip
        assert rows_of(harness, "_source_database", "id", "n", "more") == [
            ("shop_00", 1, "1", None), ("shop_00", 2, "2", 7), ("shop_01", 1, "one", None), ("shop_01", 2, "two", None),
        ]  # fmt: skip
    assert hashes[0] == hashes[1]


def test_an_unsigned_value_of_one_shard_widens_the_column_of_all(bench_of: Bench, tmp_path: Path) -> None:
    from dataclasses import replace

    one, other = shard(0, 1), shard(1, 1)
    one.columns[1] = other.columns[1] = Field("n", BIGINT)
    source = short_source(one, other)
    put(source, 0, 1, one, 1)
    other.columns[1] = Field("n", replace(UNSIGNED, original_type="bigint(20)"))
    put(source, 0, 2, other, 1, n=(1 << 64) - 1)
    end(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, merge=MERGE)
    harness.all()
    assert rows_of(harness, "_source_database", "n") == [("shop_00", 1), ("shop_01", (1 << 64) - 1)]


@pytest.mark.more
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            [Field("id", INT, True), Field("_SOURCE_table", TEXT)],
            "its shard shop_01.orders_0001 has a column _SOURCE_table",
        ),
        ([Field("id", INT, True), Field("n", INT, True)], "have different primary keys, (id) and (id, n)"),
        ([Field("id", INT), Field("n", INT)], "have different primary keys, (id) and ()"),
    ],
)
def test_a_table_whose_shards_do_not_fit_stands_still_and_goes_on_without_the_bad_one(
    columns: list[Field], says: str, bench_of: Bench, tmp_path: Path
) -> None:
    one, bad = shard(0, 1), Table("bad", columns, ("shop_01", "orders_0001"))
    items = Table("items", [Field("id", INT, True)])
    source = short_source(one, bad, items)
    for number, table in enumerate((one, bad, items)):
        put(source, 0, 1 + number, table, 1, 2)
    end(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, name="unlike", merge=MERGE)
    harness.all()
    (pause,) = harness.pipeline.ledger.paused_tables()
    assert pause.table == ORDERS
    assert says in pause.reason
    assert not harness.rows("snapshot", "shop", "orders")
    assert len(harness.rows("snapshot", "bank", "items")) == 2
    mended = open_short(
        bench_of, tmp_path / "again", source.messages, windows=1, name="unlike", merge=MERGE,
        tables={"exclude": ["shop_01.*"]},
    )  # fmt: skip
    resume_tables(mended.pipeline, [ORDERS])
    mended.settle()
    assert rows_of(mended, "_source_database", "id") == [("shop_00", 1), ("shop_00", 2)]


def test_a_source_table_called_like_the_merged_one_makes_it_stand_still(bench_of: Bench, tmp_path: Path) -> None:
    one, same = shard(0, 1), Table("orders", [Field("id", INT, True)], ("shop", "orders"))
    source = short_source(one, same)
    put(source, 0, 1, one, 1)
    put(source, 0, 2, same, 1)
    end(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, merge=MERGE)
    harness.all()
    (pause,) = harness.pipeline.ledger.paused_tables()
    assert pause.table == ORDERS
    assert "two source tables, shop.orders and shop_00.orders_0001, would both be it" in pause.reason


def test_what_arrives_again_counts_for_the_merged_table(bench_of: Bench, tmp_path: Path) -> None:
    life = Shards(shards_of(2, 2), Random(5))
    life.live(WINDOWS, 30)
    stream = again(life.source.messages, life.source.changes, 5, late=border(2) + timedelta(minutes=3))
    harness = open_short(bench_of, tmp_path / "capture", stream.messages, windows=WINDOWS, merge=MERGE)
    harness.all()
    harness.settle()
    assert ordered(shown(harness)) == ordered(life.after[-1])
    assert_balanced(harness)
    tallies = harness.pipeline.ledger.window_tables()
    assert sum(row.redelivered for row in tallies) == sum(stream.repeated.values()) > 20
    assert {row["database"] for row in harness.rows("redeliveries")} == {"shop_00", "shop_01"}


@pytest.mark.more
def test_shards_that_are_followed_in_pieces_end_as_if_read_at_once(bench_of: Bench, tmp_path: Path) -> None:
    life = Shards(shards_of(2, 2), Random(9))
    life.live(WINDOWS, 20)
    put(life.source, WINDOWS, 1, life.tables[0], 77)
    life.source.checkpoint(border(WINDOWS) + 600 * SECOND)
    window = {"end": border(WINDOWS)}
    whole = bench_of.open(
        write_capture(tmp_path / "whole", life.source.messages),
        partitions=2,
        merge=MERGE,
        complete=False,
        window=window,
    )
    whole.settle()
    harness = bench_of.open(
        tmp_path / "pieces", partitions=2, merge=MERGE, complete=False, window={**window, "live": True}
    )
    for number, some in enumerate(pieces(life.source.messages, Random(3), 7)):
        write_capture(tmp_path / "pieces", some, name=f"piece{number}")
        refresh(harness)
    settle_open(harness, rounds=10)
    assert ordered(shown(harness)) == ordered(shown(whole)) == ordered(life.after[-1])
    assert ordered(harness.rows("changelog", "shop", "orders")) == ordered(whole.rows("changelog", "shop", "orders"))


def test_the_export_leaves_merged_tables_out_and_says_so(bench_of: Bench, tmp_path: Path) -> None:
    """Statements of a renamed table name the source's table, and it is asked for by either name."""
    one, items = shard(0, 1), Table("items", [Field("id", INT, True)])
    source = short_source(one, items)
    put(source, 0, 1, one, 1)
    put(source, 0, 2, items, 5)
    source.transaction(border(0) + 3 * SECOND, Ddl("TRUNCATE TABLE bank.items"), Ddl("TRUNCATE TABLE bank.others"))
    end(source, 1)
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=1, merge=MERGE, rename={"bank.*": "lake.*"}
    )
    harness.all()
    for tables in ((), ("bank.items",), ("lake.items", "shop.orders"), ("shop.orders",), ("bank.x",)):
        exported = Exported()
        wanted = Wanted(dialect_of("mysql"), tables)
        script = "".join(export_statements(harness.pipeline, wanted, exported, progress=print))
        assert ("INSERT INTO `bank`.`items` (`id`) VALUES (5)" in script) == (not tables or "items" in tables[0])
        assert "orders" not in script
        assert ("TRUNCATE TABLE bank.items" in script) == (not tables or "items" in tables[0])
        assert ("bank.others" in script) == (not tables)
        assert exported.merged == ({ORDERS} if not tables or "shop.orders" in tables else set())
        assert exported.whole == (not exported.merged)


def test_a_lost_registry_comes_back_with_all_shards(bench_of: Bench, tmp_path: Path) -> None:
    life = Shards(shards_of(2, 3), Random(2))
    life.live(2, 20)
    harness = open_short(bench_of, tmp_path / "capture", life.source.messages, windows=2, merge=MERGE)
    harness.all()
    before = known_tables(harness.pipeline), known_sources(harness.pipeline)
    harness.pipeline.settings.registry_path.unlink()
    assert (known_tables(harness.pipeline), known_sources(harness.pipeline)) == before
    assert len(before[1][ORDERS]) == 6


def test_rules_hold_for_all_shards_and_may_ask_for_one(bench_of: Bench, tmp_path: Path) -> None:
    """A filter may name the columns that tell the shard, and rules on columns leave these alone."""
    one, other = shard(0, 1), shard(1, 1)
    source = short_source(one, other)
    put(source, 0, 1, one, 1, 2, note="secret")
    put(source, 0, 2, other, 1, 2, note="secret")
    end(source, 1)
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=1, merge=MERGE,
        columns={"shop_*.orders_*.note": {"mask": "*"}, "*.*_table": {"mask": "*"}, "*._source*": "drop"},
        rows={"shop.orders": "_source_database <> 'shop_01' OR id = 2"},
    )  # fmt: skip
    harness.all()
    assert rows_of(harness, "_source_database", "_source_table", "id", "note") == [
        ("shop_00", "orders_0001", 1, "*"), ("shop_00", "orders_0001", 2, "*"), ("shop_01", "orders_0001", 2, "*"),
    ]  # fmt: skip
    assert_balanced(harness)


def test_a_full_load_of_one_shard_replaces_its_rows_alone(bench_of: Bench, tmp_path: Path) -> None:
    """Tasks of Huawei DRS: the one that is made anew loads its tables again, which empties their rows."""
    task = DrsTask(4)
    task.work(border(0) + timedelta(seconds=5), 40)
    task.begin_anew(border(1) + timedelta(seconds=10))
    task.work(border(1) + timedelta(seconds=60), 20)
    settings: dict[str, Any] = {
        "format": "drs-json-c", "partitions": 2, "source_time_zone": "+08:00", "window": {"end": border(2)},
    }  # fmt: skip
    capture = write_capture(tmp_path / "capture", task.messages)
    harness = bench_of.open(capture, merge={"shop.orders": ["ban*.acc*"]}, **settings)
    harness.all(0, 1)
    rows = harness.rows("snapshot", "shop", "orders")
    assert {str(row["id"]): row["owner"] for row in rows} == {key: row["owner"] for key, row in task.rows.items()}
    (emptied,) = [row for row in harness.rows("changelog", "shop", "orders") if row["op"] == "truncate"]
    assert (emptied["before"]["_source_database"], emptied["before"]["_source_table"]) == ("bank", "accounts")


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
def test_a_shard_without_an_event_gives_the_table_no_column(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    table = shards_of(1, 1)[0]
    source = short_source(table)
    source.transaction(
        border(0) + SECOND, Ddl("CREATE TABLE shop_09.orders_0009 (id int PRIMARY KEY, n int, note text)")
    )
    put(source, 0, 2, table, 1, 2)
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE shop_09.orders_0009 ADD late int, MODIFY n varchar(9)"))
    end(source, 3)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    rows = harness.rows("snapshot", *ORDERS.path)
    assert {type(row["n"]) for row in rows} == {int}
    assert not any("late" in row for row in rows)


@pytest.mark.more
@pytest.mark.parametrize("kind", [BIGINT, TEXT], ids=["bigint", "varchar(80)"])
@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_shard_whose_first_event_comes_behind_its_statements_has_all_of_them(
    order: tuple[int, ...], kind: Kind, bench_of: Bench, tmp_path: Path
) -> None:
    """A window whose statements name the shard is made again once an event has told of it."""
    table, late = shards_of(1, 1)[0], shard(9, 9)
    source = short_source(table, late)
    put(source, 0, 1, table, 1, 2)
    create = "CREATE TABLE shop_09.orders_0009 (id int PRIMARY KEY, n int, note varchar(80), gone int)"
    source.transaction(border(0) + 2 * SECOND, Ddl(create))
    source.transaction(border(0) + 3 * SECOND, Ddl("ALTER TABLE shop_00.orders_0000 ADD late int DEFAULT 3"))
    table.columns.append(Field("late", INT))
    altered = f"ADD late int DEFAULT 5, MODIFY n {kind.original_type}, DROP gone"
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE shop_09.orders_0009 {altered}"))
    late.columns[1:] = [Field("n", kind), Field("note", TEXT), Field("late", INT)]
    value: Any = 7 if kind is BIGINT else "x"
    put(source, 2, 1, late, 7, n=value, late=8)
    end(source, 3)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    assert not unproven_tables(harness.pipeline).results
    old = [1, 2] if kind is BIGINT else ["1", "2"]
    assert rows_of(harness, "id", "n", "late") == [(1, old[0], 3), (2, old[1], 3), (7, value, 8)]
    found = harness.pipeline.lake.fields(harness.pipeline.path("snapshot", *ORDERS.path))
    assert found is not None
    kinds = {"id": "int", "n": "bigint" if kind is BIGINT else "string", "note": "string", "late": "int"}
    assert dict([one for one in found if not one[0].startswith("_")]) == kinds


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
def test_the_columns_of_a_new_shard_stand_before_the_shard_columns(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    table, late = shards_of(1, 1)[0], shard(9, 9)
    late.columns.append(Field("late", INT))
    source = short_source(table, late)
    put(source, 0, 1, table, 1)
    put(source, 1, 1, late, 7, late=8)
    end(source, 2)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    found = harness.pipeline.lake.fields(harness.pipeline.path("snapshot", *ORDERS.path)) or ()
    assert [name for name, _ in found][:6] == ["id", "n", "note", "late", "_source_database", "_source_table"]
    assert rows_of(harness, "id", "late") == [(1, None), (7, 8)]


@pytest.mark.parametrize("told", [False, pytest.param(True, marks=pytest.mark.more)])
@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1), (1, 0)))])
def test_a_value_that_the_type_of_its_shard_does_not_take_is_none_where_another_shard_has_text(
    order: tuple[int, ...], told: bool, bench_of: Bench, tmp_path: Path
) -> None:
    one, other = (
        Table(f"orders_{number}", [Field("id", INT, True), Field("day", DATE)], ("shop_00", f"orders_{number:04}"))
        for number in (1, 2)
    )
    source = short_source(one, other)
    source.transaction(border(0) + SECOND, Dml(one, [(None, {"id": 1, "day": "0000-00-00"})]))
    source.transaction(border(0) + SECOND, Dml(other, [(None, {"id": 2, "day": date(2026, 1, 5)})]))
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE shop_00.orders_0002 MODIFY day varchar(80)"))
    other.columns[1] = Field("day", TEXT)
    if told:
        source.rows["orders_2"].clear()
        source.transaction(border(1) + SECOND, Dml(other, [(None, {"id": 3, "day": "0000-00-00"})]))
    end(source, 2)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    rows = {row["id"]: (row["day"], row["_invalid"]) for row in harness.rows("snapshot", *ORDERS.path)}
    expected = {1: (None, [("day", "0000-00-00")]), 2: ("2026-01-05", None)}
    assert rows == expected | ({3: ("0000-00-00", None)} if told else {})
