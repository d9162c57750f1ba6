"""Every type of MySQL that MariaDB has, with its border values: what docs/types.md shows, and what all formats carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class TypeCase:
    """A column's type as a statement declares it, and SQL literals of values that it must carry."""

    declared: str
    values: tuple[str, ...]


def _case(declared: str, *values: str) -> TypeCase:
    return TypeCase(declared, values)


def _whole(name: str, bits: int) -> Sequence[TypeCase]:
    half = 1 << (bits - 1)
    return (
        _case(name, str(-half), "-1", "0", str(half - 1)),
        _case(f"{name} unsigned", "0", str(half - 1), str(half), str(2 * half - 1)),
    )


def _texts(kind: str, charset: str, *texts: str) -> TypeCase:
    """A type of text; each text is given in UTF-8, which the server converts."""
    return _case(f"{kind} character set {charset}", "''", *(f"'{text}'" for text in texts))


NUMBERS = (
    *_whole("tinyint", 8),
    *_whole("smallint", 16),
    *_whole("mediumint", 24),
    *_whole("int", 32),
    *_whole("bigint", 64),
    _case("tinyint(1)", "0", "1", "-128", "127"),
    _case("int(6) unsigned zerofill", "0", "42", "4294967295"),
    _case("bigint(20) unsigned zerofill", "0", "18446744073709551615"),
    _case("decimal(10,0)", "-9999999999", "0", "9999999999"),
    _case("decimal(12,2)", "-9999999999.99", "-0.01", "0", "0.10", "9999999999.99"),
    _case("decimal(1,1) unsigned", "0", "0.9"),
    _case("decimal(38,0)", "-" + "9" * 38, "9" * 38),
    _case("decimal(38,38)", "-0." + "9" * 38, "0." + "0" * 37 + "1"),
    _case("decimal(65,0)", "-" + "9" * 65, "0", "9" * 65),
    _case("decimal(65,30)", "-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "1"),
    _case("float", "0", "0.1", "16777217", "1e10", "1e-10", "-3.40282e38", "3.40282e38", "1.17549e-38", "1.4e-45"),
    _case(
        "double", "0", "0.1", "1e15", "1e16", "123456789012345678", "1e-5", "5e-324", "2.2250738585072014e-308",
        "-1.7976931348623157e308", "1.7976931348623157e308",
    ),
    _case("float(10,2) unsigned", "0", "0.25", "1234567.5"),
    _case("double(20,4)", "-1234567890.1234", "0"),
    _case("bit(1)", "b'0'", "b'1'"),
    _case("bit(12)", "0", "4095"),
    _case("bit(64)", "0", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    _case("year", "0", "1901", "2155"),
)  # fmt: skip

_DATETIMES = ("1000-01-01 00:00:00", "1969-12-31 23:59:59", "2024-02-29 12:00:00", "9999-12-31 23:59:59")
_IMPOSSIBLE = ("0000-00-00 00:00:00", "2026-00-00 00:00:00", "2026-01-00 01:02:03", "2026-02-31 00:00:00")
_EARLY = ("0001-01-01 00:00:00", "0050-03-04 05:06:07", "0099-12-31 23:59:59")
"""Years that a server might have stored as they are: literals with four digits mean them."""

TIMES = (
    _case("date", *(f"'{text[:10]}'" for text in (*_DATETIMES, *_EARLY, *_IMPOSSIBLE))),
    _case("datetime", *(f"'{text}'" for text in (*_DATETIMES, *_EARLY, *_IMPOSSIBLE))),
    *(
        _case(
            f"datetime({digits})",
            *(f"'{text}.{'987654'[:digits]}'" for text in (*_DATETIMES, *_EARLY)),
            f"'2026-01-05 10:11:12.{'000001'[-digits:]}'", "'0000-00-00 00:00:00'",
        )
        for digits in range(1, 7)
    ),
    _case("timestamp null", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'"),
    *(
        _case(
            f"timestamp({digits}) null",
            f"'1970-01-01 00:00:01.{'000001'[-digits:]}'", f"'2038-01-19 03:14:07.{'999999'[:digits]}'",
            "'0000-00-00 00:00:00'",
        )
        for digits in range(1, 7)
    ),
    _case("time", "'-838:59:59'", "'-00:00:01'", "'00:00:00'", "'23:59:59'", "'24:00:00'", "'100:00:00'", "'838:59:59'"),
    *(
        _case(
            f"time({digits})",
            f"'-838:59:59.{'987654'[:digits]}'", f"'-00:00:00.{'000001'[-digits:]}'", f"'838:59:59.{'987654'[:digits]}'",
        )
        for digits in range(1, 7)
    ),
)  # fmt: skip

TEXTS = (
    _case("char(5)", "''", "'a'", "'  a'", "'ab  '", "'ééééé'"),
    _case("varchar(9)", "''", "' '", "'ab  '", "'NULL'", "'\\\\N'", "CHAR(0, 9, 10, 13, 127 USING utf8mb4)"),
    _texts("varchar(20)", "utf8mb3", "日本", "￿"),
    _texts("varchar(20)", "utf8mb4", "𠀀😀", "é"),
    _texts("varchar(20)", "latin1", "café €", "ÿþ"),
    _case("varchar(9) character set latin1", "X'818D8F909D'"),
    _texts("varchar(20)", "latin2", "łódź"),
    _texts("varchar(20)", "gbk", "第一", "丂"),
    _texts("varchar(20)", "gb2312", "第一"),
    _texts("varchar(20)", "big5", "許功蓋", "中文"),
    _texts("varchar(20)", "sjis", "表示ソ", "ｱｲｳ"),
    _texts("varchar(20)", "cp932", "①髙"),
    _texts("varchar(20)", "euckr", "한국"),
    _texts("varchar(20)", "ujis", "日本語"),
    _texts("varchar(20)", "koi8r", "Привет"),
    _texts("varchar(20)", "cp1251", "Привет"),
    _texts("varchar(20)", "greek", "αβγ"),
    _texts("varchar(20)", "ucs2", "日é"),
    _texts("varchar(20)", "utf16", "日😀"),
    _texts("varchar(20)", "utf32", "日😀"),
    _texts("varchar(20)", "ascii", "abc"),
    _case("tinytext", "''", "'é'", "REPEAT('x', 255)"),
    _case("text", "''", "REPEAT('é', 30000)"),
    _case("mediumtext", "''", "REPEAT('é', 60000)"),
    _case("longtext", "''", "'lang'"),
    _case("enum('a','it''s','é','')", "'a'", "'it''s'", "'é'", "''"),
    _case("enum('a','b')", "'a'", "'not a label'"),
    _case("enum('第','b') character set gbk", "'第'", "'b'"),
    _case("set('x','y','it''s')", "''", "'x'", "'y,x'", "'x,y,it''s'"),
    _case("set('第','b') character set gbk", "'第,b'", "''"),
    _case("json", "'{}'", """'{"b": 1, "a": [1, 2.50, "é", null]}'""", "'null'", "'\"\"'", "'[]'", "'1e400'"),
)

BYTES = (
    _case("binary(4)", "X''", "X'61'", "X'00000000'", "X'61000000'", "X'FFFEFDFC'"),
    _case("varbinary(9)", "X''", "X'00'", "X'6100'", "X'FFFE'", "'NULL'"),
    _case("varchar(9) character set binary", "X''", "X'80FF'"),
    _case("tinyblob", "X''", "X'00'", "X'FF'"),
    _case("blob", "X''", "X'E282AC'", "REPEAT(X'00', 65535)"),
    _case("mediumblob", "X''", "REPEAT(X'FF', 70000)"),
    _case("longblob", "X''", "X'0A0D00'"),
    _case("point", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.5 1e300)', 4326)"),
    _case("linestring", "ST_GeomFromText('LINESTRING(0 0, 1 1)')"),
    _case("polygon", "ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')"),
    _case("multipoint", "ST_GeomFromText('MULTIPOINT(0 0, 1 1)')"),
    _case("multilinestring", "ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))')"),
    _case("multipolygon", "ST_GeomFromText('MULTIPOLYGON(((0 0, 0 1, 1 1, 0 0)))')"),
    _case("geometrycollection", "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))')"),
    _case("geometry", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')"),
)

OTHERS = (
    _case(
        "inet6", "'::'", "'2001:db8::ff00:42:8329'", "'::ffff:192.0.2.128'", "'::1.2.3.4'", "'::1'", "'fe80:0:0:1::'"
    ),
    _case("inet4", "'0.0.0.0'", "'255.255.255.255'"),
    _case(
        "uuid",
        "'00000000-0000-0000-0000-000000000000'",
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'f81d4fae-7dec-71d0-a765-00a0c91e6bf6'",
        "'01890a5d-ac96-774b-bcce-b302099a8057'",
    ),
)

CASES = (*NUMBERS, *TIMES, *TEXTS, *BYTES, *OTHERS)

_MYSQLS_OWN = {
    "decimal(38,38)": _case("decimal(38,30)", "-0." + "9" * 30, "0." + "0" * 29 + "1"),
    "point": _case("point", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.5 60)', 4326)"),
    "json": _case("json", "'{}'", """'{"b": 1, "a": [1, 2.50, "é", null]}'""", "'null'", "'\"\"'", "'[]'", "'-7'"),
    "geometrycollection": _case(
        "geomcollection", "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))')"
    ),
}
"""What MySQL has instead, whose decimals end after 30 digits, whose points lie on the globe, and whose JSON has no 1e400."""

OF_MYSQL = tuple(_MYSQLS_OWN.get(case.declared, case) for case in (*NUMBERS, *TIMES, *TEXTS, *BYTES))
"""The types of MySQL, as it calls them itself."""


def column(number: int) -> str:
    """The column of the case with a number in the table ``types``."""
    return f"c{number:03d}"


def statements(cases: Sequence[TypeCase] = CASES) -> tuple[str, ...]:
    """One table with a column for each case and a row for each value, told as new, as old and as deleted."""
    columns = ", ".join(f"{column(number)} {case.declared}" for number, case in enumerate(cases))
    rows = zip_longest(*(case.values for case in cases), fillvalue="NULL")
    return (
        "CREATE DATABASE d",
        "USE d",
        "SET sql_mode = 'ALLOW_INVALID_DATES', NAMES utf8mb4, time_zone = '+00:00', TIMESTAMP = 1767571200",
        f"CREATE TABLE types (id INT PRIMARY KEY, {columns})",
        *(f"INSERT INTO types VALUES ({place}, {', '.join(row)})" for place, row in enumerate(rows, 1)),
        "INSERT INTO types (id) VALUES (0)",
        "UPDATE types SET id = id + 100",
        "INSERT INTO types SELECT id + 100, "
        + ", ".join(column(number) for number in range(len(cases)))
        + " FROM types",
        "DELETE FROM types WHERE id >= 200",
    )
