"""Values that servers convert differently are NULL in a snapshot, and each commit counts those that it has brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs, snapshot_tasks
from dts_assets.flows.reports import LayerOutcome
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, UNKNOWN_PROPERTY
from dts_assets.planning import row_removals
from dts_assets.store.delete_files import WrittenDeletes, write_deletes
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Kind, Row, Table
from tests.flows.test_followed_shards import alter
from tests.flows.test_merged_tables import MERGE, ORDERS, shards_of
from tests.flows.test_shards import put
from tests.tiers import chosen

TABLE = "items"
WHOLE = "ALTER TABLE items MODIFY note INT"
UNSAID = "ALTER TABLE items ADD x VARCHAR(80) DEFAULT (UUID())"
NOTES: Mapping[int, str | None] = {1: "7", 2: "12.5", 3: None, 4: "1.5", 5: "2.5"}
"""Of texts with a fraction servers make different whole numbers."""


@dataclass
class Life:
    """The source of one table with statements; a test says the values that the server made of others."""

    has_key: bool = True
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        table = Table(TABLE, [Field("id", INT, self.has_key), Field("n", INT), Field("note", TEXT)])
        self.source = short_source(table)
        key = ", PRIMARY KEY (id)" if self.has_key else ""
        self.tell(
            border(0) + SECOND, f"CREATE TABLE items (id INT NOT NULL, n INT, note VARCHAR(80){key}) CHARSET utf8mb4"
        )
        self.insert(border(0) + 10 * SECOND, *({"id": number, "n": 0, "note": note} for number, note in NOTES.items()))

    @property
    def table(self) -> Table:
        return self.source.tables[TABLE]

    @property
    def rows(self) -> list[Row]:
        return list(self.source.rows[TABLE].values()) if self.has_key else list(self.source.bags[TABLE])

    def row(self, number: int) -> Row:
        return next(one for one in self.rows if one["id"] == number)

    def tell(self, at: datetime, *sql: str) -> None:
        self.source.transaction(at, *map(Ddl, sql))

    def insert(self, at: datetime, *rows: Row) -> None:
        self.source.transaction(at, Dml(self.table, [(None, row) for row in rows]))

    def update(self, at: datetime, number: int, **new: Any) -> None:
        row = self.row(number)
        self.source.transaction(at, Dml(self.table, [(row, {**row, **new})]))

    def delete(self, at: datetime, number: int) -> None:
        self.source.transaction(at, Dml(self.table, [(self.row(number), None)]))

    def becomes(self, at: datetime, sql: str, values: Mapping[int, Any], *columns: tuple[str, Kind]) -> None:
        """A statement behind which the table has other columns, the last of which has some values."""
        self.tell(at, sql)
        name = columns[-1][0]
        rows: list[Row] = [
            {**{one: row.get(one) for one, _ in columns}, "id": row["id"], name: values.get(row["id"])}
            for row in self.rows
        ]
        self.table.columns[:] = [Field("id", INT, self.has_key), *(Field(one, kind) for one, kind in columns)]
        if self.has_key:
            self.source.rows[TABLE] = {(row["id"],): row for row in rows}
        else:
            self.source.bags[TABLE] = rows

    def note_becomes_whole(self, at: datetime) -> None:
        self.becomes(at, WHOLE, {1: 7, 2: 13, 4: 2, 5: 3}, ("n", INT), ("note", INT))

    def gets_x(self, at: datetime) -> None:
        made = {row["id"]: f"u{row['id']}" for row in self.rows}
        self.becomes(at, UNSAID, made, ("n", INT), ("note", TEXT), ("x", TEXT))

    def opened(self, folder: Path, **settings: Any) -> Harness:
        for window in range(3):
            self.source.checkpoint(border(window) + 500 * SECOND)
        return open_short(bench_in_process(folder, "unknown"), folder / "capture", self.source.messages, **settings)


def outcome(harness: Harness, *windows: int) -> LayerOutcome:
    """The outcome of the snapshot in a run of the tables of some windows."""
    (table,) = harness.tables(*windows).tables
    return table.layers["snapshot"]


def counts(harness: Harness, *windows: int) -> dict[str, int]:
    return dict(outcome(harness, *windows).unknown_values)


def ready(harness: Harness) -> Harness:
    """All is read and decoded, and no table is made."""
    harness.raw(0, 1, 2)
    harness.entries(0, 1, 2)
    return harness


def in_commits(harness: Harness) -> list[str | None]:
    """What the commits of the snapshot say, the first one first."""
    table = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table_id(TABLE)))
    assert table is not None
    said = [one.summary for one in table.snapshots() if one.summary is not None and STATE_PROPERTY in one.summary]
    return [one.additional_properties.get(UNKNOWN_PROPERTY) for one in said]


def one_by_one(harness: Harness) -> list[dict[str, int]]:
    ready(harness)
    return [counts(harness, window) for window in range(3)]


def shown(harness: Harness, name: str) -> dict[int, Any]:
    return {row["id"]: row[name] for row in harness.rows("snapshot", DATABASE, TABLE)}


def converted() -> Life:
    """Two values become unknown in the second window, and a third one that an event tells behind the statement."""
    life = Life()
    life.note_becomes_whole(border(1) + 10 * SECOND)
    life.update(border(1) + 20 * SECOND, 4, n=1)
    return life


@pytest.mark.more
def test_the_commit_that_brings_a_statement_counts_what_it_made_unknown(tmp_path: Path) -> None:
    harness = converted().opened(tmp_path)
    assert one_by_one(harness) == [{}, {"note": 2}, {}]
    assert shown(harness, "note") == {1: 7, 2: None, 3: None, 4: 2, 5: None}
    assert in_commits(harness)[:2] == [None, '{"note": 2}']


@pytest.mark.more
def test_a_window_that_is_made_again_counts_nothing_again(tmp_path: Path) -> None:
    """Its own rows are made again, and the event of each tells all values."""
    harness = converted().opened(tmp_path)
    one_by_one(harness)
    again = outcome(harness, 1)
    assert (again.committed, dict(again.unknown_values)) == (True, {})


@pytest.mark.more
@pytest.mark.parametrize("order", chosen([*permutations(range(3))][::-1], 1))
def test_rows_from_before_a_statement_are_counted_when_they_come(order: tuple[int, ...], tmp_path: Path) -> None:
    harness = ready(converted().opened(tmp_path))
    counted = [counts(harness, window) for window in order]
    assert sum(one.get("note", 0) for one in counted) == 2
    assert shown(harness, "note") == {1: 7, 2: None, 3: None, 4: 2, 5: None}


@pytest.mark.more
def test_rows_that_are_made_anew_are_counted_again(tmp_path: Path) -> None:
    life = converted()
    assert counts(ready(life.opened(tmp_path)), 0, 1, 2) == {"note": 2}
    audited = open_short(
        bench_in_process(tmp_path, "unknown"), tmp_path / "capture", [], name="unknown_1", audit_columns=["op"]
    )
    assert counts(audited, 2) == {"note": 2}


@pytest.mark.more
def test_a_later_run_that_writes_the_rows_again_counts_nothing(tmp_path: Path) -> None:
    life = converted()
    life.update(border(2) + 10 * SECOND, 1, note=8)
    harness = ready(life.opened(tmp_path))
    counts(harness, 0, 1)
    path = harness.pipeline.table_path("snapshot", table_id(TABLE))
    before = {file.path for file in harness.pipeline.lake.data_files(path)}
    assert counts(harness, 2) == {}
    assert before.isdisjoint(file.path for file in harness.pipeline.lake.data_files(path))
    assert shown(harness, "note") == {1: 8, 2: None, 3: None, 4: 2, 5: None}


def test_an_event_of_a_later_window_tells_a_value_in_one_run_with_the_statement(tmp_path: Path) -> None:
    life = converted()
    life.update(border(2) + 10 * SECOND, 2, n=5)
    life.delete(border(2) + 20 * SECOND, 5)
    assert counts(ready(life.opened(tmp_path)), 0, 1, 2) == {}


@pytest.mark.more
def test_a_value_stays_unknown_over_further_statements_and_goes_with_its_column(tmp_path: Path) -> None:
    life = Life()
    life.note_becomes_whole(border(1) + 10 * SECOND)
    life.becomes(
        border(1) + 20 * SECOND, "ALTER TABLE items MODIFY note VARCHAR(80)", {}, ("n", INT), ("note", TEXT)
    )  # fmt: skip
    life.becomes(border(2) + 10 * SECOND, "ALTER TABLE items DROP note", {}, ("n", INT))
    harness = ready(life.opened(tmp_path))
    assert counts(harness, 0) == {}
    assert counts(harness, 1) == {"note": 3}
    assert shown(harness, "note") == {1: "7", 2: None, 3: None, 4: None, 5: None}
    assert counts(harness, 2) == {}
    assert counts(ready(life.opened(tmp_path / "at once")), 0, 1, 2) == {}


@pytest.mark.more
def test_a_renamed_column_is_counted_by_its_last_name(tmp_path: Path) -> None:
    life = Life()
    life.becomes(
        border(1) + 10 * SECOND, "ALTER TABLE items CHANGE note `a note` INT", {1: 7}, ("n", INT), ("a note", INT)
    )
    assert one_by_one(life.opened(tmp_path)) == [{}, {"a note": 3}, {}]


def added() -> Life:
    """A column comes with values that no statement says, and events tell two of them."""
    life = Life()
    life.gets_x(border(1) + 10 * SECOND)
    life.update(border(1) + 20 * SECOND, 2, n=1)
    life.delete(border(1) + 30 * SECOND, 3)
    life.insert(border(1) + 40 * SECOND, {"id": 6, "n": 0, "note": None, "x": None})
    return life


@pytest.mark.more
@pytest.mark.parametrize("settings", chosen([{"schema_changes": "freeze"}, {}, {"deletes": "soft"}], 2), ids=str)
def test_a_column_with_an_unsaid_default_counts_the_rows_that_stand(settings: dict[str, Any], tmp_path: Path) -> None:
    harness = ready(added().opened(tmp_path, **settings))
    assert counts(harness, 0) == {}
    assert counts(harness, 1) == {"x": 3}
    at_once = counts(ready(added().opened(tmp_path / "at once", **settings)), 0, 1)
    # Row 3 was deleted behind the statement: its deleted image tells the value.
    assert at_once == {"x": 3}


@pytest.mark.more
def test_rows_leave_a_large_file_by_their_numbers_and_its_others_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"DELETE_FILE_BYTES": 0, "DELETED_ROW_BYTES": 0, "MOST_DELETED": 0.9}.items():
        monkeypatch.setattr(row_removals, name, value)
    listed = list[int]()

    def spied(*args: Any, **more: Any) -> WrittenDeletes:
        made = write_deletes(*args, **more)
        listed.append(made.rows)
        return made

    monkeypatch.setattr(snapshot_tasks, "write_deletes", spied)
    harness = ready(added().opened(tmp_path))
    counts(harness, 0)
    assert counts(harness, 1) == {"x": 3}
    assert listed[:1] == [2]


@pytest.mark.more
def test_a_column_with_an_unsaid_default_needs_no_file_to_be_counted(tmp_path: Path) -> None:
    life = Life()
    life.gets_x(border(1) + 10 * SECOND)
    harness = ready(life.opened(tmp_path))
    path = harness.pipeline.table_path("snapshot", table_id(TABLE))
    counts(harness, 0)
    before = [file.path for file in harness.pipeline.lake.data_files(path)]
    assert counts(harness, 1) == {"x": 5}
    assert [file.path for file in harness.pipeline.lake.data_files(path)] == before


@pytest.mark.more
def test_a_frozen_column_is_counted_by_its_name_at_the_source(tmp_path: Path) -> None:
    life = Life()
    life.gets_x(border(0) + 20 * SECOND)
    life.update(border(0) + 30 * SECOND, 1, x="1.5")
    life.update(border(0) + 40 * SECOND, 2, x="2")
    life.becomes(
        border(1) + 10 * SECOND, "ALTER TABLE items MODIFY x INT", {1: 2, 2: 2}, ("n", INT), ("note", TEXT), ("x", INT)
    )
    assert one_by_one(life.opened(tmp_path, schema_changes="freeze")) == [{"x": 3}, {"x": 1}, {}]


@pytest.mark.more
def test_rows_without_a_key_are_counted(tmp_path: Path) -> None:
    life = Life(has_key=False)
    life.note_becomes_whole(border(1) + 10 * SECOND)
    life.insert(border(1) + 20 * SECOND, {"id": 9, "n": 0, "note": None})
    assert one_by_one(life.opened(tmp_path)) == [{}, {"note": 3}, {}]
    assert counts(ready(life.opened(tmp_path / "at once")), 0, 1, 2) == {"note": 3}


@pytest.mark.more
@pytest.mark.parametrize("settings", chosen([{"deletes": "soft"}, {}], 1), ids=str)
def test_counts_of_many_tasks_are_added_up(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is a task of its own, and changes are shared out by their keys."""
    monkeypatch.setattr(snapshot_jobs, "_TASK_BYTES", 1)
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 2)
    monkeypatch.setattr(snapshot_jobs, "_ALONE_BYTES", 1)
    life = Life()
    life.insert(border(1) + SECOND, *({"id": number, "n": 0, "note": f"{number}.5"} for number in range(10, 30)))
    life.note_becomes_whole(border(2) + 10 * SECOND)
    for number in range(10, 15):
        life.update(border(2) + (number + 10) * SECOND, number, n=1)
    assert one_by_one(life.opened(tmp_path, **settings)) == [{}, {}, {"note": 3 + 15}]
    assert counts(ready(life.opened(tmp_path / "at once", **settings)), 0, 1, 2) == {"note": 18}


