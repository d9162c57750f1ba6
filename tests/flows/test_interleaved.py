"""Two writers at once that nothing keeps apart, stopped at every commit: no row twice, no mark for the files of another.

What protects the data are the assertions of the commits alone: there is no lease here and no lock, and no JVM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dts_assets.errors import OvertakenError, StaleGenerationError
from dts_assets.flows import compaction, tables_decode
from dts_assets.flows.find_work import find_work
from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.redelivered import find_redelivered_changes
from dts_assets.model.ledger_rows import IngestWindow, RawWindow
from dts_assets.model.spans import Cell
from dts_assets.planning.rectangles import rectangles, window_runs
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.interleaved import Schedule, nothing_keeps_them_apart
from tests.flows.short import LANES, SECOND, items, three_windows
from tests.flows.source import DATABASE, Message, write_capture
from tests.tiers import ALL, chosen

TABLES = ("one", "two")
AT = border(1) + 75 * SECOND
"""The moment in the second window up to which the first of two writers sees the topic."""


def marks_and_files(harness: Harness) -> None:
    """What a mark says is what the files that belong to it hold, for every mark that stands; no key is there twice."""
    pipeline, ledger = harness.pipeline, harness.pipeline.ledger
    raw, entries = ({row.cell: row for row in ledger.raw_windows()}, {row.cell: row for row in ledger.windows()})
    for name in ("raw_envelopes", "entries"):
        by_cell: Mapping[Cell, RawWindow | IngestWindow] = raw if name == "raw_envelopes" else entries
        files = files_of_cells(pipeline, pipeline.lake.data_files(pipeline.path(name)), by_cell)
        found = {cell: sum(file.rows for file in files.get(cell, ())) for cell in by_cell}
        said = {
            cell: row.messages if isinstance(row, RawWindow) else row.counts.entries for cell, row in by_cell.items()
        }
        assert found == said, name
    counted = Counter[tuple[str, object]]()
    for one in ledger.window_tables():
        counted[one.table.path[-1], one.window_start] += one.kept
    for table in TABLES:
        changes = Counter(row["window_start"] for row in harness.rows("changelog", DATABASE, table))
        for mark in ledger.cuts():
            assert changes[mark.window.start] == counted[table, mark.window.start], (table, mark.window)
        keys = Counter(row["id"] for row in harness.rows("snapshot", DATABASE, table))
        assert not [key for key, count in keys.items() if count > 1], f"{table} has a key twice"


def run_of(harness: Harness) -> None:
    """All that is to be done now, once."""
    work = find_work(harness.pipeline)
    for span in rectangles((*work.ingest, *work.live)):
        harness.raw_of(span)
        harness.entries_of(span)
    for windows in window_runs(find_work(harness.pipeline).tables):
        harness.tables_of(windows)


class World:
    """A topic that grows while the first of two writers reads it, and the lake that they both write."""

    def __init__(self, folder: Path, messages: list[Message]) -> None:
        self._folder = folder
        self._bench: Bench = bench_in_process(folder, "world")
        self._late = [one for one in messages if one.time >= AT]
        write_capture(folder / "capture", [one for one in messages if one.time < AT])

    def open(self) -> Harness:
        window = {"end": border(3), "live": True}
        return self._bench.open(self._folder / "capture", name="world", partitions=LANES, window=window, complete=False)

    def grow(self) -> None:
        """The rest of the messages come."""
        if self._late:
            write_capture(self._folder / "capture", self._late, name="late")
            self._late = []

    def grown_run(self) -> None:
        self.grow()
        run_of(self.open())

    def everything(self) -> dict[str, list[str]]:
        """All rows that do not depend on how they came, once nothing is left to do."""
        self.grow()
        after = self.open()
        for _ in range(3):
            run_of(after)
        marks_and_files(after)
        found = after.everything()
        kept = {name: rows for name, rows in found.items() if name.startswith(("changelog", "snapshot"))}
        return kept | {name: found[name] for name in ("raw_envelopes", "quarantine", "ddl")}


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one"), items("two")).messages)


@pytest.fixture(scope="module")
def undisturbed(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return World(tmp_path_factory.mktemp("undisturbed"), messages).everything()


@pytest.fixture(scope="module")
def stops(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The stops of a writer that is alone."""
    world, schedule = World(tmp_path_factory.mktemp("stops"), messages), Schedule(overtaken_at=-1)
    with nothing_keeps_them_apart(schedule):
        schedule.run(partial(run_of, world.open()))
    return schedule.log


