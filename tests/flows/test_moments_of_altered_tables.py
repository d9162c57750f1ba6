"""Tables as of moments between their statements: columns, types and rows are those of the moment, whatever came later."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.moments import TablesAt, tables_at
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtPosition, AtWindow
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, item, items, open_short, short_source
from tests.flows.source import Ddl, Dml, Position, Source
from tests.flows.source_tables import BIGINT, BLOB, INT, TEXT, Field, Kind, Row, Table
from tests.flows.test_followed_shards import ADDED, SHARD, AlteredShards
from tests.flows.test_merged_tables import MERGE, ORDERS, shards_of
from tests.tiers import times

ITEMS = table_id("items")
OWN = {*ADDED, "_sum"}


def rows_in(found: TablesAt, table: TableId = ITEMS) -> list[Row]:
    """The rows of a table with the columns of the source."""
    assert not found.failed
    rows: list[Row] = found.tables[table].scan().to_arrow().to_pylist()
    return [{name: value for name, value in row.items() if name not in OWN} for row in rows]


def columns_in(found: TablesAt, table: TableId = ITEMS) -> dict[str, str]:
    fields = found.tables[table].schema().fields
    return {one.name: str(one.field_type) for one in fields if one.name not in (*OWN, *SHARD)}


def alter(source: Source, second: float, table: Table, sql: str, columns: list[Field], **values: Any) -> Position:
    """Alter a table in the first window, all of whose rows get some values."""
    place = source.transaction(border(0) + second * SECOND, Ddl(f"ALTER TABLE {table.name} {sql}"))
    table.columns[:] = columns
    names = {one.name for one in columns}
    for key, row in source.rows[table.name].items():
        source.rows[table.name][key] = {name: value for name, value in {**row, **values}.items() if name in names}
    return place


@pytest.mark.parametrize(
    ("before", "after", "value", "becomes"),
    [(INT, TEXT, 5, "5"), pytest.param(TEXT, INT, "7", 7, marks=pytest.mark.more),
     pytest.param(BLOB, TEXT, b"a", "a", marks=pytest.mark.more)],
)  # fmt: skip
def test_a_column_has_the_type_of_the_moment_whatever_its_window_makes_of_it(
    tmp_path: Path, before: Kind, after: Kind, value: Any, becomes: Any
) -> None:
    """Events before and behind the statement list equal names, so that the counts tell one place for both."""
    table = Table("items", [Field("id", INT, True), Field("n", before)])
    source = short_source(table)
    first = source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, "n": value})]))
    columns = [Field("id", INT, True), Field("n", after)]
    sql = f"MODIFY n {after.original_type}{' CHARSET utf8mb4' if after == TEXT else ''}"
    behind = alter(source, 2, table, sql, columns, n=becomes)
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, {"id": 2, "n": becomes})]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "types"), tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    kinds = {INT: "int", TEXT: "string", BLOB: "binary"}
    for place, kind, expected in ((first, before, value), (behind, after, becomes)):
        found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / f"{place}")
        assert columns_in(found)["n"] == kinds[kind]
        assert rows_in(found) == [{"id": 1, "n": expected}]


def test_a_key_that_later_changes_tell_is_no_key_of_the_shards_at_a_moment(tmp_path: Path) -> None:
    """The statement that gives the key another name stands in the window of the moment, and so do changes after it."""
    table = Table("items", items().columns, ("shop_00", "orders_0000"))
    source = short_source(table)
    place = source.transaction(border(0) + SECOND, Dml(table, [(None, item(1, 5, "x"))]))
    source.transaction(
        border(0) + 2 * SECOND, Ddl("ALTER TABLE shop_00.orders_0000 CHANGE id ident bigint NOT NULL, ADD c int")
    )
    table.columns[:] = [Field("ident", BIGINT, True), *table.columns[1:], Field("c", INT)]
    source.rows["items"] = {(1,): {"ident": 1, "n": 5, "note": "x", "c": None}}
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, {"ident": 2, "n": 5, "note": "x", "c": 7})]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.checkpoint(border(1) + 300 * SECOND)
    bench = bench_in_process(tmp_path, "keys")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2, merge=MERGE)
    harness.all(0)
    found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / "moment")
    assert [*columns_in(found, ORDERS)] == ["id", "n", "note"]
    assert [row["n"] for row in rows_in(found, ORDERS)] == [5]
    assert not found.unproven


def grown(folder: Path, *, sent_as: tuple[str, str], **settings: Any) -> tuple[Harness, dict[str, Position]]:
    """A lake of three windows in whose second one a table gets a column; there is a version behind each."""
    table = Table("items", items().columns, sent_as)
    source, places = short_source(table), dict[str, Position]()
    for number in range(3):
        at = border(0) + (1 + number) * SECOND
        places[f"row {number}"] = source.transaction(at, Dml(table, [(None, item(number, 5, "x"))]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE {'.'.join(sent_as)} ADD c INT DEFAULT 7"))
    table.columns.append(Field("c", INT))
    source.rows["items"] = {key: {**row, "c": 7} for key, row in source.rows["items"].items()}
    source.checkpoint(border(1) + 300 * SECOND)
    source.transaction(border(2) + SECOND, Dml(table, [(None, {**item(9), "c": 1})]))
    source.checkpoint(border(2) + 300 * SECOND)
    return open_short(bench_in_process(folder, "grown"), folder / "capture", source.messages, **settings), places


@pytest.mark.more
@pytest.mark.parametrize("merged", [False, True], ids=["one table", "shards"])
def test_a_table_that_goes_back_before_its_first_statement_has_the_columns_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: bool
) -> None:
    sent_as, settings = (("shop_00", "orders_0000"), {"merge": MERGE}) if merged else (("bank", "items"), {})
    harness, places = grown(tmp_path, sent_as=sent_as, **settings)
    for window in range(3):
        harness.all(window)
    monkeypatch.setattr("dts_assets.planning.moment_frontiers._CHANGES_OF_ONE_TAKEN_BACK", 0)
    table = ORDERS if merged else ITEMS
    for number in range(3):
        found = tables_at(harness.pipeline, AtPosition(None, *places[f"row {number}"]), tmp_path / f"moment_{number}")
        assert found.begun, "from a version behind the moment, or at it"
        assert [*columns_in(found, table)] == ["id", "n", "note"]
        assert len(rows_in(found, table)) == number + 1


@pytest.mark.parametrize(
    ("sql", "later"),
    [
        ("DROP COLUMN n", ["id", "note"]),
        pytest.param("MODIFY note text CHARSET utf8mb4 AFTER id", ["id", "note", "n"], marks=pytest.mark.more),
        pytest.param("ADD c int FIRST", ["c", "id", "n", "note"], marks=pytest.mark.more),
    ],
)
@pytest.mark.parametrize("order", [(1, 0), pytest.param((0, 1), marks=pytest.mark.more)])
def test_a_table_has_the_order_of_the_moment_though_a_later_window_was_made_first(
    tmp_path: Path, order: tuple[int, ...], sql: str, later: list[str]
) -> None:
    table = items()
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, item(1, 5, "x"))]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE items {sql}"))
    fields = {one.name: one for one in (*table.columns, Field("c", INT))}
    table.columns[:] = [fields[name] for name in later]
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(None, {name: None for name in later} | {"id": 2})]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "order"), tmp_path / "capture", source.messages, windows=2)
    for window in order:
        harness.all(window)
    harness.settle()
    for number, columns in enumerate((["id", "n", "note"], later)):
        found = tables_at(harness.pipeline, AtWindow(border(number)), tmp_path / f"moment_{number}")
        assert [*columns_in(found)] == columns
        assert len(rows_in(found)) == number + 1
    snapshot = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", ITEMS))
    assert snapshot is not None
    assert [one.name for one in snapshot.schema().fields if one.name not in OWN] == later


@pytest.mark.parametrize("kept", [1, 0], ids=["a row", "no row"])
def test_a_table_has_the_columns_of_the_moment_before_its_first_event(kept: int, tmp_path: Path) -> None:
    """Its first event lacks a column that a statement has dropped before."""
    table = items()
    source = short_source(table)
    source.transaction(
        border(0) + SECOND, Ddl("CREATE TABLE items (id int PRIMARY KEY, gone int, n int, note varchar(80))")
    )
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items DROP COLUMN gone"))
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(None, item(1))]))
    source.checkpoint(border(1) + 300 * SECOND)
    rows = {} if kept else {"rows": {"bank.items": "id > 9"}}
    harness = open_short(bench_in_process(tmp_path, "early"), tmp_path / "capture", source.messages, windows=2, **rows)
    for number in range(2):
        harness.all(number)
    for number, columns in enumerate((["id", "gone", "n", "note"], ["id", "n", "note"])):
        found = tables_at(harness.pipeline, AtWindow(border(number)), tmp_path / f"moment_{number}")
        assert [*columns_in(found)] == columns
        assert len(rows_in(found)) == number * kept


@pytest.mark.more
@pytest.mark.parametrize("kept", [1, 0], ids=["a row", "no row"])
def test_a_moment_looks_at_the_statements_though_the_version_before_it_did_not_know_their_places(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version was made when a later statement seemed to stand before the moment, as behind a failover not seen yet."""
    table, places = items(), list[Position]()
    source = short_source(table)
    source.transaction(
        border(0) + SECOND, Ddl("CREATE TABLE items (id int PRIMARY KEY, gone int, n int, note varchar(80))")
    )
    for number in range(2):
        places.append(source.transaction(border(number) + 5 * SECOND, Ddl("CREATE TABLE other (id int)")))
        source.checkpoint(border(number) + 300 * SECOND)
    source.transaction(border(2) + SECOND, Ddl("ALTER TABLE items DROP COLUMN gone"))
    source.transaction(border(2) + 2 * SECOND, Dml(table, [(None, item(1))]))
    source.checkpoint(border(2) + 300 * SECOND)
    rows = {} if kept else {"rows": {"bank.items": "id > 9"}}
    harness = open_short(bench_in_process(tmp_path, "places"), tmp_path / "capture", source.messages, windows=3, **rows)
    harness.all(2)
    at, last = FollowedTables.at, Frontier(border(2), border(2), None)
    with monkeypatch.context() as patch:
        patch.setattr(FollowedTables, "at", lambda self, table, _: at(self, table, last))
        for number in range(2):
            harness.all(number)
    harness.settle()
    for number, place in enumerate(places):
        found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / f"moment_{number}")
        assert [*columns_in(found)] == ["id", "gone", "n", "note"]
        assert rows_in(found) == []


