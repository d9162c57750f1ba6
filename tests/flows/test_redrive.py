"""What an older decoder could not use moves on when it is driven again; what nobody can use stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.redrive import Quarantined, RedriveReport, redrive
from dts_assets.model.ledger_rows import QuarantineRow
from dts_assets.model.problems import Completeness, Problem, ProblemCode, Reason
from dts_assets.model.spans import Cell
from dts_assets.store.commit import Rectangle
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.short import LANES, in_window, open_short, three_windows, with_values
from tests.flows.source import folded
from tests.ledger_rows import quarantine

pytestmark = pytest.mark.spark


def as_an_older_decoder_left_it(harness: Harness, cell: Cell) -> None:
    """Nothing of a cell was understood: no entries, each set in quarantine, and the mark says so."""
    pipeline, ledger = harness.pipeline, harness.pipeline.ledger
    row = next(row for row in ledger.windows() if row.cell == cell)
    rectangle: Rectangle = {"kafka_partition": {cell.kafka_partition}, "window_start": {cell.window.start}}
    pipeline.lake.replace(pipeline.path("entries"), rectangle, [])
    rejected = [
        QuarantineRow(
            cell.kafka_partition, cell.window.start, "entries", offset, offset, Reason.UNDECODABLE_ENTRIES, "", b"?"
        )
        for offset in range(row.offsets.start, row.offsets.end)
    ]
    quarantine(pipeline.lake, [cell], "entries", rejected, subscription=pipeline.name)
    problems = (Problem(ProblemCode.QUARANTINED, None, None, f"{len(rejected)} entries are in quarantine"),)
    counts = replace(row.counts, entries=0, data=0, control=0, decoded_sets=0, quarantined_sets=len(rejected))
    older = replace(
        row,
        code_version="0",
        generation="older",
        completeness=Completeness.INCOMPLETE,
        problems=problems,
        counts=counts,
    )
    ledger.replace_windows([cell], [older])


def drive(harness: Harness, chosen: Quarantined) -> RedriveReport:
    return redrive(harness.pipeline, chosen, spark=lambda: harness.session, progress=harness.lines.append)


@pytest.mark.more
def test_what_can_be_used_moves_on_and_the_rest_stays(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    hopeless = next(one for one in source.messages if in_window(one, 2) and one.partition == 0)
    lost = (hopeless.partition, hopeless.offset)
    messages = with_values(source.messages, {lost: b"\xff" * len(hopeless.value or b"")})
    harness = open_short(bench, tmp_path / "capture", messages)
    harness.all()
    clean = harness.everything()
    cell = Cell(1, harness.windows(1)[0])
    as_an_older_decoder_left_it(harness, cell)
    harness.tables(1)
    assert harness.snapshots(source.tables) != folded(source.tables, source.changes)

    report = drive(harness, Quarantined(start=border(2)))  # the other window: nothing can be done there
    assert report.moved == 0
    assert dict(report.stayed) == dict(report.found) == {("entries", Reason.UNDECODABLE_MESSAGE): 1}
    report = drive(harness, Quarantined(reasons=frozenset({Reason.UNDECODABLE_ENTRIES})))
    assert report.moved == sum(report.found.values()) > 0
    assert report.stayed == {}
    assert [row.row.cell for row in report.entries] == [cell]
    assert find_work(harness.pipeline).nothing
    assert harness.everything() == clean
    assert [(row.kafka_partition, row.first_offset) for row in harness.pipeline.ledger.quarantine()] == [lost]


def test_an_empty_quarantine_needs_no_spark(bench: Bench, tmp_path: Path) -> None:
    harness = open_short(bench, tmp_path / "capture", three_windows().messages, window={"end": border(3)})
    assert harness.pipeline.kafka_partitions == range(LANES)

    def refuse() -> None:
        raise AssertionError("nothing is to be computed")

    report = redrive(harness.pipeline, Quarantined(), spark=refuse, progress=harness.lines.append)  # type: ignore[arg-type]
    assert (report.moved, report.found, report.entries) == (0, {}, ())
