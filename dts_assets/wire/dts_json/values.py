"""Values of records in JSON: each is a text ("JSON Demo Description", 571/61656, "MySQL data type conversion logic").

Numbers are texts equal to the value, times ``yyyy-MM-dd HH:mm:ss.milli``, timestamps numbers of milliseconds, and bytes
hexadecimal digits behind ``0x``. Times and timestamps become what the server prints of them, as in Avro.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import mysql_type
from dts_assets.wire.columns.buffers import Bools, binary_array, masked, offsets_of, run_lengths
from dts_assets.wire.columns.casts import matches
from dts_assets.wire.columns.clock_texts import AS_NEEDED, DATE, YEAR, clock_code, instant_texts
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values

Ints = npt.NDArray[np.int64]

NO_BYTES = 16
"""The kind, beside others, of a text that names no bytes although its column holds bytes."""

KEY = 64
"""Added to the code of a column that is part of the key."""

AS_SENT = 63
"""The code of a column whose texts are its values."""

_INSTANT, _BYTES = YEAR + 1, YEAR + 2
_DIGITS = 8

_MILLISECONDS = r"^\d{1,15}$"
_LAST_MILLISECOND = 253_402_300_799_999
"""The end of the year 9999."""

_CLOCK = r"^(\d{4,5}-\d\d-\d\d |-)?\d{2,3}:\d\d:\d\d(\.\d{1,6})?$"
_DAY = r"^(\d{4,5}-\d\d-\d\d) 00:00:00(\.0{1,6})?$"
_OF_YEAR = r"^(\d{4})-0[01]-0[01]( 00:00:00(\.0{1,6})?)?$"
_MOST_FRACTION = 6

_NO_DIGIT = 16
_NIBBLES = np.full(256, _NO_DIGIT, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789", np.uint8)] = np.arange(10)
for _letters in (b"abcdef", b"ABCDEF"):
    _NIBBLES[np.frombuffer(_letters, np.uint8)] = np.arange(10, 16)


def json_reading(zone: str) -> Reading:
    """Return the reading of values; ``zone`` (``+08:00``) is that of wall clocks that are declared to be instants."""

    def typed(
        values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
    ) -> tuple[pa.Array, Bools | None]:
        found, bad = typed_values(values, bucket, image, cells, zone=zone)
        malformed = (image.kinds[cells] & NO_BYTES) != 0
        if not malformed.any():
            return found, bad
        found = pc.if_else(pa.array(malformed), pa.scalar(None, found.type), found)
        return found, malformed if bad is None else bad | malformed

    return typed


@lru_cache(maxsize=1 << 12)
def column_code(original_type: str, is_key: bool) -> int:
    """Return the form of a column's values, its number of fractional digits, and whether it is a key."""
    code = clock_code(original_type)
    if mysql_type(original_type) == "binary":
        code = _BYTES * _DIGITS
    elif code % _DIGITS == AS_NEEDED:
        code = AS_SENT
    elif original_type.lstrip()[:9].lower() == "timestamp":
        code = _INSTANT * _DIGITS + code % _DIGITS
    return code + KEY * is_key


