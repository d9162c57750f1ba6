"""Row filters whose columns get other names by statements: the filter goes along, in any order of windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.flows.pauses import resume_tables
from dts_assets.planning.source_moments import AtPosition
from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Position, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table

ITEMS = table_id("items")


class Sold:
    """A table of goods in regions, whose columns get other names."""

    def __init__(self) -> None:
        self.table = Table("items", [Field("id", INT, True), Field("region", TEXT), Field("old", TEXT)])
        self.source: Source = short_source(self.table)
        self.second = 0

    def at(self, window: int) -> Any:
        self.second += 1
        return border(window) + self.second * SECOND

    def put(self, window: int, **row: Any) -> None:
        """Insert a row, or update the one with its id."""
        full = {one.name: None for one in self.table.columns} | row
        before = self.source.rows["items"].get((row["id"],))
        self.source.transaction(self.at(window), Dml(self.table, [(before, full)]))

    def rename(self, window: int, **names: str) -> None:
        pairs = ", ".join(f"RENAME COLUMN {old} TO {new}" for old, new in names.items())
        self.source.transaction(self.at(window), Ddl(f"ALTER TABLE items {pairs}"))
        self.table.columns[:] = [
            Field(names.get(one.name, one.name), one.kind, one.is_key) for one in self.table.columns
        ]
        rows = self.source.rows["items"]
        for key, row in rows.items():
            rows[key] = {names.get(name, name): value for name, value in row.items()}

    def drop(self, window: int, name: str) -> None:
        self.source.transaction(self.at(window), Ddl(f"ALTER TABLE items DROP {name}"))
        self.table.columns[:] = [one for one in self.table.columns if one.name != name]
        rows = self.source.rows["items"]
        for key, row in rows.items():
            rows[key] = {one: value for one, value in row.items() if one != name}

    def remove(self, window: int, number: int) -> None:
        self.source.transaction(self.at(window), Dml(self.table, [(self.source.rows["items"][number,], None)]))

    def add(self, window: int, name: str) -> None:
        self.source.transaction(self.at(window), Ddl(f"ALTER TABLE items ADD {name} VARCHAR(80)"))
        self.table.columns.append(Field(name, TEXT))
        rows = self.source.rows["items"]
        for key, row in rows.items():
            rows[key] = {**row, name: None}


def made(source: Sold, folder: Path, order: Sequence[int], where: Any, *, windows: int = 3) -> Harness:
    """A lake with the windows made in an order, and all that is left to do behind them."""
    harness = open_short(
        bench_in_process(folder, "renamed"), folder / "capture", source.source.messages, windows=windows,
        rows={"bank.items": where},
    )  # fmt: skip
    for window in order:
        harness.all(window)
    if not order:
        harness.all()
    harness.settle()
    return harness


def rows_of(harness: Harness) -> list[Row]:
    rows = harness.rows("snapshot", *ITEMS.path)
    return sorted(({n: v for n, v in row.items() if not n.startswith("_")} for row in rows), key=lambda row: row["id"])


def sold() -> Sold:
    """The column gets another name in the second window, and another column the first one."""
    made = Sold()
    made.put(0, id=1, region="eu", old="us")
    made.put(0, id=2, region="us", old="eu")
    made.source.checkpoint(border(0) + 500 * SECOND)
    made.put(1, id=3, region="eu")
    made.rename(1, region="area")
    made.put(1, id=4, area="us")
    made.put(1, id=5, area="eu")
    made.add(1, "region")
    made.put(1, id=6, area="us", region="eu")
    made.put(1, id=7, area="eu", region="us")
    made.put(1, id=1, area="us")
    made.put(1, id=2, area="eu")
    made.source.checkpoint(border(1) + 500 * SECOND)
    made.put(2, id=8, area="us", region="eu")
    made.put(2, id=9, area="eu", region="us")
    made.source.checkpoint(border(2) + 500 * SECOND)
    return made


@pytest.mark.parametrize(
    ("where", "order"),
    [("region = 'eu'", ()), *(pytest.param("region = 'eu'", one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1))),
     pytest.param("area = 'eu'", (), marks=pytest.mark.more), pytest.param("area = 'eu'", (2, 1, 0), marks=pytest.mark.more)],
)  # fmt: skip
def test_a_filter_follows_its_column_to_a_new_name(tmp_path: Path, where: str, order: tuple[int, ...]) -> None:
    """In one run, and window by window in any order, whether the filter has the first name or the last one.

    A window that is made before the statement is known is made anew behind it.
    """
    source = sold()
    harness = made(source, tmp_path, order, where)
    assert not harness.pipeline.ledger.paused_tables()
    expected = [row for row in source.source.rows["items"].values() if row["area"] == "eu"]
    assert rows_of(harness) == sorted(expected, key=lambda row: row["id"])
    ids = {(row["after"] or row["before"])["id"] for row in harness.rows("changelog", *ITEMS.path)}
    assert ids.isdisjoint({4, 6, 8}), "no row outside of the filter is stored"


@pytest.mark.more
def test_two_columns_that_swap_their_names_are_judged_as_what_they_were(tmp_path: Path) -> None:
    source = Sold()
    source.put(0, id=1, region="eu", old="us")
    source.put(0, id=2, region="us", old="eu")
    source.rename(0, region="old", old="region")
    source.put(0, id=3, region="eu", old="us")
    source.put(0, id=4, region="us", old="eu")
    source.source.checkpoint(border(0) + 500 * SECOND)
    harness = made(source, tmp_path, (), "region = 'eu'", windows=1)
    assert [row["id"] for row in rows_of(harness)] == [1, 4]
    assert not harness.pipeline.ledger.paused_tables()


@pytest.mark.more
def test_a_window_before_its_statement_stands_still_until_both_are_there(tmp_path: Path) -> None:
    """Its events have the new name alone, which nothing explains yet; a resumption catches up."""
    source = Sold()
    source.put(0, id=1, region="eu")
    source.rename(0, region="area")
    source.source.checkpoint(border(0) + 500 * SECOND)
    source.put(1, id=2, area="eu")
    source.put(1, id=3, area="us")
    source.source.checkpoint(border(1) + 500 * SECOND)
    harness = made(source, tmp_path, (1, 0), "region = 'eu'", windows=2)
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "its row filter names region, and no column is called so" in paused.reason
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    assert [(row["id"], row["area"]) for row in rows_of(harness)] == [(1, "eu"), (2, "eu")]


WAY_OUT = [{"until": "2026-03-01-10:10", "where": "region = 'eu'"}, {"where": "old = 'x'"}]


def dropped() -> Sold:
    """The filter's column is dropped in the second window; rows that the first filter let through change behind it."""
    made = Sold()
    for number in range(7):
        made.put(0, id=number, region="eu" if number < 4 else "us", old="x" if number in (0, 4) else "y")
    made.source.checkpoint(border(0) + 500 * SECOND)
    made.put(1, id=7, region="eu", old="y")
    made.drop(1, "region")
    made.put(1, id=8, old="x")
    made.put(1, id=9, old="y")
    made.put(1, id=1, old="y")
    made.put(1, id=2, old="x")
    made.source.checkpoint(border(1) + 500 * SECOND)
    made.put(2, id=5, old="x")
    made.put(2, id=6, old="z")
    made.put(2, id=0, old="x")
    made.remove(2, 7)
    made.source.checkpoint(border(2) + 500 * SECOND)
    return made


