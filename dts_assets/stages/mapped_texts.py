"""Values as the texts that stand in the map of a frozen snapshot's new columns, and back."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.altered_rows import Cells
from dts_assets.wire.columns.lake_texts import held_as

_HEXADECIMAL = re.compile("0x(?:[0-9a-f]{2})*")


def as_texts(cells: Cells) -> Cells:
    """Return values as texts that name them exactly.

    One that does not fit its type is the source's text. Bytes are written in hexadecimal, ``0x00ff``: they need not be a text.
    """
    values = cells.values
    if pa.types.is_binary(values.type):
        shown = [None if one is None else f"0x{one.hex()}" for one in values.to_pylist()]
        texts = pa.array(shown, pa.string())
    else:
        texts = held_as(values, pa.string())
    return Cells(pc.coalesce(texts, cells.texts), pa.nulls(len(texts), pa.string()), cells.unknown, cells.filled)


def from_texts(texts: pa.Array, lake_type: str) -> pa.Array:
    """Return the inverse of :func:`as_texts` as far as a way of values needs it: bytes are bytes again."""
    if lake_type != "binary":
        return texts
    return pa.array([None if one is None else _bytes_of(one) for one in texts.to_pylist()], pa.binary())


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x")) if _HEXADECIMAL.fullmatch(text) else text.encode()