def as_stored(values: pa.Array, codes: Ints) -> tuple[pa.Array, Ints]:
    """Return values with times as the server prints them, and with bytes as they are.

    Beside them are the places of texts that name no bytes. ``codes`` are those of the columns of the values' own messages, so
    that no message changes how another is read. A text of another form is left as it is.
    """
    places = np.flatnonzero((codes % KEY != AS_SENT) & np.asarray(values.is_valid()))
    malformed = [np.zeros(0, np.int64)]
    if not len(places):
        return values, malformed[0]
    found, mine = values.take(pa.array(places)), codes[places] % KEY
    parts, rows = [values], np.arange(len(values))
    for code in np.unique(mine).tolist():
        some = np.flatnonzero(mine == code)
        rows[places[some]] = sum(map(len, parts)) + np.arange(len(some))
        mine_of_form = found.take(pa.array(some))
        if code // _DIGITS == _BYTES:
            part, bad = bytes_of_digits(mine_of_form)
            if bad is not None:
                malformed.append(places[some[bad]])
                part = pc.if_else(pa.array(bad), mine_of_form, part)
            parts.append(part)
        else:
            parts.append(_printed(mine_of_form, code // _DIGITS, code % _DIGITS))
    return pa.concat_arrays(parts).take(pa.array(rows)), np.concatenate(malformed)


def _printed(values: pa.Array, form: int, digits: int) -> pa.Array:
    """Return the values of one form."""
    if form == _INSTANT:
        return _instants(values, digits)
    if form == DATE:
        return _shortened(values, _DAY)
    if form == YEAR:
        return _shortened(values, _OF_YEAR)
    clocks = matches(values, _CLOCK)
    if not clocks.any():
        return values
    texts = pc.cast(masked(values, pa.binary(), clocks), pa.string())
    printed = pc.cast(_with_digits(texts, digits), pa.binary())
    return printed if clocks.all() else pc.if_else(pa.array(clocks), printed, values)


def _shortened(values: pa.Array, pattern: str) -> pa.Array:
    """Return dates and years without the parts that they have not."""
    whole = matches(values, pattern)
    if not whole.any():
        return values
    short = pc.replace_substring_regex(pc.cast(masked(values, pa.binary(), whole), pa.string()), pattern, r"\1")
    return pc.if_else(pa.array(whole), pc.cast(short, pa.binary()), values)


def _instants(values: pa.Array, digits: int) -> pa.Array:
    numbers = matches(values, _MILLISECONDS)
    found = pc.fill_null(pc.cast(masked(values, pa.string(), numbers), pa.int64()), 0).to_numpy()
    numbers &= found <= _LAST_MILLISECOND
    if not numbers.any():
        return values
    printed = instant_texts(found // 1000, found % 1000, np.full(len(found), digits))
    return printed if numbers.all() else pc.if_else(pa.array(numbers), printed, values)


def _with_digits(texts: pa.Array, digits: int) -> pa.Array:
    """Return clocks with so many digits of a fraction, or with more where these are not zero."""
    beyond = r"\.0+$" if not digits else rf"(\.\d{{{digits}}})0+$"
    texts = pc.replace_substring_regex(texts, beyond, "" if not digits else r"\1")
    if not digits:
        return texts
    points = pc.find_substring(texts, ".")
    sizes = pc.fill_null(
        pc.if_else(pc.less(points, 0), 0, pc.subtract(pc.binary_length(texts), pc.add(points, 1))), digits
    )
    texts = pc.if_else(pc.equal(points, -1), pc.binary_join_element_wise(texts, ".", ""), texts)
    for size in (one for one in np.unique(sizes.to_numpy()).tolist() if one < digits):
        texts = pc.if_else(pc.equal(sizes, size), pc.binary_join_element_wise(texts, "0" * (digits - size), ""), texts)
    return texts


def bytes_of_digits(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Return the bytes behind texts such as ``0x00ff``, and which texts have another form.

    Texts of another form are null, as nulls are; the mask is None if there are none. An empty text is no byte.
    """
    if not len(values):
        return values, None
    valid = np.asarray(values.is_valid())
    whole = valid & _are_digits(values)
    offsets, buffer = offsets_of(values), values.buffers()[2]
    first, lengths = int(offsets[0]), np.diff(offsets)
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, count=int(offsets[-1]))[first:]
    kept = np.repeat(whole, lengths)
    starts = (offsets[:-1] - first)[whole & (lengths > 0)]
    kept[starts], kept[starts + 1] = False, False
    nibbles = _NIBBLES[data[kept]]
    found = (nibbles[::2] << 4) | nibbles[1::2]
    made = run_lengths(np.where(whole, np.maximum(lengths - 2, 0) // 2, 0))
    bad = valid & ~whole
    return binary_array(
        pa.binary(), made, pa.py_buffer(found), None if whole.all() else whole
    ), bad if bad.any() else None


def _are_digits(values: pa.Array) -> Bools:
    """Return which values are empty, or ``0x`` with two digits for each byte."""
    offsets, buffer = offsets_of(values).astype(np.int64), values.buffers()[2]
    if buffer is None or not len(values):
        return np.ones(len(values), np.bool_)
    data = np.append(np.frombuffer(buffer, np.uint8, count=int(offsets[-1])), np.zeros(2, np.uint8))
    strange = np.concatenate([np.zeros(1, np.int64), np.cumsum(_NIBBLES[data] == _NO_DIGIT)])
    starts, ends = offsets[:-1], offsets[1:]
    marked = (data[starts] == ord("0")) & ((data[starts + 1] | 0x20) == ord("x"))
    begins = np.minimum(starts + 2, ends)
    digits = strange[ends] == strange[begins]
    sizes = ends - starts
    found: Bools = (sizes == 0) | ((sizes >= 2) & (sizes % 2 == 0) & marked & digits)
    return found
