"""The statements that count among those of all windows.

One may be sent into every Kafka partition, and again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dts_assets.model.gtids import server_and_number
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.planning.message_lives import PartitionLives
from dts_assets.planning.topic_lineages import Lineages


def kept_statements(
    rows: Iterable[IngestWindow],
    lineages: Lineages,
    *,
    trust_gtids: bool,
    lives: Mapping[int, PartitionLives] | None = None,
    arrived: bool = False,
) -> Mapping[Cell, frozenset[int]]:
    """Return the offsets of the DDL statements that count, by cell.

    Where they ``arrived`` without a place each one counts, unless it tells the time of its transaction and no file. Of one time
    neighbours are several.

    The vendor may send a statement into every Kafka partition, and again after a restart.
    Of equal statements the first by window, Kafka partition and offset counts. By window first, and not by Kafka partition as
    changes are told apart: so a statement never moves to a later window when that one is computed.
    """
    first: dict[tuple[str, SourcePosition | str, int], tuple[Cell, int]] = {}
    kept: dict[Cell, set[int]] = {}
    places: dict[int, tuple[SourcePosition, int, int]] = {}
    for one in sorted(rows, key=lambda row: (row.epoch, row.window.start, row.kafka_partition)):
        for mark in one.statements:
            # A failover may tell it again at another position, and one GTID is one statement.
            numbered = trust_gtids and mark.gtid is not None and server_and_number(mark.gtid) is not None
            at = lineages.of_statement(one.kafka_partition, mark, epoch=one.epoch)
            known = mark.gtid if numbered else at
            place = 0
            if lives is not None:  # neighbours with one id are several statements of one event
                stretch = lives[one.kafka_partition].stretch_of(one.cell, mark.offset)
                *before, last = places.get(one.kafka_partition, (None, None, -1))
                place = last + 1 if before == [at, stretch] else 0
                places[one.kafka_partition] = at, stretch, place
            elif arrived and at.file:
                kept.setdefault(one.cell, set()).add(mark.offset)
                continue
            elif arrived:
                *before, last = places.get(one.kafka_partition, (None, None, -1))
                place = last + 1 if before == [at, mark.offset - 1] else 0
                places[one.kafka_partition] = at, mark.offset, place
            first.setdefault((mark.shard, known or "", place), (one.cell, mark.offset))
    for cell, offset in first.values():
        kept.setdefault(cell, set()).add(offset)
    return {cell: frozenset(offsets) for cell, offsets in kept.items()}
