"""Full loads that replace what their tables held before.

A full load begins with the definition of its table, or with the first row of it in a lineage. If the table has changes before, it
is emptied just before that id: the load holds every row that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.message_ids import Load, SeenKind, SeenTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.id_lineages import lineage_of
from dts_assets.planning.topic_lineages import Lineages

_Seen: TypeAlias = tuple[SourcePosition, IngestWindow, SeenTable]
"""An entry of a table with its position, whose lineage is known, and its cell's mark."""


@dataclass(frozen=True, slots=True)
class FullLoads:
    """The begins of the full loads that replace tables, by cell.

    ``doubts`` are rows of loads behind other changes.
    """

    begins: dict[Cell, tuple[Load, ...]]
    doubts: tuple[Doubt, ...]


def find_full_loads(rows: Iterable[IngestWindow], lineages: Lineages) -> FullLoads:
    """Return the full loads of a topic, from what all stored windows tell of its tables."""
    tables: dict[tuple[str, str, str], list[_Seen]] = {}
    for row in rows:
        for one in row.seen_tables:
            lineage = lineage_of(lineages, row, offset=one.offset, time=one.time)
            at = SourcePosition(lineage, one.position.file, one.position.position)
            tables.setdefault((one.database, one.schema, one.table), []).append((at, row, one))
    begins: dict[Cell, list[Load]] = {}
    doubts: dict[tuple[int, int], Doubt] = {}
    for table, found in tables.items():
        if all(one.kind is SeenKind.CHANGE for _, _, one in found):
            continue
        # Of pieces in several Kafka partitions and of copies the first counts: it never moves to a later window.
        found.sort(key=lambda seen: (seen[0], seen[1].window.start, seen[1].kafka_partition, seen[2].offset))
        earliest = min((at for at, _, one in found if one.kind is not SeenKind.FIRST_STATE), default=None)
        for at, row, one in _begins(found):
            if earliest is not None and earliest < at:
                emptied_at = SourcePosition(at.lineage, at.file, at.position - 1)
                begins.setdefault(row.cell, []).append(Load(one.offset, *table, emptied_at))
        for row, one in _late(found):
            where = row.kafka_partition, one.offset
            detail = "rows of a full load stand behind other changes of their table; each was added"
            doubts[where] = Doubt(*where, detail, ProblemCode.RELOAD)
    in_order = {cell: tuple(sorted(some, key=lambda load: (load.offset, load.table))) for cell, some in begins.items()}
    return FullLoads(in_order, tuple(doubts.values()))


def _begins(found: Iterable[_Seen]) -> Iterator[_Seen]:
    """Yield the begins of full loads of a table.

    They are its definitions, and its first row of a lineage that has none before.
    """
    begun: int | None = None
    last: SourcePosition | None = None
    for at, row, one in found:
        if one.kind is SeenKind.CHANGE or (one.kind is SeenKind.READ and begun == at.lineage):
            continue
        begun = at.lineage
        if at != last:
            yield at, row, one
        last = at


def _late(found: Iterable[_Seen]) -> Iterator[tuple[IngestWindow, SeenTable]]:
    """Yield rows of full loads that stand behind other changes which came since the load began."""
    loading: int | None = None
    changed = False
    for at, row, one in found:
        if one.kind is SeenKind.CHANGE:
            changed |= loading == at.lineage
        elif one.kind is SeenKind.FIRST_STATE or loading != at.lineage:
            loading, changed = at.lineage, False
        elif changed:
            yield row, one
