"""The layer ``sql``: a statement for each row of a changelog, window by window, whatever the order and the repetitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import SQL, Selection
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.statement_export import Exported, Wanted, export_statements
from dts_assets.flows.statement_layer import STATE_PROPERTY
from dts_assets.stages.sql_dialects import DIALECTS
from dts_assets.store.lake import Lake
from tests.flows.harness import Bench, Harness, settle_open, table_id
from tests.flows.history import WINDOWS, History, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, item, items, open_short, short_source, three_windows
from tests.flows.source import Ddl, Dml, Source, write_capture
from tests.flows.source_tables import TEXT, Field, Table
from tests.flows.test_paused_tables import broken, of_layer
from tests.tiers import chosen, times

ALL = {"tables": ["*"]}
WORDS = {"insert": "INSERT", "read": "INSERT", "update": "UPDATE", "delete": "DELETE", "truncate": "TRUNCATE"}
SHOWN = ("source_position", "row_number", "kafka_partition", "kafka_offset", "window_start")


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "statements")


def statements(harness: Harness, name: str) -> list[str]:
    """The statements of a table in the order of their positions."""
    rows = harness.rows("sql", *table_id(name).path)
    key = lambda row: (*row["source_position"].values(), row["row_number"], row["kafka_partition"])  # noqa: E731
    return [row["statement"] for row in sorted(rows, key=key)]


def assert_layer_holds(harness: Harness, names: Sequence[str]) -> int:
    """Each row of the changelog has its statement, at its place; how many there are."""
    count = 0
    for name in names:
        made = [
            (row["statement"].split()[0], *(repr(row[one]) for one in SHOWN))
            for row in harness.rows("sql", *table_id(name).path)
        ]
        told = [
            (WORDS[row["op"]], *(repr(row[one]) for one in SHOWN))
            for row in harness.rows("changelog", *table_id(name).path)
        ]
        assert Counter(made) == Counter(told), name
        count += len(made)
    return count


def layer(harness: Harness) -> dict[str, list[str]]:
    return {name: rows for name, rows in harness.everything().items() if name.startswith("sql")}


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_the_order_of_windows_does_not_matter(seed: int, bench_of: Bench, bank: History, bank_capture: Path) -> None:
    """Rectangles in random order, then settled, and some windows made again: one window after the other gives this, too."""
    straight = bench_of.open(bank_capture, sql=ALL)
    for number in range(WINDOWS):
        straight.all(number)
    straight.settle()
    assert assert_layer_holds(straight, list(bank.source.tables)) > 100
    harness, random = bench_of.open(bank_capture, sql=ALL), Random(seed)
    harness.work_at_random(random, times(5, 9))
    harness.settle()
    assert layer(harness) == layer(straight)
    harness.all(*sorted(random.sample(range(WINDOWS), 2)))
    harness.settle()
    assert layer(harness) == layer(straight)


@pytest.mark.more
@pytest.mark.spark
def test_spark_writes_the_same_statements(bench: Bench, bench_of: Bench, bank: History, bank_capture: Path) -> None:
    harness, other = bench.open(bank_capture, sql=ALL), bench_of.open(bank_capture, sql=ALL)
    harness.all()
    other.all()
    assert assert_layer_holds(harness, list(bank.source.tables)) > 100
    assert sorted(layer(harness).values()) == sorted(layer(other).values())


def test_only_the_tables_that_were_named_have_statements_of_their_rows(bench_of: Bench, tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench_of, tmp_path / "capture", source.messages, sql={"tables": ["bank.t*"]})
    harness.settle()
    assert harness.pipeline.lake.table(harness.pipeline.table_path("sql", table_id("one"))) is None
    found = statements(harness, "two")
    assert found[0] == "INSERT INTO `bank`.`two` (`id`, `n`, `note`) VALUES (0, 0, NULL)"
    assert "UPDATE `bank`.`two` SET `id` = 105, `n` = 1, `note` = NULL WHERE `id` = 5" not in found
    assert [one for one in found if "WHERE `id` = 5" in one] == [
        "UPDATE `bank`.`two` SET `id` = 105, `n` = 0, `note` = NULL WHERE `id` = 5"
    ]
    assert Counter(one.split()[0] for one in found) == {"INSERT": 22, "UPDATE": 16, "DELETE": 3}


@pytest.mark.more
def test_statements_asked_for_later_and_in_another_dialect_are_all_written(bench_of: Bench, tmp_path: Path) -> None:
    source, folder = three_windows(items("one"), items("two")), tmp_path / "capture"
    asked: Sequence[Mapping[str, Any]] = ({}, {"tables": ["bank.two"]}, {**ALL, "dialect": "postgresql"})
    for number, sql in enumerate(asked):
        harness = open_short(bench_of, folder, source.messages, name="later", sql=dict(sql))
        harness.all(number)
    assert assert_layer_holds(harness, ["one", "two"]) == 82
    assert all('"bank"."two"' in one for one in statements(harness, "two"))
    harness = open_short(bench_of, folder, source.messages, name="later", sql=ALL)
    assert find_work(harness.pipeline).tables  # what was asked for is work, without a new window
    harness.settle()
    assert all("`bank`.`two`" in one for one in statements(harness, "two"))
    before = layer(harness)
    harness.tables()
    assert layer(harness) == before


@pytest.mark.long
def test_a_window_that_grows_gets_the_statements_of_new_rows(bench_of: Bench, tmp_path: Path) -> None:
    """Messages come bit by bit; in the end the statements are those of a lake that was made at once."""
    source, capture = three_windows(items("one")), tmp_path / "capture"
    harness = open_short(bench_of, capture, [], complete=False, window={"live": True, "end": None}, sql=ALL)
    left = sorted(source.messages, key=lambda one: (one.time, one.partition, one.offset))
    added: list[bool] = []
    while left:
        write_capture(capture, left[:3], name=f"left{len(left)}")
        left = left[3:]
        settle_open(harness, rounds=8)
        added.append(bool(statements(harness, "one")))
    assert assert_layer_holds(harness, ["one"]) == 41
    assert added.count(True) > 4
    other = bench_of.open(capture, partitions=2, window={"end": border(3)}, sql=ALL)
    other.settle()
    assert Counter(statements(harness, "one")) == Counter(statements(other, "one"))


@pytest.mark.more
def test_a_person_materializes_the_statements_alone(bench_of: Bench, tmp_path: Path) -> None:
    source, folder = three_windows(items("one"), items("two")), tmp_path / "capture"
    open_short(bench_of, folder, source.messages, name="alone").settle()
    harness = open_short(bench_of, folder, source.messages, name="alone", sql=ALL)
    report = harness.tables(0, selection=Selection({"changelog": (), "snapshot": (), "sql": {table_id("two")}}))
    assert {str(one.table): one.layers[SQL.name].committed for one in report.tables} == {
        "bank.one": False, "bank.two": True,
    }  # fmt: skip
    assert assert_layer_holds(harness, ["two"]) == 41


@pytest.mark.more
@pytest.mark.parametrize("place", chosen(["replace", "evolve"], 1))
def test_a_table_whose_statements_fail_stands_still_alone(place: str, bench_of: Bench, tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench_of, tmp_path / "capture", source.messages, sql=ALL)
    harness.all(0)
    with broken(Lake, place, of_layer("sql", "two")):
        harness.all(1)
    assert [(str(row.table), row.layer) for row in harness.pipeline.ledger.paused_tables()] == [("bank.two", "sql")]
    harness.all(2)
    assert assert_layer_holds(harness, ["one"]) == 41
    resume_tables(harness.pipeline, [table_id("two")])
    harness.settle()
    assert assert_layer_holds(harness, ["one", "two"]) == 82


@pytest.mark.more
def test_a_run_that_dies_between_two_commits_is_made_good(bench_of: Bench, tmp_path: Path) -> None:
    """A window is replaced and another one added to, and nobody writes the second: the next run makes all anew."""
    source = three_windows(items("one"))
    harness = open_short(bench_of, tmp_path / "capture", source.messages, sql=ALL)
    harness.settle()
    path = harness.pipeline.table_path("sql", table_id("one"))
    harness.pipeline.lake.replace(path, {"window_start": {border(1)}}, [])  # as a foreign commit, without a state
    state = harness.pipeline.lake.state(path)
    assert state is not None
    assert STATE_PROPERTY not in state.properties
    harness.tables(2)
    assert assert_layer_holds(harness, ["one"]) == 41


def columns_that_come_and_go() -> Source:
    """A column is added and dropped in one window, and added again in the next."""
    narrow, wide = items(), Table("items", [*items().columns[:2], Field("late", TEXT), items().columns[2]])
    source = short_source(narrow)
    source._apply = lambda *_: None  # type: ignore[method-assign]
    at = border(0)
    steps: list[Ddl | Dml] = [
        Dml(narrow, [(None, item(1)), (None, item(2))]),
        Ddl("ALTER TABLE items ADD COLUMN late TEXT AFTER n"),
        Dml(wide, [(None, {**item(3), "late": None}), (None, {**item(4), "late": "x"})]),
        Ddl("ALTER TABLE items DROP COLUMN late"),
        Dml(narrow, [(None, item(5)), (None, item(6))]),
    ]
    for number, step in enumerate(steps):
        source.transaction(at + (number + 1) * SECOND, step)
    source.checkpoint(at + 300 * SECOND)
    source.transaction(border(1) + SECOND, steps[0])
    source.checkpoint(border(1) + 300 * SECOND)
    return source


LISTS = {
    1: "`id`, `n`, `note`", 2: "`id`, `n`, `note`", 3: "`id`, `n`, `late`, `note`", 4: "`id`, `n`, `late`, `note`",
    5: "`id`, `n`, `note`", 6: "`id`, `n`, `note`",
}  # fmt: skip


def lists_of(texts: Sequence[str]) -> list[tuple[int, str]]:
    found = [re.search(r"\((.*?)\) VALUES \((\d+),", one) for one in texts]
    return [(int(one[2]), one[1]) for one in found if one]


@pytest.mark.more(after=1)
@pytest.mark.parametrize("live", [False, True], ids=["at once", "bit by bit"])
def test_an_insert_names_the_columns_of_its_moment(bench_of: Bench, tmp_path: Path, *, live: bool) -> None:
    source, capture = columns_that_come_and_go(), tmp_path / "capture"
    if live:
        harness = open_short(bench_of, capture, [], complete=False, window={"live": True, "end": None}, sql=ALL)
        left = sorted(source.messages, key=lambda one: (one.time, one.partition, one.offset))
        while left:
            write_capture(capture, left[:2], name=f"left{len(left)}")
            left = left[2:]
            settle_open(harness, rounds=8)
    else:
        harness = open_short(bench_of, capture, source.messages, windows=2, sql=ALL)
        harness.settle()
    expected = [*LISTS.items(), (1, LISTS[1]), (2, LISTS[2])]
    assert sorted(lists_of(statements(harness, "items"))) == sorted(expected)
    script = "".join(
        export_statements(harness.pipeline, Wanted(DIALECTS["mysql"]), Exported(), progress=harness.lines.append)
    )
    assert sorted(lists_of(script.splitlines())) == sorted(expected)
    kinds = [line.split()[0] for line in script.splitlines()[4:]]
    assert kinds == ["INSERT", "INSERT", "USE", "ALTER", "INSERT", "INSERT", "ALTER", *["INSERT"] * 4]


def test_a_truncation_is_one_statement_of_the_table_and_one_of_the_script(bench_of: Bench, tmp_path: Path) -> None:
    source = short_source(items())
    insert(source, border(0) + SECOND, range(3))
    source.transaction(border(0) + 2 * SECOND, Ddl("TRUNCATE TABLE items"))
    insert(source, border(0) + 3 * SECOND, range(10, 12))
    source.checkpoint(border(0) + 300 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, sql=ALL)
    harness.settle()
    assert [one.split()[0] for one in statements(harness, "items")] == ["INSERT"] * 3 + ["TRUNCATE"] + ["INSERT"] * 2
    for dialect, kinds in (("mysql", ["USE", "TRUNCATE"]), ("postgresql", ["--", "TRUNCATE"])):
        exported = Exported()
        script = "".join(export_statements(harness.pipeline, Wanted(DIALECTS[dialect]), exported, progress=print))
        found = [line.split()[0] for line in script.splitlines()[1 + len(DIALECTS[dialect].preamble) :]]
        assert found == ["INSERT"] * 3 + kinds + ["INSERT"] * 2
        assert (exported.ddl, exported.whole) == (1, True)


@pytest.mark.more
def test_windows_and_tables_are_chosen(bench_of: Bench, tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench_of, tmp_path / "capture", source.messages)
    harness.settle()

    def changes(**wanted: Any) -> int:
        exported = Exported()
        script = "".join(
            export_statements(harness.pipeline, Wanted(DIALECTS["mysql"], **wanted), exported, progress=print)
        )
        lines = [line for line in script.splitlines() if line.startswith(("INSERT", "UPDATE", "DELETE"))]
        assert len(lines) == exported.changes
        return exported.changes

    assert changes() == 82
    assert changes(tables=("bank.one",)) == changes(tables=("*.o*", "nobody.*")) == 41
    parts = [changes(since=border(number), until=border(number + 1)) for number in range(3)]
    assert sum(parts) == 82
    assert min(parts) > 0
    assert changes(until=border(2)) == parts[0] + parts[1]
    assert changes(since=border(3)) == 0
