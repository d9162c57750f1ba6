"""The dialect of MySQL and MariaDB.

Texts with a backslash or a control character are hexadecimal digits behind an introducer, ``_utf8mb4 X'..'``, which read alike
with and without NO_BACKSLASH_ESCAPES, and keep each statement on a line. Floats and doubles are written with an exponent, because
a number without one is a decimal there, which has no negative zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import quoted
from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.sql_dialect import Comparison, Literals, SqlColumn
from dts_assets.stages.sql_text import NUMBER, hex_digits, in_quotes, joined, matching
from dts_assets.wire.columns.lake_texts import decimal_texts, exact_texts, float_texts, moment_texts

_SPECIAL = r"[\\\x00-\x1f\x7f]"
"""The characters of texts that are written as hexadecimal digits."""

_BEYOND_ASCII = r"[^ -\[\]-~]"

_NUMBERS = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal", "numeric", "dec", "fixed"),
        *("float", "double", "real", "bit", "money", "number"),
    }
)
"""The kinds of columns whose values are numbers, also where they are kept as text."""

_GEOMETRY = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_NO_TEXTS = _NUMBERS | {"date", "datetime", "timestamp", "time", "year"}

_BINARY = re.compile(r"\s*binary\s*\((\d{1,4})\)", re.ASCII | re.I)
_ACTS_BY_ITSELF = re.compile(
    r"(/\*.*?\*/|\s)*(CREATE|ALTER)\s+(OR\s+REPLACE\s+)?(DEFINER\s*=\s*\S+(\s*\(\s*\))?\s+)?(AGGREGATE\s+)?(TRIGGER|EVENT)\b",
    re.I | re.S,
)
_BYTES = r"^0x([0-9A-F]{2})+$"
"""The text that stands for bytes which are no text in their character set."""

NO_SUCH_NUMBER = "MySQL has no number such as NaN or Infinity"


@dataclass(frozen=True, slots=True)
class MySql:
    """The dialect of MySQL and MariaDB, as a value."""

    name: str = "mysql"
    runs_ddl: bool = True

    @property
    def preamble(self) -> tuple[str, ...]:
        """The character set, the time zone, and a mode that takes dates such as ``0000-00-00``."""
        return (
            "SET NAMES utf8mb4",
            "SET time_zone = '+00:00'",
            "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
        )

    def quoted(self, name: str) -> str:
        """Return a name in backticks, which are doubled inside it."""
        return quoted(name)

    def literals(self, column: SqlColumn, values: pa.Array) -> Literals:
        """Return values of a column as it is given them."""
        return _literals(column, values, exactly=False)

    def unfit(self, column: SqlColumn, texts: pa.Array) -> Literals:
        """Return original texts: numbers as they are, bytes that are no text as bytes, all others in quotes."""
        if column.column.type == "string":
            as_bytes = matching(texts, _BYTES)
            hexed = joined("X'", pc.utf8_slice_codeunits(texts, 2), "'")
            return Literals(pc.if_else(pa.array(as_bytes), hexed, _numbers_or_texts(column, texts)))
        return Literals(_numbers_or_texts(column, texts))

    def compared(self, column: SqlColumn, *, whole: bool) -> Comparison | None:
        """Return the way in which a column is compared.

        Rows without a key are found by the very bytes of their texts: a collation takes ``tea``, ``Tea`` and ``tea `` for one.
        JSON is stored in an order of its own, and geometries cannot be told apart.
        """
        name, unfit = self.quoted(column.name), partial(self.unfit, column)
        if column.kind == "json" or column.kind in _GEOMETRY:
            return None
        if whole and column.column.type == "string" and column.kind not in _NO_TEXTS:
            return Comparison(
                f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)", lambda texts: Literals(_bytes_of(texts)), None
            )
        return Comparison(name, partial(_literals, column, exactly=True), unfit)

    def put(self, table: str, columns: Sequence[str], key: Sequence[str]) -> tuple[str, str]:
        """Return the words of ``REPLACE``, which needs no names of the key."""
        return f"REPLACE INTO {table} ({', '.join(map(self.quoted, columns))}) VALUES (", ")"

    def among_equals(self, table: str, conditions: pa.Array) -> pa.Array:
        """Return the conditions with ``LIMIT 1``."""
        return joined(conditions, " LIMIT 1")

    def use(self, database: str) -> str | None:
        """Return ``USE`` and the database."""
        return f"USE {self.quoted(database)};"

    def statement(self, sql: str) -> tuple[str, ...]:
        """Return the statement, between lines of the client where it has a semicolon inside.

        A trigger or an event would make changes that the changelog has, so its statement is a comment.
        """
        text = sql.strip().rstrip(";").rstrip()
        if _ACTS_BY_ITSELF.match(text):
            return tuple(f"-- {line}" for line in text.splitlines())
        if ";" not in text:
            return (f"{text}\n;" if "--" in text or "#" in text else f"{text};",)
        end = next(sign for sign in (f"//{'/' * more}" for more in range(len(text))) if sign not in text)
        return f"DELIMITER {end}", f"{text}\n{end}", "DELIMITER ;"


def _literals(column: SqlColumn, values: pa.Array, *, exactly: bool) -> Literals:
    """Return values as SQL; ``exactly`` writes floats by all digits of their double, as comparisons see them."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return Literals(pc.if_else(values, "TRUE", "FALSE"))
    if pa.types.is_integer(kind):
        digits = values.cast(pa.string())
        # As a number 0 is the year 2000 where years are compared, and 5 is 2005.
        return Literals(in_quotes(pc.utf8_lpad(digits, 4, "0")) if column.kind == "year" else digits)
    if pa.types.is_decimal(kind):
        return Literals(decimal_texts(values))
    if pa.types.is_floating(kind):
        return _doubles(values, exactly=exactly)
    if pa.types.is_binary(kind):
        return Literals(_binary(column, values))
    if pa.types.is_timestamp(kind):
        return Literals(in_quotes(moment_texts(values)))
    if pa.types.is_date(kind):
        return Literals(in_quotes(values.cast(pa.string())))
    return Literals(_numbers_or_texts(column, values))


