"""Sums of rows: the first 60 bits of MD5 over a text of each row, added up.

A database computes them with functions that it has (``stages/sum_sql.py``), so that two sides are compared without moving a row.
The text of a row has the values that are not NULL, each behind the tag of its column. So a new column of which all rows are NULL
leaves every text as it was, and so does the order of columns. Values of free length stand behind their length in bytes; long ones
are told by an MD5 of their own, since a server joins no more bytes than ``max_allowed_packet``.

Python's MD5 takes 0.48 microseconds for the text of a row with seven columns, of which Arrow makes the text in 0.25; DuckDB's
MD5 over the same Arrow column took 0.59, and all of it in DuckDB 1.07.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import decimal_arguments

Sums: TypeAlias = npt.NDArray[np.int64]
"""The sums of rows, one number of 60 bits for each."""

LONG = 1000
"""The most bytes of a value that stands in the text as it is."""

_ARROW_IS_PLAIN = 6
"""The scale up to which Arrow writes a decimal without an exponent, whatever its digits."""

_EMPTY = pa.scalar(b"")


@dataclass(frozen=True, slots=True)
class SummedColumn:
    """A column in the text of rows, with its name and lake type in the table.

    Its ``tag`` is the number of its field.
    """

    tag: int
    name: str
    type: str

    @property
    def kind(self) -> str:
        """The form of its texts.

        It is equal for types of which each value has one text, as ``int`` and ``bigint``.
        """
        arguments = decimal_arguments(self.type)
        if self.type in ("int", "bigint") or (arguments is not None and not arguments[1]):
            return "number"
        if arguments is not None:
            return f"number {arguments[1]}"
        return {"float": "double", "timestamp_ntz": "timestamp"}.get(self.type, self.type)


def row_sums(rows: pa.RecordBatch, columns: Sequence[SummedColumn]) -> Sums:
    """Return the sum of each row, from its columns in the order of their tags."""
    return hashes_of(row_texts(rows, columns))


def total(sums: Sums) -> int:
    """Return the exact sum of sums of rows, which may have more than 64 bits."""
    # Halves of 32 bits: 2**31 rows of them fit into 64 bits.
    return (int((sums >> 32).sum()) << 32) + int((sums & 0xFFFFFFFF).sum())


def row_texts(rows: pa.RecordBatch, columns: Sequence[SummedColumn]) -> pa.Array:
    """Return the text of each row, as bytes."""
    parts = list[pa.Array | pa.Scalar]()
    for column in sorted(columns, key=lambda one: one.tag):
        values = rows.column(column.name)
        if values.null_count < len(values):
            parts.append(tagged(column, values))
    if not parts:
        return pa.array([b""] * rows.num_rows, pa.binary())
    return pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement=b"")


def tagged(column: SummedColumn, values: pa.Array) -> pa.Array:
    """Return the part of each row's text that a column makes; null where the value is."""
    if is_free(values.type):
        texts = values.cast(pa.binary())
        sizes = pc.binary_length(texts)
        many = pc.greater(sizes, LONG)
        if pc.any(many).as_py():
            digests = [md5(one).hexdigest().encode() for one in texts.filter(many).to_pylist()]
            texts = pc.replace_with_mask(texts, many.fill_null(False), pa.array(digests, pa.binary()))
        lengths = sizes.cast(pa.string()).cast(pa.binary())
        return pc.binary_join_element_wise(f"{column.tag}=".encode(), lengths, b":", texts, _EMPTY)
    return pc.binary_join_element_wise(f"{column.tag}=".encode(), value_texts(values).cast(pa.binary()), b",", _EMPTY)


def is_free(kind: pa.DataType) -> bool:
    """Tell whether values of a type have texts of any length."""
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)


def value_texts(values: pa.Array) -> pa.Array:
    """Return values of a fixed form as texts: ``2026-01-05 10:00:00.000000``. Bits of floats stand as a number."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_floating(kind):
        values = values.cast(pa.float64()).view(pa.int64())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).cast(pa.timestamp("us"))
    elif pa.types.is_decimal(kind) and kind.scale > _ARROW_IS_PLAIN:
        return _decimal_texts(values)
    return values.cast(pa.string())


def _decimal_texts(values: pa.Array) -> pa.Array:
    """Return decimals without exponents: ``0.00000001``, where Arrow writes ``1E-8``."""
    scale = values.type.scale
    whole = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset
    ).cast(pa.string())  # fmt: skip
    negative = pc.starts_with(whole, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), scale + 1, "0")
    sign = pc.if_else(negative, "-", "")
    return pc.binary_join_element_wise(
        sign, pc.utf8_slice_codeunits(digits, 0, -scale), ".", pc.utf8_slice_codeunits(digits, -scale), ""
    )  # fmt: skip


def hashes_of(texts: pa.Array) -> Sums:
    """Return the first 60 bits of the MD5 of each text, as SQL's ``CONV(LEFT(MD5(t), 15), 16, 10)`` does."""
    digests = b"".join([md5(text).digest() for text in texts.to_pylist()])
    return (np.frombuffer(digests, ">u8")[::2] >> np.uint64(4)).astype(np.int64)