@pytest.mark.more
def test_a_window_that_is_made_again_before_a_hole_gets_no_column_from_behind_it(tmp_path: Path) -> None:
    """The third window is made, and the second one, with the statement, is missing."""
    harness, _ = grown(tmp_path, sent_as=("bank", "items"))
    harness.all(0)
    harness.all(2)
    again = bench_in_process(tmp_path, "grown").open(
        tmp_path / "capture", name="grown_1", partitions=2, window={"end": border(3)}, rows={"bank.items": "id < 2"}
    )
    again.tables(0)
    rows = again.rows("snapshot", *ITEMS.path)
    assert [{*row} - OWN for row in rows] == [{"id", "n", "note"}] * 2


@pytest.mark.more
@pytest.mark.parametrize("sql", ["DROP COLUMN n, ADD COLUMN n INT", "RENAME COLUMN N TO n"])
def test_a_column_has_the_spelling_of_the_moment_though_a_later_window_was_made_first(tmp_path: Path, sql: str) -> None:
    """The same holds of a snapshot that goes on while the window between is missing."""
    table = items()
    source, spelled = short_source(table), [Field("id", INT, True), Field("N", INT), Field("note", TEXT)]
    source.transaction(border(0) + SECOND, Dml(table, [(None, item(1, 5, "x"))]))
    alter(source, 2, table, "RENAME COLUMN n TO N", spelled)
    source.rows["items"] = {key: {"id": 1, "N": 5, "note": "x"} for key in source.rows["items"]}
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, {"id": 4, "N": 6, "note": "x"})]))
    source.checkpoint(border(0) + 300 * SECOND)
    place = source.transaction(border(1) + SECOND, Dml(table, [(None, {"id": 2, "N": 6, "note": "x"})]))
    source.checkpoint(border(1) + 300 * SECOND)
    source.checkpoint(border(2) + 300 * SECOND)
    source.transaction(border(3) + SECOND, Ddl(f"ALTER TABLE items {sql}"))
    table.columns[1] = Field("n", INT)
    value = None if "DROP" in sql else 5
    source.rows["items"] = {
        key: {"id": row["id"], "n": value, "note": "x"} for key, row in source.rows["items"].items()
    }
    source.transaction(border(3) + 2 * SECOND, Dml(table, [(None, item(3, 7, "x"))]))
    source.checkpoint(border(3) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "spelled"), tmp_path / "capture", source.messages, windows=4)
    for window in (3, 0, 1):
        harness.all(window)
        assert not harness.pipeline.ledger.paused_tables()
    rows = [{"id": number, "N": n, "note": "x"} for number, n in ((1, 5), (2, 6), (4, 6))]
    shown = sorted(harness.rows("snapshot", *ITEMS.path), key=lambda row: row["id"])
    assert [{name: row[name] for name in ("id", "N", "note")} for row in shown] == rows
    harness.all(2)
    found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / "moment")
    assert found.begun, "as the version behind the first window"
    assert sorted(rows_in(found), key=lambda row: row["id"]) == rows


