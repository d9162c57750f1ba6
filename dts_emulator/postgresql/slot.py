"""A slot of logical decoding: what was committed since the last look, and the columns of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dts_emulator.postgresql.changes import TableColumns, Transaction
from dts_emulator.postgresql.decoding import transactions_of

LOGICAL = ("wal_level=logical", "max_replication_slots=4")
"""The settings without which a server has no logical decoding."""

_SLOT = "emulated_task"
_CHANGES = (
    "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_get_changes(%s, NULL, NULL, "
    "'include-timestamp', 'on', 'skip-empty-xacts', 'on')"
)
_TABLES = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, NULL), format_type(a.atttypid, a.atttypmod),
  c.relreplident = 'f', coalesce(i.indisprimary, false), c.relreplident = 'i' AND r.indrelid IS NOT NULL
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)
LEFT JOIN pg_index r ON r.indrelid = c.oid AND r.indisreplident AND a.attnum = ANY (r.indkey)
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY n.nspname, c.relname, a.attnum
"""


class Slot:
    """A slot on a connection that commits by itself."""

    def __init__(self, connection: Any) -> None:
        """Make the slot: everything that is committed from here on is told."""
        self._cursor = connection.cursor()
        self._cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (_SLOT,))

    def read(self) -> list[Transaction]:
        """Return the transactions since the last look.

        Raises:
            DecodingFailed: The plugin says something that is not understood.
        """
        self._cursor.execute(_CHANGES, (_SLOT,))
        return list(transactions_of((int(lsn), str(line)) for lsn, line in self._cursor.fetchall()))

    def tables(self) -> Mapping[tuple[str, str], TableColumns]:
        """Return the columns of all tables as they are now, by schema and name."""
        self._cursor.execute(_TABLES)
        columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
        keys: dict[tuple[str, str], list[str]] = {}
        declared: dict[tuple[str, str], list[str]] = {}
        whole: dict[tuple[str, str], bool] = {}
        index: dict[tuple[str, str], list[str]] = {}
        for schema, table, name, kind, declaration, is_whole, is_key, is_told in self._cursor.fetchall():
            columns.setdefault((schema, table), []).append((name, kind))
            declared.setdefault((schema, table), []).append(declaration)
            whole[schema, table] = is_whole
            if is_key:
                keys.setdefault((schema, table), []).append(name)
            if is_told:
                index.setdefault((schema, table), []).append(name)
        return {
            table: TableColumns(
                tuple(some),
                tuple(keys.get(table, ())),
                whole[table],
                tuple(declared[table]),
                tuple(index.get(table, ())),
            )
            for table, some in columns.items()
        }
