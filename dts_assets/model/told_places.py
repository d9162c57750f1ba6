"""The places at which events told the columns of tables, with their lineages.

Entries are read before lineages are decided, so a shape has the place of its first event at its server alone. The counts of a
window have the positions of every list of columns, each with its lineage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from dts_assets.model.key_periods import KeyPeriod, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.tables import TableId

Shard = tuple[str, ...]
Named = Callable[[TableId], tuple[TableId, Shard]]
"""The function that gives a source table's name in the counts, and what tells the shard."""


Periods = Mapping[tuple[str, ...], Sequence[KeyPeriod]]
"""The periods of each list of columns in a cell, by its digest and the shard."""

_BEGIN = ServerPosition(0, 0)
_NO_LISTS: Periods = MappingProxyType({})


def itself(table: TableId) -> tuple[TableId, Shard]:
    """Return the name of a table that is called so in the counts, too."""
    return table, ()


@dataclass(frozen=True, slots=True)
class ToldPlace:
    """The first and the last position at which events of a window told a shape."""

    window_start: datetime
    first: SourcePosition
    last: SourcePosition

    @property
    def begin(self) -> tuple[datetime, SourcePosition]:
        """A value that compares by the first event."""
        return self.window_start, self.first

    @property
    def end(self) -> tuple[datetime, SourcePosition, SourcePosition]:
        """A value that compares by the last event."""
        return self.window_start, self.last, self.first


def told_places(
    rows: Iterable[TableShapeRow], counts: Iterable[WindowTable], named: Named = itself
) -> list[tuple[ToldPlace, TableShapeRow]]:
    """Return shapes with their places, in the order in which these begin.

    A shape has several places where events told others in between. One without a change that was kept is in no count, and is
    taken for one of the first lineage: such events were sent before, or a filter left them out.
    """
    cells = {(one.window_start, one.kafka_partition, one.table): periods_of_lists(one) for one in counts}
    found = list[tuple[ToldPlace, TableShapeRow]]()
    for row in rows:
        table, shard = named(row.source)
        lists = cells.get((row.window_start, row.kafka_partition, table), _NO_LISTS)
        digest = list_digest(column.name for column in row.columns)
        if periods := lists.get((digest, *shard)) or lists.get((digest,)):  # an earlier version told no shards
            first = first_told(row, periods)
            later = (one for one in periods if one.last >= first)
            found += [(ToldPlace(row.window_start, max(first, one.first), one.last), row) for one in later]
        else:
            at = (row.first_position or _BEGIN).of(0)
            found.append((ToldPlace(row.window_start, at, at), row))
    return sorted(found, key=lambda one: (one[0].begin, one[1].table, repr(one[1].columns)))


def periods_of_lists(count: WindowTable) -> Periods:
    """Return the periods of a cell in which its events carried each list of columns."""
    found: dict[tuple[str, ...], list[KeyPeriod]] = {}
    for one in count.lists:
        found.setdefault(one.columns, []).append(one)
    return found


def first_told(row: TableShapeRow, periods: Sequence[KeyPeriod]) -> SourcePosition:
    """Return the first position of a shape in the periods of its list (at least one).

    It is that of the first event, where a period holds its place at the server. Else that event was not kept.
    """
    return min(_held_places(row, periods), default=min(one.first for one in periods))


def is_first_kept(row: TableShapeRow, periods: Sequence[KeyPeriod]) -> bool:
    """Return whether the first event of a shape was kept, as far as places tell.

    It was not if it was sent before, or if a filter left it out. Then nothing says whether a later one was kept.
    """
    return row.first_position is None or bool(_held_places(row, periods))


def _held_places(row: TableShapeRow, periods: Sequence[KeyPeriod]) -> list[SourcePosition]:
    place = row.first_position
    return [] if place is None else [
        at
        for one in periods
        for at in (place.of(lineage) for lineage in (one.first.lineage, one.last.lineage))
        if one.first <= at <= one.last
    ]  # fmt: skip
