"""Values of the PostgreSQL family, in its own texts, to typed columns."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, masked, offsets_of
from dts_assets.wire.columns.casts import matches, parse
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values

_HEX = r"^(\\x)?([0-9A-Fa-f]{2})*$"
_CLOCK = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?"
_PREFIX = b"\\x"
_NIBBLES = np.zeros(256, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789", np.uint8)] = np.arange(10)
_NIBBLES[np.frombuffer(b"abcdef", np.uint8)] = _NIBBLES[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def postgresql_reading(zone: str, *, as_digits: bool) -> Reading:
    """Return the reading of the PostgreSQL family, whose instants have their offset.

    Bytes are hexadecimal digits, ``as_digits``, as DRS writes them, or themselves.
    ``zone`` (``+08:00``) is that of instants without an offset, as of a ``timestamp without time zone`` that is declared so.
    """

    def typed(
        values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
    ) -> tuple[pa.Array, Bools | None]:
        if bucket.of_bytes and as_digits:
            return hexadecimal_bytes(values)
        if bucket.lake_type == "timestamp":
            return parse(_with_whole_offset(values), "timestamp", zone=zone)
        if bucket.lake_type == "boolean":
            return parse(_with_long_words(values), "boolean")
        return typed_values(values, bucket, image, cells)

    return typed


def hexadecimal_bytes(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    r"""Return the bytes behind texts such as ``62797465``, and which texts have another form.

    DRS writes ``bytea`` so, without the ``\x`` that PostgreSQL's own text begins with; with it a text is read alike. Texts of
    another form are null, as nulls are; the mask is None if there are none.
    """
    valid = np.asarray(values.is_valid())
    bad = valid & ~matches(values, _HEX)
    if not (kept := valid & ~bad).all():  # a null value may have bytes, and any number of them
        values = pc.if_else(pa.array(kept), values, pa.scalar(None, pa.binary()))
    if pc.any(pc.starts_with(values, _PREFIX)).as_py():
        values = pc.replace_substring_regex(values.cast(pa.string()), r"^\\x", "").cast(pa.binary())
    offsets, buffer = offsets_of(values), values.buffers()[2]
    start, end = int(offsets[0]), int(offsets[-1])
    digits = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, count=end)[start:]
    nibbles = _NIBBLES[digits]
    made = nibbles[0::2] << np.uint8(4) | nibbles[1::2]
    bounds = ((offsets - start) // 2).astype(np.int32)
    return binary_array(pa.binary(), bounds, pa.py_buffer(made), kept), bad if bad.any() else None


def _with_whole_offset(values: pa.Array) -> pa.Array:
    """Return instants with offsets of hours and minutes: ``+08:00`` for PostgreSQL's ``+08``.

    PostgreSQL shows the local mean time of old instants with seconds, ``1900-01-01 00:05:43+08:05:43``; these are in UTC then.
    """
    texts = masked(values, pa.string(), np.asarray(values.is_valid()))
    short = pc.fill_null(pc.match_substring_regex(texts, _CLOCK + r"[+-]\d\d$"), False)
    if pc.any(short).as_py():
        texts = pc.if_else(short, pc.binary_join_element_wise(texts, ":00", ""), texts)
    long = np.asarray(pc.fill_null(pc.match_substring_regex(texts, _CLOCK + r"[+-]\d\d:\d\d:\d\d$"), False))
    if long.any():
        items = texts.to_pylist()
        for row in np.flatnonzero(long).tolist():
            items[row] = _in_utc(items[row])
        texts = pa.array(items, pa.string())
    return texts.cast(pa.binary())


def _in_utc(text: str) -> str:
    """Return an instant in UTC, or the text itself where it is none that Python has."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(" ")
    except (ValueError, OverflowError):
        return text


def _with_long_words(values: pa.Array) -> pa.Array:
    """Return booleans as ``true`` and ``false`` where they are PostgreSQL's ``t`` and ``f``."""
    for short, long in ((b"t", b"true"), (b"f", b"false")):
        values = pc.if_else(pc.equal(values, pa.scalar(short, pa.binary())), pa.scalar(long, pa.binary()), values)
    return values
