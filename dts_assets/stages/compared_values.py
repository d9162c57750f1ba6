"""Values of the lake and of a server in one form, in which equal values are equal texts.

A value of the lake becomes a text by its own type. A server gives texts, by an expression for each column; both are then brought
to one form by rules for numbers and clocks. NULL stays NULL.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import quoted
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.sql_text import hex_digits
from dts_assets.wire.columns.lake_texts import decimal_texts, moment_texts

WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "bit", "year"})
FRACTIONS = frozenset({"decimal", "numeric"})
FLOATS = frozenset({"float", "double", "real"})
CLOCKS = frozenset({"date", "datetime", "timestamp", "time"})

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", re.ASCII)

UNFIT = "\x01"
"""The character before a text of the lake that did not fit its column."""


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column of the lake with its name and type there, and the server's column."""

    name: str
    type: pa.DataType
    server: ServerColumn

    @property
    def expression(self) -> str:
        """The expression by which the server gives its values as texts.

        Bytes are hexadecimal digits; floats have all digits of their double.
        """
        name, kind = quoted(self.server.name), self.server.type
        if _is_bytes(self.type):
            return f"HEX({name})"
        if kind == "bit":
            return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"
        if kind in FLOATS:
            return f"CAST({name} + 0e0 AS CHAR)"
        if kind in WHOLE or kind in FRACTIONS or kind in CLOCKS:
            return f"CAST({name} AS CHAR)"
        return f"CONVERT({name} USING utf8mb4)"

    def literal(self, text: str) -> str:
        """Return a text of the common form as a literal of SQL.

        The server compares it as the column's value.
        """
        if _is_bytes(self.type):
            return f"X'{text}'"
        # A number in a literal of text would be compared as a float.
        if self.server.type in WHOLE | FRACTIONS | FLOATS and _NUMBER.fullmatch(text):
            return text
        return f"_utf8mb4 X'{text.encode().hex()}'"


def of_lake(values: pa.Array, kind: str) -> pa.Array:
    """Return values of the lake in the common form; ``kind`` is the server's type of their column."""
    lake_type = values.type
    if _is_bytes(lake_type):
        return hex_digits(values)
    if pa.types.is_decimal(lake_type):
        return _in_form(decimal_texts(values), lake_type, kind)
    if pa.types.is_floating(lake_type):
        return _doubles(values.cast(pa.float64()))
    if pa.types.is_boolean(lake_type):
        return values.cast(pa.uint8()).cast(pa.string())
    if pa.types.is_timestamp(lake_type):
        return _in_form(moment_texts(values), lake_type, kind)
    return _in_form(values.cast(pa.string()), lake_type, kind)


def of_server(texts: pa.Array, lake_type: pa.DataType, kind: str) -> pa.Array:
    """Return a server's texts in the common form; ``lake_type`` is the lake's type of their column."""
    return _in_form(texts, lake_type, kind)


def unfit(texts: pa.Array, lake_type: pa.DataType, kind: str) -> pa.Array:
    """Return the source's texts of values that did not fit, in the common form and with a mark."""
    return pc.binary_join_element_wise(UNFIT, _in_form(texts, lake_type, kind), "")


def without_mark(texts: pa.Array) -> pa.Array:
    """Return texts without the mark of :func:`unfit`."""
    return pc.replace_substring_regex(texts, f"^{UNFIT}", "")


def is_unfit(texts: pa.Array) -> pa.Array:
    """Tell which texts have the mark of :func:`unfit`."""
    return pc.fill_null(pc.starts_with(texts, UNFIT), False)


def _in_form(texts: pa.Array, lake_type: pa.DataType, kind: str) -> pa.Array:
    if _is_bytes(lake_type):
        return texts
    if pa.types.is_floating(lake_type):
        return _of_doubles(texts)
    if kind in FLOATS:
        return _of_doubles(texts)
    if pa.types.is_integer(lake_type) or pa.types.is_decimal(lake_type) or kind in WHOLE or kind in FRACTIONS:
        return _numbers(texts)
    if pa.types.is_timestamp(lake_type) or kind in CLOCKS:
        return _clocks(texts)
    return _documents(texts) if kind == "json" else texts


def _numbers(texts: pa.Array) -> pa.Array:
    """Return digits without zeros that say nothing: ``5`` for ``0005``, ``1.5`` for ``1.50``, ``0`` for ``-0.00``."""
    shorter = pc.replace_substring_regex(texts, r"^(-?)0+([0-9])", r"\1\2")
    shorter = pc.replace_substring_regex(shorter, r"^(-?[0-9]+\.[0-9]*?)0+$", r"\1")
    shorter = pc.replace_substring_regex(shorter, r"^(-?[0-9]+)\.$", r"\1")
    return pc.replace_substring_regex(shorter, r"^-0$", "0")


def _clocks(texts: pa.Array) -> pa.Array:
    """Return clocks without zeros at the end of their fraction: ``10:00:00.5`` for ``10:00:00.500000``."""
    shorter = pc.replace_substring_regex(texts, r"(:[0-9]{2}\.[0-9]*?)0+$", r"\1")
    shorter = pc.replace_substring_regex(shorter, r"(:[0-9]{2})\.$", r"\1")
    shorter = pc.replace_substring_regex(shorter, r"^-(0+:00:00)$", r"\1")
    return pc.replace_substring_regex(shorter, r"^(-?)0*([0-9]{2}:)", r"\1\2")


def _of_doubles(texts: pa.Array) -> pa.Array:
    """Return texts of floats as those of their doubles; a text that is no number stays."""
    try:
        return _doubles(texts.cast(pa.float64()))
    except pa.ArrowInvalid:
        return texts


def _doubles(values: pa.Array) -> pa.Array:
    """Return doubles as texts that are equal where the numbers are; there is one zero."""
    return pc.add(values, 0.0).cast(pa.string())


def _documents(texts: pa.Array) -> pa.Array:
    """Return JSON in one order of keys: some servers store it in another one."""
    return pa.array([None if one is None else _document(one) for one in texts.to_pylist()], pa.string())


def _document(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return text


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
