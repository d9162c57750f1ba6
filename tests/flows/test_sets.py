"""Statements of a TDSQL: each set sends its own, which changes the rows of this set alone."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.unproven import unproven_tables
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.short import items, open_short
from tests.flows.source_tables import INT, TEXT, Field, Table
from tests.flows.tdsql import NAMES, Sets
from tests.flows.test_merged_tables import MERGE, shards_of

ID, N, NOTE, MORE = Field("id", INT, True), Field("n", INT), Field("note", TEXT), Field("more", INT)


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "sets")


def shown(harness: Harness, *names: str, layer: str = "snapshot") -> list[tuple[object, ...]]:
    return sorted(tuple(row[name] for name in names) for row in harness.rows(layer, "bank", "items"))


def rolling() -> Sets:
    """Each set truncates and alters its table at another moment, and rows come before and between."""
    sets = Sets(lambda: [items()])
    for number, name in enumerate(NAMES):
        sets.put(name, 0, 1 + number, "items", {"id": 10 * number, "n": 1})
    for number, name in enumerate(NAMES):
        sets.truncate(name, 0, 10 + 5 * number, "items")
        sets.put(name, 0, 12 + 5 * number, "items", {"id": 10 * number + 1, "n": 2})
    for number, name in enumerate(NAMES):
        sets.alter(name, 0, 40 + 5 * number, "items", "ADD COLUMN more int DEFAULT 5", [ID, N, NOTE, MORE])
        sets.put(name, 0, 42 + 5 * number, "items", {"id": 10 * number + 2, "n": 3, "more": 7})
    sets.checkpoint(0)
    return sets


ROLLED = [
    (name, 10 * number + one, more) for number, name in enumerate(NAMES) for one, more in ((1, 5), (2, 7))
]  # fmt: skip


def test_a_statement_of_a_set_changes_the_rows_of_this_set_alone(bench_of: Bench, tmp_path: Path) -> None:
    harness = open_short(bench_of, tmp_path / "capture", rolling().messages, windows=1)
    harness.all()
    assert shown(harness, "_source_set", "id", "more") == ROLLED
    assert {one.name: one.is_key for one in known_tables(harness.pipeline)[table_id("items")]} == {
        "id": True, "n": False, "note": False, "more": False, "_source_set": True,
    }  # fmt: skip
    assert harness.settle() == 0


def windows_of(sets: Sets) -> None:
    """Three windows: rows of all sets, then statements that reach one set in each window, and rows in between."""
    for number, name in enumerate(NAMES):
        sets.put(name, 0, 1 + number, "items", {"id": 10 * number, "n": 1}, {"id": 10 * number + 1, "n": 1})
    sets.checkpoint(0)
    for window, name in ((1, "set_2"), (2, "set_1")):
        sets.truncate(name, window, 10, "items")
        sets.put(name, window, 20, "items", {"id": 100 * window, "n": 2})
        sets.alter(name, window, 30, "items", "ADD COLUMN more int DEFAULT 5", [ID, N, NOTE, MORE])
        sets.put(name, window, 40, "items", {"id": 100 * window + 1, "n": 3, "more": 7})
        sets.put("set_3", window, 45, "items", {"id": 100 * window + 50, "n": 4})
        sets.checkpoint(window)


BEHIND: list[list[tuple[object, ...]]] = [
    [("set_1", 0, None), ("set_1", 1, None), ("set_2", 10, None), ("set_2", 11, None), ("set_3", 20, None), ("set_3", 21, None)],
    [
        ("set_1", 0, None), ("set_1", 1, None), ("set_2", 100, 5), ("set_2", 101, 7), ("set_3", 20, None), ("set_3", 21, None),
        ("set_3", 150, None),
    ],
    [
        ("set_1", 200, 5), ("set_1", 201, 7), ("set_2", 100, 5), ("set_2", 101, 7), ("set_3", 20, None), ("set_3", 21, None),
        ("set_3", 150, None), ("set_3", 250, None),
    ],
]  # fmt: skip


@pytest.mark.more
@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_windows_in_any_order_tell_each_set_alone(order: tuple[int, ...], bench_of: Bench, tmp_path: Path) -> None:
    sets = Sets(lambda: [items()])
    windows_of(sets)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, history=["*"])
    for number, window in enumerate(order):
        harness.all(window)
        if order == (0, 1, 2):
            behind = BEHIND[number]
            has_more = any("more" in row for row in harness.rows("snapshot", "bank", "items"))
            assert shown(harness, "_source_set", "id", *["more"][:has_more]) == [row[: 2 + has_more] for row in behind]
    harness.settle()
    assert shown(harness, "_source_set", "id", "more") == BEHIND[-1]
    living = [row for row in harness.rows("history", "bank", "items") if row["_valid_to"] is None]
    assert sorted((row["_source_set"], row["id"]) for row in living) == [row[:2] for row in BEHIND[-1]]


@pytest.mark.more
def test_equal_statements_at_equal_positions_of_two_sets_are_two(bench_of: Bench, tmp_path: Path) -> None:
    """Binlogs of sets are numbered by each server: positions, GTID numbers and times may all be equal."""
    sets = Sets(lambda: [items()], files=(9, 9, 9))
    for name in NAMES:
        sets.put(name, 0, 1, "items", {"id": 1, "n": 1})
        sets.say(name, 0, 10, "TRUNCATE TABLE items")
        sets.of[name].rows["items"].clear()
        sets.put(name, 0, 20, "items", {"id": 2, "n": 2})
    sets.checkpoint(0)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=1, deletes={"*": "soft"})
    harness.all()
    gone = "_deleted_at"
    rows = sorted(
        (row["_source_set"], row["id"], row[gone] is not None) for row in harness.rows("snapshot", "bank", "items")
    )
    assert rows == [(name, number, number == 1) for name in NAMES for number in (1, 2)]
    statements = harness.rows("ddl")
    assert sorted(row["source_set"] for row in statements) == [*NAMES]


@pytest.mark.more
def test_a_dropped_database_takes_the_rows_of_its_set(bench_of: Bench, tmp_path: Path) -> None:
    sets = Sets(lambda: [items()])
    for name in NAMES:
        sets.put(name, 0, 1, "items", {"id": 1, "n": 1})
    sets.say("set_2", 0, 10, "DROP DATABASE bank")
    sets.checkpoint(0)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=1)
    harness.all()
    assert shown(harness, "_source_set", "id") == [("set_1", 1), ("set_3", 1)]


@pytest.mark.more
def test_rows_keep_their_set_where_a_statement_renames_their_table(bench_of: Bench, tmp_path: Path) -> None:
    """The statement reaches two of three sets; the rows of the third have the former name."""
    sets = Sets(lambda: [items(), items("goods")])
    for name in NAMES:
        sets.put(name, 0, 1, "items", {"id": 1, "n": 1}, {"id": 2, "n": 1})
    for name in NAMES[:2]:
        sets.say(name, 0, 10, "RENAME TABLE items TO goods")
        source = sets.of[name]
        source.rows["goods"], source.rows["items"] = source.rows["items"], {}
        sets.put(name, 0, 20, "goods", {"id": 3, "n": 2})
    sets.checkpoint(0)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=1)
    harness.all()
    assert shown(harness, "_source_set", "id") == [("set_3", 1), ("set_3", 2)]
    goods = sorted((row["_source_set"], row["id"]) for row in harness.rows("snapshot", "bank", "goods"))
    assert goods == [(name, number) for name in NAMES[:2] for number in (1, 2, 3)]


def swapped(*names: str) -> Sets:
    """Two tables with different keys, which exchange their names in some of two sets; rows come before and after."""
    sets = Sets(lambda: [items(), Table("pairs", [Field("a", INT, True), Field("n", INT)])], names=NAMES[:2])
    for name in NAMES[:2]:
        sets.put(name, 0, 1, "items", {"id": 1, "n": 1}, {"id": 2, "n": 1})
        sets.put(name, 0, 2, "pairs", {"a": 3, "n": 2}, {"a": 4, "n": 2})
    for name in names:
        sets.say(name, 0, 10, "RENAME TABLE items TO spare, pairs TO items, spare TO pairs")
    sets.checkpoint(0)
    return sets


@pytest.mark.more
def test_rows_of_another_key_come_by_names_that_are_exchanged_in_all_sets(bench_of: Bench, tmp_path: Path) -> None:
    harness = open_short(bench_of, tmp_path / "capture", swapped(*NAMES[:2]).messages, windows=1)
    harness.all()
    assert shown(harness, "_source_set", "a") == [(name, number) for name in NAMES[:2] for number in (3, 4)]
    pairs = sorted((row["_source_set"], row["id"]) for row in harness.rows("snapshot", "bank", "pairs"))
    assert pairs == [(name, number) for name in NAMES[:2] for number in (1, 2)]
    assert not paused_here(harness.pipeline)


@pytest.mark.more
def test_a_table_whose_sets_have_different_keys_after_a_rename_stands_still(bench_of: Bench, tmp_path: Path) -> None:
    """Rows that one key cannot find are not guessed; the pause names the reason and the command."""
    harness = open_short(bench_of, tmp_path / "capture", swapped("set_2").messages, windows=1)
    harness.all()
    still = {pause.table.table: pause.reason for pause in paused_here(harness.pipeline).values()}
    assert still.keys() == {"items", "pairs"}
    assert all("different primary keys" in one and "dts-assets tables resume" in one for one in still.values())


@pytest.mark.more
def test_a_modified_type_converts_the_rows_of_the_sets_that_it_reached(bench_of: Bench, tmp_path: Path) -> None:
    """Lists of columns have equal names before and behind it: each set's own list tells its types."""
    sets = Sets(lambda: [items()])
    for name in NAMES:
        sets.put(name, 0, 1, "items", {"id": 1, "n": 7})
    sets.alter("set_2", 0, 10, "items", "MODIFY n varchar(80)", [ID, Field("n", TEXT), NOTE])
    sets.put("set_2", 0, 20, "items", {"id": 2, "n": "x"})
    sets.put("set_1", 0, 21, "items", {"id": 2, "n": 8})
    sets.checkpoint(0)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=1)
    harness.all()
    assert shown(harness, "_source_set", "id", "n") == [
        ("set_1", 1, "7"), ("set_1", 2, "8"), ("set_2", 1, "7"), ("set_2", 2, "x"), ("set_3", 1, "7"),
    ]  # fmt: skip
    told = {(row.source_set, row.columns[1].original_type) for row in harness.pipeline.ledger.table_shapes()}
    assert told == {("set_1", "int(11)"), ("set_2", "int(11)"), ("set_2", "varchar(80)"), ("set_3", "int(11)")}


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_set_whose_first_event_comes_behind_its_statements_has_all_of_them(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    sets = Sets(lambda: [items()], names=NAMES[:2])
    sets.put("set_1", 0, 1, "items", {"id": 1, "n": 1})
    sets.say("set_2", 0, 10, "CREATE TABLE bank.items (id int PRIMARY KEY, n int, note varchar(80))")
    sets.alter("set_1", 0, 20, "items", "ADD COLUMN more int DEFAULT 3", [ID, N, NOTE, MORE])
    altered = [ID, Field("n", TEXT), NOTE, MORE]
    sets.alter("set_2", 1, 10, "items", "ADD COLUMN more int DEFAULT 5, MODIFY n varchar(80)", altered)
    sets.put("set_2", 2, 10, "items", {"id": 2, "n": "x", "more": 7})
    for window in range(3):
        sets.checkpoint(window)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=3)
    for window in order:
        harness.all(window)
    harness.settle()
    assert not unproven_tables(harness.pipeline).results
    assert shown(harness, "_source_set", "id", "n", "more") == [("set_1", 1, "1", 3), ("set_2", 2, "x", 7)]


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 0, 1)])
def test_a_set_of_another_key_is_not_proven_whichever_window_was_made_first(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    """The last window is made again as the ones before it begin a lineage: its event stands behind the statement then."""
    sets = Sets(lambda: [items()], names=NAMES[:2])
    sets.put("set_1", 0, 1, "items", {"id": 1, "n": 1})
    sets.say("set_2", 0, 10, "CREATE TABLE bank.items (id int PRIMARY KEY, n int, note varchar(80))")
    altered = [ID, Field("n", INT, True), NOTE]
    sets.alter("set_2", 1, 10, "items", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", altered)
    sets.put("set_2", 2, 10, "items", {"id": 2, "n": 2})
    for window in range(3):
        sets.checkpoint(window)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=3)
    for window in order:
        harness.all(window)
    harness.settle()
    (said,) = unproven_tables(harness.pipeline).results.values()
    assert said.startswith("set_2 at ")
    assert said.endswith(": its rows lack this statement, as not all rows have one primary key")


def of_other_keys() -> Sets:
    """Two sets whose tables have different keys from the begin; the key of the first one does not find rows of the other."""
    sets = Sets(lambda: [items()], names=NAMES[:2])
    sets.of["set_2"].tables["items"].columns[:] = [ID, Field("n", INT, True), NOTE]
    for second in (1, 3, 5):
        sets.put("set_1", 0, second, "items", {"id": second, "n": 1})
        sets.put("set_2", 0, second + 1, "items", {"id": 1, "n": second})
    sets.checkpoint(0)
    return sets


def test_rows_of_sets_with_different_keys_are_found_by_their_own(bench_of: Bench, tmp_path: Path) -> None:
    """Each set has lineages of its own, so a span of positions is of one set."""
    harness = open_short(bench_of, tmp_path / "capture", of_other_keys().messages, windows=1)
    harness.all()
    assert not unproven_tables(harness.pipeline).results
    assert shown(harness, "_source_set", "id", "n") == [
        ("set_1", 1, 1), ("set_1", 3, 1), ("set_1", 5, 1), ("set_2", 1, 1), ("set_2", 1, 3), ("set_2", 1, 5),
    ]  # fmt: skip


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
def test_deleted_rows_of_sets_with_different_keys_are_not_proven(
    order: tuple[int, ...], bench_of: Bench, tmp_path: Path
) -> None:
    """A truncation looks for all rows that stand by one key, and rows of the other set have none in it."""
    sets = of_other_keys()
    sets.truncate("set_2", 1, 20, "items")
    sets.put("set_1", 1, 30, "items", {"id": 7, "n": 1})
    sets.checkpoint(1)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=2, deletes={"*": "soft"})
    for window in order:
        harness.all(window)
    harness.settle()
    (said,) = unproven_tables(harness.pipeline).results.values()
    assert "its shards or sets have different primary keys" in said


