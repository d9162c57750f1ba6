"""Tables that are rebuilt: whatever happened to their rows, they are those of a lake to which nothing happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.pauses import pause_tables
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.store.lake import Lake
from tests.flows.expected_history import assert_histories_hold
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import open_short
from tests.flows.test_paused_tables import broken, of_layer
from tests.flows.test_row_histories import lives, made
from tests.tiers import chosen

ONE, TWO = table_id("one"), table_id("two")


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "rebuilt")


def rebuild(harness: Harness, *tables: TableId, source: RebuildFrom = RebuildFrom.CHANGELOG) -> int:
    return rebuild_tables(
        harness.pipeline, tables, source, spark=lambda: harness.session, progress=harness.lines.append
    )


def rows(harness: Harness) -> dict[str, list[str]]:
    """All rows of the tables, without the numbers of runs."""
    return {
        name: found
        for name, found in harness.everything().items()
        if name.split(".")[0] in ("changelog", "snapshot", "history")
    }


def versions(harness: Harness, *layers: str) -> dict[tuple[str, str], int | None]:
    found = {}
    for layer in layers:
        for table in (ONE, TWO):
            state = harness.pipeline.lake.state(harness.pipeline.table_path(layer, table))
            found[layer, table.table] = None if state is None else state.snapshot_id
    return found


def spoil(harness: Harness, layer: str, table: TableId, *, keep_state: bool) -> None:
    """All rows of a table go; with ``keep_state`` in a commit that looks like one of ours."""
    lake, path = harness.pipeline.lake, harness.pipeline.table_path(layer, table)
    state = lake.state(path)
    assert state is not None
    properties: dict[str, Any] = {STATE_PROPERTY: state.properties[STATE_PROPERTY]} if keep_state else {}
    lake.replace(path, {}, [], properties=properties)


@pytest.mark.more
@pytest.mark.parametrize("layer", chosen(["history", "snapshot"], 1))
def test_rows_that_are_lost_without_a_trace_come_back(layer: str, bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3), history=["*"])
    whole, before = rows(harness), versions(harness, "changelog", "snapshot", "history")
    spoil(harness, layer, TWO, keep_state=True)
    assert rows(harness) != whole
    assert find_work(harness.pipeline).nothing
    assert rebuild(harness, TWO) == 3
    assert rows(harness) == whole
    assert assert_histories_hold(harness.pipeline)
    after = versions(harness, "changelog", "snapshot", "history")
    assert {key for key in before if before[key] != after[key]} == {("snapshot", "two"), ("history", "two")}
    assert find_work(harness.pipeline).nothing


@pytest.mark.more
@pytest.mark.parametrize("layer", chosen(["history", "snapshot"], 1))
def test_a_commit_of_another_program_is_followed_by_a_rebuild(layer: str, bench_of: Bench, tmp_path: Path) -> None:
    """The next run that looks at the table makes all its rows again, though nothing is said of them."""
    source, folder = lives(4), tmp_path / "capture"
    harness = open_short(bench_of, folder, source.messages, windows=4, history=["*"])
    for number in range(3):
        harness.all(number)
    spoil(harness, layer, TWO, keep_state=False)
    harness.all(3)
    undisturbed = made(bench_of, folder, source, windows=4, history=["*"])
    assert rows(harness) == rows(undisturbed)


@pytest.mark.more
def test_a_changelog_that_is_lost_is_made_again_from_entries(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3), history=["*"])
    whole, cuts = rows(harness), harness.pipeline.ledger.cuts()
    path = harness.pipeline.table_path("changelog", TWO)
    harness.pipeline.lake.replace(path, {"window_start": {border(1)}}, [])
    rebuild(harness, TWO)
    assert rows(harness) != whole
    before = versions(harness, "changelog", "snapshot", "history")
    assert rebuild(harness, TWO, source=RebuildFrom.ENTRIES) == 3
    assert rows(harness) == whole
    after = versions(harness, "changelog", "snapshot", "history")
    assert {name for (_, name) in before if before[_, name] != after[_, name]} == {"two"}
    assert harness.pipeline.ledger.cuts() == cuts
    assert find_work(harness.pipeline).nothing


@pytest.mark.more
def test_a_rebuild_that_fails_leaves_the_old_rows(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3))
    whole = rows(harness)
    with broken(Lake, "replace", of_layer("snapshot", "two")):
        rebuild(harness, TWO)
    assert rows(harness) == whole
    assert [row.table for row in harness.pipeline.ledger.paused_tables()] == [TWO]


def test_a_paused_table_is_not_rebuilt(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3))
    spoil(harness, "snapshot", TWO, keep_state=True)
    pause_tables(harness.pipeline, [PausedTable(TWO, "", "words", PausedBy.PERSON, border(9))])
    rebuild(harness, TWO)
    assert harness.rows("snapshot", "bank", "two") == []


def test_nothing_is_rebuilt_before_a_window_has_tables(bench_of: Bench, tmp_path: Path) -> None:
    harness = open_short(bench_of, tmp_path / "capture", lives(3).messages)
    assert rebuild(harness, TWO) == 0
    assert "nothing to rebuild" in harness.lines[-1]
