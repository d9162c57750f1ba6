"""Rows of a table behind a statement that changed its columns, as the server has them.

No event tells these rows. Columns go, come, and have other names, places and types; an added column has its default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.server_conversions import convert, converts
from dts_assets.stages.server_types import Kind, ServerType, server_type
from dts_assets.stages.sql_text import with_nulls
from dts_assets.wire.columns.casts import arrow_type, parse
from dts_assets.wire.ddl import schema_changes as change
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn

_ZERO: Mapping[Kind, str] = {
    **dict.fromkeys((Kind.WHOLE, Kind.BIT, Kind.YEAR, Kind.DECIMAL, Kind.REAL), "0"), Kind.TEXT: "", Kind.BYTES: "", Kind.SET: "",
}  # fmt: skip
"""The value of a type that a NULL becomes in a column that takes none. That of times and enums is not always one."""


@dataclass(frozen=True)
class Cells:
    """The values of a column in its lake type.

    ``texts`` has the source's texts of values that the type does not hold. ``unknown`` marks rows whose value is not known: it is
    null. ``filled`` marks rows that were NULL before a statement gave them a value, since their column takes none any more; None
    where there is none.
    """

    values: pa.Array
    texts: pa.Array
    unknown: Mask
    filled: Mask | None = None

    @property
    def marked(self) -> Mask:
        """The rows whose value is not known, or comes from a statement that took no NULL any more."""
        return self.unknown if self.filled is None else np.asarray(self.unknown | self.filled, np.bool_)

    def not_filled(self, where: Mask) -> Cells:
        """Return the same values, but NULL for those of a mask that a statement has filled."""
        if self.filled is None or not (where & self.filled).any():
            return self
        values, texts = (with_nulls(one, where & self.filled) for one in (self.values, self.texts))
        unknown = np.asarray(self.unknown & ~(where & self.filled), np.bool_)
        return Cells(values, texts, unknown, np.asarray(self.filled & ~where, np.bool_))

    @classmethod
    def of(cls, values: pa.Array, texts: pa.Array | None = None) -> Cells:
        """Return values that are all known."""
        texts = pa.nulls(len(values), pa.string()) if texts is None else texts
        return cls(values, texts, np.zeros(len(values), np.bool_))

    @classmethod
    def unknown_of(cls, count: int, kind: pa.DataType) -> Cells:
        """Return values of which none is known."""
        return cls(pa.nulls(count, kind), pa.nulls(count, pa.string()), np.ones(count, np.bool_))

    def with_others(self, others: Cells, where: Mask) -> Cells:
        """Return these values, but those of a mask, which are taken from other ones of the same type."""
        mask = pa.array(where)
        return Cells(
            pc.if_else(mask, others.values, self.values),
            pc.if_else(mask, others.texts, self.texts),
            np.where(where, others.unknown, self.unknown),
            None if self.filled is None else np.asarray(self.filled & ~where, np.bool_),
        )

    def without(self, unknown: Mask) -> Cells:
        """Return the same values, but those of a mask, which are not known."""
        if not unknown.any():
            return self
        values, texts = (with_nulls(one, unknown) for one in (self.values, self.texts))
        return Cells(values, texts, np.asarray(self.unknown | unknown, np.bool_), self.filled)


@dataclass(frozen=True)
class AlteredRows:
    """The rows of a table: columns by their names at the source, in the source's order.

    ``doubts`` are the reasons why rows are not proven any more.
    """

    columns: Mapping[str, Cells]
    count: int
    doubts: tuple[str, ...] = field(default=())

    def behind(
        self, changes: Iterable[change.SchemaChange], *, at: datetime | None, family: Family | None = None
    ) -> AlteredRows:
        """Return the rows behind the changes of one statement, which are all of this table.

        ``at`` is the statement's own time, None where it is not known; ``family`` is the server's, None where it is not known.
        """
        rows = self
        for one in changes:
            rows = rows._behind(one, at, family)
        return rows

    def _behind(self, one: change.SchemaChange, at: datetime | None, family: Family | None) -> AlteredRows:
        columns = dict(self.columns)
        match one:
            case change.TableCreated():
                return AlteredRows({column.name: _empty(column) for column in one.schema.columns}, 0)
            case change.TableDropped() | change.TableTruncated():
                return AlteredRows({name: _part(cells, 0) for name, cells in columns.items()}, 0)
            case change.ColumnDropped():
                del columns[one.name]
            case change.ColumnsRenamed():
                names = dict(one.names)
                columns = {names.get(name, name): cells for name, cells in columns.items()}
            case change.ColumnModified():
                columns[one.new.name] = modified_cells(columns[one.new.name], one.old, one.new, family=family)
            case change.ColumnsReordered():
                columns = {name: columns[name] for name in one.names}
            case change.ColumnAdded():
                entries = list(columns.items())
                place = 0 if one.after is None else list(columns).index(one.after) + 1
                columns = dict(
                    [*entries[:place], (one.column.name, added_cells(one, self.count, at=at)), *entries[place:]]
                )
            case change.RowsChanged() | change.Doubted():
                return replace(self, doubts=(*self.doubts, one.reason))
        return replace(self, columns=columns)


def added_cells(one: change.ColumnAdded, count: int, *, at: datetime | None) -> Cells:
    """Return the values that an added column has in rows that are there.

    ``at`` is the statement's own time, None where it is not known.
    """
    kind = server_type(one.column)
    if kind is None:
        return Cells.unknown_of(count, pa.string())
    nothing = Cells.of(pa.nulls(count, arrow_type(kind.lake_type)))
    if one.fill is Fill.NULL:
        return nothing
    if one.fill is Fill.VALUE and one.fill_value is not None:
        return _filled(one.fill_value, kind, count)
    if one.fill is Fill.NOW and kind.kind is Kind.INSTANT and not kind.digits and at is not None:
        moment = at.replace(microsecond=0)
        return Cells.of(pa.array([moment] * count, arrow_type(kind.lake_type)))
    return replace(nothing, unknown=np.ones(count, np.bool_))


def _empty(column: SchemaColumn) -> Cells:
    kind = server_type(column)
    return Cells.of(pa.nulls(0, pa.string() if kind is None else arrow_type(kind.lake_type)))


def _part(cells: Cells, count: int) -> Cells:
    return Cells(cells.values.slice(0, count), cells.texts.slice(0, count), cells.unknown[:count])


def modified_cells(cells: Cells, old: SchemaColumn, new: SchemaColumn, *, family: Family | None = None) -> Cells:
    """Return the values of a column behind a change of its type or its flags.

    ``cells`` are in the lake type of ``old``. ``family`` is the server's, None where it is not known.
    """
    one, other = server_type(old), server_type(new)
    if one is None or other is None:
        return Cells.unknown_of(len(cells.values), pa.string() if other is None else arrow_type(other.lake_type))
    made = convert(cells.values, cells.texts, one, other, family=family)
    found = Cells(made.values, made.texts, np.asarray(cells.unknown | made.unknown, np.bool_), cells.filled)
    if new.generated:
        return found.without(np.ones(len(made.values), np.bool_))
    if new.auto_increment and not old.auto_increment:  # 0 and NULL get numbers
        zero = as_mask(pc.fill_null(pc.equal(made.values.cast(pa.float64()), 0.0), True))
        return found.without(zero)
    return _without_null(found, other, new) if old.nullable and not new.nullable else found


def is_unknown(one: change.SchemaChange) -> bool:
    """Return whether no value of a column is known behind a change of its type."""
    if not isinstance(one, change.ColumnModified):
        return False
    old, new = server_type(one.old), server_type(one.new)
    if old is None or new is None:
        return True
    return not converts(old, new) or (one.new.generated and not one.old.generated)


def _without_null(cells: Cells, kind: ServerType, column: SchemaColumn) -> Cells:
    """Return the values of a column that takes no NULL any more.

    Only a server that is not strict had some.
    """
    missing = as_mask(cells.values.is_null()) & as_mask(cells.texts.is_null()) & ~cells.unknown
    if not missing.any():
        return cells
    cells = replace(cells, filled=missing if cells.filled is None else np.asarray(cells.filled | missing, np.bool_))
    zero = _ZERO.get(kind.kind)
    if zero is None or column.default is not None:  # servers take now the default, now the zero of the type
        return cells.without(missing)
    filled = _filled(zero, kind, len(missing))
    return replace(cells, values=pc.if_else(pa.array(missing), filled.values, cells.values))


def _filled(text: str, kind: ServerType, count: int) -> Cells:
    """Return one value in all rows, from the text in which a server stores it."""
    wanted = arrow_type(kind.lake_type)
    if kind.kind is Kind.BYTES or kind.kind is Kind.OTHER:
        made = text.encode() + b"\0" * ((kind.length or 0) - len(text.encode()) if kind.base == "binary" else 0)
        value: pa.Array = pa.array([made if pa.types.is_binary(wanted) else text], wanted)
    elif pa.types.is_string(wanted):
        value = pa.array([text], wanted)
    else:
        value, bad = parse(pa.array([text.encode()]), kind.lake_type)
        if bad is not None:  # a zero date
            kept = pa.array([text] * count, pa.string())
            return Cells(pa.nulls(count, wanted), kept, np.zeros(count, np.bool_))
    return Cells.of(pa.array([value[0]] * count, wanted) if count else pa.nulls(0, wanted))
