"""The mark of a window's tables run: its cut, its completeness, and its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Problem
from dts_assets.model.spans import Cell, partition_key
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.cuts import cut_of_window
from dts_assets.planning.proofs import WindowProof, prove_windows
from dts_assets.planning.staleness import generation, input_text, tables_inputs
from dts_assets.planning.topic_history import TopicHistory

PROOF_INPUT = "proof:"
"""The beginning of the names of inputs that decide a window's level and problems alone.

No row depends on them.
"""


@dataclass(frozen=True, slots=True)
class TopicMarks:
    """The cut and the proof of every stored window, from all rows of ``windows``; by window start.

    ``cuts`` has the position, the consistency and the GTID set of each cut. ``kafka_partitions`` are those of the topic,
    ``settings`` is the digest of the settings that shape rows.
    """

    kafka_partitions: range
    settings: str
    history: TopicHistory
    cuts: Mapping[datetime, tuple[SourcePosition | None, Consistency, str | None]]
    proofs: Mapping[datetime, WindowProof]

    @classmethod
    def of(
        cls,
        rows: Iterable[IngestWindow],
        tables: Iterable[TableId],
        *,
        kafka_partitions: range,
        consistency: Consistency,
        order: ChangeOrder,
        settings: str,
    ) -> TopicMarks:
        """Return the marks that all rows of ``windows`` give together; ``tables`` are all known tables."""
        history = TopicHistory.of(rows, tables, order=order)
        # Shards are servers of their own: there is no position that is common to them.
        wanted = consistency if len(history.shards) <= 1 else Consistency.WINDOW
        by_window: dict[datetime, list[IngestWindow]] = {}
        for row in sorted(history.rows.values(), key=lambda row: row.kafka_partition):
            if row.kafka_partition in kafka_partitions:
                by_window.setdefault(row.window.start, []).append(row)
        cuts = {start: _cut(history, mine, wanted=wanted) for start, mine in by_window.items()}
        # No GTID set is common to all Kafka partitions while one of them gave no CHECKPOINT.
        synced = {
            start: cuts[start][2]
            if len(mine) == len(kafka_partitions) and all(row.checkpoints for row in mine)
            else None
            for start, mine in by_window.items()
        }
        proofs = prove_windows(
            history.rows.values(),
            kafka_partitions=len(kafka_partitions),
            synced=synced,
            trust_gtids=history.trusts_gtids,
        )
        return cls(kafka_partitions, settings, history, cuts, proofs)

    def beside(self, window: Window) -> tuple[str, ...]:
        """Return the inputs of the tables of a window beside its own entries."""
        proof = self.proofs.get(window.start)
        if proof is None:
            return ()
        open_in = ",".join(map(partition_key, self._open_in(window)))
        rests_on = f"{proof.rests_on}; open {open_in}" if open_in else proof.rests_on
        proven = input_text(f"{PROOF_INPUT}{window.key}", rests_on)
        return (*self.history.inputs(window, self.kafka_partitions), proven)

    def mark(self, window: Window) -> Cut:
        """Return the row of ``cuts`` of a window all of whose cells are stored."""
        inputs = tables_inputs(
            window,
            self.kafka_partitions,
            self.history.rows,
            settings=self.settings,
            beside={window.start: self.beside(window)},
        )
        cut, consistency, gtid_set = self.cuts[window.start]
        proof = self.proofs[window.start]
        return Cut(
            window=window,
            cut=cut,
            gtid_set=gtid_set,
            consistency=consistency,
            completeness=proof.level,
            problems=tuple(_named(partition, problem) for partition, problem in proof.problems),
            generation=generation(inputs, code_version=CODE_VERSION),
            inputs=inputs,
            code_version=CODE_VERSION,
            open_in=self._open_in(window),
        )

    def _open_in(self, window: Window) -> tuple[int, ...]:
        """Return the Kafka partitions in which a window had not closed when it was stored."""
        rows = (self.history.rows.get(Cell(one, window)) for one in self.kafka_partitions)
        return tuple(row.kafka_partition for row in rows if row is not None and row.closed_by is ClosedBy.OPEN)


def same_rows(stored: Cut | None, mark: Cut) -> bool:
    """Return whether two marks differ in the proof alone, so that the rows can stay."""
    if stored is None or stored.code_version != mark.code_version or set(stored.inputs) == set(mark.inputs):
        return False
    return row_inputs(stored.inputs) == row_inputs(mark.inputs)


def row_inputs(inputs: Iterable[str]) -> set[str]:
    """Return the inputs that decide rows, and not the level and the problems alone."""
    return {text for text in inputs if not text.startswith(PROOF_INPUT)}


def proven_anew(marks: Iterable[Cut], stored: Mapping[datetime, Cut]) -> list[Cut]:
    """Return the marks of windows that keep their rows.

    They take over the offsets, the runs and the chain of the stored marks, so that the next run can append to the windows.
    """
    pairs = ((mark, stored[mark.window.start]) for mark in marks)
    return [replace(mark, ends=one.ends, made_by=one.made_by, chain=one.chain) for mark, one in pairs]


def _cut(
    history: TopicHistory, rows: Sequence[IngestWindow], *, wanted: Consistency
) -> tuple[SourcePosition | None, Consistency, str | None]:
    """Return the cut of a window from its stored cells, with the GTID set of its CHECKPOINT."""
    checkpoints = [history.checkpoint(row.cell) for row in rows]
    positions = [None if mark is None else mark[0] for mark in checkpoints]
    cut, consistency = cut_of_window(positions, {row.closed_by for row in rows}, wanted=wanted)
    gtid_set = next((mark[1] for mark in checkpoints if mark is not None and mark[0] == cut), None)
    return cut, consistency, gtid_set


def _named(kafka_partition: int | None, problem: Problem) -> Problem:
    if kafka_partition is None:
        return problem
    return replace(problem, detail=f"{partition_key(kafka_partition)}: {problem.detail}")
