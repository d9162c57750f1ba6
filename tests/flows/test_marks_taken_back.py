"""A mark is taken back before the files that it stands for are replaced: killed at that moment, no mark is left on other rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.store.ledger import Ledger
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, items, three_windows
from tests.flows.source import Message, write_capture


class Killed(BaseException):
    """Stands for the end of the process."""


def opened(folder: Path, capture: Path, **settings: Any) -> Harness:
    window = {"end": border(3), **settings.pop("window", {})}
    return bench_in_process(folder, "back").open(capture, name="back", partitions=LANES, window=window, **settings)


def killed_before_its_mark(harness: Harness, step: Any, name: str) -> None:
    """Run a step that ends before the first marks that it writes, which come after its files."""
    real = getattr(Ledger, name)

    def ending(ledger: Ledger, cells: Any, rows: Any, **others: Any) -> None:
        if rows:
            raise Killed
        real(ledger, cells, rows, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, name, ending)
        with pytest.raises(Killed):
            step()


def made_anew(capture: Path, messages: list[Message]) -> None:
    shutil.rmtree(capture)
    write_capture(capture, messages)


@pytest.mark.more
def test_a_source_that_is_changed_and_changed_back_between_rows_and_mark_of_raw(tmp_path: Path) -> None:
    messages = list(three_windows(items()).messages)
    other = [replace(one, value=b"another" + (one.value or b"")) for one in messages]
    capture = write_capture(tmp_path / "capture", messages)
    harness = opened(tmp_path, capture)
    harness.settle()
    before = harness.everything()
    made_anew(capture, other)
    killed_before_its_mark(harness, lambda: harness.raw(1), "replace_raw_windows")
    made_anew(capture, messages)
    assert not find_work(harness.pipeline).nothing, "the mark of the first source stands on the rows of the other"
    harness.settle()
    assert harness.everything() == before


def test_a_window_that_was_followed_and_is_read_again_in_one_go(tmp_path: Path) -> None:
    """Its marks name the runs that wrote its files: after a kill they would name files that are gone."""
    messages = list(three_windows(items()).messages)
    at = border(1) + 75 * SECOND
    capture = write_capture(tmp_path / "capture", [one for one in messages if one.time < at])
    harness = opened(tmp_path, capture, complete=False, window={"live": True})
    ingest(harness)
    write_capture(capture, [one for one in messages if one.time >= at], name="more")
    ingest(harness)
    ingest(harness)
    rows = {name: len(harness.rows(name)) for name in ("raw_envelopes", "entries")}
    for step, name in ((harness.raw, "replace_raw_windows"), (harness.entries, "replace_windows")):
        killed_before_its_mark(harness, partial(step, 1), name)
        ingest(harness)
        harness.entries(1)
        assert {name: len(harness.rows(name)) for name in rows} == rows
        ledger = harness.pipeline.ledger
        assert sum(mark.messages for mark in ledger.raw_windows()) == rows["raw_envelopes"]
        assert sum(row.counts.entries for row in ledger.windows()) == rows["entries"]


def ingest(harness: Harness) -> None:
    """Raw and entries of all that there is, closed or open."""
    work = find_work(harness.pipeline)
    for run in work.ingest_runs():
        if not run.entries_only:
            harness.raw_of(run.span)
        harness.entries_of(run.span)
