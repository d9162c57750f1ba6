"""The copy of a DDL statement that counts.

The vendor may send a statement into every Kafka partition, and again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.planning.topic_lineages import Lineages


def kept_statements(rows: Iterable[IngestWindow], lineages: Lineages) -> Mapping[Cell, frozenset[int]]:
    """Return the offsets of the statements that count, by cell.

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
