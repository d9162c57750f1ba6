"""Conversions of stored values held against a real MariaDB: ALTER TABLE ... MODIFY between all types, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import permutations, product
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.stages.server_conversions import convert
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl import charsets
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn
from tests.stages.server_rows import shown, typed
from tests.tiers import times

VALUES: Mapping[str, Sequence[str]] = {
    "tinyint(4)": ("-128", "-1", "0", "1", "127"),
    "smallint(5) unsigned": ("0", "300", "65535"),
    "int(11)": ("-2147483648", "-1", "0", "7", "1234567", "20260105", "2147483647"),
    "int(6) unsigned zerofill": ("0", "42", "4294967295"),
    "bigint(20)": ("-9223372036854775808", "0", "20260105", "9223372036854775807"),
    "bigint(20) unsigned": ("0", "9223372036854775808", "18446744073709551615"),
    "decimal(12,2)": ("-9999999999.99", "-0.50", "0.49", "0.50", "1.50", "2.50", "99.99", "9999999999.99"),
    "decimal(6,4)": ("-99.9999", "0.00005", "1.2345"),
    "decimal(60,2)": ("0", "-1.25", "1234567890123456789012345678901234567890123456789012345678.99"),
    "decimal(50,38)": ("0", "0.12345678901234567890123456789012345678", "-123456789012.5"),
    "decimal(65,0)": ("0", "99999999999999999999999999999999999999999999999999999999999999999"),
    "decimal(30,10)": ("12345678901234567890.0123456789", "0.0000000001", "-1.5"),
    "float": ("0", "0.1", "1e10", "-2.5", "3.40282e38", "123456.7", "1e-10", "1234"),
    "double": ("0", "0.1", "1e15", "1e16", "2.5", "3.5", "-2.5", "1e-7", "1.7976931348623157e308", "123456789012345678", "99.99"),
    "bit(12)": ("0", "65", "4095"),
    "bit(64)": ("0", "18446744073709551615"),
    "year(4)": ("0", "1901", "2026", "2155"),
    "date": ("'1000-01-01'", "'2026-01-05'", "'9999-12-31'", "'0000-00-00'"),
    "datetime": ("'2026-01-05 10:11:12'", "'1999-12-31 23:59:59'", "'0000-00-00 00:00:00'"),
    "datetime(3)": ("'2026-01-05 10:11:12.500'", "'1999-12-31 23:59:59.999'", "'2026-01-05 00:00:00.000'"),
    "datetime(6)": ("'2026-01-05 10:11:12.654321'", "'1999-12-31 23:59:59.999999'", "'2026-01-05 10:00:00'"),
    "timestamp": ("'2026-01-05 10:11:12'",),
    "timestamp(6)": ("'2026-01-05 10:11:12.654321'", "'2026-01-05 10:11:12'"),
    "time": ("'-838:59:59'", "'10:11:12'", "'00:00:00'"),
    "time(3)": ("'10:11:12.789'", "'-00:00:00.500'", "'838:59:59'"),
    "varchar(30)": (
        "''", "'abc'", "'12'", "'12.5abc'", "' 7 '", "'-1e2x'", "'99999999999999999999'", "'2026-01-05'", "'2026-02-31'",
        "'2026-01-05 10:11:12.5'", "'10:11:12'", "'茶茶茶茶茶茶'", "'a   '", "'.5'", "'+3'", "'1.5e1'", "'a'", "'x,z'", "'-0'",
        "'007'",
        "'🍵'", "'2026-01-05T10:11:12'", "'99:99'",
    ),
    "char(10)": ("'ab  '", "'x'", "'5'"),
    "tinytext": ("'long text'", "'5'", "'茶'"),
    "longtext": ("'b'", "'-7'"),
    "varbinary(20)": ("x'00ff'", "'12'", "'abc'", "x'e88cb6'"),
    "binary(4)": ("'ab'", "'12'"),
    "blob": ("x'e88cb6'", "'9'", "''"),
    "enum('a','b','12')": ("'a'", "'12'"),
    "enum('b','a','c')": ("'a'", "'c'"),
    "set('x','y','z')": ("'x'", "'x,z'", "''"),
    "set('z','x','y','w')": ("'z,w'", "'x,y'"),
}  # fmt: skip
"""By type: literals of values that stand in a column before it is modified."""

NUMBERS = (Kind.WHOLE, Kind.BIT, Kind.YEAR, Kind.DECIMAL, Kind.REAL)
_OTHERS = (Kind.DATE, Kind.CLOCK, Kind.TIME, Kind.BYTES, Kind.ENUM, Kind.SET)

SERVERS_DIFFER = {
    **dict.fromkeys(((Kind.REAL, Kind.TEXT), (Kind.REAL, Kind.BYTES)), "digits of floats"),
    **dict.fromkeys(((Kind.BIT, Kind.TEXT), (Kind.BIT, Kind.BYTES)), "MariaDB writes digits into a VARCHAR and bits into a TEXT"),
    **{(one, Kind.BIT): "numbers below 0 or with a fraction as bits" for one in (*NUMBERS, *_OTHERS, Kind.TEXT)},
    **{(one, Kind.TIME): "numbers, labels and short texts as times" for one in (*NUMBERS, *_OTHERS, Kind.TEXT)},
    **{(one, Kind.YEAR): "texts, floats and dates as years" for one in (Kind.REAL, Kind.TEXT, *_OTHERS)},
    **{(one, new): "numbers that are shorter than a date" for one in NUMBERS for new in (Kind.DATE, Kind.CLOCK)},
    **{(Kind.TIME, new): "the day of the statement in the session's zone" for new in (Kind.DATE, Kind.CLOCK)},
    **{(Kind.TEXT, new): "dates in another form" for new in (Kind.DATE, Kind.CLOCK)},
    **{(one, new): "numbers, bytes and other labels as labels" for one in (*NUMBERS, *_OTHERS, Kind.TEXT)
       for new in (Kind.ENUM, Kind.SET)},
    **{(one, Kind.WHOLE): "fractions of seconds that are cut or rounded" for one in (Kind.CLOCK, Kind.TIME)},
    **{(Kind.CLOCK, Kind.REAL): "rounded digits of a float", (Kind.BIT, Kind.REAL): "the first of 64 bits as a sign"},
    **{(Kind.REAL, Kind.WHOLE): "floats beyond 63 bits"},
    **dict.fromkeys(((Kind.BYTES, Kind.DATE), (Kind.BYTES, Kind.CLOCK)), "bytes as dates"),
}  # fmt: skip
"""Kinds between which a value may be not known although a strict server takes it, with the reason."""


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with private_server() as server, server.connect() as connection:
            cursor = connection.cursor()
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("CREATE DATABASE converted CHARSET utf8mb4")
            cursor.execute("USE converted")
            yield cursor
    except ServerUnavailable as error:
        pytest.skip(str(error))


def make(cursor: Any, old: str, some: Sequence[str]) -> None:
    cursor.execute("SET sql_mode = ''")
    cursor.execute(f"CREATE OR REPLACE TABLE t (id int PRIMARY KEY, v {old}) CHARSET utf8mb4")
    for number, value in enumerate(some):
        cursor.execute(f"INSERT INTO t VALUES ({number}, {value})")


def strict_takes(cursor: Any, old: str, new: str, value: str) -> bool:
    from pymysql.err import MySQLError

    make(cursor, old, [value])
    cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES'")
    try:
        cursor.execute(f"ALTER TABLE t MODIFY v {new}")
    except MySQLError:
        return False
    return True


def pairs() -> list[tuple[str, str]]:
    found = list(permutations(VALUES, 2))
    Random(5).shuffle(found)
    return found[: times(80, len(found))]


@pytest.mark.database
def test_values_are_those_of_the_server_or_counted_as_unknown(connection: Any) -> None:
    wrong: list[str] = []
    for old_text, new_text in pairs():
        old, new, some = typed(old_text), typed(new_text), VALUES[old_text]
        make(connection, old_text, some)
        values, texts = shown(connection, "t", "v", old)
        connection.execute(f"ALTER TABLE t MODIFY v {new_text}")
        expected, expected_texts = shown(connection, "t", "v", new)
        before = pa.array(values, arrow_type(old.lake_type)), pa.array(texts, pa.string())
        found = convert(*before, old, new, family=Family.MARIADB)
        assert found.values.type == arrow_type(new.lake_type)
        made = found.values.to_pylist()
        for place, literal in enumerate(some):
            where = f"{old_text} to {new_text}: {literal}"
            if found.unknown[place]:
                assert made[place] is None
                exempt = (
                    (old.kind, new.kind) in SERVERS_DIFFER
                    or Kind.INSTANT in (old.kind, new.kind)
                    or texts[place] is not None
                )
                if not exempt and strict_takes(connection, old_text, new_text, literal):
                    wrong.append(f"{where}: not known, and the server has {expected[place]!r}")
            elif (made[place], found.texts[place].as_py()) != (expected[place], expected_texts[place]):
                server = f"{expected[place]!r} {expected_texts[place]}"
                wrong.append(f"{where}: {made[place]!r} {found.texts[place]}, and the server has {server}")
    assert not wrong, "\n".join(wrong)


TEXTS = ("''", "'abc'", "'naïve'", "'茶'", "'🍵'", "'Ω'", "'€'")
CHARSETS = ("utf8mb4", "utf8mb3", "latin1", "gbk", "ascii", "big5", "greek")


@pytest.mark.database
@pytest.mark.parametrize("base", ["varchar(9)", "char(3)", "tinytext"])
def test_texts_get_another_character_set_as_the_server_gives_it(connection: Any, base: str) -> None:
    """Characters that the new set lacks become question marks at a server that is not strict; here they are not known."""
    for one, other in permutations(CHARSETS, 2):
        old, new = (server_type(SchemaColumn("v", base, charset)) for charset in (one, other))
        assert old is not None
        assert new is not None
        make(connection, f"{base} CHARACTER SET {one}", TEXTS)
        values, _ = shown(connection, "t", "v", old)
        connection.execute(f"ALTER TABLE t MODIFY v {base} CHARACTER SET {other}")
        expected, _ = shown(connection, "t", "v", new)
        found = convert(pa.array(values), pa.nulls(len(values), pa.string()), old, new)
        for value, made, wanted, unknown in zip(values, found.values.to_pylist(), expected, found.unknown, strict=True):
            kept = not value.isascii() and value != wanted
            assert (made, unknown) in ((wanted, False), (None, True)), (one, other, value, wanted)
            assert unknown or not kept
            if value.isascii() or (other in ("utf8mb4", "latin1", "gbk") and value == wanted):
                assert not unknown, (one, other, value)


def converted(values: Sequence[Any], old_text: str, new_text: str, **asked: Any) -> tuple[list[Any], list[bool]]:
    old, new = typed(old_text), typed(new_text)
    some = pa.array([*values, None], arrow_type(old.lake_type))
    found = convert(some, pa.nulls(len(some), pa.string()), old, new, **asked)
    assert found.values.null_count == 1 + sum(found.unknown)
    assert found.values[-1].as_py() is None
    assert not found.unknown[-1]
    return found.values.to_pylist()[:-1], found.unknown.tolist()[:-1]


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        ("int(11)", "bigint(20)", [1, -1], [1, -1]),
        ("int(11)", "varchar(20)", [1, -17], ["1", "-17"]),
        ("int(11)", "tinyint(4)", [300, -300], [127, -128]),
        ("varchar(20)", "int(11)", ["12", "12abc", "abc", ""], [12, 12, 0, 0]),
        ("varchar(20)", "varchar(3)", ["abcdef", "茶茶茶茶"], ["abc", "茶茶茶"]),
        ("varchar(20)", "longtext", ["abc  "], ["abc  "]),
        (
            "varchar(20)",
            "decimal(6,2)",
            ["1.005", "99999", "-x"],
            [Decimal("1.01"), Decimal("9999.99"), Decimal("0.00")],
        ),
        ("decimal(12,2)", "decimal(12,1)", [Decimal("0.05"), Decimal("-0.05")], [Decimal("0.1"), Decimal("-0.1")]),
        ("decimal(12,2)", "int(11)", [Decimal("2.50"), Decimal("-2.50")], [3, -3]),
        ("double", "int(11)", [2.5, 3.5], [2, 4]),
        ("double", "decimal(10,2)", [0.1, 1e15], [Decimal("0.10"), Decimal("99999999.99")]),
        ("date", "datetime(3)", [datetime(2026, 1, 5).date()], [datetime(2026, 1, 5)]),
        ("enum('a','b')", "varchar(9)", ["b", ""], ["b", ""]),
        ("enum('a','b')", "enum('b','c','a')", ["a"], ["a"]),
        ("varchar(9)", "varbinary(9)", ["茶"], ["茶".encode()]),
    ],
)
def test_usual_changes_of_a_type_are_known(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert converted(values, old, new) == (expected, [False] * len(values))


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        ("decimal(12,2)", "decimal(60,2)", [Decimal("1.50"), Decimal("-9.99")], ["1.50", "-9.99"]),
        ("int(11)", "decimal(65,0)", [-7], ["-7"]),
        ("varchar(20)", "decimal(65,10)", ["12.5x"], ["12.5000000000"]),
        ("decimal(60,0)", "decimal(65,0)", ["9" * 60], ["9" * 60]),
        ("decimal(60,0)", "decimal(12,2)", ["9" * 60, "-12"], [Decimal("9999999999.99"), Decimal("-12.00")]),
        ("decimal(12,2)", "decimal(38,38)", [Decimal("0.25"), Decimal(7)], [Decimal("0.25"), Decimal("0." + "9" * 38)]),
        ("decimal(60,38)", "decimal(12,2)", ["1." + "0" * 38, "0.125" + "0" * 35], [Decimal("1.00"), Decimal("0.13")]),
    ],
)
def test_each_number_is_checked_and_not_its_type(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert converted(values, old, new) == (expected, [False] * len(values))


ODD = (
    "",
    "a",
    "\\",
    "~",
    "\0",
    "\x81",
    "\x8d",
    "é",
    "€",
    "茶",
    "Ω",
    "ㅤ",
    "갂",
    "①",
    "＼",
    "🍵",
    "12",
    "2026-01-05",
    "a" * 70_000,
)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("charset", ["gbk", "latin1", *sorted(charsets.CHARSETS - {"gbk", "latin1"})])
def test_every_conversion_of_a_text_ends(charset: str) -> None:
    """From a character set to each other, and to other types, whatever the text: also one that its own set cannot hold."""
    some = pa.array([*ODD, None])
    columns = [SchemaColumn("v", "varchar(9)", one) for one in sorted(charsets.CHARSETS)]
    columns += [SchemaColumn("v", text) for text in (VALUES if charset == "gbk" else ("binary(4)", "blob"))]
    for base, column in product(("char(9)", "longtext"), columns):
        old, new = server_type(SchemaColumn("v", base, charset)), server_type(column)
        assert old is not None
        assert new is not None
        found = convert(some, pa.nulls(len(some), pa.string()), old, new)
        assert found.values.null_count == 1 + sum(found.unknown), column


def bytes_of_text(text: str, charset: str) -> bytes | None:
    old = server_type(SchemaColumn("v", "varchar(9)", charset))
    assert old is not None
    found: bytes | None = (
        convert(pa.array([text]), pa.nulls(1, pa.string()), old, typed("varbinary(9)")).values[0].as_py()
    )
    return found


def test_bytes_of_a_text_are_those_of_its_character_set() -> None:
    assert [bytes_of_text("é\x81", name) for name in ("latin1", "utf8mb4", "cp1251")] == [
        b"\xe9\x81",
        b"\xc3\xa9\xc2\x81",
        None,
    ]
    assert [bytes_of_text("a", name) for name in ("ucs2", "utf32", "utf16le", "swe7")] == [
        b"\0a",
        b"\0\0\0a",
        b"a\0",
        b"a",
    ]
    assert [bytes_of_text("Ж", name) for name in ("cp1251", "koi8r", "armscii8")] == [b"\xc6", b"\xf6", None]


def test_fractions_without_room_are_known_where_the_server_is() -> None:
    """MySQL rounds (manual, "Fractional Seconds in Time Values"), MariaDB cuts (its documentation, "Microseconds")."""
    values = [datetime(1999, 12, 31, 23, 59, 59, 999_999), datetime(2026, 1, 5, 10, 0, 0)]
    rounded, cut = datetime(2000, 1, 1), datetime(1999, 12, 31, 23, 59, 59)
    assert converted(values, "datetime(6)", "datetime", family=Family.MYSQL) == ([rounded, values[1]], [False, False])
    assert converted(values, "datetime(6)", "datetime", family=Family.MARIADB) == ([cut, values[1]], [False, False])
    assert converted(values, "datetime(6)", "datetime") == ([None, values[1]], [True, False])
    assert converted(["-00:00:00.6"], "time(1)", "time", family=Family.MYSQL) == (["-00:00:01"], [False])
    assert converted(["-00:00:00.6"], "time(1)", "time", family=Family.MARIADB) == (["00:00:00"], [False])


def test_a_date_of_no_calendar_keeps_its_text_or_becomes_one() -> None:
    nothing, zero = pa.array([None], pa.date32()), pa.array(["0000-00-00"])
    found = convert(nothing, zero, typed("date"), typed("varchar(20)"))
    assert (found.values.to_pylist(), found.texts.to_pylist(), found.unknown.tolist()) == (
        ["0000-00-00"],
        [None],
        [False],
    )
    found = convert(nothing, zero, typed("date"), typed("int(11)"))
    assert (found.values.to_pylist(), found.texts.to_pylist(), found.unknown.tolist()) == ([None], [None], [True])


def test_a_type_that_is_not_known_has_no_conversion() -> None:
    assert server_type(SchemaColumn("v", "vector(3) of stars")) is None
    other = server_type(SchemaColumn("v", "geometry"))
    assert other is not None
    assert other.kind is Kind.OTHER
    found = convert(pa.array([b"x", None]), pa.nulls(2, pa.string()), other, typed("varbinary(9)"))
    assert (found.values.to_pylist(), found.unknown.tolist()) == ([None, None], [True, False])
