"""Casts of bytes to typed columns: one strict cast for all values of a type.

A slow way serves the few values that do not fit. A value that does not fit its type (a zero date, an overflow, letters in a
number) becomes null and is named, never guessed. Text is cast from MySQL's character sets, whose names stand beside the values.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial

import numpy as np
import numpy.typing as npt
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
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)

_DATE = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?)?"
_ZONE = r"[+-]\d\d:?\d\d$|Z$"
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_WHOLE = r"^-?\d{1,19}$"
_REAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


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
        return _Parser(cast, r"(?i)" + _REAL + r"|^[+-]?(inf(inity)?|nan)$", _overflowed)
    if lake_type == "boolean":
        return _Parser(cast, r"(?i)^(0|1|true|false)$")
    if lake_type == "date":
        return _Parser(cast, f"^{_DATE}$", _beyond(np.int32, _DAYS))
    if lake_type == "timestamp_ntz":
        return _Parser(cast, f"^{_DATE}{_TIME}$", _beyond(np.int64, _MICROSECONDS))
    if lake_type == "timestamp":
        instants = _instants if zone is None else partial(_instants_in, zone=zone)
        return _Parser(instants, f"^{_DATE}{_TIME} ?({_ZONE.replace('$', '')})?$", _beyond(np.int64, _MICROSECONDS))
    return _Parser(cast, _REAL)


def _instants(texts: pa.Array) -> pa.Array:
    """Return instants from texts such as ``2021-05-17 07:22:42 +00:00``.

    Tencent's page on the Protobuf demo (571/55396) shows this form alone. Other offsets are followed, and text without an
    offset is read as UTC, as a consumer of an early version of the stream found it to be.
    """
    if len(texts) == texts.null_count or pc.all(pc.ends_with(texts, " +00:00")).as_py():
        clock = pc.binary_slice(texts.view(pa.binary()), 0, -7)
        return pc.cast(masked(clock, pa.string(), _valid(texts)), pa.timestamp("us")).view(_UTC)
    checked = pc.cast(texts.view(pa.binary()), pa.string())  # regular expressions need UTF-8
    zoned = pc.replace_substring_regex(checked, r" ([+-]\d\d:?\d\d)$", r"\1")
    bare = pc.invert(pc.match_substring_regex(zoned, _ZONE))
    return pc.cast(pc.if_else(bare, pc.binary_join_element_wise(zoned, "Z", ""), zoned), _UTC)


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
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return pc.assume_timezone(clocks, zone, ambiguous="raise", nonexistent="raise").view(_UTC)
    minutes = int(offset.group(2)) * 60 + int(offset.group(3))
    ahead = pa.scalar(timedelta(minutes=-minutes if offset.group(1) == "-" else minutes), pa.duration("us"))
    return pc.subtract(clocks, ahead).view(_UTC)


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
    data = texts.buffers()[2]
    if data is None or not np.any((np.frombuffer(data, np.uint8) | 0x20) == ord("x")):
        return None
    return np.asarray(parsed.is_valid()) & ~matches(texts.view(pa.binary()), _WHOLE)


def _overflowed(parsed: pa.Array, texts: pa.Array) -> Bools | None:
    """Return which numbers are too large for the type and became infinite; only the word may."""
    infinite = np.isinf(numbers_of(parsed)) & np.asarray(parsed.is_valid())
    if not infinite.any():
        return None
    wrong = infinite & ~matches(texts.view(pa.binary()), r"(?i)inf")
    return wrong if wrong.any() else None


def _beyond(dtype: type[np.signedinteger], bounds: tuple[int, int]) -> Callable[[pa.Array, pa.Array], Bools | None]:
    def refused(parsed: pa.Array, texts: pa.Array) -> Bools | None:
        numbers = np.frombuffer(parsed.buffers()[1], dtype, count=len(parsed)) if len(parsed) else np.zeros(0, dtype)
        if not len(numbers) or (numbers.min() >= bounds[0] and numbers.max() <= bounds[1]):
            return None
        wrong = ((numbers < bounds[0]) | (numbers > bounds[1])) & np.asarray(parsed.is_valid())
        return wrong if wrong.any() else None

    return refused


UTF8_NAMES = frozenset({b"", b"utf8", b"utf8mb3", b"utf8mb4", b"ascii", b"binary"})
"""Sets whose bytes are UTF-8 or are no text at all.