@pytest.mark.more
def test_shards_of_sets_are_told_by_both(bench_of: Bench, tmp_path: Path) -> None:
    sets = Sets(lambda: shards_of(2, 1), names=NAMES[:2])
    for name, source in sets.of.items():
        for table in source.tables:
            sets.put(name, 0, 1, table, {"id": 1, "n": 1})
    sets.say("set_2", 0, 10, "TRUNCATE TABLE shop_01.orders_0000")
    sets.checkpoint(0)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=1, merge=MERGE)
    harness.all()
    names = ("_source_database", "_source_set", "id")
    rows = sorted(tuple(row[name] for name in names) for row in harness.rows("snapshot", "shop", "orders"))
    assert rows == [("shop_00", "set_1", 1), ("shop_00", "set_2", 1), ("shop_01", "set_1", 1)]


@pytest.mark.more
@pytest.mark.parametrize("former", ["outside", "_orders_0000_gho"])
@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
def test_a_shard_of_a_set_that_was_a_table_outside_says_so(
    order: tuple[int, ...], former: str, bench_of: Bench, tmp_path: Path
) -> None:
    """A tool that alters a copy of the table and swaps the two keeps the rows."""
    sets = Sets(lambda: [*shards_of(1, 1), Table(former, [ID, N])], names=NAMES[:2])
    for name, source in sets.of.items():
        for table in source.tables:
            sets.put(name, 0, 1, table, {"id": 1, "n": 1})
    sets.say("set_2", 1, 10, f"RENAME TABLE shop_00.orders_0000 TO spare, bank.{former} TO shop_00.orders_0000")
    for window in range(2):
        sets.checkpoint(window)
    harness = open_short(bench_of, tmp_path / "capture", sets.messages, windows=2, merge=MERGE)
    for window in order:
        harness.all(window)
    harness.settle()
    found = unproven_tables(harness.pipeline)
    said = f"the table was bank.{former}, whose rows do not move to a merged table with several sets"
    doubts = {str(table): one.split(": ")[-1] for table, one in found.results.items()}
    assert doubts.get("shop.orders") == (said if former == "outside" else None), doubts
    left = "the table was shop_00.orders_0000, a shard of shop.orders, whose rows do not move to it"
    assert doubts.keys() <= {"shop.orders", "bank.spare"}
    assert doubts.get("bank.spare", left) == left
    assert len(harness.rows("snapshot", "shop", "orders")) == 2


@pytest.mark.more
def test_a_registry_that_was_lost_knows_the_sets_again(bench_of: Bench, tmp_path: Path) -> None:
    harness = open_short(bench_of, tmp_path / "capture", rolling().messages, windows=1, name="lost")
    harness.all()
    before = known_tables(harness.pipeline)
    harness.pipeline.settings.registry_path.unlink()
    again = open_short(bench_of, tmp_path / "again", rolling().messages, windows=1, name="lost")
    assert known_tables(again.pipeline) == before
    assert again.pipeline.settings.routes.by_set
    assert again.settle() == 0


@pytest.mark.more
def test_a_table_of_sets_has_no_statements_and_says_so(bench_of: Bench, tmp_path: Path) -> None:
    messages = rolling().messages
    harness = open_short(bench_of, tmp_path / "capture", messages, windows=1, sql={"tables": ["*"]})
    harness.all()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "several sets of a TDSQL" in paused.reason
    assert "sql.tables" in paused.reason