@pytest.mark.more
def test_where_the_key_changes_amid_the_changes_the_rows_at_the_end_count(tmp_path: Path) -> None:
    """Row 2 is told by an event behind the new key. Rows 4 and 5 are not known until a later window."""
    life = Life()
    life.note_becomes_whole(border(1) + 10 * SECOND)
    life.tell(border(1) + 20 * SECOND, "ALTER TABLE items DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)")
    life.table.columns[:] = [Field("id", INT, True), Field("n", INT, True), Field("note", INT)]
    life.source.rows[TABLE] = {(row["id"], row["n"]): row for row in life.rows}
    life.update(border(1) + 30 * SECOND, 2, note=14)
    life.update(border(2) + 10 * SECOND, 5, note=4)
    life.delete(border(2) + 20 * SECOND, 4)
    harness = ready(life.opened(tmp_path))
    assert [counts(harness, window) for window in range(3)] == [{}, {"note": 2}, {}]
    assert shown(harness, "note") == {1: 7, 2: 14, 3: None, 5: 4}
    assert in_commits(harness)[:2] == [None, '{"note": 2}']
    assert counts(ready(life.opened(tmp_path / "at once")), 0, 1, 2) == {}
    path = harness.pipeline.table_path("snapshot", table_id(TABLE))
    assert all("unknown" not in name for name, _ in harness.pipeline.lake.fields(path) or ())


