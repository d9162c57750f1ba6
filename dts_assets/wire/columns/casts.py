"""Casts of bytes to typed columns: one strict cast for all values of a type.

A slow way serves the few values that do not fit. A value that does not fit its type (a zero date, an overflow, letters in a
number) becomes null and is named, never guessed, whatever stands beside it. Text has a module of its own,
:mod:`dts_assets.wire.columns.texts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, DecimalException, Inexact, InvalidOperation
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import decimal_arguments
from dts_assets.wire.columns.buffers import Bools, masked, numbers_of, offsets_of

_UTC = pa.timestamp("us", tz="UTC")
_ARROW = {
    "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp": _UTC, "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip

# Years 1 to 9999: what date types of Spark, Python and the database itself have in common.
_DAYS = (-719162, 2932896)
MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)

_DATE = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?)?"
_ZONE = r"[+-]\d\d:?\d\d$|Z$"
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_WHOLE = r"^-?\d+$"
_REAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_SHORT = 40
"""The length up to which a text without an exponent is never rounded to zero.

Singles reach down to 1e-45.
"""

_FLOATING = r"(?i)" + _REAL + r"|^[+-]?(inf(inity)?|nan)$"
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation])


def arrow_type(lake_type: str) -> pa.DataType:
    """Return the Arrow type of a lake type.

    Raises:
        ValueError: the text is no lake type.
    """
    decimal = decimal_arguments(lake_type)
    if decimal is not None:
        return pa.decimal128(*decimal)
    if lake_type not in _ARROW:
        raise ValueError(f"{lake_type} is not a lake type")
    return _ARROW[lake_type]


@dataclass(frozen=True, slots=True)
class _Parser:
    """The way in which text becomes one type.

    ``strict`` parses all values or raises ArrowInvalid; ``plausible`` matches the texts that may fit; ``refused`` finds texts
    that Arrow takes although they do not fit, None where there are none.
    """

    strict: Callable[[pa.Array], pa.Array]
    plausible: str
    refused: Callable[[pa.Array, pa.Array], Bools | None] | None = None


def parse(values: pa.Array, lake_type: str, *, zone: str | None = None) -> tuple[pa.Array, Bools | None]:
    """Return typed values from ASCII text in binary values, and which values do not fit their type.

    Values that do not fit are null (the mask is None where all fit), and nulls stay null. ``zone`` (``+08:00`` or
    ``Asia/Shanghai``) is the zone of instants without an offset; None is UTC. ``string`` and ``binary`` are not parsed here.
    """
    parser = _parser(lake_type, zone if lake_type == "timestamp" else None)
    if (decimal := decimal_arguments(lake_type)) is not None:
        values = _castable(values, *decimal)
    texts = masked(values, pa.string(), _valid(values))
    try:
        parsed, bad = parser.strict(texts), None
    except pa.ArrowInvalid:
        bad = np.asarray(values.is_valid()) & ~matches(values, parser.plausible)
        kept, more = _without_unfit(_nulled(texts, bad), parser.strict)
        parsed, bad = kept, bad | more
    refused = parser.refused(parsed, texts) if parser.refused else None
    if refused is not None:
        parsed = pc.if_else(pa.array(refused), pa.scalar(None, parsed.type), parsed)
        bad = refused if bad is None else bad | refused
    return parsed, bad


@cache
def _parser(lake_type: str, zone: str | None) -> _Parser:
    kind = arrow_type(lake_type)

    def cast(texts: pa.Array) -> pa.Array:
        return pc.cast(texts, kind)

    if lake_type in ("int", "bigint"):
        return _Parser(cast, _WHOLE, _hexadecimal)
    if lake_type in ("float", "double"):
        return _Parser(cast, _FLOATING, _not_held)
    if lake_type == "boolean":
        return _Parser(cast, r"(?i)^(0|1|true|false)$")
    if lake_type == "date":
        return _Parser(cast, f"^{_DATE}$", _beyond(np.int32, _DAYS))
    if lake_type == "timestamp_ntz":
        return _Parser(cast, f"^{_DATE}{_TIME}$", _beyond(np.int64, MICROSECONDS))
    if lake_type == "timestamp":
        instants = _instants if zone is None else partial(_instants_in, zone=zone)
        return _Parser(instants, f"^{_DATE}{_TIME} ?({_ZONE.replace('$', '')})?$", _beyond(np.int64, MICROSECONDS))
    return _Parser(cast, _REAL)


def _instants(texts: pa.Array) -> pa.Array:
    """Return instants from texts such as ``2021-05-17 07:22:42 +00:00``.

    Tencent's page on the Protobuf demo (571/55396) shows this form alone. Other offsets are followed, and text without an
    offset is read as UTC, as a consumer of an early version of the stream found it to be.
    """
    plain = np.asarray(pc.fill_null(pc.ends_with(texts, " +00:00"), False))
    others = np.asarray(texts.is_valid()) & ~plain
    clocks = pc.binary_slice((_nulled(texts, others) if others.any() else texts).view(pa.binary()), 0, -7)
    instants = pc.cast(masked(clocks, pa.string(), _valid(clocks)), pa.timestamp("us")).view(_UTC)
    if not others.any():
        return instants
    checked = pc.cast(_nulled(texts, plain).view(pa.binary()), pa.string())  # regular expressions need UTF-8
    zoned = pc.replace_substring_regex(checked, r" ([+-]\d\d:?\d\d)$", r"\1")
    bare = pc.invert(pc.match_substring_regex(zoned, _ZONE))
    return pc.coalesce(instants, pc.cast(pc.if_else(bare, pc.binary_join_element_wise(zoned, "Z", ""), zoned), _UTC))


def _instants_in(texts: pa.Array, *, zone: str) -> pa.Array:
    """Return instants from wall clocks of a zone, ``2021-06-25 17:51:53``.

    A text with an offset of its own is followed.

    Raises:
        ArrowInvalid: the zone shows a clock twice or never, in the hour around a change of its offset.
    """
    try:
        return _in_zone(pc.cast(texts, pa.timestamp("us")), zone)
    except pa.ArrowInvalid:
        own = matches(texts.view(pa.binary()), _ZONE)
        if not own.any():
            raise
    clocks = _in_zone(pc.cast(_nulled(texts, own), pa.timestamp("us")), zone)
    return pc.coalesce(clocks, _instants(_nulled(texts, ~own)))


def _in_zone(clocks: pa.Array, zone: str) -> pa.Array:
    ahead = _ahead(zone)
    if ahead is None:
        return pc.assume_timezone(clocks, zone, ambiguous="raise", nonexistent="raise").view(_UTC)
    return pc.subtract(clocks, ahead).view(_UTC)


def clocks_in(instants: pa.Array, zone: str) -> pa.Array:
    """Return the wall clocks that a zone shows at instants."""
    ahead = _ahead(zone)
    if ahead is None:
        return pc.local_timestamp(instants.view(pa.timestamp("us", zone)))
    return pc.add(instants.view(pa.timestamp("us")), ahead)


def _ahead(zone: str) -> pa.Scalar | None:
    """Return how far a zone such as ``+08:00`` is ahead of UTC; None for one with a name."""
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return None
    minutes = int(offset.group(2)) * 60 + int(offset.group(3))
    return pa.scalar(timedelta(minutes=-minutes if offset.group(1) == "-" else minutes), pa.duration("us"))


def two_complement(values: pa.Array) -> pa.Array:
    """Return texts of 64 bits with each negative number as the unsigned number of the same bits."""
    texts = masked(values, pa.string(), _valid(values))
    negative = np.asarray(pc.fill_null(pc.starts_with(texts, "-"), False))
    if not negative.any():
        return values
    whole = negative & matches(values, r"^-\d{1,19}$")
    items = values.to_pylist()
    for row in np.flatnonzero(whole).tolist():
        number = int(items[row])
        if number >= -(1 << 63):
            items[row] = str(number + (1 << 64)).encode()
    return pa.array(items, pa.binary())


def _castable(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return decimals as texts that Arrow casts to their exact value, empty where they do not fit.

    Arrow's cast computes modulo 2 to the power of 128 and looks at the result: in decimal(38,0)
    340282366920938463463374607431768211457 was 1, and in decimal(38,38) 99 was a fraction. So digits are counted before. A text
    so short that it cannot reach 10 to the power of 38 is left alone, and so is one with no more characters on either side of
    the point than the type has digits, as servers print them.
    """
    offsets = offsets_of(values)
    doubtful = np.diff(offsets) > 38 - scale if len(values) else np.zeros(0, np.bool_)
    if has_exponent := _has_letter(values, "e"):
        doubtful = doubtful | matches(values, r"(?i)e")
    places = np.flatnonzero(doubtful)
    if not len(places):
        return values
    found = values.take(pa.array(places))
    lengths, points = np.diff(offsets_of(found)), pc.fill_null(pc.find_substring(found, "."), -1).to_numpy()
    whole = np.where(points < 0, lengths, points)
    odd = (whole > precision - scale) | (lengths - whole - 1 > scale)
    if has_exponent:
        odd |= matches(found, r"(?i)e")
    if not odd.any():
        return values
    real = matches(found, _REAL)
    items = values.to_pylist()
    for row, is_real in zip(places[odd].tolist(), real[odd].tolist(), strict=True):
        items[row] = _plain(items[row], precision, scale) if is_real else b""
    return pa.array(items, pa.binary())


