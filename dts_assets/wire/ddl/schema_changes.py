"""The changes that a statement makes to tables, as values in an order to follow.

A change names columns as they are called when its turn comes: a statement's drops come first, its renames all at once, then
changes of columns under their new names, the order of columns that stay, added columns, the key, and the new name of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema


@dataclass(frozen=True, slots=True)
class TableCreated:
    """A table came, without rows; one of the same name that was there is gone with its rows."""

    table: TableId
    schema: TableSchema


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A table went, with its rows."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TableTruncated:
    """All rows of a table went."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """A table has another name, perhaps in another database; its rows moved with it."""

    table: TableId
    new: TableId


@dataclass(frozen=True, slots=True)
class TableCharsetChanged:
    """The default character set of a table changed, which touches no column that is there."""

    table: TableId
    charset: str | None


@dataclass(frozen=True, slots=True)
class ColumnDropped:
    """A column went."""

    table: TableId
    name: str


@dataclass(frozen=True, slots=True)
class ColumnsRenamed:
    """Columns have other names, all at once.

    ``names`` are pairs of an old and a new name, which may differ in case only.
    """

    table: TableId
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ColumnModified:
    """A column's type, character set, nullability or flags changed; ``old`` has the column's new name already."""

    table: TableId
    old: SchemaColumn
    new: SchemaColumn


@dataclass(frozen=True, slots=True)
class DefaultChanged:
    """The default of a column changed and nothing else, so that no row changed."""

    table: TableId
    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class ColumnsReordered:
    """The columns that stay stand in this order now."""

    table: TableId
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnAdded:
    """A column came behind the column ``after`` (None: before all).

    ``fill`` and ``fill_value`` say which value rows already there hold.
    """

    table: TableId
    column: SchemaColumn
    after: str | None
    fill: Fill
    fill_value: str | None


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """The primary key has other columns: ``old`` and ``new`` are their names, empty for no key.

    ``old`` names columns as they were called before the statement.
    """

    table: TableId
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Rows of a table came, went or changed by no event, as with a partition that is exchanged."""

    table: TableId
    reason: str


@dataclass(frozen=True, slots=True)
class DatabaseCreated:
    """A database came, without tables."""

    database: str
    charset: str | None


@dataclass(frozen=True, slots=True)
class DatabaseCharsetChanged:
    """The default character set of a database changed, which touches no table that is there."""

    database: str
    charset: str | None


@dataclass(frozen=True, slots=True)
class DatabaseDropped:
    """A database went with all of its tables."""

    database: str


@dataclass(frozen=True, slots=True)
class Doubted:
    """The schema or the rows of a table are not proven any more."""

    table: TableId
    reason: str


TableChange = (
    TableCreated
    | TableDropped
    | TableTruncated
    | TableRenamed
    | TableCharsetChanged
    | ColumnDropped
    | ColumnsRenamed
    | ColumnModified
    | DefaultChanged
    | ColumnsReordered
    | ColumnAdded
    | KeyChanged
    | RowsChanged
    | Doubted
)
SchemaChange = TableChange | DatabaseCreated | DatabaseCharsetChanged | DatabaseDropped