@pytest.mark.more
@pytest.mark.parametrize("clause", chosen(["ADD COLUMN x VARCHAR(80) DEFAULT (UUID())", "MODIFY note INT"], 1))
def test_rows_of_each_shard_are_counted_when_its_own_statement_comes(clause: str, tmp_path: Path) -> None:
    """In the second window an event tells a row of the first shard. The third one brings the other shard's statement alone."""
    tables = shards_of(2, 1)
    source = short_source(*tables)
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, *range(1, 4 + number), note="12.5")
    source.checkpoint(border(0) + 500 * SECOND)
    is_added = "x" in clause
    row = {"id": 1, "n": 1, "note": "12.5", "x": "u"} if is_added else {"id": 1, "n": 1, "note": 13}
    for window, table in enumerate(tables, 1):
        alter(source, window, 1, [table], clause)
        table.columns[2:] = [Field("note", TEXT), Field("x", TEXT)] if is_added else [Field("note", INT)]
        if window == 1:
            source.transaction(border(1) + 10 * SECOND, Dml(table, [(row, {**row, "n": 9})]))
        source.checkpoint(border(window) + 500 * SECOND)
    column = "x" if is_added else "note"
    harness = ready(open_short(bench_in_process(tmp_path, "shards"), tmp_path / "one", source.messages, merge=MERGE))
    path = harness.pipeline.table_path("snapshot", ORDERS)
    assert [counts(harness, window) for window in (0, 1)] == [{}, {column: 2}]
    before = {file.path for file in harness.pipeline.lake.data_files(path)}
    assert counts(harness, 2) == {column: 4}
    after = {file.path for file in harness.pipeline.lake.data_files(path)}
    assert (before == after) is is_added
    harness = ready(open_short(bench_in_process(tmp_path, "again"), tmp_path / "two", source.messages, merge=MERGE))
    assert counts(harness, 0, 1, 2) == {column: 6}