@dataclass
class RememberedShards(AlteredShards):
    """Shards of which the rows behind each transaction are remembered."""

    moments: dict[Position, tuple[set[str], list[str]]] = field(default_factory=dict)

    def _step(self) -> None:
        super()._step()
        columns = {one.name for table in self.tables for one in table.columns}
        self.moments[self.source.committed] = columns, self.rows(columns)


@pytest.mark.more
def test_a_merged_table_is_the_union_of_its_shards_behind_a_transaction(tmp_path: Path) -> None:
    """Statements roll over the shards within each window."""
    life = RememberedShards(shards_of(2, 2), Random(0))
    life.live(2, 16)
    life.source.checkpoint(border(2) + 300 * SECOND)
    bench = bench_in_process(tmp_path, "shards")
    harness = open_short(bench, tmp_path / "capture", life.source.messages, windows=3, merge=MERGE)
    harness.all(0)
    harness.all(1)
    for number, place in enumerate(Random(1).sample(sorted(life.moments)[:-1], times(3, 20))):
        found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / f"moment_{number}")
        names, rows = {*columns_in(found, ORDERS)}, rows_in(found, ORDERS)
        shown = [repr((tuple(row[one] for one in SHARD), {name: row[name] for name in sorted(names)})) for row in rows]
        assert (names, sorted(shown)) == life.moments[place], place
