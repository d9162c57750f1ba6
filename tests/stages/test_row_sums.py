"""Sums of rows in columns are those that a real MariaDB computes with its own functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import mysql_type
from dts_assets.model.database_places import SESSION
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.row_sums import LONG, SummedColumn, hashes_of, row_sums, row_texts, total
from dts_assets.stages.sum_sql import SqlColumn, row_hash, sql_column, sum_statement
from dts_emulator.source.server import Server, private_server
from tests.tiers import times

pytestmark = pytest.mark.database

RANDOM = Random(5)
ALPHABET = "a0 \t\n'\"\\=,:é€日𠀀😀\u0000"


def text(most: int) -> str:
    return "".join(RANDOM.choice(ALPHABET) for _ in range(RANDOM.randint(0, most)))


def number(least: int, most: int) -> int:
    return RANDOM.choice([least, most, 0, RANDOM.randint(least, most), RANDOM.randint(max(least, -9), min(most, 9))])


def exact(precision: int, scale: int) -> Decimal:
    whole = number(1 - 10 ** RANDOM.randint(1, precision), 10 ** RANDOM.randint(1, precision) - 1)
    return Decimal(f"{whole}E-{scale}")


def clock(digits: int, years: tuple[int, int] = (1, 9999)) -> datetime:
    day = date(RANDOM.randint(*years), RANDOM.randint(1, 12), RANDOM.randint(1, 28))
    step = 10 ** (6 - digits)
    return datetime.combine(day, datetime.min.time()) + timedelta(
        seconds=RANDOM.randrange(86400), microseconds=RANDOM.randrange(0, 10**6, step)
    )


MADE: dict[str, Any] = {
    "tinyint": lambda: number(-128, 127),
    "smallint unsigned": lambda: number(0, 65535),
    "mediumint": lambda: number(-(1 << 23), (1 << 23) - 1),
    "int": lambda: number(-(1 << 31), (1 << 31) - 1),
    "int unsigned zerofill": lambda: number(0, (1 << 32) - 1),
    "bigint": lambda: number(-(1 << 63), (1 << 63) - 1),
    "bigint unsigned": lambda: number(0, (1 << 64) - 1),
    "tinyint(1)": lambda: number(-128, 127),
    "year": lambda: RANDOM.choice([0, 1901, 2155, 2026]),
    "bit(1)": lambda: number(0, 1),
    "bit(12)": lambda: number(0, 4095),
    "bit(64)": lambda: number(0, (1 << 64) - 1),
    "decimal(12,2)": lambda: exact(12, 2),
    "decimal(9,3) unsigned zerofill": lambda: exact(9, 3).copy_abs(),
    "decimal(38,38)": lambda: exact(38, 38),
    "decimal(30,9)": lambda: exact(30, 9),
    "decimal(38,0)": lambda: exact(38, 0),
    "date": lambda: clock(0).date(),
    "datetime": lambda: clock(0),
    "datetime(3)": lambda: clock(3),
    "datetime(6)": lambda: clock(6),
    "timestamp(2) null": lambda: clock(2, (1971, 2037)).replace(tzinfo=UTC),
    "timestamp(6) null": lambda: clock(6, (1971, 2037)).replace(tzinfo=UTC),
    "char(20)": lambda: text(20).rstrip(" "),
    "varchar(40)": lambda: text(40),
    "longtext": lambda: text(40) * RANDOM.choice([1, 1, 90]),
    "varchar(20) character set gbk": lambda: RANDOM.choice(["", "第一", "a=3", "丂 "]),
    "varchar(20) character set latin1": lambda: RANDOM.choice(["", "café €", "ÿþ", " x "]),
    "enum('a','it''s','é','')": lambda: RANDOM.choice(["a", "it's", "é", ""]),
    "set('x','y','it''s')": lambda: RANDOM.choice(["", "x", "x,y", "x,y,it's"]),
    "varbinary(40)": lambda: RANDOM.randbytes(RANDOM.randint(0, 40)),
    "longblob": lambda: RANDOM.randbytes(RANDOM.choice([0, 3, LONG - 1, LONG, LONG + 1, 5000])),
    "binary(8)": lambda: RANDOM.randbytes(8),
    "time(3)": lambda: RANDOM.choice(["-838:59:59.000", "-00:00:00.125", "00:00:00.000", "838:59:58.999"]),
    "json": lambda: RANDOM.choice(['{"b": 1,  "a": [2.50, "é"]}', "null", "[]"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        yield running


def lake_type(declared: str) -> str:
    found = mysql_type(declared)
    assert found is not None, declared
    return found


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        return pa.decimal128(*(int(one) for one in kind[8:-1].split(",")))
    return {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "boolean": pa.bool_(),
    }[kind]  # fmt: skip


def described(cursor: Any, table: str) -> list[ServerColumn]:
    cursor.execute(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION "
        "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (table,),
    )
    return [ServerColumn(*row) for row in cursor.fetchall()]


def filled(cursor: Any, table: str, kinds: list[str], rows: int) -> tuple[list[SqlColumn], pa.RecordBatch]:
    """A table of the server with random rows, its columns in SQL, and the rows as the lake has them."""
    cursor.execute("CREATE DATABASE IF NOT EXISTS d")
    cursor.execute("SET sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4, time_zone = '+00:00'")
    names = [f"c{place}" for place in range(len(kinds))]
    cursor.execute(f"CREATE TABLE d.{table} ({', '.join(f'{n} {k}' for n, k in zip(names, kinds, strict=True))})")
    values = [[None if RANDOM.random() < 0.2 else MADE[kind]() for kind in kinds] for _ in range(rows)]
    marks = ", ".join(["%s"] * len(kinds))
    cursor.executemany(f"INSERT INTO d.{table} VALUES ({marks})", values)
    columns = [SummedColumn(place + 1, name, lake_type(kind)) for place, (name, kind) in enumerate(zip(names, kinds))]  # noqa: B905
    batch = pa.RecordBatch.from_pydict(
        {
            column.name: pa.array([_stored(row[place], column.type) for row in values], arrow_type(column.type))
            for place, column in enumerate(columns)
        }
    )
    found = [sql_column(*pair) for pair in zip(columns, described(cursor, table), strict=True)]
    assert None not in found
    return [one for one in found if one is not None], batch


def _stored(value: Any, kind: str) -> Any:
    return Decimal(value) if value is not None and kind.startswith("decimal") else value


def test_each_type_has_one_sum_on_both_sides(server: Server) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for place, kind in enumerate(MADE):
            columns, rows = filled(cursor, f"one{place}", [kind], times(60, 400))
            for statement in SESSION:
                cursor.execute(statement)
            cursor.execute(f"SELECT {row_hash(columns)} FROM d.one{place}")
            assert [one for (one,) in cursor.fetchall()] == row_sums(rows, [one.column for one in columns]).tolist(), (
                kind
            )


def test_rows_of_all_types_have_one_sum_on_both_sides(server: Server) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        columns, rows = filled(cursor, "whole", list(MADE), times(200, 2000))
        for statement in SESSION:
            cursor.execute(statement)
        cursor.execute(sum_statement("d.whole", columns))
        count, summed, misfits = cursor.fetchall()[0]
        assert (count, misfits) == (rows.num_rows, 0)
        assert int(summed) == total(row_sums(rows.slice(0), [one.column for one in columns]))
        parts = [row_sums(rows.slice(at, 7), [one.column for one in columns]) for at in range(0, rows.num_rows, 7)]
        assert int(summed) == sum(map(total, parts)), "a slice of a batch has the sums of its rows"


@pytest.mark.parametrize("value", ["'0000-00-00'", "'2026-00-00'", "'2026-01-00'", "'2026-02-31'", "'2026-02-29'"])
def test_dates_that_no_calendar_has_are_null_and_counted(server: Server, value: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS d")
        cursor.execute("CREATE OR REPLACE TABLE d.dates (a DATE, b DATETIME(3))")
        for statement in SESSION:
            cursor.execute(statement)
        cursor.execute(f"INSERT INTO d.dates VALUES ({value}, {value}), ('2024-02-29', '2024-02-29')")
        found = described(cursor, "dates")
        columns = [
            one
            for place, source in enumerate(found)
            if (one := sql_column(SummedColumn(place, source.name, ("date", "timestamp_ntz")[place]), source))
        ]
        cursor.execute(sum_statement("d.dates", columns))
        count, summed, misfits = cursor.fetchall()[0]
        rows = pa.RecordBatch.from_pydict(
            {
                "a": pa.array([None, date(2024, 2, 29)], pa.date32()),
                "b": pa.array([None, datetime(2024, 2, 29)], pa.timestamp("us")),
            }
        )
        assert (count, misfits) == (2, 2)
        assert int(summed) == total(row_sums(rows, [one.column for one in columns]))


@pytest.mark.parametrize(
    ("kind", "lake"), [("tinyint(1)", "boolean"), ("bigint unsigned", "bigint"), ("bigint", "int")]
)
def test_numbers_that_do_not_fit_are_null_and_counted(server: Server, kind: str, lake: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS d")
        cursor.execute(f"CREATE OR REPLACE TABLE d.numbers (a {kind})")
        most = {"tinyint(1)": 127, "bigint unsigned": (1 << 64) - 1, "bigint": (1 << 31)}[kind]
        cursor.execute(f"INSERT INTO d.numbers VALUES (1), (0), ({most}), (NULL)")
        column = sql_column(SummedColumn(1, "a", lake), described(cursor, "numbers")[0])
        assert column is not None
        cursor.execute(sum_statement("d.numbers", [column]))
        count, summed, misfits = cursor.fetchall()[0]
        rows = pa.RecordBatch.from_pydict({"a": pa.array([1, 0, None, None]).cast(arrow_type(lake))})
        assert (count, misfits, int(summed)) == (4, 1, total(row_sums(rows, [column.column])))


@pytest.mark.parametrize("declared", ["float", "double", "double(20,4)", "point", "geometry"])
def test_types_whose_text_is_not_proven_have_no_sum(server: Server, declared: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS d")
        cursor.execute(f"CREATE OR REPLACE TABLE d.others (a {declared})")
        (found,) = described(cursor, "others")
        assert sql_column(SummedColumn(1, "a", lake_type(declared)), found) is None
    assert sql_column(SummedColumn(1, "a", "string"), ServerColumn("a", "json", "json")) is None, "MySQL's own JSON"


def test_texts_of_different_rows_differ() -> None:
    columns = [SummedColumn(1, "a", "string"), SummedColumn(2, "b", "string"), SummedColumn(3, "c", "int")]
    values = [None, "", "2=0:", ":", "1", "3=1,", "2=1:"]
    rows = pa.RecordBatch.from_pylist(
        [{"a": a, "b": b, "c": c} for a in values for b in values for c in (None, 1, 11)],
        schema=pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.int32())]),
    )
    assert len(set(row_texts(rows, columns).to_pylist())) == rows.num_rows


def test_a_sum_is_exact_beyond_64_bits() -> None:
    import numpy as np

    sums = np.full(1000, (1 << 60) - 1, np.int64)
    assert total(sums) == 1000 * ((1 << 60) - 1)


def test_a_new_column_without_values_leaves_each_sum() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "b": pa.nulls(2, pa.string())})
    before = row_sums(rows, [SummedColumn(4, "a", "int")])
    after = row_sums(rows, [SummedColumn(9, "b", "string"), SummedColumn(4, "a", "bigint")])
    assert before.tolist() == after.tolist()
    assert before.tolist() == hashes_of(pa.array([b"4=1,", b"4=2,"])).tolist()
