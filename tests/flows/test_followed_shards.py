"""Merged tables whose shards are altered one after the other: the oracle is a database in memory for each shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.flows.harness import Bench, Harness
from tests.flows.history import WINDOWS, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, BIGINT, INT, TEXT, Field, Kind, Table
from tests.flows.test_merged_tables import MERGE, ORDERS, shards_of
from tests.flows.test_shards import put
from tests.tiers import times

Alter = Callable[[Table], str | None]
SHARD = ("_source_database", "_source_table")
COLUMNS = ("id", "n", "note", "more", "other")
ADDED = {"_event_time", "_kafka_partition", "_kafka_offset", "_invalid"}


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "altered_shards")


@dataclass
class AlteredShards:
    """Shards that nobody saw created. Statements roll over them at random, and the rows follow in memory."""

    tables: list[Table]
    random: Random
    source: Source = field(init=False)
    after: list[tuple[set[str], list[str]]] = field(default_factory=list)
    left: list[Table] = field(default_factory=list)
    alter: Alter = field(default=lambda table: None)
    at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.source = short_source(*self.tables)

    def live(self, windows: int, steps: int) -> None:
        for window in range(windows):
            self.at = border(window)
            for number in range(steps):
                self.at += 3 * SECOND
                if window == 0 and number < len(self.tables):
                    self._insert(self.tables[number])
                else:
                    self._step()
            self.source.checkpoint(border(window) + 580 * SECOND)
            columns = {one.name for table in self.tables for one in table.columns}
            self.after.append((columns, self.rows(columns)))

    def rows(self, columns: set[str]) -> list[str]:
        """The rows of all shards, as texts where another shard has text in the column."""
        kinds = {
            name: {one.kind for table in self.tables for one in table.columns if one.name == name} for name in columns
        }
        shown = []
        for table in self.tables:
            for row in self.source.rows[table.name].values():
                cells = {name: row.get(name) for name in sorted(columns)}
                cells = {
                    name: str(one) if one is not None and TEXT in kinds[name] else one for name, one in cells.items()
                }
                shown.append(repr((table.sent_as, cells)))
        return sorted(shown)

    def _step(self) -> None:
        random, table = self.random, self.random.choice(self.tables)
        rows = list(self.source.rows[table.name].values())
        kind = random.choice(("alter", "alter", "insert", "update", "update", "delete"))
        if kind == "alter":
            if not self.left:
                self.left, self.alter = random.sample(self.tables, len(self.tables)), self._rolling()
            table = self.left.pop()
            if (clause := self.alter(table)) is not None:
                database, name = table.sent_as or ("", "")
                self.source.transaction(self.at, Ddl(f"ALTER TABLE {database}.{name} {clause}"))
        elif kind == "insert" or not rows:
            self._insert(table)
        elif kind == "delete":
            self.source.transaction(self.at, Dml(table, [(random.choice(rows), None)]))
        else:
            row = random.choice(rows)
            name = random.choice([one.name for one in table.columns if not one.is_key] or ["id"])
            if name != "id":
                changed = {**row, name: self._value(next(one.kind for one in table.columns if one.name == name))}
                self.source.transaction(self.at, Dml(table, [(row, changed)]))

    def _insert(self, table: Table) -> None:
        free = [number for number in range(20) if (number,) not in self.source.rows[table.name]]
        if free:
            made = {one.name: self._value(one.kind) for one in table.columns} | {"id": self.random.choice(free)}
            self.source.transaction(self.at, Dml(table, [(None, made)]))

    def _value(self, kind: Kind) -> Any:
        return self.random.choice(("tea", "7", None) if kind == TEXT else (1, 2, None))

    def _rolling(self) -> Alter:
        """One statement for every shard that it fits."""
        random = self.random
        one, other = random.sample(COLUMNS[1:], 2)
        kind = random.choice((INT, BIGINT, TEXT))
        fill = random.choice((None, 5))
        return random.choice(
            (
                lambda table: self._add(table, one, kind, fill),
                lambda table: self._drop(table, one),
                lambda table: self._rename(table, one, other),
                lambda table: self._modify(table, one, kind),
            )
        )

    def _set(self, table: Table, name: str, value: Callable[[dict[str, Any]], Any]) -> None:
        rows = self.source.rows[table.name]
        for key, row in rows.items():
            rows[key] = {**row, name: value(dict(row))}

    def _add(self, table: Table, name: str, kind: Kind, fill: int | None) -> str | None:
        if any(one.name == name for one in table.columns):
            return None
        table.columns.append(Field(name, kind))
        value = str(fill) if fill is not None and kind == TEXT else fill
        self._set(table, name, lambda row: value)
        return f"ADD COLUMN {name} {kind.original_type}" + ("" if fill is None else f" DEFAULT '{fill}'")

    def _drop(self, table: Table, name: str) -> str | None:
        found = [one for one in table.columns if one.name == name]
        if not found:
            return None
        table.columns.remove(found[0])
        rows = self.source.rows[table.name]
        for key, row in rows.items():
            rows[key] = {other: value for other, value in row.items() if other != name}
        return f"DROP COLUMN {name}"

    def _rename(self, table: Table, name: str, other: str) -> str | None:
        place = next((n for n, one in enumerate(table.columns) if one.name == name), None)
        if place is None or any(one.name == other for one in table.columns):
            return None
        table.columns[place] = Field(other, table.columns[place].kind)
        rows = self.source.rows[table.name]
        for key, row in rows.items():
            rows[key] = {other if one == name else one: value for one, value in row.items()}
        return f"RENAME COLUMN {name} TO {other}"

    def _modify(self, table: Table, name: str, kind: Kind) -> str | None:
        place = next((n for n, one in enumerate(table.columns) if one.name == name), None)
        if place is None or kind != TEXT:  # what a text becomes otherwise is the subject of other tests
            return None
        self._set(table, name, lambda row: None if row[name] is None else str(row[name]))
        table.columns[place] = Field(name, kind)
        return f"MODIFY {name} {kind.original_type}"


def shown(harness: Harness) -> tuple[set[str], list[str]]:
    rows = harness.rows("snapshot", "shop", "orders")
    columns = {name for row in rows for name in row} - {*SHARD, *ADDED}
    found = [repr((tuple(row[name] for name in SHARD), {name: row[name] for name in sorted(columns)})) for row in rows]
    return columns, sorted(found)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(2, 60)))
def test_rolling_statements_leave_the_union_of_the_shards(seed: int, bench_of: Bench, tmp_path: Path) -> None:
    """Behind each window in turn, and at the end in any order with a window made again."""
    random = Random(seed)
    life = AlteredShards(shards_of(2, 2), random)
    life.live(WINDOWS, 24)
    harness = open_short(bench_of, tmp_path / "capture", life.source.messages, windows=WINDOWS, merge=MERGE)
    order = list(range(WINDOWS))
    if seed % 2:
        random.shuffle(order)
    for window in order:
        harness.all(window)
        if not seed % 2:
            assert shown(harness) == life.after[window], window
    harness.all(random.choice(order))
    harness.settle()
    assert shown(harness) == life.after[-1]
    assert not harness.pipeline.ledger.paused_tables()


def alter(source: Source, window: int, second: int, tables: list[Table], clause: str) -> None:
    for number, table in enumerate(tables):
        database, name = table.sent_as or ("", "")
        at = border(window) + (second + number) * SECOND
        source.transaction(at, Ddl(f"ALTER TABLE {database}.{name} {clause}"))


def test_shards_that_are_altered_in_one_run_keep_their_files(bench_of: Bench, tmp_path: Path) -> None:
    tables = shards_of(2, 2)
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, 1, 2)
    source.checkpoint(border(0) + 500 * SECOND)
    alter(source, 1, 1, tables, "RENAME COLUMN note TO text, ADD COLUMN more int FIRST, MODIFY n bigint")
    source.checkpoint(border(1) + 500 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2, merge=MERGE)
    harness.all(0)
    path = harness.pipeline.table_path("snapshot", ORDERS)
    files = {one.path for one in harness.pipeline.lake.data_files(path)}
    harness.all(1)
    fields = harness.pipeline.lake.fields(path)
    assert fields is not None
    assert [name for name, _ in fields][:6] == ["more", "id", "n", "text", *SHARD]
    assert dict(fields)["n"] == "bigint"
    assert {one.path for one in harness.pipeline.lake.data_files(path)} == files


@pytest.mark.more
def test_shards_whose_key_changes_have_what_events_told(bench_of: Bench, tmp_path: Path) -> None:
    """Without one key for all changes the rows are those of the changelog, in any order of windows."""
    tables = shards_of(2, 1)
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, 1, 2, n=1)
    alter(source, 0, 9, tables, "ADD COLUMN more int DEFAULT 5")
    for table in tables:
        table.columns.append(Field("more", INT))
    put(source, 0, 20, tables[0], 3, n=1, more=6)
    source.checkpoint(border(0) + 500 * SECOND)
    alter(source, 1, 1, tables, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)")
    for table in tables:
        table.columns[1] = Field("n", INT, True)
        source.rows[table.name] = {(row["id"], row["n"]): row for row in source.rows[table.name].values()}
        put(source, 1, 20, table, 1, n=2, more=7)
        lacking = {"id": 4, "n": 2, "note": "tea", "more": ABSENT}
        source.transaction(border(1) + 30 * SECOND, Dml(table, [(None, lacking)]))
    source.checkpoint(border(1) + 500 * SECOND)
    told = [("shop_00", 1, 1, None), ("shop_00", 1, 2, 7), ("shop_00", 2, 1, None), ("shop_00", 3, 1, 6)]
    told += [("shop_01", 1, 1, None), ("shop_01", 1, 2, 7), ("shop_01", 2, 1, None)]
    told += [("shop_00", 4, 2, 5), ("shop_01", 4, 2, 5)]  # an insert without the column has its default all the same
    for order in ((0, 1), (1, 0), ()):
        harness = open_short(bench_of, tmp_path / f"{order}", source.messages, windows=2, merge=MERGE)
        for window in order:
            harness.all(window)
            if order == (0, 1) and window == 0:
                assert {row["more"] for row in harness.rows("snapshot", "shop", "orders")} == {5, 6}
        harness.settle()
        assert not harness.pipeline.ledger.paused_tables()
        rows = harness.rows("snapshot", "shop", "orders")
        assert sorted(tuple(row[name] for name in ("_source_database", "id", "n", "more")) for row in rows) == sorted(
            told, key=repr
        )


@pytest.mark.more
def test_what_updates_left_out_under_a_name_outside_stays(bench_of: Bench, tmp_path: Path) -> None:
    """A table outside of the merge becomes a shard; its updates had sent the columns that they changed."""
    inside, late = shards_of(1, 2)
    outside = Table("late", late.columns, ("shopdb", "late"))
    source = short_source(inside, outside, late)
    put(source, 0, 1, inside, 1, note="tea")
    put(source, 0, 2, outside, 1, 2, note="milk")
    old = {"id": 1, "n": 1, "note": "milk"}
    source.transaction(border(0) + 9 * SECOND, Dml(outside, [(old, {"id": 1, "n": 7, "note": ABSENT})]))
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("RENAME TABLE shopdb.late TO shop_00.orders_0001"))
    source.rows[late.name], source.rows[outside.name] = source.rows[outside.name], {}
    put(source, 1, 9, late, 3, note="new")
    source.checkpoint(border(1) + 500 * SECOND)
    told = [("orders_0000", 1, 1, "tea"), ("orders_0001", 1, 7, "milk"), ("orders_0001", 2, 2, "milk")]
    told.append(("orders_0001", 3, 3, "new"))
    for order in ((0, 1), (1, 0), ()):
        harness = open_short(bench_of, tmp_path / f"{order}", source.messages, windows=2, merge=MERGE)
        for window in order:
            harness.all(window)
        harness.settle()
        rows = harness.rows("snapshot", "shop", "orders")
        assert sorted(tuple(row[name] for name in ("_source_table", "id", "n", "note")) for row in rows) == told


def test_columns_of_later_windows_wait_for_their_rows(bench_of: Bench, tmp_path: Path) -> None:
    tables = shards_of(2, 1)
    source = short_source(*tables)
    put(source, 0, 1, tables[0], 1)
    for window in range(2):
        source.checkpoint(border(window) + 500 * SECOND)
    alter(source, 2, 1, tables, "ADD COLUMN more int")
    for table in tables:
        table.columns.append(Field("more", INT))
    put(source, 2, 20, tables[1], 2, more=6)
    source.checkpoint(border(2) + 500 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=3, merge=MERGE)
    harness.all(0)
    harness.all(2)
    assert "more" not in shown(harness)[0]
    harness.all(1)
    assert "more" in shown(harness)[0]


@pytest.mark.more
def test_shards_whose_column_became_another_type_keep_it_in_runs_without_statements(
    bench_of: Bench, tmp_path: Path
) -> None:
    """The changelog holds the joined type, text, and the snapshot the present one."""
    tables = shards_of(2, 1)
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, 1, note="7")
    source.checkpoint(border(0) + 500 * SECOND)
    alter(source, 1, 1, tables, "MODIFY note int")
    for table in tables:
        table.columns = [Field("note", INT) if one.name == "note" else one for one in table.columns]
        source.rows[table.name] = {key: {**row, "note": 7} for key, row in source.rows[table.name].items()}
    put(source, 1, 20, tables[0], 2, note=8)
    source.checkpoint(border(1) + 500 * SECOND)
    put(source, 2, 20, tables[1], 2, note=9)
    source.checkpoint(border(2) + 500 * SECOND)
    put(source, 3, 20, tables[1], 3, note=10)
    source.checkpoint(border(3) + 500 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=4, merge=MERGE)
    path = harness.pipeline.table_path("snapshot", ORDERS)
    written = []
    for window, notes in enumerate((["7", "7"], [7, 7, 8], [7, 7, 8, 9], [7, 7, 8, 9, 10])):
        harness.all(window)
        assert sorted(row["note"] for row in harness.rows("snapshot", "shop", "orders")) == notes, window
        written.append({one.path for one in harness.pipeline.lake.data_files(path, applies_deletes=True)})
    assert written[2] < written[3], "no file is written anew where only rows come"
    assert not harness.pipeline.ledger.paused_tables()


@pytest.mark.more
@pytest.mark.parametrize("merged", [True, False])
def test_a_table_that_is_made_anew_as_events_reported_gets_their_types(merged: bool, tmp_path: Path) -> None:
    """Its snapshot had the present types, which Iceberg cannot widen to those of all events."""
    tables = shards_of(2, 1) if merged else [replace(shards_of(1, 1)[0], name="orders", sent_as=None)]
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, 1, 2, n=1)
    alter(source, 0, 9, tables, "ADD COLUMN more int")
    for table in tables:
        table.columns.append(Field("more", INT))
    put(source, 0, 20, tables[0], 3, n=1, more=6)
    source.checkpoint(border(0) + 500 * SECOND)
    last = tables[-1]
    name = ".".join(last.sent_as or ("bank", "orders"))
    for sql in (
        f"DROP TABLE {name}",
        f"CREATE TABLE {name} (id int, n varchar(9), note varchar(80), more int, PRIMARY KEY (id, n))",
    ):
        source.transaction(border(1) + SECOND, Ddl(sql))
    last.columns[1] = Field("n", TEXT, True)
    source.rows[last.name] = {}
    put(source, 1, 20, last, 4, n="x", note="tea", more=8)
    source.checkpoint(border(1) + 500 * SECOND)
    settings: dict[str, Any] = {"windows": 2, "name": "anew", **({"merge": MERGE} if merged else {})}
    bench = bench_in_process(tmp_path, "made_anew")
    open_short(bench, tmp_path / "capture", source.messages, **settings).all(0)
    harness = open_short(bench, tmp_path / "capture", source.messages, deletes={"*": "soft"}, **settings)
    harness.all(1)
    assert not harness.pipeline.ledger.paused_tables()
    rows = harness.rows("snapshot", *(("shop", "orders") if merged else ("bank", "orders")))
    assert (4, "x", 8) in {(row["id"], row["n"], row["more"]) for row in rows}
