"""Snapshots answer schema changes by the policy of their table: whatever the order of windows, and over rebuilds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.pauses import resume_tables
from dts_assets.model.schema_policies import SchemaPolicy
from tests.flows.altered_source import TABLE, Altered, Living
from tests.flows.harness import Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl, write_capture
from tests.flows.source_tables import BLOB, INT, TEXT
from tests.flows.test_live import pieces
from tests.tiers import chosen, times

ITEMS = table_id(TABLE)
FOLLOW, KEEP, FREEZE, STOP = SchemaPolicy
WINDOWS = 3


def lived(seed: int, *, has_key: bool = True, works: int = 8) -> Altered:
    """A table that is altered by chance in each of three windows."""
    altered = Altered(seed, has_key=has_key)
    altered.change(border(0) + SECOND)
    for window in range(WINDOWS):
        for number in range(works):
            altered.work(border(window) + (number + 2) * 10 * SECOND)
        altered.source.checkpoint(border(window) + 400 * SECOND)
    return altered


def opened(folder: Path, altered: Altered, policy: Any, **settings: Any) -> Harness:
    changes = {} if policy is None else {"schema_changes": policy}
    return open_short(
        bench_in_process(folder, "policies"), folder / "capture", altered.source.messages, name="policies", **changes,
        **settings,
    )  # fmt: skip


def again(folder: Path, policy: Any, **settings: Any) -> Harness:
    """The same lake with another policy."""
    return open_short(
        bench_in_process(folder, "policies"), folder / "capture", [], name="policies", schema_changes=policy, **settings
    )


def found(harness: Harness) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    path = harness.pipeline.table_path("snapshot", ITEMS)
    columns = [one for one in harness.pipeline.lake.fields(path) or () if one[0] == "_new_columns" or one[0][0] != "_"]
    rows = [
        {
            name: dict(row[name]) if name == "_new_columns" and row[name] is not None else row[name]
            for name, _ in columns
        }
        for row in harness.rows("snapshot", DATABASE, TABLE)
    ]
    return [one for one in columns if one[0] != "_new_columns"], rows


def in_order(rows: Iterable[Any]) -> list[str]:
    return sorted(str(sorted(row.items(), key=lambda one: one[0])) for row in map(dict, rows))


def assert_is(harness: Harness, altered: Altered, policy: SchemaPolicy) -> None:
    columns, rows = found(harness)
    wanted, expected = altered.expected(policy)
    assert not harness.pipeline.ledger.paused_tables()
    assert columns == wanted
    assert in_order(rows) == in_order(expected)


KINDS = [(FOLLOW, True), (KEEP, False), (FREEZE, True), (FOLLOW, False), (KEEP, True), (FREEZE, False)]


@pytest.mark.more
@pytest.mark.parametrize(("policy", "has_key"), chosen(KINDS, 3), ids=str)
@pytest.mark.parametrize("seed", range(times(1, 25)))
def test_a_snapshot_is_that_of_its_policy_in_any_order(
    seed: int, policy: SchemaPolicy, has_key: bool, tmp_path: Path
) -> None:
    altered = lived(seed, has_key=has_key)
    harness = opened(tmp_path, altered, policy.value)
    order = list(range(WINDOWS))
    Random(seed).shuffle(order)
    for window in (*(range(WINDOWS) if seed % 2 else order), order[0]):
        harness.all(window)
    harness.settle()
    assert_is(harness, altered, policy)
    before = found(harness)
    harness = again(tmp_path, "follow" if policy is not FOLLOW else "keep")
    harness.settle()
    assert_is(harness, altered, KEEP if policy is FOLLOW else FOLLOW)
    harness = again(tmp_path, policy.value)
    harness.settle()
    assert found(harness)[0] == before[0]
    assert_is(harness, altered, policy)


@pytest.mark.more
@pytest.mark.parametrize("policy", chosen([FREEZE, KEEP, FOLLOW], 2))
@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_windows_that_are_read_while_they_are_open_give_the_same(
    seed: int, policy: SchemaPolicy, tmp_path: Path
) -> None:
    altered, random = lived(300 + seed), Random(seed)
    live = {"live": True, "end": None}
    harness = open_short(
        bench_in_process(tmp_path, "policies"), tmp_path / "capture", [], complete=False, window=live,
        schema_changes=policy.value, deletes=random.choice(["hard", "soft"]),
    )  # fmt: skip
    for number, piece in enumerate(pieces(altered.source.messages, random, times(4, 12))):
        write_capture(tmp_path / "capture", piece, name=f"piece{number:02d}")
        refresh(harness)
    settle_open(harness, rounds=9)
    columns, rows = found(harness)
    wanted, expected = altered.expected(policy)
    assert columns == wanted
    gone = [row for row in harness.rows("snapshot", DATABASE, TABLE) if row.get("_deleted_at") is not None]
    assert len(rows) - len(gone) == len(expected)
    if not gone:
        assert in_order(rows) == in_order(expected)


@pytest.mark.more
@pytest.mark.parametrize("policy", chosen([FREEZE, KEEP], 1))
def test_a_table_that_is_dropped_and_created_begins_anew(policy: SchemaPolicy, tmp_path: Path) -> None:
    altered = Altered(1)
    altered.change(border(0) + SECOND)
    altered.add(border(0) + 10 * SECOND, "b", TEXT)
    altered.drop(border(0) + 20 * SECOND, "a")
    altered.change(border(0) + 30 * SECOND)
    altered.source.checkpoint(border(0) + 400 * SECOND)
    altered.create(border(1) + SECOND, Living("id", INT), Living("word", BLOB), Living("b", INT))
    altered.change(border(1) + 10 * SECOND)
    altered.source.checkpoint(border(1) + 400 * SECOND)
    altered.add(border(2) + SECOND, "a", INT)
    altered.drop(border(2) + 10 * SECOND, "b")
    altered.change(border(2) + 20 * SECOND)
    altered.source.checkpoint(border(2) + 400 * SECOND)
    harness = opened(tmp_path, altered, policy.value)
    for window in range(WINDOWS):
        harness.all(window)
    harness.settle()
    assert_is(harness, altered, policy)
    other = opened(tmp_path / "other", altered, policy.value)
    other.settle()
    assert found(other)[0] == found(harness)[0]
    assert_is(other, altered, policy)


@pytest.mark.more
def test_names_that_differ_in_case_and_columns_that_come_again(tmp_path: Path) -> None:
    altered = Altered(2)
    altered.change(border(0) + SECOND)
    altered.drop(border(0) + 10 * SECOND, "a")
    altered.change(border(0) + 20 * SECOND)
    altered.source.checkpoint(border(0) + 400 * SECOND)
    altered.add(border(1) + 10 * SECOND, "A", TEXT)
    altered.change(border(1) + 20 * SECOND)
    altered.source.checkpoint(border(1) + 400 * SECOND)
    altered.drop(border(2) + 10 * SECOND, "A")
    altered.rename(border(2) + 20 * SECOND, "word", "Word")
    altered.change(border(2) + 30 * SECOND)
    altered.source.checkpoint(border(2) + 400 * SECOND)
    shown: dict[SchemaPolicy, list[list[str]]] = {}
    for policy in (KEEP, FREEZE):
        harness = opened(tmp_path / policy, altered, policy.value)
        shown[policy] = []
        for window in range(WINDOWS):
            harness.all(window)
            shown[policy].append([name for name, _ in found(harness)[0]])
        assert_is(harness, altered, policy)
    assert shown[KEEP] == [["id", "word", "a"], ["id", "word", "A"], ["id", "Word", "A"]]
    assert shown[FREEZE] == [["id", "a", "word"]] * 3


@pytest.mark.more
def test_a_kept_column_costs_no_data_file(tmp_path: Path) -> None:
    altered = Altered(3)
    altered.change(border(0) + SECOND)
    altered.source.checkpoint(border(0) + 400 * SECOND)
    altered.drop(border(1) + SECOND, "a")
    altered.source.checkpoint(border(1) + 400 * SECOND)
    altered.drop(border(2) + SECOND, "word")
    altered.source.checkpoint(border(2) + 400 * SECOND)
    harness = opened(tmp_path, altered, "keep")
    path, files, fields = harness.pipeline.table_path("snapshot", ITEMS), [], []
    for window in range(WINDOWS):
        harness.all(window)
        files.append([file.path for file in harness.pipeline.lake.data_files(path)])
        table = harness.pipeline.lake.table(path)
        assert table is not None
        fields.append({one.name: one.field_id for one in table.schema().fields})
    assert files[0] == files[1] == files[2]
    assert fields[0]["a"] != fields[1]["a"] == fields[2]["a"]
    assert_is(harness, altered, KEEP)


@pytest.mark.more
def test_a_new_column_in_the_key_pauses_a_frozen_table(tmp_path: Path) -> None:
    altered = Altered(4)
    altered.change(border(0) + SECOND)
    altered.source.checkpoint(border(0) + 400 * SECOND)
    altered.source.transaction(
        border(1) + SECOND, Ddl(f"ALTER TABLE {TABLE} ADD b INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)")
    )
    altered.source.checkpoint(border(1) + 400 * SECOND)
    harness = opened(tmp_path, altered, "freeze")
    harness.settle()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "since source position 0:9:" in paused.reason
    assert "new column b is part of the primary key" in paused.reason
    assert "let schema_changes be follow or keep" in paused.reason
    harness = again(tmp_path, "keep")
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert {row["b"] for row in harness.rows("snapshot", DATABASE, TABLE)} == {0}


def two_changes_in_each_window() -> Altered:
    altered = Altered(5)
    altered.change(border(0) + SECOND)
    altered.source.checkpoint(border(0) + 400 * SECOND)
    for window, names in ((1, ("b", "c c")), (2, ("Word2", "x"))):
        altered.change(border(window) + SECOND)
        altered.add(border(window) + 10 * SECOND, names[0], INT)
        altered.change(border(window) + 20 * SECOND)
        altered.add(border(window) + 30 * SECOND, names[1], TEXT)
        altered.change(border(window) + 40 * SECOND)
        altered.source.checkpoint(border(window) + 400 * SECOND)
    return altered


def reasons(harness: Harness) -> list[str]:
    return [row.reason for row in harness.pipeline.ledger.paused_tables()]


@pytest.mark.more
def test_a_table_stops_at_a_change_until_a_person_resumes_it(tmp_path: Path) -> None:
    altered = two_changes_in_each_window()
    harness = opened(tmp_path, altered, "stop")
    harness.all(0)
    assert reasons(harness) == []
    before = found(harness)
    harness.all(1)
    (reason,) = reasons(harness)
    assert "column b int(11) added after word, and 1 later change" in reason
    assert f"dts-assets tables resume {ITEMS}" in reason
    assert "(window 2026-03-01-10:10)" in reason
    assert found(harness) == before
    harness.settle()
    assert found(harness) == before
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    # All statements are known by now: window 2 was read while the table stood still.
    assert reasons(harness) == []
    assert_is(harness, altered, FOLLOW)


@pytest.mark.more
def test_a_later_change_stops_again_and_a_rebuild_keeps_what_was_accepted(tmp_path: Path) -> None:
    altered = two_changes_in_each_window()
    harness = opened(tmp_path, altered, "stop")
    harness.all(0)
    harness.all(1)
    assert len(reasons(harness)) == 1
    resume_tables(harness.pipeline, [ITEMS])
    harness.tables(1)
    assert reasons(harness) == []
    assert [name for name, _ in found(harness)[0]] == ["id", "a", "word", "b", "c c"]
    for window in (1, 0):
        harness.all(window)
        assert reasons(harness) == []
    harness.all(2)
    (reason,) = reasons(harness)
    assert "column Word2 int(11) added after c c, and 1 later change" in reason
    harness = again(tmp_path, "follow")
    assert len(reasons(harness)) == 1
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    assert_is(harness, altered, FOLLOW)


def test_a_rebuild_takes_no_change_over_that_nobody_accepted(tmp_path: Path) -> None:
    altered = two_changes_in_each_window()
    harness = opened(tmp_path, altered, "stop")
    harness.all(0)
    before = found(harness)
    harness = opened(tmp_path, altered, "stop", audit_columns=["op"])  # all rows are made anew for the column
    harness.all(1)
    assert len(reasons(harness)) == 1
    assert found(harness) == before


@pytest.mark.more
def test_all_tables_may_stop_at_once_and_others_go_on(tmp_path: Path) -> None:
    """Tables that fail in one way are no fault of the run where they stop because somebody wants it."""
    source = short_source(items("one"), items("two"), items("other"))
    for window in range(WINDOWS):
        for name in source.tables:
            insert(source, border(window) + 10 * SECOND, [window], table=name)
        source.checkpoint(border(window) + 400 * SECOND)
        told = [Ddl(f"ALTER TABLE {name} ADD x{window} INT") for name in source.tables]
        source.transaction(border(window) + 500 * SECOND, *told)
    for policy, stopped in (("stop", {"one", "two", "other"}), ({"*.other": "follow", "*": "stop"}, {"one", "two"})):
        folder = tmp_path / str(len(stopped))
        harness = open_short(
            bench_in_process(folder, "stops"), folder / "capture", source.messages, schema_changes=policy
        )
        harness.all(0)
        for window in (1, 2):
            harness.all(window)
        assert {row.table.table for row in harness.pipeline.ledger.paused_tables()} == stopped
        assert all("column x0 int(11) added" in reason for reason in reasons(harness))


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 10)))
def test_a_table_stops_in_a_window_that_grows(seed: int, tmp_path: Path) -> None:
    """Each time somebody resumes the table, it goes on to the next change, and at last it has followed all."""
    altered, random = lived(500 + seed), Random(seed)
    harness = open_short(
        bench_in_process(tmp_path, "policies"), tmp_path / "capture", [], complete=False,
        window={"live": True, "end": None}, schema_changes="stop",
    )  # fmt: skip
    stops = list[str]()
    for number, piece in enumerate(pieces(altered.source.messages, random, times(5, 16))):
        write_capture(tmp_path / "capture", piece, name=f"piece{number:02d}")
        refresh(harness)
        if reasons(harness) and random.random() < 0.7:
            stops += reasons(harness)
            resume_tables(harness.pipeline, [ITEMS])
    for _ in range(3):
        settle_open(harness, rounds=9)
        stops += reasons(harness)
        resume_tables(harness.pipeline, [row.table for row in harness.pipeline.ledger.paused_tables()])
    settle_open(harness, rounds=9)
    assert_is(harness, altered, FOLLOW)
    assert stops
    assert len({*stops}) == len(stops)