def _plain(text: bytes, precision: int, scale: int) -> bytes:
    """Return a number without an exponent or needless digits; empty if it does not fit."""
    try:
        number = _EXACT.create_decimal(text.decode())
    except DecimalException:  # an exponent beyond all bounds
        return b""
    if not number:
        return b"0"
    if number.adjusted() >= precision - scale or number.adjusted() < -scale:
        return b""
    digits = number.normalize(_EXACT)
    if -int(digits.as_tuple().exponent) > scale:
        return b""
    return f"{digits:f}".encode()


def _has_letter(values: pa.Array, letter: str) -> bool:
    """Tell whether the bytes of an array hold a letter, in lower or upper case."""
    buffer, offsets = values.buffers()[2], offsets_of(values)
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]]
    # Digits, signs and points come before all letters, and the greatest byte is found in a tenth of the time.
    return bool(data.max(initial=0) > ord("@") and np.any((data | 0x20) == ord(letter)))


def _valid(values: pa.Array) -> Bools | None:
    return None if values.null_count == 0 else np.asarray(values.is_valid())


def matches(values: pa.Array, pattern: str) -> Bools:
    """Return which values match a pattern; bytes that are no text match nothing."""
    try:
        texts = pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        ascii_only = [value if value is not None and value.isascii() else None for value in values.to_pylist()]
        texts = pc.cast(pa.array(ascii_only, pa.binary()), pa.string())
    return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False))