def test_a_table_whose_filter_lost_its_column_goes_on_by_the_next_filter(tmp_path: Path) -> None:
    """Rows that the first filter let through stay until a change touches them: 3 was never touched, and 1 does not pass."""
    source = dropped()
    harness = made(source, tmp_path, (0, 1), "region = 'eu'")
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "lack region, which its row filter needs" in paused.reason
    after = bench_in_process(tmp_path, "renamed").open(
        tmp_path / "capture", name="renamed_1", partitions=2, window={"end": border(3)}, rows={"bank.items": WAY_OUT}
    )
    resume_tables(after.pipeline, [ITEMS])
    after.settle()
    assert not after.pipeline.ledger.paused_tables()
    assert [(row["id"], row["old"]) for row in rows_of(after)] == [(0, "x"), (2, "x"), (3, "y"), (5, "x"), (8, "x")]


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (1, 2, 0)])
def test_filters_that_follow_one_another_leave_the_same_rows_in_any_order_of_windows(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    source = dropped()
    harness = made(source, tmp_path, order, WAY_OUT)
    assert not harness.pipeline.ledger.paused_tables()
    assert [(row["id"], row["old"]) for row in rows_of(harness)] == [(0, "x"), (2, "x"), (3, "y"), (5, "x"), (8, "x")]


def swapped_by_a_tool() -> Source:
    """A tool drops the filter's column in a copy of the table, which takes the table's name in the second window."""
    table = Table("items", [Field("id", INT, True), Field("region", TEXT), Field("old", TEXT)])
    copy = Table("_items_gho", [Field("id", INT, True), Field("old", TEXT)])
    source, second = short_source(table, copy), 0

    def send(window: int, *what: Dml | Ddl) -> None:
        nonlocal second
        second += 1
        source.transaction(border(window) + second * SECOND, *what)

    whole = [
        {"id": number, "region": "eu" if number < 3 else "us", "old": "x" if number % 2 else "y"} for number in range(6)
    ]
    send(0, Dml(table, [(None, row) for row in whole]))
    source.checkpoint(border(0) + 500 * SECOND)
    send(1, Ddl("CREATE TABLE _items_gho LIKE items"))
    send(1, Ddl("ALTER TABLE _items_gho DROP region"))
    send(1, Dml(copy, [(None, {"id": row["id"], "old": row["old"]}) for row in whole]))
    send(1, Dml(table, [(None, {"id": 7, "region": "us", "old": "x"}), (None, {"id": 8, "region": "eu", "old": "y"})]))
    send(1, Dml(copy, [(None, {"id": 7, "old": "x"}), (None, {"id": 8, "old": "y"})]))
    send(1, Ddl("RENAME TABLE items TO _items_del, _items_gho TO items"))
    table.columns[:] = copy.columns
    send(1, Dml(table, [(None, {"id": 9, "old": "x"}), (None, {"id": 10, "old": "y"})]))
    source.checkpoint(border(1) + 500 * SECOND)
    send(
        2, Dml(table, [({"id": 1, "old": "x"}, {"id": 1, "old": "y"}), ({"id": 2, "old": "y"}, {"id": 2, "old": "x"})])
    )
    source.checkpoint(border(2) + 500 * SECOND)
    return source


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (1, 0, 2)])
def test_the_next_filter_is_in_force_from_a_tools_swap_on(order: tuple[int, ...], tmp_path: Path) -> None:
    """The copy's rows are judged by the filter whose columns it has."""
    harness = open_short(
        bench_in_process(tmp_path, "renamed"), tmp_path / "capture", swapped_by_a_tool().messages, windows=3,
        rows={"bank.items": WAY_OUT},
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert [(row["id"], row["old"]) for row in rows_of(harness)] == [(number, "x") for number in (2, 3, 5, 7, 9)]
    told = {(row["window_start"], row["after"]["id"]) for row in harness.rows("changelog", *ITEMS.path) if row["after"]}
    assert {number for start, number in told if start == border(0)} == {0, 1, 2}, "those of the first filter alone"


@pytest.mark.more
@pytest.mark.parametrize("where", ["region = 'eu'", "area = 'eu'"])
def test_a_copy_is_filtered_by_the_name_that_the_column_has_now(where: str, tmp_path: Path) -> None:
    """Another column has the filter's name since; the copy's rows and those of events are judged by one column."""
    source = sold()
    harness = open_short(
        bench_in_process(tmp_path, "renamed"), tmp_path / "capture", source.source.messages, windows=3,
        rows={"bank.items": where},
    )  # fmt: skip
    harness.all(0, 1)
    at = source.source.committed
    rows = tuple(source.source.rows["items"].values())
    extra = (
        {"id": 90, "area": "eu", "region": "us", "old": None},
        {"id": 91, "area": "us", "region": "eu", "old": None},
    )
    copied = copy_rows(harness, source.table, [Read(at, at, (*rows, *extra))])
    expected = {row["id"] for row in rows if row["area"] == "eu"} | {90}
    assert copied.rows == len(expected)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert {row["id"] for row in rows_of(harness)} == expected


@pytest.mark.more
def test_a_copy_before_the_statement_stays_as_it_was_judged(tmp_path: Path) -> None:
    source = Sold()
    source.put(0, id=1, region="eu")
    source.source.checkpoint(border(0) + 500 * SECOND)
    at = source.source.committed
    rows = ((1, "eu"), (90, "eu"), (91, "us"))
    read = Read(at, at, tuple({"id": number, "region": region, "old": None} for number, region in rows))
    table = Table("items", list(source.table.columns))
    source.rename(1, region="area")
    source.put(1, id=2, area="eu")
    source.put(1, id=3, area="us")
    source.source.checkpoint(border(1) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "renamed"), tmp_path / "capture", source.source.messages, windows=2,
        rows={"bank.items": "region = 'eu'"},
    )  # fmt: skip
    harness.all(0)
    assert copy_rows(harness, table, [read]).rows == 2
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert [(row["id"], row["area"]) for row in rows_of(harness)] == [(1, "eu"), (2, "eu"), (90, "eu")]


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1)])
def test_a_tools_copy_that_has_the_column_is_judged_by_the_first_filter(order: tuple[int, ...], tmp_path: Path) -> None:
    """The filters follow one another at a later statement, which nobody has sent yet."""
    fields = [Field("id", INT, True), Field("region", TEXT), Field("old", TEXT)]
    source = short_source(Table("items", list(fields)), Table("_items_gho", [*fields, Field("more", INT)]))
    rows = [
        {"id": number, "region": "eu" if number < 3 else "us", "old": "x" if number % 2 else "y"} for number in range(6)
    ]
    source.transaction(border(0) + SECOND, Dml(source.tables["items"], [(None, row) for row in rows]))
    source.transaction(
        border(0) + 2 * SECOND, Dml(source.tables["_items_gho"], [(None, {**row, "more": 1}) for row in rows])
    )
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("RENAME TABLE items TO _items_del, _items_gho TO items"))
    source.checkpoint(border(1) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "renamed"),
        tmp_path / "capture",
        source.messages,
        windows=2,
        rows={"bank.items": WAY_OUT},
    )
    for window in order:
        harness.all(window)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert [row["id"] for row in rows_of(harness)] == [0, 1, 2]
    assert {row["after"]["id"] for row in harness.rows("changelog", "bank", "_items_gho")} == {0, 1, 2}


