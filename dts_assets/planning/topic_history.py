"""The history of a topic: lineages, suspicions of redelivery, and the statements that count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.gtids import greatest_numbers
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.staleness import entries_input, input_text
from dts_assets.planning.suspicions import Suspicion, find_suspicions
from dts_assets.planning.topic_lineages import Lineages, find_lineages


@dataclass(frozen=True, slots=True)
class TopicHistory:
    """The history that the stored windows of a subscription tell together.

    ``tables`` is a digest of the tables that are known, ``statements`` has the offsets of the DDL that counts,
    ``trusts_gtids`` says that GTIDs are the server's own; a task may make them up where the server has none.
    """

    rows: Mapping[Cell, IngestWindow]
    lineages: Lineages
    suspicions: Mapping[Cell, Suspicion]
    statements: Mapping[Cell, frozenset[int]]
    trusts_gtids: bool
    tables: str

    @classmethod
    def of(cls, rows: Iterable[IngestWindow], tables: Iterable[TableId], *, order: ChangeOrder) -> TopicHistory:
        """Return the history that all rows of ``windows`` tell.

        ``tables`` are all known tables, ``order`` is the format's.
        """
        by_cell = {row.cell: row for row in rows}
        once = list(by_cell.values())
        real = not any(mark.fake_gtid for row in once for mark in row.checkpoints)
        lineages = find_lineages(once, trust_gtids=real, order=order)
        return cls(
            by_cell, lineages, find_suspicions(once, lineages), _kept_statements(once, lineages), real, _digest(tables)
        )

    def inputs(self, window: Window, kafka_partitions: Iterable[int]) -> tuple[str, ...]:
        """Return the inputs of a window's tables beside its own entries.

        They are lineages, and windows that it is compared with.
        """
        texts: list[str] = []
        for partition in kafka_partitions:
            cell = Cell(partition, window)
            if cell not in self.rows:
                continue
            lineages = self._lineages_text(cell)
            if lineages != "0":
                texts.append(input_text(f"lineages:{cell}", lineages))
            if self.rows[cell].statements:
                counted = ",".join(map(str, sorted(self.statements.get(cell, ()))))
                texts.append(input_text(f"statements:{cell}", counted or "none"))
                if self.rows[cell].emptying != 0:
                    # What is emptied may be known only later, by rows of another window.
                    texts.append(input_text("tables", self.tables))
            suspicion = self.suspicions.get(cell)
            for earlier in () if suspicion is None else suspicion.earlier:
                texts.append(input_text(entries_input(earlier), self.rows[earlier].generation))
        return tuple(sorted(set(texts)))

    def rules(self, cell: Cell) -> dict[str, LineageRule]:
        """Return the rule of every shard of a cell; empty where all is lineage 0."""
        shards = {run.shard for run in self.rows[cell].runs}
        rules = {shard: self.lineages.rule(cell.kafka_partition, shard) for shard in shards}
        return {shard: rule for shard, rule in rules.items() if rule.base or rule.breaks}

    def checkpoint(self, cell: Cell) -> tuple[SourcePosition, str | None] | None:
        """Return the greatest CHECKPOINT of a cell with its lineage, and its GTID set."""
        marks = []
        for mark in self.rows[cell].checkpoints:
            synced = greatest_numbers(mark.gtid_set or "")
            lineage = self.lineages.of_checkpoint(cell.kafka_partition, mark, synced)
            marks.append((SourcePosition(lineage, mark.position.file, mark.position.position), mark.gtid_set))
        return max(marks, key=lambda one: one[0], default=None)

    @property
    def shards(self) -> frozenset[str]:
        """The shards of the topic: several have no common order."""
        return frozenset(run.shard for row in self.rows.values() for run in row.runs)

    def _lineages_text(self, cell: Cell) -> str:
        """Return the lineages of a cell as text: one number if all entries have it, else the rules."""
        bounds = {self.lineages.of_run(cell.kafka_partition, run) for run in self.rows[cell].runs}
        numbers = {number for pair in bounds for number in pair}
        if len(numbers) <= 1:
            return str(next(iter(numbers), 0))
        return repr(sorted(self.rules(cell).items()))


def _kept_statements(rows: Iterable[IngestWindow], lineages: Lineages) -> Mapping[Cell, frozenset[int]]:
    """Return the offsets of the DDL statements that count, by cell.

    The vendor may send a statement into every Kafka partition, and again after a restart.
    Of equal statements the first by window, Kafka partition and offset counts. By window first, and not by Kafka partition as
    changes are told apart: so a statement never moves to a later window when that one is computed.
    """
    first: dict[tuple[str, SourcePosition], tuple[Cell, int]] = {}
    for one in sorted(rows, key=lambda row: (row.epoch, row.window.start, row.kafka_partition)):
        for mark in one.statements:
            position = lineages.of_statement(one.kafka_partition, mark)
            first.setdefault((mark.shard, position), (one.cell, mark.offset))
    kept: dict[Cell, set[int]] = {}
    for cell, offset in first.values():
        kept.setdefault(cell, set()).add(offset)
    return {cell: frozenset(offsets) for cell, offsets in kept.items()}


def _digest(tables: Iterable[TableId]) -> str:
    names = sorted("\0".join(table.path) for table in tables)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
