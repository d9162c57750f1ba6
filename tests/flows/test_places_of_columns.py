"""Columns that change within a window, behind a failover or behind the cut: names, keys and values are those of the place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.positions import ServerPosition
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import BIGINT, INT, TEXT, Field, Table
from tests.flows.test_followed_shards import alter
from tests.flows.test_merged_tables import MERGE, shards_of
from tests.flows.test_shards import put

KEYED = table_id("keyed")


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "places")


def restarted(source: Source) -> None:
    """Another server takes over, whose binlog has a lower file number."""
    source._file, source._offset = 1, 4


class Keyed:
    """A table whose key gets another name, and whose other column is spelled otherwise, within one entry set."""

    def __init__(self, *, takes_over: bool) -> None:
        self.table = Table("keyed", [Field("id", BIGINT, True), Field("v", INT)])
        self.source, self.second = short_source(self.table), 0
        self.change(*((None, {"id": number, "v": 1}) for number in range(4)))
        if takes_over:
            restarted(self.source)
        self.alter("CHANGE id ident bigint NOT NULL", ident=Field("ident", BIGINT, True), v=Field("v", INT))
        self.change(*(({"ident": number, "v": 1}, {"ident": number, "v": 5}) for number in range(4)))
        self.alter("RENAME COLUMN v TO V", ident=Field("ident", BIGINT, True), V=Field("V", INT))
        self.change(*(({"ident": number, "V": 5}, {"ident": number, "V": 6}) for number in (1, 2)))
        self.source.checkpoint(border(0) + 500 * SECOND)

    def change(self, *rows: tuple[dict[str, int] | None, dict[str, int]]) -> None:
        self.second += 1
        self.source.transaction(border(0) + self.second * SECOND, Dml(self.table, rows), flush=False)

    def alter(self, clause: str, **columns: Field) -> None:
        self.second += 1
        at = border(0) + self.second * SECOND
        self.source.transaction(at, Ddl(f"ALTER TABLE keyed {clause}"), flush=False)
        rows = self.source.rows["keyed"]
        for key, row in rows.items():
            rows[key] = dict(zip(columns, row.values(), strict=True))
        self.table.columns[:] = columns.values()


@pytest.mark.more
@pytest.mark.parametrize("takes_over", [False, True])
def test_each_shape_of_a_window_has_its_own_place(takes_over: bool, bench_of: Bench, tmp_path: Path) -> None:
    """The key and the spelling are those of the last event, which may stand in a file with a lower number."""
    made = Keyed(takes_over=takes_over)
    harness = open_short(bench_of, tmp_path / "capture", made.source.messages, windows=1, sql={"tables": ["*"]})
    harness.all()
    columns = {column.name: column for column in known_tables(harness.pipeline)[KEYED]}
    assert {name for name, column in columns.items() if column.is_key} == {"ident"}
    assert columns["V"].source_names == ("V", "v")
    shown = {(row["ident"], row["V"]) for row in harness.rows("snapshot", "bank", "keyed")}
    assert shown == {(0, 5), (1, 6), (2, 6), (3, 5)}
    first = dict[tuple[int, tuple[str, ...]], ServerPosition]()
    for change in made.source.changes:
        first.setdefault((change.partition, tuple(change.after or ())), ServerPosition(*change.position))
    assert first == {
        (row.kafka_partition, tuple(one.name for one in row.columns)): row.first_position
        for row in harness.pipeline.ledger.table_shapes()
    }
    harness.pipeline.settings.registry_path.unlink()
    assert {column.name: column.is_key for column in known_tables(harness.pipeline)[KEYED]} == {
        name: column.is_key for name, column in columns.items()
    }


BEFORE, AFTER, LAST = range(4), range(4, 8), range(8, 12)
"""Rows of both Kafka partitions."""


def failover(*, window: int) -> Source:
    """Server A adds a column with a default to all shards; server B, whose files begin anew, goes on."""
    tables = shards_of(2, 1)
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, *BEFORE, n=1)
    alter(source, 0, 10, tables, "ADD COLUMN more int DEFAULT 5")
    for number, table in enumerate(tables):
        table.columns.append(Field("more", INT))
        put(source, 0, 20 + number, table, *AFTER, n=1, more=6)
    if window:
        source.checkpoint(border(0) + 300 * SECOND)
    restarted(source)
    for number, table in enumerate(tables):
        put(source, window, 31 + number, table, *LAST, n=1, more=6)
    source.checkpoint(border(window) + 500 * SECOND)
    return source


def shards_shown(harness: Harness, *names: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row[name] for name in names) for row in harness.rows("snapshot", "shop", "orders"))


@pytest.mark.more
@pytest.mark.parametrize("window", [0, 1])
def test_rows_of_shards_have_the_default_that_a_server_gave_them_before_another_one_took_over(
    window: int, bench_of: Bench, tmp_path: Path
) -> None:
    source = failover(window=window)
    told = [(shop, number, 5 if number in BEFORE else 6) for shop in ("shop_00", "shop_01") for number in range(12)]
    for order in (*permutations(range(window + 1)), ()) if window else ((),):
        harness = open_short(bench_of, tmp_path / f"{order}", source.messages, windows=window + 1, merge=MERGE)
        for one in order:
            harness.all(one)
        harness.settle()
        assert not harness.pipeline.ledger.paused_tables()
        assert shards_shown(harness, "_source_database", "id", "more") == told, order


@pytest.mark.more
def test_a_table_that_gets_a_name_behind_a_failover_has_the_columns_of_before(bench_of: Bench, tmp_path: Path) -> None:
    """Server B, with a lower file number, widens what server A has, and renames it; no event has the new name."""
    table = Table("old", [Field("id", INT, True), Field("n", INT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": number, "n": 1}) for number in range(4)]))
    source.checkpoint(border(0) + 300 * SECOND)
    restarted(source)
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE old ADD more int"))
    table.columns.append(Field("more", INT))
    rows = [(None, {"id": number, "n": 1, "more": 7}) for number in range(4, 8)]
    source.transaction(border(1) + 2 * SECOND, Dml(table, rows))
    source.transaction(border(1) + 3 * SECOND, Ddl("RENAME TABLE old TO young"))
    source.checkpoint(border(1) + 300 * SECOND)
    told = [(number, None if number < 4 else 7) for number in range(8)]
    for order in ((0, 1), (1, 0), ()):
        harness = open_short(bench_of, tmp_path / f"{order}", source.messages, windows=2)
        for window in order:
            harness.all(window)
        harness.settle()
        assert sorted((row["id"], row["more"]) for row in harness.rows("snapshot", "bank", "young")) == told, order
        names = [column.name for column in known_tables(harness.pipeline)[table_id("young")]]
        assert sorted(names) == ["id", "more", "n"], order


def lists_out_of_order(shard: Table) -> list[list[Field]]:
    """The columns of a shard in the orders in which a vendor may send them."""
    key, n, note = shard.columns
    return [[key, n, note], [n, key, note], [note, n, key], [note, key, n]]


@pytest.mark.more
@pytest.mark.parametrize("keeps_one", [True, False])
def test_lists_behind_the_last_kept_row_of_a_shard_stop_nothing(
    keeps_one: bool, bench_of: Bench, tmp_path: Path
) -> None:
    """A vendor sends columns in any order, and the row filter leaves out all rows with the later orders."""
    tables = shards_of(2, 1)
    source = short_source(*tables)
    put(source, 0, 1, tables[1], *BEFORE, n=1)
    for second, columns in enumerate(lists_out_of_order(tables[0])):
        tables[0].columns[:] = columns
        numbers = range(10 * second, 10 * second + 4)
        put(source, 0, 2 + second, tables[0], *numbers, n=1 if keeps_one and not second else 50)
    source.checkpoint(border(0) + 500 * SECOND)
    alter(source, 1, 20, tables, "ADD COLUMN more int DEFAULT 5")
    source.checkpoint(border(1) + 500 * SECOND)
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=2, merge=MERGE, rows={"shop.orders": "n < 10"}
    )
    harness.all()
    assert not harness.pipeline.ledger.paused_tables()
    kept = [(shop, number, 5) for shop in ("shop_00", "shop_01")[not keeps_one :] for number in BEFORE]
    assert shards_shown(harness, "_source_database", "id", "more") == kept


def entries_first(harness: Harness) -> None:
    harness.raw()
    harness.entries()
    harness.tables(0)


def later_window_first(harness: Harness) -> None:
    harness.all(2)
    harness.all(0)


def in_order(harness: Harness) -> None:
    harness.all(0)


@pytest.mark.more
@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("work", [entries_first, later_window_first, in_order])
def test_a_snapshot_before_a_statement_has_no_later_column(
    window: int, work: Callable[[Harness], None], bench_of: Bench, tmp_path: Path
) -> None:
    """The statement stands in a later window, or in the same one behind its cut."""
    table = Table("items", [Field("id", INT, True), Field("n", INT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": number, "n": 1}) for number in range(4)]))
    source.checkpoint(border(0) + 10 * SECOND)
    source.checkpoint(border(1) + 10 * SECOND)
    clause = "ADD late int, CHANGE id ident int, ADD spelled text"
    source.transaction(border(window) + 20 * SECOND, Ddl(f"ALTER TABLE items {clause}"))
    table.columns[:] = [Field("ident", INT, True), Field("n", INT), Field("late", INT), Field("spelled", TEXT)]
    source.rows["items"] = {}
    rows = [(None, {"ident": number, "n": 1, "late": 7, "spelled": "a"}) for number in range(4, 8)]
    source.transaction(border(window) + 30 * SECOND, Dml(table, rows))
    if window:
        source.checkpoint(border(2) + 50 * SECOND)
    source.messages.sort(key=lambda one: (one.partition, one.offset))
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3)
    work(harness)
    shown = harness.rows("snapshot", "bank", "items")
    assert len(shown) == 4
    assert {name for row in shown for name in row if not name.startswith("_")} == {"id", "n"}
    found = find_repeated_keys(harness.pipeline)
    assert (found.results, found.failures) == ({table_id("items"): 0}, {})


@pytest.mark.more
def test_a_merged_snapshot_before_a_statement_has_no_later_column(bench_of: Bench, tmp_path: Path) -> None:
    tables = shards_of(2, 1)
    source = short_source(*tables)
    for table in tables:
        put(source, 0, 1, table, *BEFORE, n=1)
    for window in range(2):
        source.checkpoint(border(window) + 300 * SECOND)
    alter(source, 2, 1, tables, "ADD COLUMN more int DEFAULT 5")
    for table in tables:
        table.columns.append(Field("more", INT))
        put(source, 2, 10, table, *AFTER, n=1, more=6)
    source.checkpoint(border(2) + 300 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3, merge=MERGE)
    later_window_first(harness)
    assert {"more", "n"} & {name for row in harness.rows("snapshot", "shop", "orders") for name in row} == {"n"}
    harness.settle()
    told = [(shop, n, 5 if n in BEFORE else 6) for shop in ("shop_00", "shop_01") for n in range(8)]
    assert shards_shown(harness, "_source_database", "id", "more") == told


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 1, 0)))])
def test_a_key_with_another_name_is_the_key_before_any_change_tells_it(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    table = Table("items", [Field("id", INT, True), Field("n", INT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": number, "n": 1}) for number in range(4)]))
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items RENAME COLUMN id TO ident"))
    for window in range(3):
        source.checkpoint(border(window) + 50 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3)
    for window in order:
        harness.all(window)
    harness.settle()
    present = stored_state(harness.pipeline, "snapshot", table_id("items"))[1].present
    assert present is not None
    assert {one.name: one.is_key for one in present.columns} == {"ident": True, "n": False}
    assert sorted(row["ident"] for row in harness.rows("snapshot", "bank", "items")) == [0, 1, 2, 3]
    assert find_repeated_keys(harness.pipeline).results == {table_id("items"): 0}
