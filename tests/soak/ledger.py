"""What the ledger says of a topic: the level of every window, and every problem, by Kafka partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dts_assets.model.ledger_rows import Counts
from dts_assets.model.problems import Completeness, Problem
from dts_assets.model.runs import SeenCheckpoint
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.proofs import prove_windows
from tests.ledger_rows import ingest_row
from tests.soak.pipeline import Ingested, Outcome


@dataclass(slots=True)
class Judged:
    """Levels of windows, problems of cells (what lies before them among it), and those of windows alone."""

    windows: dict[Window, Completeness]
    of_cells: list[tuple[Cell, Problem]]
    of_windows: list[tuple[Window, Problem]]


def judge(outcome: Outcome) -> Judged:
    """Every window of a complete capture."""
    by_window: dict[Window, list[Ingested]] = {}
    for one in outcome.cells.values():
        by_window.setdefault(one.cell.window, []).append(one)
    last = max(by_window)
    evidence = [
        ingest_row(
            cell,
            one.offsets,
            ClosedBy.END if cell.window == last else ClosedBy.MESSAGE,
            problems=tuple(one.problems),
            delivery=one.delivery,
            counts=Counts(carried_in=one.tally.carried_in, carried_out=one.tally.carried_out),
        )
        for cell, one in outcome.cells.items()
    ]
    synced = {window.start: _synced([one.checkpoints for one in cells]) for window, cells in by_window.items()}
    real = not any(mark.fake_gtid for one in outcome.cells.values() for mark in one.checkpoints)
    partitions = len(by_window[last])
    proofs = prove_windows(evidence, kafka_partitions=partitions, synced=synced, trust_gtids=real)
    judged = Judged({}, [], [])
    for window in by_window:
        proof = proofs[window.start]
        judged.windows[window] = proof.level
        for partition, problem in proof.problems:
            if partition is None:
                judged.of_windows.append((window, problem))
            else:
                judged.of_cells.append((Cell(partition, window), problem))
    return judged


def _synced(marks: Sequence[Sequence[SeenCheckpoint]]) -> str | None:
    """The GTID set of the cut: of the smallest of the partitions' greatest CHECKPOINTs; None if one partition has none."""
    greatest = [max(of, key=lambda mark: mark.position) for of in marks if of]
    if len(greatest) < len(marks):
        return None
    return min(greatest, key=lambda mark: mark.position).gtid_set
