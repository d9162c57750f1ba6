"""Tables as row events describe them, beside the schemas that follow from statements.

An event lists the columns of its table with their types, and mostly the primary key. It does not tell character sets, defaults
and NOT NULL, and some formats send types without their arguments (``varchar``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import Named, Periods, Shard, first_told, is_first_kept, itself, periods_of_lists
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema, folded

Shape = tuple[ColumnShape, ...]
"""The columns that an event lists."""


@dataclass(frozen=True, slots=True)
class ToldColumn(SchemaColumn):
    """A column that events told and no statement.

    Nothing is known of its character set, its default and, outside of a key, NOT NULL, whatever stands in these fields.
    """


@dataclass(frozen=True, slots=True)
class ToldShapes:
    """The columns that events of a table listed at the source positions from ``first`` to ``last``.

    Events stand at both positions. There is one shape, or several of which each was told somewhere in between. ``tells_keys``
    says that the events tell primary keys, so that a shape without a key is one of a table without a key. ``window_start`` is the
    window of the events. Without ``ends`` it is not known that an event stands at ``last``, and the last one may be before it.
    ``places`` are the positions of the first event of each shape; none where they are not known, or are one. ``unsure`` are
    shapes that perhaps no change told which was kept: they were sent before, or a filter left these changes out.
    """

    table: TableId
    first: SourcePosition
    last: SourcePosition
    shapes: tuple[Shape, ...]
    tells_keys: bool = True
    window_start: datetime | None = None
    ends: bool = True
    places: tuple[SourcePosition, ...] = ()
    unsure: frozenset[Shape] = frozenset()

    @property
    def begins(self) -> tuple[tuple[SourcePosition, tuple[Shape, ...]], ...]:
        """The shapes by the position of their first event, in the order of these."""
        if not self.places:
            return ((self.first, self.shapes),)
        found: dict[SourcePosition, list[Shape]] = {}
        for place, shape in zip(self.places, self.shapes, strict=True):
            found.setdefault(place, []).append(shape)
        return tuple((place, tuple(some)) for place, some in sorted(found.items()))

    def held_by(self, frontier: Frontier) -> ToldShapes | None:
        """Return what events up to a frontier told; None where all of them stand behind it."""
        start = self.window_start
        if start is None or not frontier.holds(start, self.first):
            return None
        if frontier.holds(start, self.last):
            return self
        there = [(place, shape) for place, some in self.begins for shape in some if frontier.holds(start, place)]
        places = tuple(place for place, _ in there)
        shapes = tuple(shape for _, shape in there)
        return replace(self, last=places[-1], shapes=shapes, ends=False, places=places if self.places else ())


def told_shapes(
    counts: Iterable[WindowTable], rows: Iterable[TableShapeRow], named: Named = itself
) -> list[ToldShapes]:
    """Return the shapes that events told, from the counts and the shapes of cells.

    The counts have the positions at which events listed columns of equal names, of merged tables by shard; ``named`` gives their
    name of a source table. Shapes that differ in types alone are told between the same positions, each from its first event on;
    all shapes of a cell that an earlier version counted are told somewhere between them. A cell of which no change was kept tells
    nothing, since nothing says where its events stood.
    """
    seen: dict[tuple[datetime, int, TableId], dict[Shard, list[TableShapeRow]]] = {}
    for row in rows:
        table, shard = named(row.source)
        cell = seen.setdefault((row.window_start, row.kafka_partition, table), {})
        cell.setdefault(shard, []).append(row)
    found: list[ToldShapes] = []
    for count in counts:
        periods = periods_of_lists(count)
        names_no_shard = any(not one[1:] for one in periods)
        for shard, mine in seen.get((count.window_start, count.kafka_partition, count.table), {}).items():
            told = _of_some_shard if shard and names_no_shard else _told_in
            found += told(count, periods, shard, mine)
    return found


def _told_in(count: WindowTable, periods: Periods, shard: Shard, rows: Sequence[TableShapeRow]) -> Iterator[ToldShapes]:
    """Yield the shapes that events of one source table told in a cell."""
    there: dict[str, dict[Shape, TableShapeRow]] = {}
    for row in rows:
        there.setdefault(list_digest(column.name for column in row.columns), {})[row.columns] = row
    places = {
        digest: [(one.first, one.last) for one in periods[digest, *shard]]
        for digest in there
        if (digest, *shard) in periods
    }
    if count.kept and not count.lists and count.first_position is not None and count.last_position is not None:
        there = {"": {shape: row for mine in there.values() for shape, row in mine.items()}}
        places = {"": [(count.first_position, count.last_position)]}
    for digest, bounds in sorted(places.items(), key=lambda one: one[1]):
        shapes = tuple(sorted(there[digest], key=repr))
        begins, unsure = tuple[SourcePosition, ...](), frozenset[Shape]()
        if len(shapes) > 1:
            bounds = [(min(first for first, _ in bounds), max(last for _, last in bounds))]
            told = [first_told(there[digest][shape], periods[digest, *shard]) for shape in shapes] if digest else []
            begins = tuple(bounds[0][0] if one == min(told) else one for one in told) if len({*told}) > 1 else ()
            sure = {one for one in shapes if not digest or is_first_kept(there[digest][one], periods[digest, *shard])}
            unsure = frozenset({*shapes} - sure if sure else ())
        for first, last in bounds:
            tells_keys = bool(count.keys)
            yield ToldShapes(
                rows[0].source, first, last, shapes, tells_keys, count.window_start, places=begins, unsure=unsure
            )


def _of_some_shard(
    count: WindowTable, periods: Periods, _: Shard, rows: Iterable[TableShapeRow]
) -> Iterator[ToldShapes]:
    """Yield the shapes of a shard in a cell of an earlier version, whose counts tell no shards.

    An event of any shard may stand at the last position.
    """
    for row in rows:
        if mine := periods.get((list_digest(column.name for column in row.columns),)):
            first, last = first_told(row, mine), max(one.last for one in mine)
            yield ToldShapes(row.source, first, last, (row.columns,), bool(count.keys), count.window_start, ends=False)


def told_schema(shape: Shape, before: TableSchema | None, *, tells_keys: bool) -> TableSchema:
    """Return the schema that an event tells, of a table that had another one ``before``.

    Columns that are as before keep all that statements said of them, unless a statement since was not understood. Whatever else
    changed may have changed the table's default character set, too, which is not known then.
    """
    known = {} if before is None or before.doubt is not None else {folded(one.name): one for one in before.columns}
    columns: list[SchemaColumn] = []
    for told in shape:
        there = known.pop(folded(told.name), None)
        if there is not None and types_alike(there.type, told.original_type):
            columns.append(replace(there, name=told.name))
        else:
            columns.append(ToldColumn(told.name, told.original_type))
    columns += [one for one in known.values() if one.generated]
    key = tuple(column.name for column in shape if column.is_key)
    if before is not None and (not tells_keys or _folded(before.key) == _folded(key)):
        there_now = {folded(column.name): column.name for column in columns}
        key = tuple(there_now[folded(name)] for name in before.key if folded(name) in there_now)
    in_key = frozenset(map(folded, key))
    made = tuple(replace(one, nullable=one.nullable and folded(one.name) not in in_key) for one in columns)
    return TableSchema(made, key)


def fits(schema: TableSchema, shape: Shape, *, tells_keys: bool) -> bool:
    """Return whether an event of a table with this schema may list these columns.

    The order does not count. Generated columns may be left out.
    """
    told = {column.name: column for column in shape}
    for column in schema.columns:
        there = told.pop(column.name, None)
        if there is None and not column.generated:
            return False
        if there is not None and not types_alike(column.type, there.original_type):
            return False
    if told:
        return False
    return not tells_keys or _folded(schema.key) == _folded([column.name for column in shape if column.is_key])


def _folded(names: Sequence[str]) -> frozenset[str]:
    return frozenset(map(folded, names))


_TYPE = re.compile(r"\s*([a-z]+(?: precision| varying)?)\s*(?:\(((?:'(?:[^']++|'')*+'|[^')]++)*+)\))?(.*)", re.I | re.S)
_REMARK = re.compile(r"/\*.*?\*/", re.S)
_ALIASES = {
    "integer": "int", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "double precision": "double", "real": "double",
    "bool": "tinyint", "boolean": "tinyint", "json": "longtext", "geomcollection": "geometrycollection",
}  # fmt: skip
"""Names of one type. MariaDB keeps JSON as LONGTEXT, and its events may call it either."""

_WITHOUT_WIDTH = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})


def types_alike(stated: str, told: str) -> bool:
    """Return whether an event may call a column's type so: ``int`` or ``int(11)`` for ``int(11)``.

    An event may leave out arguments and the sign, or the whole type. Widths of integers mean nothing.
    """
    one, other = _TYPE.fullmatch(_REMARK.sub("", stated)), _TYPE.fullmatch(_REMARK.sub("", told))
    if one is None or other is None or "(" in one.group(3) + other.group(3):  # it is not understood, or is none
        return not told.strip() or stated == told
    names = [_name(found) for found in (one, other)]
    signs = [set(found.group(3).lower().split()) & {"unsigned", "zerofill"} for found in (one, other)]
    if names[0] != names[1]:
        return False
    if other.group(2) is None:
        return signs[1] <= signs[0]
    if names[0] in _WITHOUT_WIDTH and "zerofill" not in signs[0] | signs[1]:
        return signs[0] == signs[1]
    arguments = [_arguments(found.group(2) or "", names[0]) for found in (one, other)]
    return arguments[0] == arguments[1] and signs[0] == signs[1]


def _name(found: re.Match[str]) -> str:
    name = found.group(1).lower()
    return _ALIASES.get(name, name)


def _arguments(text: str, name: str) -> str:
    return text if name in ("enum", "set") else "".join(text.split())
