"""The database's own content by SELECT, by which every copy is judged.

Values are the server's own texts, so nothing of this project's reading or writing of types is in them. One Parquet file per
table: all columns are strings (NULL is null), binary types in upper-case hex, FLOAT widened to the double it stands for (the
server prints only six digits of it), session time zone UTC. The columns' types and keys are in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pymysql.connections import Connection

from dts_assets.model.tables import TableId
from dts_emulator.judge.dump_format import BINARY_TYPES, METADATA_KEY, dump_file
from dts_emulator.source.server import Server
from dts_emulator.source.source_schema import CatalogColumn, read_columns


def dump_database(server: Server, database: str, folder: Path) -> tuple[Path, ...]:
    """Write one file ``<database>.<table>.parquet`` for every table of the database, rows in key order."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{database}.*.parquet"):
        stale.unlink()
    with server.connect(database=database) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
            tables = sorted(str(row[0]) for row in cursor.fetchall())
        return tuple(_dump_table(connection, database, table, folder) for table in tables)


def _dump_table(connection: Connection, database: str, table: str, folder: Path) -> Path:
    columns = read_columns(connection, database, table)
    keys = [column for column in columns if column.is_key]
    selected = ", ".join(_as_text(column) for column in columns)
    order = ", ".join(_quoted(column.name) for column in keys or columns)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {selected} FROM {_quoted(table)} ORDER BY {order}")
        rows: Sequence[Sequence[str | None]] = cursor.fetchall()
    description = {
        "database": database,
        "table": table,
        "columns": [{"name": column.name, "type": column.column_type, "key": column.is_key} for column in columns],
    }
    schema = pa.schema(
        [pa.field(column.name, pa.string()) for column in columns],
        metadata={METADATA_KEY: json.dumps(description, ensure_ascii=False).encode()},
    )
    arrays = [pa.array([row[index] for row in rows], pa.string()) for index in range(len(columns))]
    path = folder / dump_file(TableId(database, "", table))
    pq.write_table(pa.table(arrays, schema=schema), path, compression="zstd", compression_level=15)
    return path


def _as_text(column: CatalogColumn) -> str:
    """Return the SELECT expression for a column's text."""
    name = _quoted(column.name)
    kind = column.column_type.lower().partition("(")[0].split()[0]
    if kind in BINARY_TYPES:
        return f"HEX({name})"
    if kind == "bit":
        return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"
    if kind == "float":
        return f"CAST(CAST({name} AS DOUBLE) AS CHAR)"
    return f"CONVERT(CAST({name} AS CHAR) USING utf8mb4)"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
