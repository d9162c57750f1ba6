"""Every type of PostgreSQL with texts at its borders, and a table that has them all."""

from __future__ import annotations

from tests.dts_emulator.postgresql.followed_postgresql import Followed

BORDERS = {
    "smallint": ["-32768", "32767", "0"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["3.4028235e38", "1e-45", "-0", "0.1", "NaN", "Infinity", "-Infinity"],
    "double precision": ["1.7976931348623157e308", "5e-324", "-0", "0.1", "NaN", "-Infinity"],
    "numeric": ["0", "-0.000", "1e100", "123456789012345678901234567890123456789012345678901234567890.5", "NaN", "Infinity"],
    "numeric(38,10)": ["9999999999999999999999999999.9999999999", "-1.5"],
    "numeric(5,-2)": ["12300"],
    "money": ["-92233720368547758.08", "1234.5"],
    "boolean": ["t", "f"],
    "date": ["0001-01-01", "9999-12-31", "5874897-12-31", "4713-01-01 BC", "infinity", "-infinity"],
    "timestamp": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "294276-12-31", "4713-01-01 BC", "infinity"],
    "timestamptz": ["1900-01-01 00:00:00+00", "2026-01-05 10:00:00.123456+05:30", "9999-12-31 12:00:00+00", "infinity",
                    "0044-03-15 BC"],
    "time": ["00:00:00", "24:00:00", "23:59:59.999999"],
    "timetz": ["24:00:00-15:59", "00:00:00+15:59"],
    "interval": ["178000000 years", "-1 mons +2 days -03:00:00.000001", "0"],
    "char(3)": ["a", "", "äöü"],
    "varchar": ["", " a ", "it's", "line\nbreak", "茶🍵"],
    "text": ["unchanged-toast-datum", "null", "\\x00", "{}", '"'],
    "bytea": ["\\x", "\\x00ff", "\\x5c78"],
    "bit(3)": ["101", "000"],
    "bit varying": ["", "1", "0101010101"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "inet": ["192.168.0.1/24", "::1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "json": ['{"b": 1,  "a": [null, 1.50, "é"]}', "null"],
    "jsonb": ['{"b": 1, "a": 1.50}', "[]"],
    "xml": ["<a>x</a>"],
    "point": ["(1,2)"],
    "polygon": ["((0,0),(1,1))"],
    "tsvector": ["'a':1 'b'"],
    "integer[]": ["{}", "{1,NULL,3}", "{{1,2},{3,4}}"],
    "text[]": ['{"a,b","NULL",NULL,"q\\"x"}'],
    "int4range": ["empty", "[1,5)", "(,)"],
    "numrange": ["[1.5,2.5]"],
    "tsrange": ["[2010-01-01 14:30,2010-01-01 15:30)"],
    "tstzrange": ["[2010-01-01 14:30:00+08,)"],
    "daterange": ["[2010-01-01,2010-01-05)"],
    "oid": ["4294967295"],
    "mood": ["sad", "it's ok"],
    "pair": ['(1,"a,b")'],
    "us_postal_code": ["12345"],
}  # fmt: skip
"""Texts at the borders of types, and some within."""


def fill_every_type(followed: Followed) -> None:
    """Make the table ``every``, whose rows have the first, the second, ... of the values of each, and NULL behind the last."""
    followed.run(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')", "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN us_postal_code AS text CHECK (VALUE ~ '^\\d{5}$')",
        f"CREATE TABLE every (id int PRIMARY KEY, {', '.join(f'c{n} {kind}' for n, kind in enumerate(BORDERS))})",
    )  # fmt: skip
    cursor, values = followed.connection.cursor(), [*BORDERS.values()]
    for place in range(max(map(len, values)) + 1):
        row = [place, *(some[place] if place < len(some) else None for some in values)]
        cursor.execute(f"INSERT INTO every VALUES ({', '.join(['%s'] * len(row))})", row)
    cursor.execute("UPDATE every SET id = id + 100 WHERE id < 2")
    followed.read()
