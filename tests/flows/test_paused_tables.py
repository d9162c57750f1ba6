"""One table that fails, or that a person pauses, stands still; all others go on, and once resumed everything is equal."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dts_assets.errors.tables import SharedFaultError
from dts_assets.flows import snapshot_jobs, snapshot_merges
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.flows.pauses import pause_tables, resume_tables
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from tests.flows.harness import Bench, Harness, refresh, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, items, open_short, three_windows
from tests.flows.source import DATABASE, Message, write_capture
from tests.tiers import chosen, times

ONE, TWO = table_id("one"), table_id("two")
NOW = datetime(2026, 1, 7, tzinfo=UTC)


@contextmanager
def broken(owner: Any, name: str, fails: Callable[..., bool], error: BaseException | None = None) -> Iterator[None]:
    """A function raises an error whenever its arguments are such as ``fails`` says."""
    real = getattr(owner, name)

    def failing(*arguments: Any, **named: Any) -> Any:
        if fails(*arguments):
            raise error or KeyError("payload of a row")
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, failing)
        yield


def of_layer(layer: str, *names: str) -> Callable[..., bool]:
    """Calls whose first path, behind the lake itself, is of a layer of some tables."""
    return lambda _, path, *__: path[1] == layer and path[-1] in names


def writer_of(*names: str) -> Callable[..., bool]:
    folders = tuple(f"/changelog/{DATABASE}/{name}" for name in names)
    return lambda writer, *_: writer._target.location.endswith(folders)


PLACES: dict[str, tuple[Any, str, Callable[..., bool], str]] = {
    "the changelog is opened": (Lake, "evolve", of_layer("changelog", "two"), "changelog"),
    "the changelog is written": (TableWriter, "write", writer_of("two"), "changelog"),
    "the changelog's files are closed": (TableWriter, "close", writer_of("two"), "changelog"),
    "the changelog is committed": (Lake, "replace", of_layer("changelog", "two"), "changelog"),
    "the snapshot is planned": (Lake, "ensure", of_layer("snapshot", "two"), "snapshot"),
    "the snapshot is refreshed": (
        TableWriter,
        "write",
        lambda one, *_: "snapshot/bank/two" in one._target.location,
        "snapshot",
    ),
    "the snapshot is committed": (Lake, "replace", of_layer("snapshot", "two"), "snapshot"),
}


FIRST = ("the changelog is committed", "the snapshot is refreshed")
"""The places of ``make test``."""


@contextmanager
def unreadable(harness: Harness, layer: str, table: TableId, *, after: int) -> Iterator[list[int]]:
    """From one of its readings on the metadata of a table are lost; the list counts the readings."""
    pipeline, readings = harness.pipeline, [0]
    name, catalog = pipeline.lake.identifier(pipeline.table_path(layer, table)), type(pipeline.lake.catalog)
    real = catalog.load_table

    def loaded(self: Any, identifier: Any) -> Any:
        if identifier == name:
            readings[0] += 1
            if readings[0] > after:
                raise FileNotFoundError(errno.ENOENT, "no such file")
        return real(self, identifier)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "load_table", loaded)
        yield readings


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one"), items("two")).messages)


def opened(folder: Path, messages: list[Message]) -> Harness:
    return open_short(bench_in_process(folder, "paused"), folder / "capture", messages)


def of_rows(harness: Harness) -> dict[str, list[str]]:
    """All that does not name a run or a moment."""
    found = harness.everything(without=("run", "since"))
    return {name: rows for name, rows in found.items() if name != "lineages"}


@pytest.fixture(scope="module")
def undisturbed(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    harness = opened(tmp_path_factory.mktemp("undisturbed"), messages)
    harness.settle()
    return of_rows(harness)


@pytest.mark.more
@pytest.mark.parametrize("layer", chosen(["snapshot", "changelog"], 1))
def test_a_table_whose_metadata_are_lost_at_any_moment_stops_no_other(
    layer: str, messages: list[Message], tmp_path: Path
) -> None:
    """Each time one reading later, until a run reads them no more; the run goes on and the other table is there."""
    lost, after = True, 0
    while lost:
        harness = opened(tmp_path / str(after), messages)
        harness.all(0)
        harness.raw(1)
        harness.entries(1)
        with unreadable(harness, layer, TWO, after=after) as readings:
            harness.tables(1)
        lost = readings[0] > after
        assert {row.table for row in harness.pipeline.ledger.paused_tables()} <= {TWO}
        assert [row["id"] for row in harness.rows("snapshot", DATABASE, "one")], after
        assert len(harness.pipeline.ledger.cuts()) == 2
        after += times(9, 1)
    assert after > 3


@pytest.mark.more
@pytest.mark.parametrize(
    "place", [place if place in FIRST else pytest.param(place, marks=pytest.mark.long) for place in PLACES]
)
def test_a_table_that_fails_where(
    place: str, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    owner, name, fails, layer = PLACES[place]
    harness = opened(tmp_path, messages)
    with broken(owner, name, fails):
        harness.settle()
    ledger = harness.pipeline.ledger
    (paused,) = ledger.paused_tables()
    assert (paused.table, paused.layer, paused.by) == (TWO, layer, PausedBy.FAILURE)
    assert paused.reason.startswith("KeyError at ")
    assert "payload" not in "".join([paused.reason, *harness.lines])
    assert [[one.id for one in mark.paused] for mark in ledger.cuts()] == [[TWO]] * 3
    assert harness.rows("snapshot", DATABASE, "two") == []
    found = of_rows(harness)
    for kind in ("changelog", "snapshot"):
        assert found[f"{kind}.{DATABASE}.one"] == undisturbed[f"{kind}.{DATABASE}.one"]
    sentences = {judged.sentence for judged in judge_ledger(harness.pipeline) if judged.sentence}
    assert sentences == {f"without {TWO}, which stood still"}
    assert find_work(harness.pipeline).nothing

    resume_tables(harness.pipeline, [TWO])
    assert len(find_work(harness.pipeline).tables) == 3
    harness.settle()
    assert of_rows(harness) == undisturbed
    assert not [judged.sentence for judged in judge_ledger(harness.pipeline) if judged.sentence]


def pause_of(table: TableId, moment: int = 0) -> PausedTable:
    return PausedTable(table, "", "words", PausedBy.PERSON, NOW + moment * SECOND)


def meanwhile(harness: Harness, act: Callable[[], object]) -> None:
    """All that is to be done, with ``act`` just before the first commit of a changelog."""
    done: list[object] = []

    def now(_: Lake, path: tuple[str, ...], *__: object) -> bool:
        if path[1] == "changelog" and not done:
            done.append(act())
        return False

    with broken(Lake, "replace", now):
        harness.tables()
    assert done


@pytest.mark.more
def test_a_person_pauses_a_table_while_a_run_works_and_a_fault_does_not_take_the_pause_over(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.raw()
    harness.entries()
    with broken(*PLACES["the snapshot is committed"][:3]):
        meanwhile(harness, lambda: pause_tables(harness.pipeline, [pause_of(ONE), pause_of(TWO)]))
    paused = {row.table: row.by for row in harness.pipeline.ledger.paused_tables()}
    assert paused == {ONE: PausedBy.PERSON, TWO: PausedBy.PERSON}
    marks = harness.pipeline.ledger.cuts()
    assert [[one.id for one in mark.paused] for mark in marks] == [[TWO]] * 3, "the run had the other one in hand"
    resume_tables(harness.pipeline, [ONE, TWO])
    harness.settle()
    assert of_rows(harness) == undisturbed


@pytest.mark.more
def test_a_table_that_is_resumed_and_paused_again_while_a_run_works_is_not_lost(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.raw()
    harness.entries()
    pipeline = harness.pipeline
    pause_tables(pipeline, [pause_of(TWO)])
    meanwhile(harness, lambda: (resume_tables(pipeline, [TWO]), pause_tables(pipeline, [pause_of(TWO, 1)])))
    assert find_work(pipeline).nothing
    assert [row.since for row in pipeline.ledger.paused_tables()] == [NOW + SECOND]
    resume_tables(pipeline, [TWO])
    assert len(find_work(pipeline).tables) == 3
    harness.settle()
    assert of_rows(harness) == undisturbed


@pytest.mark.more
def test_all_tables_that_fail_in_one_way_fail_the_run_and_pause_nothing(
    messages: list[Message], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.raw()
    harness.entries()
    with broken(TableWriter, "write", writer_of("one", "two")), pytest.raises(SharedFaultError):
        harness.tables()
    with broken(Lake, "replace", of_layer("changelog", "one", "two")), pytest.raises(SharedFaultError):
        harness.tables()
    assert (harness.pipeline.ledger.paused_tables(), harness.pipeline.ledger.cuts()) == ([], [])


def test_a_full_disk_fails_the_run_and_pauses_nothing(messages: list[Message], tmp_path: Path) -> None:
    harness = opened(tmp_path, messages)
    harness.raw()
    harness.entries()
    with (
        broken(Lake, "replace", of_layer("changelog", "two"), OSError(errno.ENOSPC, "full")),
        pytest.raises(OSError, match="full"),
    ):
        harness.tables()
    assert (harness.pipeline.ledger.paused_tables(), harness.pipeline.ledger.cuts()) == ([], [])


def rows_of(harness: Harness) -> dict[str, list[str]]:
    """The rows of tables alone: marks and counts of a window that was read in pieces name its runs."""
    return {name: rows for name, rows in of_rows(harness).items() if name.startswith(("changelog", "snapshot", "ddl"))}


@pytest.mark.long
@pytest.mark.spark
def test_an_open_window_that_lacks_a_table_is_made_again_for_it_once_it_is_resumed(
    bench: Bench, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    at = [border(1) + 65 * SECOND, border(1) + 75 * SECOND, border(1) + 85 * SECOND]
    parts = [[one for one in messages if low <= one.time < high] for low, high in pairwise([border(0), *at, border(9)])]
    write_capture(tmp_path / "capture", parts[0])
    window = {"end": border(3), "live": True}
    harness = bench.open(tmp_path / "capture", partitions=LANES, window=window, complete=False)
    refresh(harness)
    for number, part in enumerate(parts[1:3]):
        write_capture(tmp_path / "capture", part, name=f"part{number}")
        with broken(Lake, "replace", of_layer("changelog", "two")):
            refresh(harness)
    mark = harness.pipeline.ledger.cuts()[-1]
    assert (len(mark.made_by), [one.id for one in mark.paused]) == (3, [TWO]), "the other table is appended to"

    resume_tables(harness.pipeline, [TWO])
    refresh(harness)
    mark = harness.pipeline.ledger.cuts()[-1]
    assert (len(mark.made_by), mark.paused) == (4, ()), "the other table keeps its files"
    write_capture(tmp_path / "capture", parts[3], name="rest")
    for _ in range(3):
        refresh(harness)
    assert find_work(harness.pipeline).nothing
    expected = {name: rows for name, rows in undisturbed.items() if name.startswith(("changelog", "snapshot", "ddl"))}
    assert rows_of(harness) == expected


@pytest.mark.more
@pytest.mark.spark
def test_a_table_that_cannot_be_merged_stands_where_it_was_and_catches_up(
    bench: Bench, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = open_short(bench, tmp_path / "capture", messages)
    harness.all(0)
    before = harness.rows("snapshot", DATABASE, "two")
    harness.raw(1, 2)
    harness.entries(1, 2)
    with (
        pytest.MonkeyPatch.context() as patch,
        broken(snapshot_merges, "_commit", lambda _, merge, *__: merge.job.table == TWO),
    ):
        patch.setattr(snapshot_jobs.Merge, "is_small", False)
        harness.tables(1)
        harness.tables(2)
    assert harness.rows("snapshot", DATABASE, "two") == before
    assert [len(mark.paused) for mark in harness.pipeline.ledger.cuts()] == [0, 1, 1]
    resume_tables(harness.pipeline, [TWO])
    harness.tables(2)  # out of order: the window before still lacks the table, which does not go past it
    assert harness.rows("snapshot", DATABASE, "two") == before
    assert [window.start for window in find_work(harness.pipeline).tables] == [border(1)]
    harness.settle()
    assert of_rows(harness) == undisturbed


@pytest.mark.more
def test_a_table_whose_metadata_is_lost_stops_no_other_and_no_judgement(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    harness = opened(tmp_path, messages)
    harness.all(0)
    folder = next(tmp_path.glob(f"lake/**/snapshot/{DATABASE}/two/metadata"))
    folder.rename(folder.with_name("lost"))
    harness.settle()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert (paused.table, paused.layer) == (TWO, "snapshot")
    assert f"snapshot/{DATABASE}/two/metadata/" in paused.reason
    assert "is missing" in paused.reason
    assert [len(mark.paused) for mark in harness.pipeline.ledger.cuts()] == [0, 1, 1]
    assert {judged.partition for judged in judge_ledger(harness.pipeline) if judged.sentence} == {
        window.key for window in harness.windows(1, 2)
    }
    assert find_repeated_keys(harness.pipeline) == OneByOne({ONE: 0})

    folder.with_name("lost").rename(folder)
    resume_tables(harness.pipeline, [TWO])
    harness.settle()
    assert of_rows(harness) == undisturbed
