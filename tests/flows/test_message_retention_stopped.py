"""A removal that is stopped half way goes on later; until then nobody reads what is to go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dts_assets.errors import StaleGenerationError
from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.flows import message_retention
from dts_assets.flows.message_retention import last_gone, remove_old_rows
from dts_assets.model.message_retention import ENTRIES, RAW, RemovedRows
from dts_assets.model.spans import Cell
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.aging import START, Days, followed, opened, window, windows_with_files
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import chosen

UNTIL = 6
"""The day up to which the lake is made: two days of messages are old then, and one of entries."""


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def aged(days: Days, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A lake with old rows of which none has been removed yet."""
    monkeypatch.setattr(message_retention, "MESSAGES_KEPT", 5)
    bench = bench_in_process(tmp_path, "aged")
    followed(bench, days, "aged", until=UNTIL, ages={}, by=UNTIL)
    return opened(bench, tmp_path / "capture_aged", "aged")


def removal(aged: Harness) -> None:
    remove_old_rows(aged.pipeline, aged.lines.append)


def stop_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, calls: int, error: BaseException) -> None:
    """Let all calls but the first so many raise an error."""
    original, seen = getattr(owner, name), 0

    def instead(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen > calls:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, instead)


@pytest.mark.more
@pytest.mark.parametrize(
    ("owner", "name", "calls"),
    chosen(
        [
            (Lake, "replace", 1), (Ledger, "change_removed_rows", 1), (Lake, "replace", 0), (Lake, "replace", 2),
            (Ledger, "change_removed_rows", 2),
        ],
        1,
    ),
)  # fmt: skip
def test_a_removal_that_is_killed_goes_on(aged: Harness, owner: Any, name: str, calls: int) -> None:
    whole = {layer: windows_with_files(aged, layer) for layer in (RAW, ENTRIES)}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, owner, name, calls=calls, error=Killed())
        with pytest.raises(Killed):
            removal(aged)
    noted = aged.pipeline.ledger.removed_rows()
    assert any(row.gone_at is None for row in noted)
    with pytest.raises(RowsRemovedError):
        aged.raw(0)
    with pytest.raises(RowsRemovedError):
        aged.tables(0)
    removal(aged)
    done = aged.pipeline.ledger.removed_rows()
    assert [(row.layer, row.since, row.until, row.rows) for row in done] == [
        (row.layer, row.since, row.until, row.rows) for row in noted
    ]
    assert all(row.gone_at is not None for row in done)
    assert set(last_gone(aged.pipeline)) == {RAW, ENTRIES}
    left = {layer: windows_with_files(aged, layer) for layer in (RAW, ENTRIES)}
    assert {lane: found[0] for lane, found in left[RAW].items()} == {0: 6, 1: 3}
    assert {lane: found[0] for lane, found in left[ENTRIES].items()} == {0: 3, 1: 3}
    assert all(found == whole[layer][lane][-len(found) :] for layer in left for lane, found in left[layer].items())


@pytest.mark.more
def test_a_removal_that_another_run_has_overtaken_says_so_and_goes_on_later(aged: Harness) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, Lake, "replace", calls=0, error=StaleGenerationError("aged.entries", expected="1", found="2"))
        removal(aged)
    assert "retention: no more old rows were removed (StaleGenerationError); the next run tries again" in aged.lines
    assert all(row.gone_at is None for row in aged.pipeline.ledger.removed_rows())
    removal(aged)
    assert all(row.gone_at is not None for row in aged.pipeline.ledger.removed_rows())


@pytest.mark.more
def test_rows_written_meanwhile_are_not_lost_by_a_removal(aged: Harness) -> None:
    """A run that made a window again between the listing and the commit: its files are others, and the commit fails."""
    original = Lake.replace

    def overtaken(self: Lake, path: Any, rectangle: Any, files: Any, **asked: Any) -> Any:
        if tuple(path)[-1] == ENTRIES and not files:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Lake, "replace", original)
                patch.setattr("dts_assets.flows.entries.refuse_removed_messages", lambda *_: None)
                patch.setattr("dts_assets.flows.entries.refuse_entries_again", lambda *_: None)
                aged.entries(0, partitions=[0])
        return original(self, path, rectangle, files, **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "replace", overtaken)
        removal(aged)
    assert windows_with_files(aged, ENTRIES)[0][0] == 0
    removal(aged)
    assert windows_with_files(aged, ENTRIES)[0][0] == 3


@pytest.mark.more
def test_entries_are_never_fewer_for_messages_that_are_gone(aged: Harness) -> None:
    """The mark does not name the window of a head, as if an earlier version had found it otherwise."""
    ledger, cell = aged.pipeline.ledger, Cell(0, window(2))
    (row,) = [row for row in ledger.windows([cell.window]) if row.cell == cell]
    assert row.taken_over, "a set goes over the border"
    own = tuple(text for text in row.inputs if str(Cell(0, window(1))) not in text)
    ledger.replace_windows([cell], [replace(row, inputs=own)])
    before = ledger.windows([cell.window])
    note = RemovedRows(RAW, START, cell.window.start, (0,), 2, 1, 1, START)
    ledger.change_removed_rows(lambda rows: [*rows, note])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_retention, "_note_what_goes", lambda *_: None)
        removal(aged)
    assert windows_with_files(aged, RAW)[0][0] == 2
    with pytest.raises(RowsRemovedError, match="cannot be made again"):
        aged.entries(2, partitions=[0])
    assert ledger.windows([cell.window]) == before


@pytest.mark.more
def test_without_an_age_nothing_goes_and_no_table_is_made(aged: Harness, days: Days, tmp_path: Path) -> None:
    kept = opened(bench_in_process(tmp_path, "aged"), tmp_path / "capture_aged", "aged", ages={})
    removal(kept)
    assert kept.pipeline.ledger.removed_rows() == []
    assert kept.pipeline.lake.table(kept.pipeline.path("removed_rows")) is None


@pytest.mark.more
def test_the_latest_messages_stay(aged: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_retention, "MESSAGES_KEPT", 10_000)
    removal(aged)
    assert aged.pipeline.ledger.removed_rows() == []
