"""What ``statements`` prints of a MySQL source is run by a real PostgreSQL, in tables of mapped types made by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_emulator.judge.comparison import compare
from dts_emulator.postgresql.server import private_postgres, program

pytestmark = pytest.mark.database

ROOT = Path(__file__).parents[2]
EXAMPLE, EXPECTED = ROOT / "examples" / "shop", ROOT / "examples" / "shop.expected"

WALL_CLOCK, INT, LONG, TEXT = pa.timestamp("us"), pa.int32(), pa.int64(), pa.string()
TABLES: Mapping[str, Mapping[str, tuple[str, pa.DataType]]] = {
    "addresses": {
        "id": ("bigint PRIMARY KEY", LONG), "customer_id": ("bigint NOT NULL", LONG), "kind": ("text", TEXT),
        "street": ("text NOT NULL", TEXT), "city": ("text", TEXT), "city_local": ("text", TEXT),
        "country": ("char(2)", TEXT), "latitude": ("double precision", pa.float64()),
        "longitude": ("double precision", pa.float64()),
    },
    "categories": {
        "id": ("int PRIMARY KEY", INT), "parent_id": ("int", INT), "title": ("varchar(80)", TEXT), 
        "sort_weight": ("real", pa.float32()),
    },
    "inventory": {
        "warehouse": ("text", TEXT), "sku": ("text", TEXT), "quantity": ("int NOT NULL", INT),
        "reserved": ("int NOT NULL", INT), "counted_on": ("date", pa.date32()),
    },
    "payments": {
        "id": ("bytea PRIMARY KEY", pa.binary()), "order_id": ("numeric(20) NOT NULL", pa.decimal128(20, 0)), 
        "method": ("text", TEXT),
        "amount": ("numeric(14,2) NOT NULL", pa.decimal128(14, 2)), "token": ("bytea", pa.binary()), "paid_after": ("text", TEXT),
    },
    "audit_log": {
        "happened_at": ("timestamp NOT NULL", WALL_CLOCK), "actor": ("text", TEXT), "action": ("text NOT NULL", TEXT),
        "subject": ("bigint", LONG), "detail": ("text", TEXT),
    },
    "documents": {
        "id": ("int PRIMARY KEY", INT), "title": ("text", TEXT), "body": ("text", TEXT), "attachment": ("bytea", pa.binary()),
        "revision": ("int NOT NULL", INT),
    },
    "coupons": {
        "code": ("text PRIMARY KEY", TEXT), "percent": ("smallint", INT), "valid_until": ("timestamp", WALL_CLOCK),
        "used": ("bigint NOT NULL", LONG),
    },
}  # fmt: skip
"""The type in PostgreSQL and the lake's type of each column. They hold no text with NUL, which PostgreSQL cannot store."""


def run_script(url: str, script: Path) -> None:
    """Run a script with PostgreSQL's own client, which stops at the first error."""
    client = [program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(script), url]
    done = subprocess.run(
        client, capture_output=True, text=True, check=False, env={"PGOPTIONS": "-c synchronous_commit=off"}
    )
    assert done.returncode == 0, done.stderr[-300:]


def rows_of(cursor: Any, table: str, columns: Mapping[str, tuple[str, pa.DataType]]) -> pa.Table:
    cursor.execute(f'SELECT {", ".join(columns)} FROM shopdb."{table}"')
    rows = cursor.fetchall()
    values = {name: [_plain(row[place]) for row in rows] for place, name in enumerate(columns)}
    return pa.table({name: pa.array(values[name], kind) for name, (_, kind) in columns.items()})


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def test_postgres_ends_with_the_content_of_the_source(tmp_path: Path) -> None:
    """A table without a key, keys of bytes and of two columns, keys that move, and all changes one after the other."""
    script = tmp_path / "shop.sql"
    chosen = [argument for table in TABLES for argument in ("--table", f"shopdb.{table}")]
    bare = ["--capture", str(EXAMPLE), "--format", "dts-protobuf", "--dialect", "postgresql", "--out", str(script)]
    done = CliRunner().invoke(cli, ["statements", *bare, *chosen])
    assert done.exit_code == 0, done.stderr
    with private_postgres() as url:
        connection = psycopg2.connect(url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA shopdb")
            for table, columns in TABLES.items():
                cursor.execute(
                    f"CREATE TABLE shopdb.{table} ({', '.join(f'{name} {kind}' for name, (kind, _) in columns.items())})"
                )
            cursor.execute("ALTER TABLE shopdb.inventory ADD PRIMARY KEY (warehouse, sku)")
            run_script(url, script)
            found = {table: rows_of(cursor, table, columns) for table, columns in TABLES.items()}
        connection.close()
    verdicts = {table: compare(rows, EXPECTED / f"shopdb.{table}.parquet") for table, rows in found.items()}
    assert [str(one) for one in verdicts.values() if not one.equal] == []
    assert sum(one.rows_found for one in verdicts.values()) > 4_000
