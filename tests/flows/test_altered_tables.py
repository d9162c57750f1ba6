"""A table that a statement alters is looked at by the run that brings the statement, and waits until a frontier holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from tests.flows.harness import Bench, Harness, refresh, settle_open
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, insert, items, open_short, short_source, update
from tests.flows.source import Ddl, Source, write_capture
from tests.flows.test_backlog import ONE, TWO, backlog, opened, opened_tables
from tests.flows.test_live import pieces
from tests.flows.test_merged_tables import MERGE, ORDERS, shard
from tests.flows.test_shards import put
from tests.tiers import chosen, times

FILLS = "ALTER TABLE bank.two ADD COLUMN x int DEFAULT 5"
UNREAD = "ALTER TABLE two FROBNICATE (1, 'a')"
WINDOWS = 3


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "altered")


def told_in(window: int, *sqls: str, behind_the_cut: bool = False) -> Source:
    """Two tables with rows in the first window. One of them changes in each, and one window tells statements, too."""
    source = short_source(items("one"), items("two"))
    for name in source.tables:
        insert(source, border(0) + 10 * SECOND, range(5), table=name)
    for number in range(WINDOWS):
        if number:
            update(source, border(number) + 10 * SECOND, {number: number}, table="one")
        told = [Ddl(sql) for sql in sqls] if number == window else []
        if told and not behind_the_cut:
            source.transaction(border(number) + 20 * SECOND, *told)
        source.checkpoint(border(number) + 500 * SECOND)
        if told and behind_the_cut:
            source.transaction(border(number) + 550 * SECOND, *told)
    return source


def state(harness: Harness, table: TableId, layer: str = "snapshot") -> SnapshotState:
    return stored_state(harness.pipeline, layer, table)[1]


def counted(harness: Harness, table: TableId) -> dict[datetime, int]:
    """How many statements count for a table, by window; windows with none are left out."""
    found = Counter[datetime]()
    for row in harness.pipeline.ledger.window_tables():
        if row.table == table:
            found[row.window_start] += row.statements
    return dict(+found)


def rows_of(harness: Harness) -> list[WindowTable]:
    """All counts, whichever run wrote them."""
    found = [replace(row, run="") for row in harness.pipeline.ledger.window_tables()]
    return sorted(found, key=lambda row: (row.window_start, row.kafka_partition, row.table))


@pytest.mark.parametrize(
    "sql", chosen([FILLS, "RENAME TABLE two TO x, x TO y", UNREAD, "CREATE TABLE IF NOT EXISTS two (id int)"], 2)
)
def test_the_run_that_brings_a_statement_looks_at_its_table(sql: str, tmp_path: Path) -> None:
    source = told_in(1, sql)
    harness = opened(tmp_path, source)
    harness.tables(0)
    versions = harness.pipeline.lake.state(harness.pipeline.table_path("changelog", TWO))
    with opened_tables() as found:
        harness.tables(1)
    new_names = {"y"} if sql.endswith("TO y") else set()  # rows moved to it, so it is looked at, too
    assert found == {"one", "two", *new_names}
    assert state(harness, TWO).frontier.window == border(1)
    (row,) = (one for one in harness.pipeline.ledger.window_tables() if one.table == TWO and one.statements)
    assert (row.window_start, row.statements, row.changes, row.kept, row.truncations) == (border(1), 1, 0, 0, 0)
    assert row.first_position == row.last_position == state(harness, TWO).applied
    (listed,) = harness.rows("ddl")
    assert SourcePosition(**listed["source_position"]) == row.first_position
    assert harness.pipeline.lake.state(harness.pipeline.table_path("changelog", TWO)) == versions
    with opened_tables() as found:
        harness.tables(2)
    assert found == {"one"}
    assert state(harness, TWO).frontier.window == border(1)
    rows = {
        **source.rows,
        **({"two": {}} if sql.startswith("RENAME") else {}),
    }  # the source of these tests does not follow it
    assert harness.snapshots(source.tables) == rows
    assert backlog(harness) == frozenset()


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    "sql",
    chosen(
        [
            "CREATE TABLE three LIKE two",
            "ALTER TABLE two_more FROBNICATE",
            "ALTER TABLE other.two ADD COLUMN x int DEFAULT 5",
            "CREATE INDEX by_n ON two (n)",
            "ALTER DATABASE bank CHARACTER SET utf8mb4",
        ],
        3,
    ),
)
def test_other_statements_concern_no_table(sql: str, tmp_path: Path) -> None:
    harness = opened(tmp_path, told_in(1, sql))
    harness.tables(0)
    with opened_tables() as found:
        harness.tables(1)
    assert found == {"one"}
    assert counted(harness, TWO) == {}


def test_a_table_waits_in_the_backlog_until_the_frontier_holds_its_statement(tmp_path: Path) -> None:
    source = told_in(2, FILLS)
    harness = opened(tmp_path, source)
    harness.tables(0)
    assert backlog(harness) == frozenset()
    harness.tables(2)
    assert backlog(harness) == frozenset({ONE, TWO})
    assert (state(harness, TWO).frontier.window, counted(harness, TWO)) == (border(0), {border(2): 1})
    harness.tables(1)
    assert backlog(harness) == frozenset()
    assert (state(harness, TWO).frontier.window, state(harness, TWO).waits_from) == (border(2), None)
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
@pytest.mark.parametrize("sql", [FILLS, UNREAD])
def test_a_statement_counts_for_a_table_that_is_known_only_later(sql: str, bench_of: Bench, tmp_path: Path) -> None:
    source = told_in(1, sql, "ALTER TABLE nobody FROBNICATE")
    harness = open_short(bench_of, tmp_path / "capture", source.messages)
    harness.all(1)
    assert counted(harness, TWO) == {}
    harness.all(0)
    assert [window.start for window in find_work(harness.pipeline).tables] == [border(1)]
    harness.settle()
    assert counted(harness, TWO) == {border(1): 1}
    assert backlog(harness) == frozenset()


def test_a_statement_behind_the_cut_is_waited_for(tmp_path: Path) -> None:
    source = told_in(1, FILLS, behind_the_cut=True)
    harness = opened(tmp_path, source)
    harness.tables(0)
    harness.tables(1)
    assert backlog(harness) == frozenset({TWO})
    assert state(harness, TWO).frontier.window == border(0)
    harness.tables(2)
    assert backlog(harness) == frozenset()
    assert state(harness, TWO).frontier.window == border(2)


@pytest.mark.more
def test_a_history_goes_on_over_a_statement(bench_of: Bench, tmp_path: Path) -> None:
    source = told_in(1, FILLS)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, history=["*"], deletes={"*": "soft"})
    harness.all(0)
    rows = harness.rows("history", "bank", "two")
    harness.all(1, 2)
    assert state(harness, TWO, "history").frontier.window == border(2)
    assert harness.rows("history", "bank", "two") == rows


@pytest.mark.more
def test_statements_of_a_renamed_table_count_for_its_table_in_the_lake(bench_of: Bench, tmp_path: Path) -> None:
    """By its name at the source, whether the statement was understood or not; its name in the lake means nothing."""
    source = told_in(1, FILLS, UNREAD, "ALTER TABLE sales.things ADD COLUMN y int", "ALTER TABLE things FROBNICATE")
    things = TableId("sales", "", "things")
    harness = open_short(bench_of, tmp_path / "capture", source.messages, rename={"bank.two": "sales.things"})
    harness.all(0)
    harness.all(1)
    assert counted(harness, things) == {border(1): 2}
    assert state(harness, things).frontier.window == border(1)
    assert backlog(harness) == frozenset()


@pytest.mark.more
def test_statements_of_shards_count_for_the_merged_table(bench_of: Bench, tmp_path: Path) -> None:
    """In any order of windows: those of a shard that is known only by a later window, too."""
    one, late = shard(0, 1), shard(7, 9)
    source = short_source(one, late)
    put(source, 0, 1, one, 1, 2)
    source.checkpoint(border(0) + 500 * SECOND)
    for sql in (
        "ALTER TABLE shop_00.orders_0001 ADD COLUMN x int DEFAULT 5",
        "ALTER TABLE shop_07.orders_0009 ADD COLUMN x int DEFAULT 5",
        "ALTER TABLE shop_03.orders_0001 ADD COLUMN x int DEFAULT 5",
        "ALTER TABLE shop.orders ADD COLUMN x int DEFAULT 5",
        "ALTER TABLE orders_0009 FROBNICATE",
        "DROP DATABASE shop_07",
        "RENAME TABLE shop_00.orders_0001 TO shop_07.orders_0009",
    ):
        source.transaction(border(1) + SECOND, Ddl(sql))
    source.checkpoint(border(1) + 500 * SECOND)
    put(source, 2, 5, late, 4)
    source.checkpoint(border(2) + 500 * SECOND)
    found = []
    for number, order in enumerate(chosen([*permutations(range(3))][::-1], 2)):
        harness = open_short(bench_of, tmp_path / f"{number}", source.messages, merge=MERGE)
        for window in order:
            harness.all(window)
        harness.settle()
        assert counted(harness, ORDERS) == {border(1): 5}
        found.append(rows_of(harness))
    assert all(rows == found[0] for rows in found)


def busy(random: Random, windows: int) -> Source:
    """Statements of all kinds amid changes of three tables; the third one has rows only at the end."""
    source = short_source(items("one"), items("two"), items("late"))
    sqls = (
        FILLS, UNREAD, "ALTER TABLE one DROP COLUMN x", "RENAME TABLE one TO gone, late TO one", "ALTER TABLE late FROBNICATE",
        "CREATE TABLE late (id int)", "CREATE INDEX i ON one (n)", "TRUNCATE TABLE none", "DROP DATABASE other",
    )  # fmt: skip
    for number in range(windows):
        for second in sorted(random.sample(range(1, 400), 8)):
            at = border(number) + second * SECOND
            if random.random() < 0.5:
                source.transaction(at, *(Ddl(sql) for sql in random.choices(sqls, k=random.randint(1, 3))))
            elif random.random() < 0.3:
                source.checkpoint(at)
            else:
                insert(source, at, [1000 * number + second], table=random.choice(("one", "two")))
        source.checkpoint(border(number) + 500 * SECOND)
    insert(source, border(windows - 1) + 501 * SECOND, range(3), table="late")
    source.checkpoint(border(windows - 1) + 502 * SECOND)
    return source


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_counts_are_equal_however_a_window_is_made(seed: int, bench_of: Bench, tmp_path: Path) -> None:
    random = Random(seed)
    source = busy(random, WINDOWS)
    whole = opened_over(bench_of, tmp_path / "whole", source.messages)
    whole.settle()
    expected = rows_of(whole)
    assert sum(row.statements for row in expected) > 10
    assert all(row.changes == row.kept + row.filtered + row.redelivered + row.quarantined for row in expected)
    whole.tables(*range(WINDOWS))
    assert rows_of(whole) == expected, "made again"
    backwards = opened_over(bench_of, tmp_path / "backwards", source.messages)
    for number in reversed(range(WINDOWS)):
        backwards.all(number)
    backwards.settle()
    assert rows_of(backwards) == expected
    harness = opened_over(bench_of, tmp_path / "pieces", [], live=True)
    for number, some in enumerate(pieces(source.messages, random, times(4, 9))):
        write_capture(tmp_path / "pieces", some, name=f"piece{number}")
        refresh(harness)
    settle_open(harness, rounds=10)
    assert rows_of(harness) == expected
    assert find_work(harness.pipeline).nothing


def opened_over(bench: Bench, folder: Path, messages: Iterable[Any], *, live: bool = False) -> Harness:
    window = {"end": border(WINDOWS), **({"live": True} if live else {})}
    write_capture(folder, messages)
    return bench.open(folder, partitions=LANES, complete=not live, window=window)