``binary`` is text exactly where it happens to be UTF-8.
"""

_CODECS = {
    "big5": "big5", "cp850": "cp850", "hp8": "hp_roman8", "koi8r": "koi8_r", "latin2": "iso8859_2", "ujis": "euc_jp",
    "sjis": "shift_jis", "hebrew": "iso8859_8", "tis620": "tis_620", "euckr": "euc_kr", "koi8u": "koi8_u",
    "gb2312": "gb2312", "greek": "iso8859_7", "cp1250": "cp1250", "gbk": "gbk", "latin5": "iso8859_9",
    "ucs2": "utf_16_be", "cp866": "cp866", "macce": "mac_latin2", "macroman": "mac_roman", "cp852": "cp852",
    "latin7": "iso8859_13", "cp1251": "cp1251", "utf16": "utf_16_be", "utf16le": "utf_16_le", "cp1256": "cp1256",
    "cp1257": "cp1257", "utf32": "utf_32_be", "cp932": "cp932", "gb18030": "gb18030",
}  # fmt: skip

# MySQL's latin1 is cp1252 with the five bytes that cp1252 leaves out standing for themselves (MySQL manual, "West European
# Character Sets"), so every byte string is text.
_LATIN1 = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))


def decoder(charset: bytes) -> Callable[[bytes], str] | None:
    """Return the function that turns bytes of a MySQL character set into text.

    The function raises UnicodeDecodeError. None stands for a set that is not known here.
    """
    name = charset.decode("ascii", "replace").lower()
    if name == "latin1":
        return lambda data: codecs.charmap_decode(data, "strict", _LATIN1)[0]
    if name.encode() in UTF8_NAMES:
        return lambda data: data.decode()
    codec = _CODECS.get(name)
    return None if codec is None else lambda data: data.decode(codec)


@dataclass(frozen=True, slots=True)
class Charsets:
    """The character set of every value of an image: a code per value into ``names``.

    Value ``len - 1`` is the empty value.
    """

    codes: npt.NDArray[np.int32]
    names: tuple[bytes, ...]

    def unknown_name(self, code: int) -> str | None:
        """Return the name of a set without a known codec; None for every other set."""
        name = self.names[code]
        return None if decoder(name) is not None else name.decode("ascii", "backslashreplace")


def charsets_of(names: pa.Array) -> Charsets | None:
    """Return the sets of values from their names; None if all are UTF-8, as in nearly every stream."""
    if _all_one_utf8_name(names):
        return None
    encoded = names.dictionary_encode()
    distinct = tuple(encoded.dictionary.to_pylist())
    if UTF8_NAMES.issuperset(distinct):
        return None
    # The value that stands for those not sent has no name either.
    return Charsets(np.append(encoded.indices.to_numpy(), np.int32(len(distinct))), (*distinct, b""))


def _all_one_utf8_name(names: pa.Array) -> bool:
    """Tell whether every name is empty or one name of UTF-8, from the bytes alone.

    No name is hashed, which would take time for every value.
    """
    offsets = offsets_of(names)
    data = names.buffers()[2]
    if data is None or offsets[-1] == offsets[0]:
        return True
    lengths = np.diff(offsets)
    length = int(lengths.max())
    used = np.frombuffer(data, np.uint8, count=int(offsets[-1] - offsets[0]), offset=int(offsets[0]))
    first = used[:length].tobytes()
    if first not in UTF8_NAMES or not np.all((lengths == 0) | (lengths == length)):
        return False
    return bool(np.all(used.reshape(-1, length) == np.frombuffer(first, np.uint8)))


def text_of(values: pa.Array, charsets: Charsets | None, cells: npt.NDArray[np.int32]) -> tuple[pa.Array, Bools | None]:
    """Return text from the bytes of ``cells``, and which values are no text in their character set.

    Those values are null.
    """
    bad: Bools | None = None
    if charsets is not None:
        values, bad = _recoded(values, charsets, cells)
    try:
        return pc.cast(values, pa.string()), bad
    except pa.ArrowInvalid:
        wrong = not_utf8(values)
        bad = wrong if bad is None else bad | wrong
        return pc.cast(_nulled_bytes(values, wrong), pa.string()), bad


def not_utf8(values: pa.Array) -> Bools:
    """Return which values are not UTF-8."""
    wrong = np.zeros(len(values), np.bool_)
    try:
        pc.cast(values, pa.string())
        return wrong
    except pa.ArrowInvalid:
        pass
    for number, value in enumerate(values.to_pylist()):
        if value is not None:
            try:
                value.decode()
            except UnicodeDecodeError:
                wrong[number] = True
    return wrong


def readable(values: pa.Array) -> pa.Array:
    """Return bytes as text where they are UTF-8, else as ``0x`` and hexadecimal digits."""
    wrong = not_utf8(values)
    if wrong.any():
        pairs = zip(values.to_pylist(), wrong.tolist(), strict=True)
        values = pa.array([f"0x{value.hex().upper()}".encode() if bad else value for value, bad in pairs], pa.binary())
    return pc.cast(values, pa.string())


def _recoded(values: pa.Array, charsets: Charsets, cells: npt.NDArray[np.int32]) -> tuple[pa.Array, Bools | None]:
    """Return the values with all other character sets turned into UTF-8, and which values could not be."""
    codes = charsets.codes[cells]
    foreign = np.zeros(len(values), np.bool_)
    recoded: list[bytes | None] = []
    where: list[npt.NDArray[np.int64]] = []
    for code in np.unique(codes).tolist():
        decode = decoder(charsets.names[code])
        if charsets.names[code].lower() in UTF8_NAMES or decode is None:  # an unknown set is text where it is UTF-8
            continue
        rows = np.flatnonzero((codes == code) & np.asarray(values.is_valid()))
        foreign[rows] = True
        where.append(rows)
        recoded += [_encoded(value, decode) for value in values.take(pa.array(rows)).to_pylist()]
    if not where:
        return values, None
    rows = np.concatenate(where)
    source = np.arange(len(values))
    source[rows] = len(values) + np.arange(len(rows))
    joined = pa.concat_arrays([_nulled_bytes(values, foreign), pa.array(recoded, pa.binary())])
    bad = np.zeros(len(values), np.bool_)
    bad[rows] = np.fromiter((value is None for value in recoded), np.bool_, len(recoded))
    return joined.take(pa.array(source)), bad


def _encoded(value: bytes, decode: Callable[[bytes], str]) -> bytes | None:
    try:
        return decode(value).encode()
    except UnicodeError:
        return None


def _nulled_bytes(values: pa.Array, where: Bools) -> pa.Array:
    return masked(values, pa.binary(), np.asarray(values.is_valid()) & ~where)
