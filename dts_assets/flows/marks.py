"""The mark of a window's tables run: where the cut is, how complete the window is, and what all of that was decided from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.redelivered import TopicHistory
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.problems import Problem
from dts_assets.model.spans import Cell, partition_key
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.cuts import PartitionEnd, WindowCut, cut_of_window
from dts_assets.planning.generations import generation, input_text
from dts_assets.planning.proofs import CellEvidence, WindowProof, prove_windows
from dts_assets.planning.staleness import tables_inputs

PROOF_INPUT = "proof:"
"""How the names of inputs begin that decide a window's level and problems alone, and none of its rows."""


@dataclass(frozen=True, slots=True)
class TopicMarks:
    """The cut and the proof of every stored window, from all rows of ``windows``. Cuts come with their GTID sets."""

    pipeline: Pipeline
    history: TopicHistory
    cuts: Mapping[datetime, tuple[WindowCut, str | None]]
    proofs: Mapping[datetime, WindowProof]

    @classmethod
    def of(cls, pipeline: Pipeline, rows: Iterable[IngestWindow], tables: Iterable[TableId]) -> TopicMarks:
        """What the rows say together; they should be all of them, and ``tables`` all that are known."""
        history = TopicHistory.of(rows, tables, order=pipeline.settings.traits.order)
        windows = sorted({cell.window for cell in history.rows})
        # Shards are servers of their own: there is no position that is common to them.
        ordered = len(history.shards) <= 1
        wanted = Consistency(pipeline.settings.consistency) if ordered else Consistency.WINDOW
        cuts = {window.start: _cut(pipeline, history, window, wanted=wanted) for window in windows}
        evidence = [
            CellEvidence(
                row.cell,
                row.epoch,
                row.offsets,
                row.closed_by is ClosedBy.END,
                row.problems,
                row.delivery,
                row.counts.carried_in,
                row.counts.carried_out,
            )
            for row in history.rows.values()
        ]
        proofs = prove_windows(
            evidence,
            kafka_partitions=len(pipeline.kafka_partitions),
            synced={window.start: _synced(pipeline, history, window, cuts[window.start][1]) for window in windows},
            trust_gtids=history.trusts_gtids,
        )
        return cls(pipeline, history, cuts, proofs)

    def beside(self, window: Window) -> tuple[str, ...]:
        """What the tables of a window depend on beside its own entries."""
        proof = self.proofs.get(window.start)
        if proof is None:
            return ()
        open_in = ",".join(map(partition_key, self._open_in(window)))
        rests_on = f"{proof.rests_on}; open {open_in}" if open_in else proof.rests_on
        proven = input_text(f"{PROOF_INPUT}{window.key}", rests_on)
        return (*self.history.inputs(window, self.pipeline.kafka_partitions), proven)

    def mark(self, window: Window) -> Cut:
        """The row of ``cuts`` of a window all of whose cells are stored."""
        cells = [Cell(partition, window) for partition in self.pipeline.kafka_partitions]
        rows = {cell: self.history.rows[cell] for cell in cells}
        inputs = tables_inputs(
            window,
            self.pipeline.kafka_partitions,
            rows,
            settings=self.pipeline.shaping_settings(),
            beside={window.start: self.beside(window)},
        )
        cut, gtid_set = self.cuts[window.start]
        proof = self.proofs[window.start]
        return Cut(
            window=window,
            cut=cut.cut,
            gtid_set=gtid_set,
            consistency=cut.consistency,
            completeness=proof.level,
            problems=tuple(_named(partition, problem) for partition, problem in proof.problems),
            generation=generation(inputs, code_version=CODE_VERSION),
            inputs=inputs,
            code_version=CODE_VERSION,
            open_in=self._open_in(window),
        )

    def _open_in(self, window: Window) -> tuple[int, ...]:
        """The Kafka partitions in which a window had not closed when it was stored."""
        rows = (self.history.rows.get(Cell(one, window)) for one in self.pipeline.kafka_partitions)
        return tuple(row.kafka_partition for row in rows if row is not None and row.closed_by is ClosedBy.OPEN)


def _synced(pipeline: Pipeline, history: TopicHistory, window: Window, gtid_set: str | None) -> str | None:
    """The GTIDs that all Kafka partitions have got by a window's end: none can be named while one gave no CHECKPOINT."""
    cells = [Cell(partition, window) for partition in pipeline.kafka_partitions]
    return gtid_set if all(cell in history.rows and history.rows[cell].checkpoints for cell in cells) else None


def same_rows(stored: Cut | None, mark: Cut) -> bool:
    """Whether a stored mark differs from what it would be now in its proof alone, so that its rows need not be made again."""
    if stored is None or stored.code_version != mark.code_version or set(stored.inputs) == set(mark.inputs):
        return False
    return of_rows(stored.inputs) == of_rows(mark.inputs)


def window_cut(row: Cut) -> WindowCut:
    """What a mark adds to the frontier."""
    return WindowCut(row.window, row.cut, row.consistency, still_open=bool(row.open_in))


def of_rows(inputs: Iterable[str]) -> set[str]:
    """The inputs that decide rows."""
    return {text for text in inputs if not text.startswith(PROOF_INPUT)}


def _cut(
    pipeline: Pipeline, history: TopicHistory, window: Window, *, wanted: Consistency
) -> tuple[WindowCut, str | None]:
    """The cut of a window, from those of its cells that are stored."""
    rows = [history.rows[cell] for one in pipeline.kafka_partitions if (cell := Cell(one, window)) in history.rows]
    checkpoints = [history.checkpoint(row.cell) for row in rows]
    ends = [
        PartitionEnd(row.kafka_partition, None if mark is None else mark[0], row.closed_by)
        for row, mark in zip(rows, checkpoints, strict=True)
    ]
    cut = cut_of_window(window, ends, wanted=wanted)
    gtid_set = next((mark[1] for mark in checkpoints if mark is not None and mark[0] == cut.cut), None)
    return cut, gtid_set


def _named(kafka_partition: int | None, problem: Problem) -> Problem:
    if kafka_partition is None:
        return problem
    detail = f"{partition_key(kafka_partition)}: {problem.detail}"
    return Problem(problem.code, problem.first_offset, problem.last_offset, detail)
