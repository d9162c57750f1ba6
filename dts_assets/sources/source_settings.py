"""The questions to a source database about the settings of its binlog, and about its tables."""

from __future__ import annotations

import re
from collections.abc import Callable

from dts_assets.model.source_settings import DeclaredTable, SourceSettings
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import TableAlteredError, explained
from dts_assets.sources.mysql_server import MySqlServer, sql_table

_VARIABLES = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_value_options", "binlog_transaction_compression",
    "log_bin_compress", "innodb_native_foreign_keys",
)  # fmt: skip

_TABLES = (
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.ENGINE, t.TABLE_TYPE = 'SYSTEM VERSIONED', EXISTS ("
    "SELECT 1 FROM information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = t.TABLE_SCHEMA AND s.TABLE_NAME = t.TABLE_NAME "
    "AND s.INDEX_NAME = 'PRIMARY'), EXISTS ("
    "SELECT 1 FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME "
    "AND c.DATA_TYPE = 'json') FROM information_schema.TABLES t WHERE t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') "
    "AND t.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
)
_CASCADE = re.compile(
    r"^ *CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY \((?:`(?:[^`]|``)*`|[^`)])*\) REFERENCES (?:`(?P<database>(?:[^`]|``)*)`\.)?"
    r"`(?P<table>(?:[^`]|``)*)` \((?:`(?:[^`]|``)*`|[^`)])*\)(?P<rules>[^\n]*)",
    re.M,
)
"""A foreign key in the text that a server has for a table. Newlines in names and comments would not begin a line there."""

_CHANGES = re.compile(r"ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)")


def source_settings(server: MySqlServer, takes: Callable[[TableId], bool]) -> SourceSettings:
    """Return the settings of a connected server, and its tables that a function takes.

    Raises:
        DatabaseError: The server refuses a question, or does not answer.
    """
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    told = server.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    variables = {_text(name): _text(value) for name, value in told}
    tables = []
    for database, name, engine, is_versioned, has_key, has_json in server.rows(_TABLES):
        table = _table(database, name)
        if takes(table):
            facts = bool(has_key), bool(has_json), bool(is_versioned), _parents(server, table)
            tables.append(DeclaredTable(table, _text(engine or ""), *facts))
    return SourceSettings(variables, tuple(sorted(tables, key=lambda one: one.table)))


def _parents(server: MySqlServer, table: TableId) -> tuple[TableId, ...]:
    """Return the tables whose foreign keys change rows of a table.

    ``information_schema`` shows foreign keys to nobody who may only SELECT, and a table's own text does.
    """
    try:
        with explained(server.place), server.connection.cursor() as cursor:
            cursor.execute(f"SHOW CREATE TABLE {sql_table(table)}")
            told = _text(cursor.fetchone()[1])
    except TableAlteredError:  # it is not there any more
        return ()
    found = {
        TableId((one["database"] or table.database).replace("``", "`"), "", one["table"].replace("``", "`"))
        for one in _CASCADE.finditer(told)
        if _CHANGES.search(one["rules"])
    }
    return tuple(sorted(found))


def _table(database: object, name: object) -> TableId:
    return TableId(_text(database), "", _text(name))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
