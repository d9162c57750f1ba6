"""TRUNCATE and DROP TABLE empty snapshots where they stand in the source's order, whatever partition they came by."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.short import LANES, SECOND, delete, insert, items, open_short, short_source, update
from tests.flows.source import DATABASE, Ddl, Source
from tests.flows.test_any_order import assert_equal

pytestmark = pytest.mark.spark


def statement(source: Source, at: datetime, sql: str, *emptied: str) -> None:
    """A statement as the source does it: every Kafka partition gets a copy."""
    source.transaction(at, Ddl(sql))
    for name in emptied:
        source.rows[name].clear()


def emptied_again_and_again() -> Source:
    """One table is emptied within a window, at the border of two, and dropped; the other one lives on."""
    source = short_source(items("one"), items("two"))
    for name in ("one", "two"):
        insert(source, border(0) + 10 * SECOND, range(10), table=name)
    statement(source, border(0) + 60 * SECOND, "TRUNCATE TABLE one", "one")
    insert(source, border(0) + 70 * SECOND, (1, 2, 20), table="one", n=7)
    source.checkpoint(border(0) + 300 * SECOND)
    # The copy of one Kafka partition arrives in this window, that of the other one in the next.
    update(source, border(1) - 0.5 * SECOND, {2: 8}, table="one")
    statement(source, border(1) - 0.25 * SECOND, "/* end of day */ truncate `bank`.`one`", "one")
    insert(source, border(1) + 10 * SECOND, (3,), table="one")
    delete(source, border(1) + 20 * SECOND, (4,), table="two")
    statement(source, border(1) + 30 * SECOND, "CREATE INDEX by_n ON two (n)")
    source.checkpoint(border(1) + 300 * SECOND)
    statement(source, border(2) + 10 * SECOND, "DROP TABLE IF EXISTS one", "one")
    update(source, border(2) + 20 * SECOND, {5: 6}, table="two")
    source.checkpoint(border(2) + 300 * SECOND)
    return source


def check(harness: Harness, source: Source) -> None:
    assert harness.snapshots(source.tables) == source.rows
    listed = sorted(harness.rows("ddl"), key=lambda row: tuple(row["source_position"].values()))
    assert [row["effect"] for row in listed] == [
        "truncate bank.one",
        "truncate bank.one",
        "index bank.two",
        "drop bank.one",
    ]
    assert all(row["parsed"] and row["stage"] == "tables" and row["execution_seconds"] == 1 for row in listed)
    truncates = [row for row in harness.rows("changelog", DATABASE, "one") if row["op"] == "truncate"]
    assert len(truncates) == 3
    assert {row["row_number"] for row in truncates} == {0}
    tallies = harness.pipeline.ledger.window_tables()
    assert sum(row.truncations for row in tallies) == 3
    assert sum(row.kept for row in tallies) == len(source.changes)
    assert all(row.changes == row.kept + row.redelivered + row.quarantined for row in tallies)


@pytest.mark.more
def test_tables_are_emptied_where_the_source_emptied_them(bench: Bench, tmp_path: Path) -> None:
    source = emptied_again_and_again()
    forwards = open_short(bench, tmp_path / "capture", source.messages)
    assert forwards.pipeline.kafka_partitions == range(LANES)
    for number in range(3):
        forwards.all(number)
        if number == 0:
            shown = forwards.snapshots(source.tables)
            assert sorted(shown["one"]) == [(1,), (2,), (20,)]
            assert len(shown["two"]) == 10
    forwards.settle()
    check(forwards, source)
    backwards = open_short(bench, tmp_path / "again", source.messages)
    for number in (2, 1, 0):
        backwards.all(number)
    backwards.settle()
    check(backwards, source)
    assert_equal(backwards, forwards)


def test_a_new_table_concerns_only_windows_whose_statements_may_have_emptied_it(bench: Bench, tmp_path: Path) -> None:
    source = short_source(items("one"), items("late"))
    insert(source, border(0) + 10 * SECOND, range(10), table="one")
    statement(source, border(0) + 60 * SECOND, "CREATE INDEX by_n ON one (n)")
    source.checkpoint(border(0) + 300 * SECOND)
    insert(source, border(1) + 10 * SECOND, (10, 11), table="one")
    statement(source, border(1) + 60 * SECOND, "TRUNCATE TABLE late", "late")
    source.checkpoint(border(1) + 300 * SECOND)
    insert(source, border(2) + 10 * SECOND, (1, 2), table="late")
    source.checkpoint(border(2) + 300 * SECOND)
    harness = open_short(bench, tmp_path / "capture", source.messages)
    for number in range(3):
        harness.all(number)
    window = harness.pipeline.grid.at
    assert find_work(harness.pipeline).tables == (window(1),)
    harness.settle()
    assert harness.snapshots(source.tables) == source.rows
    assert [row["op"] for row in harness.rows("changelog", DATABASE, "late")].count("truncate") == 1
