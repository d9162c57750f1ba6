"""Statements of values that are hard to write, run by a real MariaDB and a real PostgreSQL: each value is stored as it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import psycopg2  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pymysql.cursors import Cursor

from dts_assets.model.tables import TableId
from dts_assets.stages.sql_dialect import SqlColumn
from dts_emulator.postgresql.server import private_postgres
from dts_emulator.source.server import private_server
from tests.stages.rendering import change, column, rendered
from tests.tiers import examples

pytestmark = pytest.mark.database

TABLE = TableId("d", "", "v")
# MariaDB stores -0.0 as 0.0, whatever is written.
SINGLE = st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda one: one + 0.0)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False).map(lambda one: one + 0.0)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text(
    st.sampled_from("'\\\"`;-\n\r\0\x1a %_aA "), max_size=9
)
CLOCK = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59)).map(lambda one: one.replace(fold=0))
INSTANT = st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 18)).map(lambda one: one.replace(tzinfo=UTC, fold=0))


def clock(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' * (seconds < 0)}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.000000"


MYSQL: dict[str, tuple[str, str, st.SearchStrategy[Any]]] = {
    "i": ("bigint", "bigint", st.integers(-(2**63), 2**63 - 1)),
    "u": ("decimal(20,0)", "bigint unsigned", st.integers(0, 2**64 - 1).map(Decimal)),
    "n": ("decimal(38,20)", "decimal(38,20)", st.integers(-(10**38) + 1, 10**38 - 1).map(lambda one: Decimal(f"{one}E-20"))),
    "s": ("string", "decimal(50,20)", st.integers(-(10**30) + 1, 10**30 - 1).map(lambda one: f"{one}.{abs(one) % 10**20:020d}")),
    "f": ("float", "float", SINGLE),
    "e": ("double", "double", DOUBLE),
    "b": ("bigint", "bit(60)", st.integers(0, 2**60 - 1)),
    "y": ("int", "year", st.just(0) | st.integers(1901, 2155)),
    "t": ("string", "text", TEXT),
    "l": ("string", "varchar(99)", st.text(st.sampled_from("aäßé\\'\n "), max_size=30)),
    "x": ("binary", "blob", st.binary(max_size=40)),
    "k": ("binary", "binary(6)", st.binary(max_size=6)),
    "d": ("date", "date", st.dates(date(1000, 1, 1))),
    "w": ("timestamp_ntz", "datetime(6)", CLOCK),
    "z": ("timestamp", "timestamp(6)", INSTANT),
    "h": ("string", "time(6)", st.integers(-838 * 3600, 838 * 3600).map(clock)),
    "j": ("string", "json", st.sampled_from(['{"a": "it\'s\\\\n"}', "[]", '"é"'])),
}  # fmt: skip
"""Lake type, type at the source, and values of each column."""

MODES = ("NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,STRICT_ALL_TABLES", "PIPES_AS_CONCAT,NO_ZERO_DATE")


def of(kinds: dict[str, tuple[str, str, st.SearchStrategy[Any]]], *, key: str = "") -> list[SqlColumn]:
    return [column(name, lake, source, key=name == key) for name, (lake, source, _) in kinds.items()]


def images(kinds: dict[str, tuple[str, str, st.SearchStrategy[Any]]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.none() | made for name, (_, _, made) in kinds.items()})


@pytest.fixture(scope="module")
def mysql() -> Iterator[Cursor]:
    with private_server() as server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        kinds = {**{name: source for name, (_, source, _) in MYSQL.items()}, "l": "varchar(99) character set latin1"}
        cursor.execute(f"CREATE TABLE d.v ({', '.join(f'{name} {kind} NULL' for name, kind in kinds.items())})")
        yield cursor


def stored_in_mysql(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the driver reads it."""
    found = dict(row)
    if row["k"] is not None:
        found["k"] = row["k"].ljust(6, b"\0")
    if row["b"] is not None:
        found["b"] = row["b"].to_bytes(8, "big")
    if row["s"] is not None:
        found["s"] = Decimal(row["s"])
    if row["z"] is not None:
        found["z"] = row["z"].replace(tzinfo=None)
    if row["h"] is not None:
        hours, minutes, seconds = row["h"].lstrip("-").split(":")
        length = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        found["h"] = -length if row["h"].startswith("-") else length
    return found


def read_mysql(cursor: Cursor) -> list[dict[str, Any]]:
    names = ", ".join("CAST(f AS DOUBLE) f" if name == "f" else name for name in MYSQL)
    cursor.execute(f"SELECT {names} FROM d.v")
    return [dict(zip(MYSQL, row, strict=True)) for row in cursor.fetchall()]


