"""A recording that is still growing, one that should not have grown, and lakes that other settings were used with."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dts_assets.errors import IncompatibleLakeError
from dts_assets.errors.sources import CaptureGrownError
from dts_assets.errors.windows import NotClosedError, NotReadyError
from dts_assets.flows.find_work import find_work
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import LANES, SECOND, insert, open_short, three_windows
from tests.flows.source import folded, write_capture

pytestmark = pytest.mark.spark


@pytest.mark.more
def test_windows_close_as_the_recording_grows(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    capture = tmp_path / "capture"
    until = border(1) + 30 * SECOND
    early = [one for one in source.messages if one.time < until]
    harness = open_short(bench, capture, early, complete=False, window={"end": None, "grace": timedelta(minutes=9)})
    with pytest.raises(NotClosedError) as caught:
        harness.raw(0, 1)
    assert caught.value.cells == [
        "p00|2026-03-01-10:00",
        "p00|2026-03-01-10:10",
        "p01|2026-03-01-10:00",
        "p01|2026-03-01-10:10",
    ]
    assert find_work(harness.pipeline).nothing
    assert harness.rows("raw_envelopes") == []

    # Kafka partition 1 falls silent in the middle of the second window.
    write_capture(capture, [one for one in source.messages if one.time >= until and one.partition == 0], name="more")
    assert [str(cell) for cell in find_work(harness.pipeline).ingest] == [
        "p00|2026-03-01-10:00", "p00|2026-03-01-10:10", "p01|2026-03-01-10:00"
    ]  # fmt: skip
    harness.settle()
    closed = {str(row.cell): row.closed_by for row in harness.pipeline.ledger.raw_windows()}
    assert closed == {
        "p00|2026-03-01-10:00": "message",
        "p00|2026-03-01-10:10": "message",
        "p01|2026-03-01-10:00": "grace",
    }
    with pytest.raises(NotReadyError) as refused:
        harness.tables(1)
    assert refused.value.missing == {"2026-03-01-10:10": [1]}

    # And speaks again; a message of the fourth window closes the third.
    write_capture(capture, [one for one in source.messages if one.time >= until and one.partition == 1], name="late")
    insert(source, border(3) + 5 * SECOND, range(40, 60))
    write_capture(capture, source.messages[-LANES:], name="last")
    harness.settle()
    assert len(harness.pipeline.ledger.cuts()) == 3
    seen = [one for one in source.changes if one.arrived < border(3)]
    assert len(harness.rows("changelog", "bank", "items")) == len(seen) < len(source.changes)
    assert harness.snapshots(source.tables)["items"] == folded(source.tables, seen)["items"]


@pytest.mark.more
def test_a_complete_recording_needs_no_last_window(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    harness = open_short(bench, tmp_path / "capture", source.messages, window={"end": None})
    harness.settle()
    assert [row.window.start for row in harness.pipeline.ledger.cuts()] == [border(0), border(1), border(2)]
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)


def test_a_complete_recording_that_has_grown_is_refused(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    harness = open_short(bench, tmp_path / "capture", source.messages)
    harness.raw()
    insert(source, border(2) + 550 * SECOND, range(40, 60))
    write_capture(tmp_path / "capture", source.messages[-LANES:], name="more")
    ends = {one.partition: one.offset for one in source.messages}
    with pytest.raises(CaptureGrownError) as caught:
        harness.raw(2)
    assert (caught.value.stored_end, caught.value.found_end) == (ends[0], ends[0] + 1)
    assert str(tmp_path / "capture") in str(caught.value)
    with pytest.raises(CaptureGrownError):  # who only asks what is left to do must hear of it too
        find_work(harness.pipeline)


def test_steps_are_refused_before_what_they_are_made_from(bench: Bench, tmp_path: Path) -> None:
    harness = open_short(bench, tmp_path / "capture", three_windows().messages)
    with pytest.raises(NotReadyError) as caught:
        harness.entries(0, partitions=[1])
    assert (caught.value.missing, caught.value.needed) == ({"2026-03-01-10:00": [1]}, "raw_envelopes")
    harness.raw(0)
    harness.entries(0, partitions=[1])
    with pytest.raises(NotReadyError) as caught:
        harness.tables(0, 1)
    assert caught.value.missing == {"2026-03-01-10:00": [0], "2026-03-01-10:10": [0, 1]}
    assert caught.value.needed == "entries"
    assert harness.pipeline.ledger.cuts() == []


def test_a_lake_of_other_settings_is_refused_by_every_step(bench: Bench, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", three_windows().messages)
    window = {"end": border(3)}
    bench.open(capture, name="shaped", partitions=LANES, window=window).all()
    more = bench.open(capture, name="shaped", partitions=LANES + 1, window=window)
    longer = bench.open(capture, name="shaped", partitions=LANES, window={**window, "every": timedelta(minutes=30)})
    for harness, setting in ((more, "partitions"), (longer, "window.every")):
        for step in (harness.raw, harness.entries, harness.tables):
            with pytest.raises(IncompatibleLakeError) as caught:
                step(0)
            assert caught.value.setting == setting
