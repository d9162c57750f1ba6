"""Changes of schemas in words for people; values, such as defaults, are never among them."""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.wire.ddl.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnModified,
    ColumnsRenamed,
    ColumnsReordered,
    DatabaseCharsetChanged,
    DatabaseCreated,
    DatabaseDropped,
    DefaultChanged,
    Doubted,
    KeyChanged,
    RowsChanged,
    SchemaChange,
    TableCharsetChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema, folded


def words_of(change: SchemaChange) -> str:
    """Return a change in words: ``column note is varchar(80), was varchar(40)``."""
    match change:
        case TableCreated(schema=schema):
            count = len(schema.columns)
            return f"table created with {count} {'column' if count == 1 else 'columns'}" if count else "table created"
        case TableDropped():
            return "table dropped"
        case TableTruncated():
            return "all rows removed"
        case TableRenamed(table=old, new=new):
            return f"table {old} renamed to {new}"
        case TableCharsetChanged(charset=charset):
            return f"default character set is {charset or 'not known'}"
        case ColumnDropped(name=name):
            return f"column {name} dropped"
        case ColumnsRenamed(names=names):
            return ", ".join(f"column {old} renamed to {new}" for old, new in names)
        case ColumnModified(old=old_column, new=new_column):
            return f"column {new_column.name} is {_differences(old_column, new_column)}"
        case DefaultChanged(name=name, default=default):
            return f"column {name} has {'no default' if default is None else 'another default'}"
        case ColumnsReordered(names=names):
            return f"order of columns is {', '.join(names)}"
        case ColumnAdded(column=column, after=after):
            return f"column {column.name} {column.type} added {'first' if after is None else f'after {after}'}"
        case KeyChanged(new=key):
            return f"primary key is {', '.join(key)}" if key else "no primary key"
        case RowsChanged(reason=reason):
            return f"rows changed by no event: {reason}"
        case Doubted(reason=reason):
            return f"not proven: {reason}"
        case DatabaseDropped(database=database):
            return f"database {database} dropped"
        case DatabaseCreated(database=database) | DatabaseCharsetChanged(database=database):
            return f"default character set of database {database}"


def told_words(before: TableSchema | None, after: TableSchema) -> str:
    """Return in words how the columns that an event told differ from those before."""
    if before is None or not before.columns:
        return f"an event told {len(after.columns)} columns"
    known = {folded(column.name): column for column in before.columns}
    told = {folded(column.name): column for column in after.columns}
    words = [f"column {one.name} {one.type}" for name, one in told.items() if name not in known]
    words += [f"no column {one.name}" for name, one in known.items() if name not in told]
    words += [
        f"column {one.name} {one.type}, was {known[name].type}"
        for name, one in told.items()
        if name in known and known[name].type != one.type
    ]
    if frozenset(map(folded, before.key)) != frozenset(map(folded, after.key)):
        words.append(f"primary key {', '.join(after.key)}" if after.key else "no primary key")
    return f"an event told {', '.join(words) or 'these columns'}"


def all_words(changes: Iterable[SchemaChange]) -> str:
    """Return several changes in one line."""
    return "; ".join(map(words_of, changes))


def _differences(old: SchemaColumn, new: SchemaColumn) -> str:
    words = [f"{new.type}, was {old.type}" if old.type != new.type else new.type]
    if old.charset != new.charset:
        words.append(f"in {new.charset or 'no known character set'}")
    if old.nullable != new.nullable:
        words.append("takes NULL" if new.nullable else "NOT NULL")
    if old.generated != new.generated:
        words.append("generated" if new.generated else "no longer generated")
    if old.invisible != new.invisible:
        words.append("invisible" if new.invisible else "visible")
    if old.auto_increment != new.auto_increment:
        words.append("numbered" if new.auto_increment else "no longer numbered")
    return ", ".join(words)