@pytest.mark.more
@pytest.mark.parametrize("where", ["region = 'eu'", "area = 'eu'"])
def test_a_name_that_comes_behind_a_moment_is_no_matter_of_its_rows(tmp_path: Path, where: str) -> None:
    """Before the statement a merge judges the changes that lack the column, behind it the table stands still."""
    source = Sold()
    source.put(0, id=1, region="eu", old="us")
    source.put(0, id=2, region="us", old="eu")

    def touch(window: int, number: int, **names: Any) -> Position:
        sent = {"id": number, "old": ABSENT, **names}, {"id": ABSENT, "old": "x", **names}
        return source.source.transaction(source.at(window), Dml(source.table, [sent]))

    before = [touch(0, number, region=ABSENT) for number in (1, 2)]
    source.source.checkpoint(border(0) + 500 * SECOND)
    source.rename(1, region="area")
    behind = touch(1, 1, area=ABSENT)
    source.source.transaction(source.at(1), Ddl("TRUNCATE TABLE items"))
    source.put(1, id=3, area="eu")
    source.source.checkpoint(border(1) + 500 * SECOND)
    source.source.checkpoint(border(2) + 500 * SECOND)
    harness = made(source, tmp_path, (), where)
    assert [one["id"] for one in rows_of(harness)] == [3], "nobody needs the changes before the truncation"
    for number, place in enumerate(before):
        found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / f"moment_{number}")
        assert not found.failed
        (row,) = found.tables[ITEMS].scan().to_arrow().to_pylist()
        assert (row["id"], row["region"], row["old"]) == (1, "eu", "x")
    found = tables_at(harness.pipeline, AtPosition(None, *behind), tmp_path / "behind")
    assert "a statement renamed a column of its row filter, and some images lack" in found.failed[ITEMS].reason


