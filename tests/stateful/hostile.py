"""Names and values that MySQL allows and nobody expects, made up by a seed.

Limits are those of MySQL 8.0 (its manual, "Schema Object Names" and "Data Types"): a name has 1 to 64 characters of the Basic
Multilingual Plane but NUL, and does not end with a space; integers, decimals and dates have borders.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Final

from tests.flows.source_tables import (
    BIGINT,
    BLOB,
    DATE,
    INT,
    JSON,
    MONEY,
    TEXT,
    TIME,
    UNSIGNED,
    WALL_CLOCK,
    Field,
    Kind,
    Table,
)

MOST_CHARACTERS: Final = 64

_PIECES: Final = (
    "order", "Order", "订单", "ｗｉｄｅ", "ı", "ß", "é", "e\u0301", "\u200f", "\u2028", "\ufeff", "\u00a0", ".", "..", "/", "\\",
    "%", "%2E", "~", "`", '"', "'", ";", "--", "#", "*", "?", "[a]", "{}", "$", "&", "=", ":", "@", " ", "\t", "\n", "\x7f",
    "\x01", "0", "1e5", "null", "NaN", "select", "con", "_", "-", "s3://", "+00:00",
)  # fmt: skip

_TEXTS: Final = (
    "", " ", "\0", "a\0b", "NULL", "\\N", "null", "😀👨‍👩‍👧", "\ufeff", "\u2028", "\u202e", "\r\n", "\\", "'", '"', "`", ";--",
    "%s", "{0}", "${env:HOME}", "<b>", "é", "e\u0301", "İ", "ſ", "\x7f", "\x1b[31m",
    "0x41", "1e400", "-0", "2026-02-30", "𐀀" * 80, "x" * 80,
)  # fmt: skip


def name_of(random: Random) -> str:
    """A name: some pieces, sometimes as many as there is room for."""
    pieces = random.randint(1, 4) if random.random() < 0.7 else MOST_CHARACTERS
    name = "".join(random.choices(_PIECES, k=pieces))[:MOST_CHARACTERS].rstrip(" ")
    return name or name_of(random)


def folded(name: str) -> str:
    """A text that names share if anybody might take them for one."""
    return name.upper().casefold()


def names(random: Random, count: int) -> list[str]:
    """Different names; none begins with an underscore, and they differ in more than case.

    The layouts have columns with an underscore of their own, and in the MySQL family columns that differ in case are one column.
    """
    found: dict[str, str] = {}
    while len(found) < count:
        name = name_of(random)
        if not name.startswith("_"):
            found.setdefault(folded(name), name)
    return list(found.values())


def _among(kind: Kind, *borders: object) -> Kind:
    """A kind whose values are mostly its borders."""
    return Kind(
        kind.original_type,
        kind.send,
        lambda random: random.choice(borders) if random.random() < 0.8 else kind.make(random),
    )


KINDS: Final = (
    _among(INT, -(1 << 31), (1 << 31) - 1, 0, -1),
    _among(BIGINT, -(1 << 63), (1 << 63) - 1, 0),
    _among(UNSIGNED, Decimal(0), Decimal((1 << 64) - 1), Decimal(1 << 63)),
    _among(MONEY, Decimal("9999999999.99"), Decimal("-9999999999.99"), Decimal("0.00"), Decimal("0.01")),
    _among(TEXT, *_TEXTS),
    _among(BLOB, b"", b"\0", bytes(range(256)), b"\xff" * 65_535),
    _among(DATE, date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31), date(1970, 1, 1)),
    _among(WALL_CLOCK, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1)),
    _among(TIME, "-838:59:59", "838:59:59", "00:00:00"),
    _among(JSON, "null", "[]", '{"": {"": []}}', '"\\u0000"', "1e308", '"' + "j" * 4000 + '"'),
)


def tables(random: Random) -> list[Table]:
    """Three tables like those of a plain world, with columns and names of any kind; one of them is called ``items``."""
    first, second = names(random, 2)
    made = [
        Table("items", [Field("id", INT, True), Field("n", INT)]),
        Table(first, [Field("a", INT, True), Field("b", INT, True)]),
        Table(second, [Field("n", INT)]),
    ]
    for table in made:
        known = {column.name for column in table.columns}
        for name in names(random, random.randint(2, 5)):
            if folded(name) not in known:
                table.columns.append(Field(name, random.choice(KINDS)))
    return made


def quoted(name: str) -> str:
    """A name as a statement quotes it: ``a`b`` between backquotes, with the one inside doubled."""
    return "`" + name.replace("`", "``") + "`"


def glob_of(name: str) -> str:
    """A glob that names a table: ``?`` stands for each character that has a sense of its own in one."""
    return "".join("?" if sign in ".*?[]" else sign for sign in name)
