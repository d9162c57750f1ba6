"""Snapshots in which deleted rows stay, through the flows: whatever the order of windows, and whenever that is asked for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.find_work import find_work
from dts_assets.model.added_columns import AUDIT, AUDITED
from tests.flows.expected_soft import assert_soft_snapshots_hold
from tests.flows.harness import Bench, Harness
from tests.flows.history import WINDOWS, History
from tests.flows.in_process import bench_in_process
from tests.flows.short import open_short
from tests.flows.test_row_histories import lives, made
from tests.tiers import chosen, times

ALL: dict[str, Any] = {"deletes": "soft", "audit_columns": list(AUDIT)}


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "soft")


def snapshots(harness: Harness, *without: str) -> dict[str, list[str]]:
    """All rows of snapshots, columns that are not asked for apart."""
    found = harness.everything(without=without)
    return {name: rows for name, rows in found.items() if name.startswith("snapshot")}


@pytest.mark.more
def test_deleted_rows_stay_window_by_window(bench_of: Bench, bank: History, bank_capture: Path) -> None:
    harness = bench_of.open(bank_capture, **ALL)
    for number in range(WINDOWS):
        harness.all(number)
        deleted = assert_soft_snapshots_hold(harness.pipeline)
    assert deleted


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_the_order_of_windows_does_not_matter(seed: int, bench_of: Bench, bank_capture: Path) -> None:
    harness, random = bench_of.open(bank_capture, **ALL), Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
        harness.work_at_random(random, times(5, 9))
        harness.settle()
        assert assert_soft_snapshots_hold(harness.pipeline)
        before = snapshots(harness)
        harness.all(*sorted(random.sample(range(WINDOWS), 2)))
        harness.settle()
    assert assert_soft_snapshots_hold(harness.pipeline)
    assert snapshots(harness) == before


@pytest.mark.more
@pytest.mark.spark
@pytest.mark.parametrize("share", chosen([7, 500_000], 1))
def test_spark_keeps_the_same_rows(
    share: int, bench: Bench, bank_capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", share)
    harness = bench.open(bank_capture, **ALL)
    for numbers in chosen(((0, 1), (2, 3)), 1):
        harness.all(*numbers)
        assert assert_soft_snapshots_hold(harness.pipeline)


@pytest.mark.more
def test_a_truncation_deletes_the_rows_of_its_table_alone(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3), **ALL)
    assert assert_soft_snapshots_hold(harness.pipeline) == 13 + 3
    (emptied,) = [row["event_time"] for row in harness.rows("changelog", "bank", "one") if row["op"] == "truncate"]
    deleted = [row["_deleted_at"] for row in harness.rows("snapshot", "bank", "one")]
    assert deleted.count(emptied) == 10


ASKED = [
    pytest.param(ALL, id="all"),
    pytest.param({"deletes": "soft"}, id="soft"),
    pytest.param({"audit_columns": ["op"]}, id="audit"),
]


@pytest.mark.more
@pytest.mark.parametrize("columns", chosen(ASKED, 1))
def test_columns_that_are_asked_for_later_are_filled_for_all_rows(
    columns: dict[str, Any], bench_of: Bench, tmp_path: Path
) -> None:
    """Asked for behind two windows, taken away for one, and asked for again: always the rows of a lake that is made so."""
    source, folder, before = lives(5), tmp_path / "capture", dict[str, Any]()
    for number, asked in enumerate(chosen(({}, {}, columns, {}, columns), 4)):
        harness = open_short(bench_of, folder, source.messages, windows=5, name="later", **asked)
        fresh = open_short(bench_of, folder, source.messages, windows=5, **asked)
        nothing = () if asked else ("_deleted_at", *AUDITED)
        work = find_work(harness.pipeline).tables
        assert len(work) == (asked != before)
        if work:  # the run that is asked for without a new window
            harness.tables_of(work)
            fresh.all(*range(number))
            assert find_work(harness.pipeline).tables == ()
            assert snapshots(harness, *nothing) == snapshots(fresh, *nothing)
        harness.all(number)
        fresh.all(*range(number + 1))
        assert snapshots(harness, *nothing) == snapshots(fresh, *nothing)
        if before and not asked:
            rows = harness.rows("snapshot", "bank", "two")
            assert not any(row.get(name) for row in rows for name in ("_deleted_at", *AUDITED))
        before = asked


def test_tables_are_chosen_by_globs_of_which_the_first_counts(bench_of: Bench, tmp_path: Path) -> None:
    globs = {"bank.one": "hard", "bank.*": "soft"}
    harness = made(bench_of, tmp_path / "capture", lives(2), windows=2, deletes=globs)
    assert [len(harness.rows("snapshot", "bank", name)) for name in ("one", "two")] == [0, 12]
    assert sum(row["_deleted_at"] is not None for row in harness.rows("snapshot", "bank", "two")) == 2