@pytest.mark.more(after=1)
@pytest.mark.parametrize("sent", ["no change", "changes without it"])
def test_a_moment_before_any_change_with_the_filters_column(tmp_path: Path, sent: str) -> None:
    """A statement renames the column before an event has it; the columns of the moment come from its CREATE TABLE."""
    source = Sold()
    sql = "CREATE TABLE items (id INT PRIMARY KEY, region VARCHAR(80) DEFAULT 'eu', old VARCHAR(80))"
    place = source.source.transaction(source.at(0), Ddl(sql))
    if sent != "no change":
        row = {"id": 1, "region": ABSENT, "old": "x"}
        place = source.source.transaction(source.at(0), Dml(source.table, [(None, row)]))
    source.source.checkpoint(border(0) + 500 * SECOND)
    source.source.transaction(source.at(1), Ddl("TRUNCATE TABLE items"))
    source.source.rows["items"].clear()
    source.rename(1, region="area")
    source.put(1, id=3, area="eu", old="us")
    lacks = {"id": 3, "area": ABSENT, "old": ABSENT}, {"id": ABSENT, "area": "us", "old": ABSENT}
    source.source.transaction(source.at(1), Dml(source.table, [lacks]))
    source.source.checkpoint(border(1) + 500 * SECOND)
    source.source.checkpoint(border(2) + 500 * SECOND)
    harness = made(source, tmp_path, (), "region = 'eu'")
    assert not harness.pipeline.ledger.paused_tables()
    found = tables_at(harness.pipeline, AtPosition(None, *place), tmp_path / "moment")
    assert not found.failed
    rows = found.tables[ITEMS].scan().to_arrow().to_pylist() if ITEMS in found.tables else []
    assert [(row["id"], row["region"]) for row in rows] == ([] if sent == "no change" else [(1, "eu")])


