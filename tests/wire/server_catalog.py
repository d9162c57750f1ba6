"""The catalog of a real server in the terms of the model, and the model's in terms that both can be compared in."""

from __future__ import annotations

import re
from typing import Any

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import Fill, fill_of_default
from dts_assets.wire.ddl.stored_defaults import unquoted
from dts_assets.wire.ddl.table_schemas import Catalog, SchemaColumn

_REMARK = re.compile(r" /\*.*?\*/")

Compared = dict[TableId, tuple[object, ...]]


def of_server(connection: Any, databases: tuple[str, ...], *, explicit: bool = True) -> Compared:
    """Table by table: the columns in order, the key in order, the default character set.

    Defaults of TIMESTAMP columns are left out where the server makes its own (not ``explicit``).
    """
    inside = f"TABLE_SCHEMA IN ({', '.join(['%s'] * len(databases))})"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, SUBSTRING_INDEX(TABLE_COLLATION, '_', 1) FROM information_schema.TABLES "
            f"WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {inside}",
            databases,
        )
        charsets = {TableId(row[0], "", row[1]): row[2] for row in cursor.fetchall()}
        cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS "
            f"WHERE INDEX_NAME = 'PRIMARY' AND {inside} ORDER BY SEQ_IN_INDEX",
            databases,
        )
        keys: dict[TableId, tuple[str, ...]] = {}
        for database, table, name in cursor.fetchall():
            keys[TableId(database, "", table)] = (*keys.get(TableId(database, "", table), ()), name)
        cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, EXTRA, COLUMN_DEFAULT "
            f"FROM information_schema.COLUMNS WHERE {inside} ORDER BY ORDINAL_POSITION",
            databases,
        )
        columns: dict[TableId, list[tuple[object, ...]]] = {}
        for database, table, name, kind, charset, nullable, extra, default in cursor.fetchall():
            flags = (extra.startswith(("VIRTUAL G", "STORED G")), "INVISIBLE" in extra, "auto_increment" in extra)
            told = None if flags[2] else _default_of_server(kind, default)
            if kind.startswith("timestamp") and not explicit and told is not None:
                told = _OwnDefault()
            shown = (name, _REMARK.sub("", kind), charset, nullable == "YES", *flags, told)
            columns.setdefault(TableId(database, "", table), []).append(shown)
    return {
        table: (tuple(columns[table]), keys.get(table, ()), charsets[table]) for table in columns if table in charsets
    }


def databases_of_server(connection: Any, databases: tuple[str, ...]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
        return {name: charset for name, charset in cursor.fetchall() if name in databases}


def of_model(catalog: Catalog) -> Compared:
    return {
        table: (tuple(map(_shown, schema.columns)), schema.key, schema.charset)
        for table, schema in catalog.tables.items()
    }


def _shown(column: SchemaColumn) -> tuple[object, ...]:
    flags = (column.generated, column.invisible, column.auto_increment)
    return (column.name, column.type, column.charset, column.nullable, *flags, _default_of_model(column))


_ANY = "a default"


def _by_number(kind: str) -> bool:
    """Whether values of a type are shown in several ways: ``007`` and ``1e2``."""
    return kind.startswith(("float", "double")) or kind.endswith("zerofill")


def _default_of_server(kind: str, default: str | None) -> object:
    """A default as both can say it: None, a literal's value, or that there is one."""
    if default is None or default == "NULL":
        return None
    if default.lower().startswith("current_timestamp"):
        return "now"
    if default.startswith("'"):
        return _AnyOr(unquoted(default))
    if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", default):
        return _AnyOr(float(default) if _by_number(kind) else default)
    return _AnyDefault()


class _AnyOr:
    """A default with a value, equal to the value and to a default whose value a statement does not tell."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return other in (_ANY, self._value) and other is not None

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"default {self._value!r}"


class _AnyDefault:
    """A default that a server shows as an expression or as bytes, equal to any other."""

    def __eq__(self, other: object) -> bool:
        return other is not None

    def __hash__(self) -> int:
        return 0


class _OwnDefault:
    """A default that a server may have made itself, equal to any other and to none."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _default_of_model(column: SchemaColumn) -> object:
    if column.default is None or column.auto_increment:
        return None  # numbers count more than a default, which MariaDB keeps if it is an expression
    fill, value = fill_of_default(column.default, column.type)
    if fill is Fill.VALUE and value is not None:
        return float(value) if _by_number(column.type) else value
    return {Fill.NOW: "now", Fill.NULL: None}.get(fill, _ANY)