def _doubles(values: pa.Array, *, exactly: bool) -> Literals:
    texts = (exact_texts if exactly else float_texts)(values)
    finite = as_mask(pc.fill_null(pc.is_finite(values), True))
    written = pc.if_else(pa.array(matching(texts, "e")), texts, joined(texts, "e0"))
    return Literals(written, {} if finite.all() else {NO_SUCH_NUMBER: ~finite})


def _binary(column: SqlColumn, values: pa.Array) -> pa.Array:
    """Return bytes as ``X'4A'``, those of BINARY(n) with the zeros at their end that the binlog leaves out."""
    digits = hex_digits(values)
    if found := _BINARY.match(column.source_type):
        digits = pc.utf8_rpad(digits, 2 * int(found[1]), "0")
    return pc.if_else(pc.equal(digits, ""), "''", joined("X'", digits, "'"))


def _numbers_or_texts(column: SqlColumn, texts: pa.Array) -> pa.Array:
    """Return texts in quotes, and as they are where they are numbers of a column of numbers.

    To compare a number with a text MySQL makes doubles of both.
    """
    is_number = column.kind in _NUMBERS or column.column.type not in (
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    )
    written = _texts(texts)
    return pc.if_else(pa.array(matching(texts, NUMBER)), texts, written) if is_number else written


def _texts(texts: pa.Array) -> pa.Array:
    return _hex_where(texts, matching(texts, _SPECIAL), "_utf8mb4 X'")


def _bytes_of(texts: pa.Array) -> pa.Array:
    """Return texts as the bytes that they have in UTF-8, readable where a character set cannot change them."""
    return _hex_where(texts, matching(texts, _BEYOND_ASCII), "X'")


def _hex_where(texts: pa.Array, mask: Mask, introducer: str) -> pa.Array:
    """Return texts in quotes, those of a mask as hexadecimal digits."""
    quotes = in_quotes(texts)
    if not mask.any():
        return quotes
    rows = pa.array(np.flatnonzero(mask))
    return pc.replace_with_mask(quotes, pa.array(mask), joined(introducer, hex_digits(texts.take(rows)), "'"))