@pytest.mark.more(after=1)
def test_all_tables_with_one_filter_that_cannot_be_used_stand_still_and_stop_no_run(tmp_path: Path) -> None:
    """Each has its own reason, though all fail at one place."""
    fields = [Field("id", INT, True), Field("region", TEXT), Field("old", TEXT)]
    source = short_source(*(Table(name, [*fields]) for name in ("items", "goods")))
    for number, table in enumerate(source.tables.values()):
        at = border(0) + (1 + 9 * number) * SECOND
        source.transaction(at, Dml(table, [(None, {"id": 1, "region": "eu", "old": "x"})]))
        source.transaction(at + SECOND, Ddl(f"ALTER TABLE {table.name} RENAME COLUMN region TO area"))
        table.columns[1] = Field("area", TEXT)
        source.rows[table.name] = {(1,): {"id": 1, "area": "eu", "old": "x"}}
        lacks = {"id": 1, "area": ABSENT, "old": ABSENT}, {"id": ABSENT, "area": ABSENT, "old": "y"}
        source.transaction(at + 2 * SECOND, Dml(table, [lacks]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "both"), tmp_path / "capture", source.messages, windows=1, rows={"bank.*": "region = 'eu'"}
    )  # fmt: skip
    harness.all()
    harness.settle()
    paused = {one.table.table: one.reason for one in harness.pipeline.ledger.paused_tables()}
    assert paused.keys() == {"items", "goods"}
    assert all("and some images lack columns" in reason for reason in paused.values())
