"""Messages and entries of old windows leave the lake; nothing else changes by it, and whoever needs them is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.redrive import Quarantined, redrive
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.flows.schema_moments import schema_at
from dts_assets.model.message_retention import ENTRIES, RAW
from dts_assets.model.spans import Cell
from dts_assets.planning.source_moments import AtGtid
from dts_assets.planning.staleness import input_text, raw_input
from tests.flows.aging import (
    DAYS,
    Days,
    files_on_disk,
    followed,
    number_of,
    on,
    opened,
    window,
    windows_with_files,
)
from tests.flows.harness import Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.source import write_capture

LAST = 2 * DAYS - 1
"""The number of the window that is still open."""


@pytest.fixture(scope="module")
def aged(days: Days, quick: None, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A lake that removes old rows. Only the last tests change it."""
    return followed(bench_in_process(tmp_path_factory.mktemp("aged"), "aged"), days, "aged")


@pytest.fixture(scope="module")
def whole(days: Days, quick: None, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A lake that keeps everything."""
    return followed(bench_in_process(tmp_path_factory.mktemp("whole"), "aged"), days, "aged", ages={}, by=DAYS)


@pytest.mark.more
def test_old_rows_are_gone_and_all_others_are_there(aged: Harness, whole: Harness) -> None:
    # The second day's last window has the head of a set that was whole in the sixth day, which is not old yet.
    for layer, first in ((RAW, {0: 10, 1: 3}), (ENTRIES, {0: 3, 1: 3})):
        assert {lane: found[0] for lane, found in windows_with_files(aged, layer).items()} == first
        there = [row for row in whole.rows(layer) if number_of(row["window_start"]) >= first[row["kafka_partition"]]]
        shown = aged.rows(layer)
        assert len(there) == len(shown) < len(whole.rows(layer))
        assert sorted(map(str, there)) == sorted(map(str, shown))


@pytest.mark.more
def test_every_other_table_is_as_without_retention(aged: Harness, whole: Harness) -> None:
    """Sets over the borders of removed windows are among its rows, and windows behind removals."""
    # A lake that is made at once sees another message behind a silent window.
    found, expected = (harness.everything(without={"closed_by"}) for harness in (aged, whole))
    assert found.keys() == expected.keys()
    for name in found.keys() - {RAW, ENTRIES}:
        assert found[name] == expected[name], name
    assert find_work(aged.pipeline).nothing
    assert len(expected["changelog.bank.items"]) > 100


@pytest.mark.more
def test_files_are_gone_from_disk(aged: Harness) -> None:
    for layer in (RAW, ENTRIES):
        live = {file.path.removeprefix("file://") for file in aged.pipeline.lake.data_files(aged.pipeline.path(layer))}
        assert files_on_disk(aged, layer) == live


def test_the_ledger_says_what_went_and_still_balances(aged: Harness) -> None:
    rows, ledger = aged.pipeline.ledger.removed_rows(), aged.pipeline.ledger
    for layer, counted in (
        (RAW, {row.cell: row.messages for row in ledger.raw_windows()}),
        (ENTRIES, {row.cell: row.counts.data + row.counts.control for row in ledger.windows()}),
    ):
        mine = [row for row in rows if row.layer == layer]
        stored = sum(file.rows for file in aged.pipeline.lake.data_files(aged.pipeline.path(layer)))
        assert len(mine) > 1
        assert sum(row.rows for row in mine) + stored == sum(counted.values())
        assert all(row.bytes > row.cells > 0 and row.gone_at is not None for row in mine)
    assert all(one.balanced for one in judge_ledger(aged.pipeline))


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("make", "layer"),
    [
        (lambda lake: lake.raw(0, 1), RAW),
        (lambda lake: lake.entries(0, partitions=[1]), RAW),
        (lambda lake: lake.tables(0), ENTRIES),
        (lambda lake: lake.raw(1, 12, partitions=[0]), RAW),
        (lambda lake: lake.tables(2, 3, 4), ENTRIES),
    ],
)
def test_a_window_made_again_says_the_sentence_and_changes_nothing(
    aged: Harness, make: Callable[[Harness], object], layer: str
) -> None:
    before = aged.everything()
    with pytest.raises(RowsRemovedError, match=r"were removed by retention on .*cannot be made again") as refused:
        make(aged)
    assert refused.value.layer == layer
    assert aged.everything() == before


@pytest.mark.more
def test_a_window_whose_rows_are_there_is_made_again_with_equal_rows(aged: Harness) -> None:
    before = aged.everything()
    aged.entries(9, 10, partitions=[1])  # the set that began in the second day ends there
    aged.tables(4, 5)
    aged.all(13)
    assert aged.everything() == before
    assert find_work(aged.pipeline).nothing


def test_rows_in_quarantine_stay_with_a_line(aged: Harness) -> None:
    before = aged.pipeline.ledger.quarantine()
    report = redrive(aged.pipeline, Quarantined(), spark=aged._spark, progress=aged.lines.append)
    assert (report.moved, report.entries, report.tables) == (0, (), ())
    assert aged.pipeline.ledger.quarantine() == before != []
    assert any(line.endswith("since what they came from was removed by retention") for line in aged.lines)


@pytest.mark.more
def test_tables_cannot_be_rebuilt_from_entries_that_are_gone_and_can_from_changelogs(aged: Harness) -> None:
    tables, before = [table_id("items")], aged.everything()
    with pytest.raises(RowsRemovedError):
        rebuild_tables(aged.pipeline, tables, RebuildFrom.ENTRIES, spark=aged._spark, progress=aged.lines.append)
    assert aged.everything() == before
    rebuild_tables(aged.pipeline, tables, RebuildFrom.CHANGELOG, spark=aged._spark, progress=aged.lines.append)
    assert aged.everything() == before


def test_a_schema_at_a_transaction_that_may_be_gone_is_refused(aged: Harness) -> None:
    transactions = aged.rows("changelog", "bank", "items")
    for is_gone in (True, False):
        row = next(row for row in transactions if (number_of(row["window_start"]) < 3) is is_gone)
        moment = AtGtid(row["transaction_id"])
        if is_gone:
            with pytest.raises(RowsRemovedError, match="name a position, a time or a window instead"):
                schema_at(aged.pipeline, table_id("items"), moment)
        else:
            assert schema_at(aged.pipeline, table_id("items"), moment).state is not None


def test_entries_that_were_made_from_removed_messages_are_not_made_again(aged: Harness) -> None:
    """So it is with a window that is old itself, and stays because another one needs it."""
    cell = Cell(0, window(10))
    (row,) = [row for row in aged.pipeline.ledger.windows([cell.window]) if row.cell == cell]
    made = next(row for row in aged.pipeline.ledger.raw_windows() if row.cell == Cell(0, window(9)))
    named = replace(row, inputs=(*row.inputs, input_text(raw_input(made.cell), made.generation)))
    aged.pipeline.ledger.replace_windows([cell], [named])
    with pytest.raises(RowsRemovedError, match="entries that were made from them cannot be made again"):
        aged.entries(10, partitions=[0])
    aged.entries(10, partitions=[1])
    aged.pipeline.ledger.replace_windows([cell], [row])
    aged.entries(10, partitions=[0])


@pytest.mark.more
def test_stale_windows_without_rows_stay_as_they_are_and_nobody_asks_for_them(aged: Harness, days: Days) -> None:
    capture = Path(str(aged.pipeline.settings.source.capture.path))  # type: ignore[union-attr]
    before = {str(row) for row in aged.rows("changelog", "bank", "items") if number_of(row["window_start"]) < 3}
    other = opened(bench_in_process(capture.parent, "aged"), capture, "aged", types={"bank.items.n": "bigint"})
    work = find_work(other.pipeline)
    assert [number_of(one.start) for one in work.tables] == list(range(3, LAST))
    assert not work.stale_entries
    other.settle()
    after = [row for row in other.rows("changelog", "bank", "items") if number_of(row["window_start"]) < 3]
    assert {str(row) for row in after} == before
    assert len(other.pipeline.ledger.settled_days()) == DAYS - 1, "days are settled again although windows are stale"
    back = opened(bench_in_process(capture.parent, "aged"), capture, "aged")
    assert {number_of(one.start) for one in find_work(back.pipeline).tables} == set(range(3, LAST))
    back.settle()


def test_a_removed_table_cannot_come_back_without_its_changes(aged: Harness) -> None:
    remove_tables(aged.pipeline, [table_id("items")], progress=aged.lines.append)
    with pytest.raises(RowsRemovedError, match="would lack their changes"):
        add_tables(aged.pipeline, [table_id("items")], progress=aged.lines.append)
    assert all(not row.paused for row in aged.pipeline.ledger.cuts())


@pytest.mark.more
def test_changes_that_may_repeat_removed_ones_are_refused_and_never_stored_twice(
    days: Days, quick: None, tmp_path: Path
) -> None:
    bench = bench_in_process(tmp_path, "aged")
    aged = followed(bench, days, "aged", until=6)
    rows = len(aged.rows("changelog", "bank", "items"))
    again = days.again(0, on(6, 1), behind=days.of_day(5))
    again += days.again(0, on(7, 1), behind=again)  # closes the windows
    write_capture(bench.folder / "capture_aged", again, name="again")
    harness = opened(bench, bench.folder / "capture_aged", "aged")
    with pytest.raises(RowsRemovedError, match="nothing tells any more which ones"):
        harness.settle()
    assert len(harness.rows("changelog", "bank", "items")) >= rows
    assert window(12) in find_work(harness.pipeline).tables
