"""Text from bytes in MySQL's character sets, whose names stand beside the values.

Bytes that are no text in their set become null and are named, never guessed.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, masked, offsets_of

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

_SEVERAL_BYTES = frozenset(
    {"big5", "ujis", "sjis", "euckr", "gb2312", "ucs2", "gbk", "utf16", "utf16le", "utf32", "cp932", "gb18030"}
)
_UNICODE = frozenset({"ucs2", "utf16", "utf16le", "utf32", "gb18030"})
_ONE_PLANE = frozenset({"utf8", "utf8mb3", "ucs2"})
"""Sets of Unicode without the characters beyond U+FFFF."""

# Characters of Python's codecs that are others at the server: its tables are older. Each byte was converted by MariaDB 10.11 and
# compared. The server makes the fullwidth backslash of sjis and ujis a plain one; it stays, so that no two texts become one.
_SERVERS_OWN = {
    "cp866": {0x2116: 0x207F, 0x00A4: 0x00B2}, "greek": {0x2018: 0x02BD, 0x2019: 0x02BC}, "hebrew": {0x00AF: 0x203E},
    "koi8u": {0x2219: 0x2022},
}  # fmt: skip

# Characters that Python's codecs have and the sets of servers lack, or have in another place.
_NOT_AT_SERVERS = {
    "big5": "\u02cd\u2574\uffe3", "cp1256": "\u0679\u0688\u0691\u06a9\u06ba\u06be\u06c1\u06d2", "greek": "\u037a\u20ac\u20af",
    "ujis": "\uff3c", "sjis": "\\\uff3c", "cp932": "\x80\uf8f0\uf8f1\uf8f2\uf8f3",
}  # fmt: skip

# MySQL's latin1 is cp1252 with the five bytes that cp1252 leaves out standing for themselves (MySQL manual, "West European
# Character Sets"), so every byte string is text.
_LATIN1 = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))


_LOOKED_AT = 1 << 11
"""Values of which one byte beyond ASCII makes all be looked at."""


def decoder(charset: bytes) -> Callable[[bytes], str] | None:
    """Return the function that turns bytes of a MySQL character set into text.

    The function raises UnicodeDecodeError. None stands for a set that is not known here.
    """
    name = charset.decode("ascii", "replace").lower()
    if name == "latin1":
        return lambda data: codecs.charmap_decode(data, "strict", _LATIN1)[0]
    if name.encode() in UTF8_NAMES:
        return lambda data: data.decode()
    codec, own = _CODECS.get(name), _SERVERS_OWN.get(name)
    if codec is None:
        return None
    return (lambda data: data.decode(codec)) if own is None else (lambda data: data.decode(codec).translate(own))


@lru_cache
def encoder(charset: bytes) -> Callable[[str], bytes] | None:
    """Return the function that turns text into bytes of a MySQL character set, as :func:`decoder` turns them back.

    The function raises UnicodeEncodeError where the set lacks a character. None stands for a set that is not known here.
    """
    name, decode = charset.decode("ascii", "replace").lower(), decoder(charset)
    if decode is None:
        return None
    codec = _CODECS.get(name) or ("ascii" if name == "ascii" else "utf-8")
    left_out = _NOT_AT_SERVERS.get(name, "")
    if name == "latin1" or (name in _CODECS and name not in _SEVERAL_BYTES):
        bytes_of = {ord(text): byte for byte in range(255, -1, -1) if (text := _character(bytes([byte]), decode))}
        for character in left_out:
            del bytes_of[ord(character)]
        return lambda text: codecs.charmap_encode(text, "strict", bytes_of)[0]
    lacking = frozenset(left_out) | (_ambiguous(decode) if name in _SEVERAL_BYTES - _UNICODE else frozenset())

    def encode(text: str) -> bytes:
        data = text.encode(codec)
        lacks = not lacking.isdisjoint(text) or (name in _ONE_PLANE and max(text, default="") > "\uffff")
        lacks = lacks or (
            name == "euckr" and len(data) > 2 * len(text)
        )  # syllables of several letters, which servers lack
        if lacks or _character(data, decode) != text:
            raise UnicodeEncodeError(codec, text, 0, len(text), "a character that the set lacks")
        return data

    return encode


def _ambiguous(decode: Callable[[bytes], str]) -> frozenset[str]:
    """Return the characters that several pairs of bytes stand for: nobody knows which of them a server has."""
    pairs = (bytes((first, second)) for first in range(0x80, 0x100) for second in range(0x40, 0x100))
    times = Counter(text for data in pairs if len(text := _character(data, decode)) == 1)
    return frozenset(text for text, count in times.items() if count > 1)


def _character(data: bytes, decode: Callable[[bytes], str]) -> str:
    """Return the text of bytes; the empty text where they are none."""
    try:
        return decode(data)
    except UnicodeDecodeError:
        return ""


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
        return _checked(values), bad
    except pa.ArrowInvalid:
        wrong = not_utf8(values)
        bad = wrong if bad is None else bad | wrong
        return pc.cast(_nulled_bytes(values, wrong), pa.string()), bad


def _checked(values: pa.Array) -> pa.Array:
    """Return bytes as text.

    Runs of ASCII are not looked at one by one: their greatest byte says what they are in a tenth of the time.

    Raises:
        ArrowInvalid: Some are not UTF-8.
    """
    offsets, buffer = offsets_of(values), values.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    for begin in range(0, len(values), _LOOKED_AT):
        end = min(begin + _LOOKED_AT, len(values))
        if data[offsets[begin] : offsets[end]].max(initial=0) >= 0x80:
            pc.cast(values.slice(begin, end - begin), pa.string())
    return masked(values, pa.string(), None if values.null_count == 0 else np.asarray(values.is_valid()))


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