MOMENTS = {
    "a snapshot": ("world.snapshot.bank.one", "world.window_tables"),
    "the rows of raw": ("world.raw_envelopes", "world.raw_windows"),
    "the mark of raw": ("world.raw_windows", "world.raw_envelopes"),
}
"""The commit before which a writer is overtaken, and a commit that comes before it."""


@pytest.mark.more
@pytest.mark.parametrize("moment", chosen(list(MOMENTS), 2))
def test_a_writer_is_overtaken_before(
    moment: str, stops: list[str], messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    place, behind = MOMENTS[moment]
    at = stops.index(f"0 before {place}", stops.index(f"0 after {behind}")) + 1
    schedule = overtaken(at, messages, undisturbed, tmp_path)
    refused = [error for error in schedule.errors if isinstance(error, OvertakenError | StaleGenerationError)]
    assert refused, "the one that was overtaken goes on as if nothing had been"


def in_order(world: World, undisturbed: dict[str, list[str]]) -> None:
    """What is there holds together, and ends as if there had been one writer."""
    marks_and_files(world.open())
    assert world.everything() == undisturbed


def overtaken(at: int, messages: list[Message], undisturbed: dict[str, list[str]], folder: Path) -> Schedule:
    world, schedule = World(folder, messages), Schedule(overtaken_at=at)
    with nothing_keeps_them_apart(schedule):
        schedule.run(partial(run_of, world.open()), world.grown_run)
    in_order(world, undisturbed)
    return schedule


@pytest.mark.more
def test_tables_are_not_made_of_files_that_were_compacted_away_meanwhile(
    messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window closes while its tables are being made: the files that their plan knows are gone then."""
    world = World(tmp_path, messages)
    first = world.open()
    for span in rectangles(find_work(first.pipeline).ingest + find_work(first.pipeline).live):
        first.raw_of(span)
        first.entries_of(span)
    (windows,) = window_runs(find_work(first.pipeline).tables)
    closed: list[bool] = []

    def while_the_window_closes(*asked: Any, **named: Any) -> Any:
        if not closed:
            closed.append(True)
            world.grow()
            other = world.open()
            for span in rectangles((*find_work(other.pipeline).ingest, *find_work(other.pipeline).live)):
                other.raw_of(span)
                other.entries_of(span)
        return find_redelivered_changes(*asked, **named)

    monkeypatch.setattr(compaction, "is_worth_compacting", lambda files: files > 1)
    monkeypatch.setattr(tables_decode, "find_redelivered_changes", while_the_window_closes)
    with nothing_keeps_them_apart(Schedule(overtaken_at=-1)), pytest.raises(StaleGenerationError, match="entries of"):
        first.tables_of(windows)
    assert world.everything() == undisturbed


@pytest.mark.long
def test_a_writer_is_overtaken_anywhere(
    stops: list[str], messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    for at in range(1, len(stops) + 1):
        overtaken(at, messages, undisturbed, tmp_path / str(at))


@pytest.mark.parametrize("seed", range(120 if ALL else 1))
def test_two_writers_in_any_order(
    seed: int, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    world = World(tmp_path, messages)
    schedule = Schedule(seed, switch=(0.5, 0.2, 0.05)[seed % 3], kill=(0.0, 0.01)[seed % 2])
    with nothing_keeps_them_apart(schedule):
        schedule.run(partial(run_of, world.open()), world.grown_run)
    in_order(world, undisturbed)
