"""Snapshots with partition fields through the flows: rows are those of a table without, and readers find each of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.table.snapshots import Operation

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.pauses import resume_tables
from dts_assets.planning import row_removals
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import History
from tests.flows.in_process import bench_in_process
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import DATABASE, Message
from tests.tiers import ALL, chosen, times

EQUAL_TO: Any = EqualTo  # which take their arguments by place, against their types
IS_NULL: Any = IsNull

BY_N = {"bank.*": {"partition": ["bucket(3, n)", "truncate(2, id)"], "sort": ["note", "id"]}}
BY_NOTE = {"bank.*": {"partition": ["note"]}}
OF_BANK = {
    "bank.accounts": {"partition": ["truncate(1, owner)"], "sort": ["balance"]},
    "bank.seats": {"partition": ["label", "bucket(2, hall)"]},
    "bank.journal": {"partition": ["months(at)"]},
    "bank.*": {"partition": ["bucket(5, sku)"]},
}


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one"), items("two")).messages)


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "laid_out")


def snapshots(harness: Harness) -> dict[str, list[str]]:
    return {name: rows for name, rows in harness.everything().items() if name.startswith("snapshot")}


def assert_readers_find_each_row(harness: Harness, name: str, column: str) -> int:
    """A reader that asks for one value leaves out files by their partitions; return how many partitions there are."""
    table = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table_id(name)))
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    for value in {row[column] for row in rows}:
        condition: Any = IS_NULL(column) if value is None else EQUAL_TO(column, value)
        found = table.scan(condition).to_arrow().num_rows
        assert found == sum(row[column] == value for row in rows), (column, value)
    return len({str(task.file.partition) for task in table.scan().plan_files()})


def replacements(harness: Harness, name: str) -> int:
    """How often the files of a snapshot were written anew with the same rows."""
    table = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table_id(name)))
    assert table is not None
    return sum(one.summary.operation is Operation.REPLACE for one in table.snapshots() if one.summary)


@pytest.fixture(scope="module")
def plain(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """The rows of snapshots without a layout behind each window."""
    folder = tmp_path_factory.mktemp("plain")
    harness = open_short(bench_in_process(folder, "plain"), folder / "capture", messages)
    found = []
    for number in range(3):
        harness.all(number)
        found.append(snapshots(harness))
    return found


@pytest.mark.more
@pytest.mark.parametrize(
    ("layout", "deletes"), chosen([(BY_N, True), (BY_NOTE, False), (BY_N, False), (BY_NOTE, True)], 2)
)
def test_rows_that_move_between_partitions_leave_the_old_one(
    layout: dict[str, Any], deletes: bool, messages: list[Message], plain: list[Any], bench_of: Bench, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if deletes:
        monkeypatch.setattr(row_removals, "DELETE_FILE_BYTES", 0)
        monkeypatch.setattr(row_removals, "DELETED_ROW_BYTES", 0)
    harness = open_short(bench_of, tmp_path / "capture", messages, layout=layout)
    for number in range(3):
        harness.all(number)
        assert snapshots(harness) == plain[number]
        for name in ("one", "two"):
            for column in ("n", "id", "note") if ALL or number == 2 else ("n",):
                parts = assert_readers_find_each_row(harness, name, column)
    assert parts > (1 if layout is BY_N else 0)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 10)))
def test_the_order_of_windows_does_not_matter(
    seed: int, bench_of: Bench, bank: History, bank_capture: Path, rectangle_rows: dict[str, list[str]]
) -> None:
    harness, random = bench_of.open(bank_capture, layout=OF_BANK), Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
        harness.work_at_random(random, 8)
        harness.settle()
    assert snapshots(harness) == rectangle_rows
    for name, column in (("accounts", "owner"), ("seats", "label"), ("journal", "at")):
        assert_readers_find_each_row(harness, name, column)


@pytest.fixture(scope="module")
def rectangle_rows(bank_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    harness = bench_in_process(tmp_path_factory.mktemp("whole"), "whole").open(bank_capture)
    harness.settle()
    return snapshots(harness)


@pytest.mark.more
def test_a_layout_that_changes_writes_files_anew_once(
    messages: list[Message], plain: list[Any], bench_of: Bench, tmp_path: Path
) -> None:
    """From none to one, to another one, and back to none; a table in which nothing changes is written anew, too."""
    for number, layout in enumerate(({}, BY_N, BY_NOTE)):
        harness = open_short(bench_of, tmp_path / "capture", messages, name="changing", layout=layout)
        harness.all(number)
        assert snapshots(harness) == plain[number]
    lake, path = harness.pipeline.lake, harness.pipeline.table_path("snapshot", table_id("one"))
    assert not any(file.is_former for file in lake.data_files(path, applies_deletes=True))
    before = replacements(harness, "one")
    assert before
    harness = open_short(bench_of, tmp_path / "capture", messages, name="changing")
    for _ in range(2):
        harness.tables(2)
        assert snapshots(harness) == plain[2]
        files = lake.data_files(path, applies_deletes=True)
        assert {(file.is_former, *file.partition) for file in files} == {(False,)}
        assert replacements(harness, "one") == before + 1


def test_a_layout_that_names_no_column_lets_its_table_stand_still(
    messages: list[Message], plain: list[Any], bench_of: Bench, tmp_path: Path
) -> None:
    wrong = {"bank.two": {"partition": ["days(created_at)"]}}
    harness = open_short(bench_of, tmp_path / "capture", messages, name="wrong", layout=wrong)
    harness.settle()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert (paused.table, paused.layer) == (table_id("two"), "snapshot")
    assert "names the column created_at, which it has not" in paused.reason
    assert snapshots(harness)[f"snapshot.{DATABASE}.one"] == plain[2][f"snapshot.{DATABASE}.one"]
    harness = open_short(bench_of, tmp_path / "capture", messages, name="wrong")
    resume_tables(harness.pipeline, [table_id("two")])
    harness.settle()
    assert snapshots(harness) == plain[2]
