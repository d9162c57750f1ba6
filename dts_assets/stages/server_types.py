"""Source types as conversions see them: a kind and limits.

The figures are MySQL's ("Data Type Storage Requirements", "Numeric Type Attributes"); a real MariaDB judges them in tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from dts_assets.model.columns import mysql_type
from dts_assets.wire.ddl.column_types import DeclaredType, declared_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from dts_assets.wire.ddl.tokens import Reader, Unreadable, readings
from dts_assets.wire.ddl.told_schemas import ToldColumn

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BYTES_IN_TEXT = {
    "tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295,
    "tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295,
}  # fmt: skip


class Kind(StrEnum):
    """A family of types whose values are converted in one way."""

    WHOLE = "whole"
    BIT = "bit"
    YEAR = "year"
    DECIMAL = "decimal"
    REAL = "real"
    DATE = "date"
    CLOCK = "datetime"
    INSTANT = "timestamp"
    TIME = "time"
    TEXT = "text"
    BYTES = "bytes"
    ENUM = "enum"
    SET = "set"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(_BITS, Kind.WHOLE), "bit": Kind.BIT, "year": Kind.YEAR, "decimal": Kind.DECIMAL, "float": Kind.REAL,
    "double": Kind.REAL, "date": Kind.DATE, "datetime": Kind.CLOCK, "timestamp": Kind.INSTANT, "time": Kind.TIME,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), Kind.TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), Kind.BYTES),
    "enum": Kind.ENUM, "set": Kind.SET,
}  # fmt: skip
"""The kind of each type's first word; all other types are converted by no rule."""

NUMBERS = frozenset({Kind.WHOLE, Kind.BIT, Kind.YEAR, Kind.DECIMAL})
"""Kinds whose values are exact numbers."""

LABELLED = frozenset({Kind.ENUM, Kind.SET})


@dataclass(frozen=True)
class ServerType:
    """A column's type at the source, with the lake type that its values have.

    ``charset`` is None for a type without one, and where it is not known.
    """

    declared: DeclaredType
    charset: str | None
    lake_type: str

    @cached_property
    def kind(self) -> Kind:
        """The family of the type."""
        return _KINDS.get(self.declared.base, Kind.OTHER)

    @property
    def base(self) -> str:
        """The first word of the type, such as ``varchar``."""
        return self.declared.base

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of an enum or set, in their order."""
        return self.declared.labels

    @cached_property
    def length(self) -> int | None:
        """The most characters of a CHAR or VARCHAR, or bytes of a BINARY or VARBINARY.

        It is None for other types.
        """
        if self.base in ("char", "binary"):
            return self.declared.numbers[0] if self.declared.numbers else 1
        return self.declared.numbers[0] if self.base in ("varchar", "varbinary") else None

    @cached_property
    def most_bytes(self) -> int | None:
        """The most bytes of a TEXT or BLOB; None for other types."""
        return _BYTES_IN_TEXT.get(self.base)

    @cached_property
    def digits(self) -> int:
        """The digits of a fraction: behind the point of a decimal, of seconds of a time."""
        if self.kind is Kind.DECIMAL:
            return self.declared.numbers[1] if len(self.declared.numbers) > 1 else 0
        return self.declared.numbers[0] if self.declared.numbers else 0

    @cached_property
    def precision(self) -> int:
        """All digits of a decimal."""
        return self.declared.numbers[0] if self.declared.numbers else 10

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value of a whole number or a BIT."""
        if self.kind is Kind.BIT:
            return 0, (1 << (self.declared.numbers[0] if self.declared.numbers else 1)) - 1
        bits = _BITS[self.base]
        return (0, (1 << bits) - 1) if self.declared.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    @property
    def is_rounded_real(self) -> bool:
        """True for a float or double that is kept with a number of digits, such as ``double(10,2)``."""
        return self.kind is Kind.REAL and len(self.declared.numbers) == 2


_WIDEST = {
    "char": "char(255)", "varchar": "varchar(65535)", "enum": "varchar(65535)", "set": "varchar(65535)",
    "binary": "varbinary(255)", "varbinary": "varbinary(65535)",
}  # fmt: skip
"""The widest types for what events call a type that leave its arguments out."""


@lru_cache(maxsize=1 << 12)
def server_type(column: SchemaColumn) -> ServerType | None:
    """Return the type of a column; None for a type that is not known."""
    text = _WIDEST.get(column.type.lower(), column.type) if isinstance(column, ToldColumn) else column.type
    try:
        (tokens,) = readings(text, lambda *_: True)
        declared = declared_type(Reader(tokens))
    except (Unreadable, ValueError):
        return None
    lake_type = mysql_type(column.type)
    return None if lake_type is None else ServerType(declared, column.charset, lake_type)
