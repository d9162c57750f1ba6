"""Values of the PostgreSQL family, in its own texts, to typed columns."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, masked, numbers_of, offsets_of, run_lengths, valid
from dts_assets.wire.columns.casts import MICROSECONDS, parse
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values

_CLOCK = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?"
_PREFIX = b"\\x"
_NO_NIBBLE = 255
_NIBBLES = np.full(256, _NO_NIBBLE, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789", np.uint8)] = np.arange(10)
_NIBBLES[np.frombuffer(b"abcdef", np.uint8)] = _NIBBLES[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_UTC = pa.timestamp("us", tz="UTC")
_ZERO = np.uint8(ord("0"))
_HOUR = 3_600_000_000
_DAY, _CLOCK_AND_HOURS = len("2010-01-01"), len(" 14:30:00+08")


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
            return instants_with_offsets(values, zone)
        if bucket.lake_type == "boolean":
            return parse(_with_long_words(values), "boolean")
        return typed_values(values, bucket, image, cells)

    return typed


def hexadecimal_bytes(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    r"""Return the bytes behind texts such as ``62797465``, and which texts have another form.

    DRS writes ``bytea`` so, without the ``\x`` that PostgreSQL's own text begins with; with it a text is read alike. Texts of
    another form are null, as nulls are; the mask is None if there are none.
    """
    offsets, buffer = offsets_of(values), values.buffers()[2]
    first, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, count=end)[first:]
    starts, lengths, there = offsets[:-1] - first, np.diff(offsets), valid(values)
    prefixed = np.flatnonzero(there & (lengths >= len(_PREFIX)))
    for place, byte in enumerate(_PREFIX):
        prefixed = prefixed[data[starts[prefixed] + place] == byte]
    nibbles, used = _NIBBLES[data], np.ones(len(data), np.bool_)
    for place in range(len(_PREFIX)):
        used[starts[prefixed] + place] = False
    lengths = lengths.copy()
    lengths[prefixed] -= len(_PREFIX)
    bad = there & (lengths % 2 == 1)
    others = np.flatnonzero((nibbles == _NO_NIBBLE) & used)
    bad[np.searchsorted(starts, others, side="right") - 1] = True
    bad &= there
    kept = there & ~bad
    if not kept.all():  # a null value may have bytes, and any number of them
        used &= np.repeat(kept, np.diff(offsets))
        lengths[~kept] = 0
    nibbles = nibbles if used.all() else nibbles[used]
    made = nibbles[0::2] << np.uint8(4) | nibbles[1::2]
    return binary_array(pa.binary(), run_lengths(lengths // 2), pa.py_buffer(made), kept), bad if bad.any() else None


def instants_with_offsets(values: pa.Array, zone: str) -> tuple[pa.Array, Bools | None]:
    """Return instants, ``2010-01-01 14:30:00.125+08``, and which texts are none.

    ``zone`` is that of texts without an offset. Offsets of whole hours, as nearly every instant has them, are taken off by their
    places alone.
    """
    sent = valid(values)
    usual = _with_hours(values, sent)
    instants = _instants_with_hours(values, usual) if usual.any() else None
    if instants is None:
        return parse(_with_whole_offset(values), "timestamp", zone=zone)
    others = sent & ~usual
    if not others.any():
        return instants, None
    rest, bad = parse(_with_whole_offset(masked(values, pa.binary(), others)), "timestamp", zone=zone)
    return pc.coalesce(instants, rest), bad


def _with_hours(values: pa.Array, sent: Bools) -> Bools:
    """Return which texts look like a clock with an offset of hours: ``2010-01-01 14:30:00+08``."""
    offsets, buffer = offsets_of(values), values.buffers()[2]
    found = sent & (np.diff(offsets) >= _DAY + _CLOCK_AND_HOURS)
    if buffer is None:
        return found
    data, starts, ends = np.frombuffer(buffer, np.uint8), offsets[:-1][found], offsets[1:][found]
    signs, tens, ones = (
        data[ends - 3],
        data[ends - 2] - _ZERO,
        data[ends - 1] - _ZERO,
    )  # no digits wrap to more than nine
    found[found] = (
        (data[starts + _DAY] == ord(" "))
        & ((signs == ord("+")) | (signs == ord("-")))
        & ((tens < 2) & (ones <= 9) | (tens == 2) & (ones <= 3))
    )
    return found


def _instants_with_hours(values: pa.Array, usual: Bools) -> pa.Array | None:
    """Return the instants of those texts that look usual.

    None stands for texts of which any is no instant, or beyond all of them.
    """
    texts = masked(values, pa.binary(), None if usual.all() else usual)
    try:
        clocks = pc.cast(pc.cast(pc.binary_slice(texts, 0, -3), pa.string()), pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    data, ends = np.frombuffer(values.buffers()[2], np.uint8), offsets_of(values)[1:][usual]
    hours = (data[ends - 2] - _ZERO).astype(np.int64) * 10 + (data[ends - 1] - _ZERO)
    micros = np.zeros(len(values), np.int64)
    micros[usual] = numbers_of(clocks)[usual] - np.where(data[ends - 3] == ord("-"), -hours, hours) * _HOUR
    if int(micros.min()) < MICROSECONDS[0] or int(micros.max()) > MICROSECONDS[1]:
        return None
    return pa.array(micros, mask=~usual).view(_UTC)


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
