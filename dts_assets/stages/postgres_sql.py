r"""The dialect of PostgreSQL.

Texts with a backslash or a control character are written as ``E'..'``, which reads alike whatever
``standard_conforming_strings`` says, and keeps each statement on a line. Floats stand in quotes, so that they are read with the
precision of their column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.sql_dialect import Comparison, Literals, SqlColumn
from dts_assets.stages.sql_text import NUMBER, hex_digits, in_quotes, joined, matching
from dts_assets.wire.columns.lake_texts import decimal_texts, moment_texts

_SPECIAL = r"[\\\x01-\x1f\x7f]"
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_INCOMPARABLE = frozenset(
    {
        *("json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "linestring"),
        *("multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection"),
    }
)
"""The kinds of columns that have no sign of equality, or one that means another thing."""

_NUMBERS = frozenset({"decimal", "numeric", "dec", "fixed", "int", "integer", "bigint", "smallint", "number"})

_MOMENTS = r"^-?infinity$| BC$"

NO_NUL = "it holds a text with NUL, which PostgreSQL cannot store"
NO_SUCH_DATE = "it holds a date that PostgreSQL does not have"


@dataclass(frozen=True, slots=True)
class PostgreSql:
    """The dialect of PostgreSQL, as a value."""

    name: str = "postgresql"
    runs_ddl: bool = False

    @property
    def preamble(self) -> tuple[str, ...]:
        """The encoding and the time zone of all texts, and the reading of quotes and dates."""
        return (
            "SET client_encoding = 'UTF8'", "SET standard_conforming_strings = on", "SET TIME ZONE 'UTC'",
            "SET datestyle = 'ISO, YMD'",
        )  # fmt: skip

    def quoted(self, name: str) -> str:
        """Return a name in double quotes, which are doubled inside it."""
        return '"' + name.replace('"', '""') + '"'

    def literals(self, column: SqlColumn, values: pa.Array) -> Literals:
        """Return values of a column as it is given them."""
        kind = values.type
        if pa.types.is_boolean(kind):
            return Literals(pc.if_else(values, "TRUE", "FALSE"))
        if pa.types.is_integer(kind):
            return Literals(values.cast(pa.string()))
        if pa.types.is_decimal(kind):
            return Literals(decimal_texts(values))
        if pa.types.is_floating(kind):
            return Literals(in_quotes(_floats(values)))
        if pa.types.is_binary(kind):
            digits = pc.utf8_lower(hex_digits(values))
            return Literals(pc.if_else(pc.equal(digits, ""), "''", joined("'\\x", digits, "'::bytea")))
        if pa.types.is_timestamp(kind):
            return Literals(joined("'", moment_texts(values), "'" if kind.tz is None else "+00'"))
        if pa.types.is_date(kind):
            return Literals(in_quotes(values.cast(pa.string())))
        return self._texts(column, values)

    def unfit(self, column: SqlColumn, texts: pa.Array) -> Literals:
        """Return original texts; dates that no calendar has are refused."""
        if column.column.type in ("date", "timestamp", "timestamp_ntz"):
            return Literals(in_quotes(texts), _some({NO_SUCH_DATE: _valid(texts) & ~matching(texts, _MOMENTS)}))
        return self._texts(column, texts)

    def compared(self, column: SqlColumn, *, whole: bool) -> Comparison | None:
        """Return the way in which a column is compared; None where its type has no sign of equality."""
        if column.kind in _INCOMPARABLE:
            return None
        return Comparison(self.quoted(column.name), partial(self.literals, column), partial(self.unfit, column))

    def put(self, table: str, columns: Sequence[str], key: Sequence[str]) -> tuple[str, str]:
        """Return the words of an insert that updates the row with its key."""
        names = ", ".join(map(self.quoted, columns))
        others = [f"{self.quoted(name)} = EXCLUDED.{self.quoted(name)}" for name in columns if name not in key]
        then = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        keys = ", ".join(map(self.quoted, key))
        return f"INSERT INTO {table} ({names}) VALUES (", f") ON CONFLICT ({keys}) {then}"

    def among_equals(self, table: str, conditions: pa.Array) -> pa.Array:
        """Return the condition of the place of one row that meets the conditions."""
        return joined(f"ctid = (SELECT ctid FROM {table} WHERE ", conditions, " LIMIT 1)")

    def use(self, database: str) -> str | None:
        """Return None: all statements of the source are comments."""
        return None

    def statement(self, sql: str) -> tuple[str, ...]:
        """Return the statement as comments: its dialect is that of the source."""
        return tuple(f"-- {line}" for line in sql.strip().splitlines())

    def _texts(self, column: SqlColumn, texts: pa.Array) -> Literals:
        refused = _some({NO_NUL: matching(texts, r"\x00")})
        written = _quoted(texts)
        if column.kind in _NUMBERS or column.column.type not in ("string", "binary"):
            written = pc.if_else(pa.array(matching(texts, NUMBER)), texts, written)
        return Literals(written, refused)


def _some(refused: dict[str, Mask]) -> dict[str, Mask]:
    return {reason: rows for reason, rows in refused.items() if rows.any()}


def _valid(texts: pa.Array) -> Mask:
    return as_mask(texts.is_valid())


def _floats(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    for found, wanted in (("^nan$", "NaN"), ("^inf$", "Infinity"), ("^-inf$", "-Infinity"), ("^-nan$", "NaN")):
        texts = pc.replace_substring_regex(texts, found, wanted)
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts in quotes, behind an E where they have backslashes or control characters."""
    quotes, special = in_quotes(texts), matching(texts, _SPECIAL)
    if not special.any():
        return quotes
    some = pc.replace_substring(quotes.take(pa.array(np.flatnonzero(special))), "\\", "\\\\")
    for number in (*range(1, 0x20), 0x7F):
        some = pc.replace_substring(some, chr(number), _ESCAPES.get(chr(number), f"\\x{number:02x}"))
    return pc.replace_with_mask(quotes, pa.array(special), joined("E", some))
