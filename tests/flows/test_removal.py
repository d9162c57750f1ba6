"""Tables taken out of the lake and added again: nobody misses them meanwhile, and in the end everything is as it was."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from dts_assets.defs.table_assets import graph_tables
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import paused_by_person, resume_tables, table_standings
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.expected_history import assert_histories_hold
from tests.flows.harness import Bench, Harness, settle_open
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, items, three_windows
from tests.flows.source import DATABASE, Message, write_capture
from tests.flows.test_paused_tables import ONE, TWO, broken, of_layer, of_rows, opened, rows_of
from tests.flows.test_row_histories import lives, made
from tests.tiers import chosen


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one"), items("two")).messages)


@pytest.fixture(scope="module")
def undisturbed(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    harness = opened(tmp_path_factory.mktemp("undisturbed"), messages)
    harness.settle()
    return of_rows(harness)


def remove(harness: Harness) -> int:
    return remove_tables(harness.pipeline, [TWO], progress=harness.lines.append)


def add(harness: Harness) -> int:
    return add_tables(harness.pipeline, [TWO], progress=harness.lines.append)


def shown(pipeline: Pipeline) -> set[str]:
    """The tables of the graph."""
    return {asset.table.table for asset in graph_tables(pipeline.settings)}


def sentences(harness: Harness) -> list[str]:
    return [judged.sentence for judged in judge_ledger(harness.pipeline) if judged.sentence]


def files_of(folder: Path) -> list[Path]:
    """The files of the table; a lock of a catalog on this disk is empty and stays."""
    found = folder.glob(f"lake/**/{DATABASE}/two/**/*")
    return [path for path in found if path.is_file() and path.name != ".commit-lock"]


@pytest.mark.more
@pytest.mark.parametrize("first", chosen([1, 0, 3], 1))
def test_a_removed_table_comes_back_as_if_it_had_been_there(
    first: int, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    """Removed before the first window, in the middle, or behind the last one."""
    harness = opened(tmp_path, messages)
    harness.raw()
    harness.entries()
    for number in range(first):
        harness.tables(number)
    assert remove(harness) == (2 if first else 0)
    assert files_of(tmp_path) == []
    harness.settle()
    assert find_work(harness.pipeline).nothing
    assert sentences(harness) == []
    assert shown(harness.pipeline) == {"one"}
    assert [
        harness.pipeline.lake.table(harness.pipeline.table_path(one, TWO)) for one in ("changelog", "snapshot")
    ] == [None] * 2
    for kind in ("changelog", "snapshot"):
        assert of_rows(harness)[f"{kind}.{DATABASE}.one"] == undisturbed[f"{kind}.{DATABASE}.one"]

    assert add(harness) == 3
    assert shown(harness.pipeline) == {"one", "two"}
    assert len(find_work(harness.pipeline).tables) == 3
    harness.settle()
    assert of_rows(harness) == undisturbed


def test_the_windows_of_a_removed_table_that_comes_back_are_made_for_it_alone(
    messages: list[Message], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.settle()

    def version() -> int:
        state = harness.pipeline.lake.state(harness.pipeline.table_path("changelog", ONE))
        assert state is not None
        return state.snapshot_id

    before = version()
    remove(harness)
    add(harness)
    harness.settle()
    assert version() == before


@pytest.mark.more
def test_a_table_with_a_history_loses_it_and_gets_it_back(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3), history=["*"])
    versions = assert_histories_hold(harness.pipeline)
    before = of_rows(harness)
    assert remove(harness) == 3
    add(harness)
    harness.settle()
    assert assert_histories_hold(harness.pipeline) == versions
    assert of_rows(harness) == before


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "removed")


@pytest.mark.more
@pytest.mark.parametrize("layer", chosen(["snapshot", "changelog"], 1))
def test_a_removal_that_was_stopped_goes_on(
    layer: str, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.settle()
    with broken(Lake, "drop", of_layer(layer, "two")), pytest.raises(KeyError):
        remove(harness)
    harness.settle()
    assert sentences(harness) == []
    remove(harness)
    assert files_of(tmp_path) == []
    add(harness)
    harness.settle()
    assert of_rows(harness) == undisturbed


@pytest.mark.more
@pytest.mark.parametrize("step", chosen(["replace_cuts", "change_paused_tables"], 1))
def test_an_addition_that_was_stopped_goes_on(
    step: str, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.settle()
    remove(harness)
    with broken(Ledger, step, lambda *_: True), pytest.raises(KeyError):
        add(harness)
    harness.settle()
    assert harness.rows("snapshot", DATABASE, "two") == []
    assert add(harness) == 3
    harness.settle()
    assert of_rows(harness) == undisturbed


@pytest.mark.more
def test_a_table_that_stood_still_is_removed_and_is_not_resumed(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    with broken(Lake, "replace", of_layer("snapshot", "two")):
        harness.settle()
    assert [row.by for row in harness.pipeline.ledger.paused_tables()] == [PausedBy.FAILURE]
    remove(harness)
    remove(harness)
    (standing,) = [one for one in table_standings(harness.pipeline) if one.table == TWO]
    assert standing.state == "removed"
    assert resume_tables(harness.pipeline, [TWO]) == ()
    assert paused_by_person(harness.pipeline, [TWO], reason="words") == ()
    assert find_work(harness.pipeline).nothing
    add(harness)
    assert add(harness) == 0
    harness.settle()
    assert of_rows(harness) == undisturbed
    assert sentences(harness) == []


def test_a_lost_registry_does_not_bring_a_removed_table_back(messages: list[Message], tmp_path: Path) -> None:
    harness = opened(tmp_path, messages)
    harness.settle()
    remove(harness)
    harness.pipeline.settings.registry_path.unlink()
    assert TWO in known_tables(harness.pipeline)
    assert shown(harness.pipeline) == {"one"}
    harness.pipeline.settings.registry_path.unlink()
    harness.all(1)
    assert shown(harness.pipeline) == {"one"}


@pytest.mark.more
def test_a_table_is_removed_and_added_while_a_window_is_open(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    at = [border(1) + seconds * SECOND for seconds in (65, 75, 85)]
    parts = [[one for one in messages if low <= one.time < high] for low, high in pairwise([border(0), *at, border(9)])]
    write_capture(tmp_path / "capture", parts[0])
    window = {"end": border(3), "live": True}
    bench = bench_in_process(tmp_path, "removed_live")
    harness = bench.open(tmp_path / "capture", partitions=LANES, window=window, complete=False)
    acts: tuple[Callable[[Harness], int] | None, ...] = (None, remove, add, None)
    for number, act in enumerate(acts):
        if act is not None:
            act(harness)
        if number:
            write_capture(tmp_path / "capture", parts[number], name=f"part{number}")
        settle_open(harness, rounds=6)
    expected = {name: rows for name, rows in undisturbed.items() if name.startswith(("changelog", "snapshot", "ddl"))}
    assert rows_of(harness) == expected