def _nulled(texts: pa.Array, where: Bools) -> pa.Array:
    return masked(texts, pa.string(), np.asarray(texts.is_valid()) & ~where)


def _without_unfit(texts: pa.Array, strict: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, Bools]:
    """Return all values that fit, typed, and which values do not fit.

    Halves are tried until only single values fail.
    """
    bad = np.zeros(len(texts), np.bool_)
    waiting = [(0, len(texts))]
    while waiting:
        start, end = waiting.pop()
        try:
            strict(texts.slice(start, end - start))
        except pa.ArrowInvalid:
            if end - start == 1:
                bad[start] = True
            else:
                middle = (start + end) // 2
                waiting += [(start, middle), (middle, end)]
    return strict(_nulled(texts, bad)), bad


def _hexadecimal(parsed: pa.Array, texts: pa.Array) -> Bools | None:
    """Return which texts are hexadecimal: Arrow reads ``0xFF`` as a number and lets it wrap around."""
    if not _has_letter(texts, "x"):
        return None
    return np.asarray(parsed.is_valid()) & ~matches(texts.view(pa.binary()), _WHOLE)


def _not_held(parsed: pa.Array, texts: pa.Array) -> Bools | None:
    """Return which numbers the type does not hold.

    They became infinite or zero, which only words and zeros may, or are no numbers at all: Arrow reads ``nan(1)``.
    """
    numbers, there = numbers_of(parsed), np.asarray(parsed.is_valid())
    zero = numbers == 0
    if not _has_letter(texts, "e"):  # a zero of so few digits is one
        zero &= np.diff(offsets_of(texts)) > _SHORT if len(texts) else False
    places = np.flatnonzero(there & (zero | ~np.isfinite(numbers)))
    if not len(places):
        return None
    found, edge = texts.take(pa.array(places)).view(pa.binary()), numbers[places]
    word = matches(found, r"(?i)^[+-]?(inf(inity)?|nan)$")
    wrong = np.where(edge == 0, matches(found, r"^[^eE]*[1-9]"), ~word)
    if not wrong.any():
        return None
    refused = np.zeros(len(parsed), np.bool_)
    refused[places] = wrong
    return refused


def _beyond(dtype: type[np.signedinteger], bounds: tuple[int, int]) -> Callable[[pa.Array, pa.Array], Bools | None]:
    def refused(parsed: pa.Array, texts: pa.Array) -> Bools | None:
        numbers = np.frombuffer(parsed.buffers()[1], dtype, count=len(parsed)) if len(parsed) else np.zeros(0, dtype)
        if not len(numbers) or (numbers.min() >= bounds[0] and numbers.max() <= bounds[1]):
            return None
        wrong = ((numbers < bounds[0]) | (numbers > bounds[1])) & np.asarray(parsed.is_valid())
        return wrong if wrong.any() else None

    return refused