def bits(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts that are equal if all values are the same, numbers as exact fractions and floats by their bits."""
    return sorted(repr({name: bits_of(one) for name, one in sorted(row.items())}) for row in rows)


def bits_of(value: Any) -> Any:
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return Fraction(value)
    return bytes(value) if isinstance(value, memoryview) else value


EMPTY: dict[str, Any] = dict.fromkeys(MYSQL)
GREATEST = float(np.finfo(np.float32).max)


@examples(150)
@given(images(MYSQL), images(MYSQL), st.sampled_from(MODES))
@example(old=EMPTY, new={**EMPTY, "i": 1, "f": GREATEST}, mode=MODES[1])
@example(old=EMPTY, new={**EMPTY, "i": 1, "f": -GREATEST}, mode=MODES[1])
def test_mariadb_stores_and_finds_what_was_written(
    mysql: Cursor, old: dict[str, Any], new: dict[str, Any], mode: str
) -> None:
    columns = of(MYSQL)
    rows = [change("insert", after=old), change("insert", after=new), change("update", old, new), change("delete", new)]
    first, second, update, delete = rendered(columns, rows, table=TABLE)
    mysql.execute("TRUNCATE TABLE d.v")
    mysql.execute(f"SET sql_mode = '{mode}'")
    mysql.execute(first)
    mysql.execute(second)
    assert bits(read_mysql(mysql)) == bits([stored_in_mysql(old), stored_in_mysql(new)])
    found = {name: value for name, value in new.items() if name != "j"}
    mysql.execute(delete)  # one of the rows is gone, by all columns but JSON
    assert len(read_mysql(mysql)) == 1
    left = read_mysql(mysql)
    same = {name: value for name, value in old.items() if name != "j"}
    assert bits(left) == bits([stored_in_mysql(old)]) or bits([found]) == bits([same])
    mysql.execute(update)
    assert bits(read_mysql(mysql)) == bits([stored_in_mysql(new)])
    mysql.execute(delete)
    assert read_mysql(mysql) == []


@pytest.mark.parametrize(
    "twin", [("t", "tea", "Tea"), ("t", "tea", "tea "), ("t", "e", "é"), ("l", "a", "ä"), ("f", 0.1, 0.10000001)]
)
def test_a_row_is_not_taken_for_its_twin(mysql: Cursor, twin: tuple[str, Any, Any]) -> None:
    name, one, other = twin
    nothing = dict.fromkeys(MYSQL)
    for kept, gone in ((one, other), (other, one)):
        mysql.execute("TRUNCATE TABLE d.v")
        mysql.execute("SET sql_mode = ''")
        rows = [change("insert", after={**nothing, name: value}) for value in (kept, gone, kept)]
        for statement in rendered(of(MYSQL), [*rows, change("delete", {**nothing, name: gone})], table=TABLE):
            mysql.execute(statement)
        kept = float(np.float32(kept)) if name == "f" else kept
        assert [row[name] for row in read_mysql(mysql)] == [kept, kept]


POSTGRES: dict[str, tuple[str, str, st.SearchStrategy[Any]]] = {
    "i": ("bigint", "bigint", st.integers(-(2**63), 2**63 - 1)),
    "n": ("decimal(38,20)", "numeric(38,20)", MYSQL["n"][2]),
    "m": ("string", "numeric", st.integers(-(10**50), 10**50).map(str)),
    "f": ("float", "real", st.floats(allow_nan=False, width=32)),
    "e": ("double", "double precision", st.floats(allow_nan=False)),
    "o": ("boolean", "boolean", st.booleans()),
    "t": ("string", "text", TEXT.filter(lambda one: "\0" not in one)),
    "x": ("binary", "bytea", st.binary(max_size=40)),
    "d": ("date", "date", st.dates()),
    "w": ("timestamp_ntz", "timestamp", st.datetimes().map(lambda one: one.replace(fold=0))),
    "z": ("timestamp", "timestamptz", st.datetimes().map(lambda one: one.replace(tzinfo=UTC, fold=0))),
    "j": ("string", "json", st.sampled_from(['{"a": "it\'s\\\\n"}', "[]", '"é"'])),
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    with private_postgres() as url:
        connection = psycopg2.connect(url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA d")
            cursor.execute(
                f"CREATE TABLE d.v ({', '.join(f'{name} {kind}' for name, (_, kind, _) in POSTGRES.items())})"
            )
            cursor.execute("SET TIME ZONE 'Asia/Kolkata'")
            yield cursor
        connection.close()


def found_in(cursor: Any) -> list[str]:
    cursor.execute("SELECT i, n, m, f::float8, e, o, t, x, d, w, z, j::text FROM d.v")
    return bits([stored_in_postgres(dict(zip(POSTGRES, row, strict=True))) for row in cursor.fetchall()])


def stored_in_postgres(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the driver reads it: an instant in some zone, an arbitrary number as a number."""
    numbers = {"m": None if row["m"] is None else Decimal(row["m"])}
    return row | numbers | {"z": None if row["z"] is None else row["z"].astimezone(UTC)}


@examples(150)
@given(images(POSTGRES), images(POSTGRES))
def test_postgres_stores_and_finds_what_was_written(postgres: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    rows = [change("insert", after=old), change("insert", after=old), change("update", old, new), change("delete", new)]
    insert, again, update, delete = rendered(of(POSTGRES), rows, dialect="postgresql", table=TABLE)
    postgres.execute("TRUNCATE TABLE d.v")
    postgres.execute(insert)
    postgres.execute(again)
    assert found_in(postgres) == bits([stored_in_postgres(old)] * 2)
    postgres.execute(update)
    assert found_in(postgres) == bits([stored_in_postgres(old), stored_in_postgres(new)])
    postgres.execute(delete)
    assert len(found_in(postgres)) == 1
