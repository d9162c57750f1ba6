"""Full loads that replace what their tables held before.

A full load begins with the definition of its table, or with the first row of it in a lineage. If the table has changes before, it
is emptied just before that id: the load holds every row that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.message_ids import Load, SeenKind, SeenTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.id_lineages import lineage_of
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class TableAt:
    """An entry of a table with its cell, and its position, whose lineage is known."""

    at: SourcePosition
    cell: Cell
    seen: SeenTable

    @property
    def place(self) -> tuple[SourcePosition, datetime, int, int]:
        """The place in the order of a table's entries.

        Of pieces in several Kafka partitions and of copies the first counts: it never moves to a later window.
        """
        return self.at, self.cell.window.start, self.cell.kafka_partition, self.seen.offset

    @property
    def table(self) -> tuple[str, str, str]:
        """The table's names."""
        return self.seen.database, self.seen.schema, self.seen.table


@dataclass(frozen=True, slots=True)
class FullLoads:
    """The begins of the full loads that replace tables, by cell.

    ``doubts`` are rows of loads behind other changes.
    """

    begins: dict[Cell, tuple[Load, ...]]
    doubts: tuple[Doubt, ...]


def find_full_loads(rows: Iterable[IngestWindow], lineages: Lineages, behind: Iterable[TableAt] = ()) -> FullLoads:
    """Return the full loads of a topic, from what all stored windows tell of its tables.

    ``behind`` stands for windows that are left out; see :func:`to_settle`.
    """
    tables: dict[tuple[str, str, str], list[TableAt]] = {}
    for one in (*behind, *tables_of(rows, lineages)):
        tables.setdefault(one.table, []).append(one)
    begins: dict[Cell, list[Load]] = {}
    doubts: dict[tuple[int, int], Doubt] = {}
    for table, found in tables.items():
        if all(one.seen.kind is SeenKind.CHANGE for one in found):
            continue
        found.sort(key=lambda one: one.place)
        earliest = min((one.at for one in found if one.seen.kind is not SeenKind.FIRST_STATE), default=None)
        for one in _begins(found):
            at = one.at
            if earliest is not None and earliest < at:
                emptied_at = at.previous
                begins.setdefault(one.cell, []).append(Load(one.seen.offset, *table, emptied_at))
        for one in _late(found):
            where = one.cell.kafka_partition, one.seen.offset
            detail = "rows of a full load stand behind other changes of their table; each was added"
            doubts[where] = Doubt(*where, detail, ProblemCode.RELOAD)
    in_order = {cell: tuple(sorted(some, key=lambda load: (load.offset, load.table))) for cell, some in begins.items()}
    return FullLoads(in_order, tuple(doubts.values()))


def tables_of(rows: Iterable[IngestWindow], lineages: Lineages) -> Iterator[TableAt]:
    """Yield the entries of tables that some windows tell of."""
    for row in rows:
        for one in row.seen_tables:
            lineage = lineage_of(lineages, row, offset=one.offset, time=one.time)
            yield TableAt(SourcePosition(lineage, one.position.file, one.position.position), row.cell, one)


def to_settle(tables: Iterable[TableAt]) -> tuple[TableAt, ...]:
    """Return the entries that tell later windows what all of ``tables`` do.

    They are the first and the last of each table, lineage and kind. Where a load begins depends on no others, unless an entry
    comes later that stands before one of them.
    """
    bounds: dict[tuple[tuple[str, str, str], int, SeenKind], tuple[TableAt, TableAt]] = {}
    for one in tables:
        key = one.table, one.at.lineage, one.seen.kind
        first, last = bounds.get(key, (one, one))
        bounds[key] = min(first, one, key=lambda each: each.place), max(last, one, key=lambda each: each.place)
    found = {one for pair in bounds.values() for one in pair}
    return tuple(sorted(found, key=lambda one: (one.table, one.place)))


def _begins(found: Iterable[TableAt]) -> Iterator[TableAt]:
    """Yield the begins of full loads of a table.

    They are its definitions, and its first row of a lineage that has none before.
    """
    begun: int | None = None
    last: SourcePosition | None = None
    for one in found:
        at, kind = one.at, one.seen.kind
        if kind is SeenKind.CHANGE or (kind is SeenKind.READ and begun == at.lineage):
            continue
        begun = at.lineage
        if at != last:
            yield one
        last = at


def _late(found: Iterable[TableAt]) -> Iterator[TableAt]:
    """Yield rows of full loads that stand behind other changes which came since the load began."""
    loading: int | None = None
    changed = False
    for one in found:
        at, kind = one.at, one.seen.kind
        if kind is SeenKind.CHANGE:
            changed |= loading == at.lineage
        elif kind is SeenKind.FIRST_STATE or loading != at.lineage:
            loading, changed = at.lineage, False
        elif changed:
            yield one
