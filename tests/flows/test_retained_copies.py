"""Copies of a moment whose windows cannot be made again: retention has removed their entries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.model.message_retention import ENTRIES
from tests.flows.aging import DAY, START, Days, followed, number_of, windows_with_files
from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Bench

pytestmark = pytest.mark.more


@pytest.fixture(autouse=True)
def _soon(quick: Iterator[None]) -> None:
    """Old messages leave at once."""


def test_a_later_window_takes_the_copy_and_the_table_is_the_source(bench: Bench, days: Days) -> None:
    """A message of the first day could not be decoded, so rows were missing for good; the copy brings them."""
    lake, source = followed(bench, days, "late_copy"), days.source
    (reached,) = [row.cut for row in lake.pipeline.ledger.cuts()[-1:] if row.cut is not None]
    shown = source.contents[max(one for one in source.contents if one <= (reached.file, reached.position))]
    assert lake.snapshots(source.tables) != shown
    last = max(one.position for one in source.changes if one.arrived < START + DAY)
    position = max(one for one in source.contents if one <= last)  # the end of a transaction
    rows = source.contents[position]["items"].values()
    copy_rows(lake, source.tables["items"], [Read(position, position, tuple(rows))])
    first_kept = max(min(numbers) for numbers in windows_with_files(lake, ENTRIES).values() if numbers)
    assert first_kept > 1, "the windows of the copy's moment are gone"
    lake.settle()
    (copied,) = lake.pipeline.ledger.copied_tables()
    assert copied.window_start is not None
    assert number_of(copied.window_start) >= first_kept
    assert lake.snapshots(source.tables) == shown
    assert find_work(lake.pipeline).nothing
