"""A follower of changes that knows no statement: it makes the next catalog from the last one and the changes alone."""

from __future__ import annotations

from dataclasses import replace

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl import schema_changes as change
from dts_assets.wire.ddl.table_schemas import Catalog, TableSchema


def followed(catalog: Catalog, changes: tuple[change.SchemaChange, ...]) -> Catalog:
    databases, tables = dict(catalog.databases), dict(catalog.tables)
    for one in changes:
        match one:
            case change.DatabaseCreated() | change.DatabaseCharsetChanged():
                databases[one.database] = one.charset
            case change.DatabaseDropped():
                databases.pop(one.database, None)
                tables = {table: schema for table, schema in tables.items() if table.database != one.database}
            case change.TableCreated():
                tables[one.table] = one.schema
            case change.TableDropped():
                tables.pop(one.table, None)
            case change.TableRenamed():
                if one.table in tables:
                    tables[one.new] = tables.pop(one.table)
            case change.Doubted():
                tables[one.table] = tables[one.table].doubted(one.reason)
            case _:
                _on_table(tables, one.table, one)
    return Catalog(databases, tables, catalog.rules)


def _on_table(tables: dict[TableId, TableSchema], table: TableId, one: change.SchemaChange) -> None:
    if table not in tables:
        return
    schema = tables[table]
    columns = {column.name: column for column in schema.columns}
    match one:
        case change.TableCharsetChanged():
            tables[table] = replace(schema, charset=one.charset)
            return
        case change.KeyChanged():
            tables[table] = replace(schema, key=one.new)
            return
        case change.ColumnDropped():
            del columns[one.name]
            schema = replace(schema, key=tuple(name for name in schema.key if name != one.name))
        case change.ColumnsRenamed():
            names = dict(one.names)
            columns = {
                names.get(name, name): replace(column, name=names.get(name, name)) for name, column in columns.items()
            }
            schema = replace(schema, key=tuple(names.get(name, name) for name in schema.key))
        case change.ColumnModified():
            assert columns[one.new.name] == one.old
            columns[one.new.name] = one.new
        case change.DefaultChanged():
            columns[one.name] = replace(columns[one.name], default=one.default)
        case change.ColumnsReordered():
            columns = {name: columns[name] for name in one.names}
        case change.ColumnAdded():
            assert one.column.name not in columns
            place = 0 if one.after is None else list(columns).index(one.after) + 1
            entries = list(columns.items())
            columns = dict([*entries[:place], (one.column.name, one.column), *entries[place:]])
    tables[table] = replace(schema, columns=tuple(columns.values()))
