"""Many documents in the syntax of MongoDB's shell at once, with usual constructors and numbers.

The bytes of many texts are looked at in whole columns. Outside of strings there are words (``ObjectId``, ``true``), numbers and
punctuation. The places of words and numbers are found first; then each usual constructor and each number is replaced by its
Extended JSON; then msgspec's parser reads every text, which it refuses if anything else was left in it.

The rules are those of :mod:`dts_assets.wire.documents.shell_syntax`, to which a text is left that is not known for certain. No
text is refused here, and none is read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json import dumps
from string import ascii_letters, digits
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.json import Decoder

from dts_assets.wire.columns.buffers import Bools, Words, binary_array, offsets_of, run_lengths
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.documents.shell_syntax import RESERVED, WITH_NUMBERS, Value, constructed

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.int8]

BLOCK = 3 << 17
"""The bytes of messages whose documents are read together: their columns stay in a processor's cache."""

_FEW = 1 << 13
"""The characters below which texts take less time one by one."""

_BEYOND = bytes(64)
"""Bytes behind all texts, so that there is something behind every place of them."""

_DIGIT, _OTHER = 1, 2
_CLASSES = bytes(
    _DIGIT if chr(one) in digits else _OTHER if chr(one) in ascii_letters + "+-." else 0 for one in range(256)
)
"""The class of each byte outside of strings: digits, other bytes of words and numbers, and punctuation."""

_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _ZERO, _ONE, _EIGHT, _MINUS, _POINT, _DOLLAR, _T, _Z, _COLON = b'"\\()018-.$TZ:'

_OBJECT_ID, _LONG, _DECIMAL, _DATE, _INT, _DOUBLE, _OTHER_CALL = range(7)
_NONE, _WORD_OF_JSON = -1, 7
_NAMES: Mapping[bytes, int] = {
    b"ObjectId": _OBJECT_ID, b"NumberLong": _LONG, b"NumberDecimal": _DECIMAL, b"ISODate": _DATE,
    b"true": _WORD_OF_JSON, b"false": _WORD_OF_JSON, b"null": _WORD_OF_JSON,
}  # fmt: skip
"""The words that are known, and the kind of value that each begins.

They have 16 letters at most, so that their first and their last eight bytes are all.
"""

_TEXTS = (
    b'{"$oid":"', b'{"$numberLong":"', b'{"$numberDecimal":"', b'{"$date":{"$numberLong":"', b'{"$numberInt":"',
    b'{"$numberDouble":"', b"", b'"}', b'"}}', b"",
)  # fmt: skip
"""Texts before a value of each kind, and behind a value."""

_BEHIND = np.array([7, 7, 7, 8, 7, 7, 9])
"""The number of the text behind the values of each kind."""

_CALL = re.compile(rb'(?:new +)?[A-Za-z]+\((?:[^"\\()/\x27]|"(?:[^"\\]|\\.)*+")*+\)', re.S)
"""A call with strings and numbers, such as ``new BinData(0, "AQID")``."""

_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""The bytes that a name of each size has in eight bytes."""

_NAME_BEGIN = 4
_TYPE_NAMES = np.array([int.from_bytes(name[:_NAME_BEGIN].encode(), "little") for name in RESERVED], np.uint64)
"""The first bytes of names that mean a type."""

_MOST_LETTERS, _INT_DIGITS, _MOST_DIGITS, _OBJECT_ID_DIGITS, _MOST_DECIMAL, _MOST_FRACTION = 16, 10, 19, 24, 34, 6
_EPOCH_MONTH = 1970 * 12
_CLOCK = (2, 3, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20)
"""The places of digits in ``("2026-01-05T00:00:00``."""

_VALUE, _REAL = Decoder(), Decoder(float)


def _units() -> npt.NDArray[np.float64]:
    """Return what each digit of a clock counts in its year, month, day and so on."""
    made = np.zeros((len(_CLOCK), 6))
    made[:4, 0] = 1000, 100, 10, 1
    for part in range(1, 6):
        made[2 + 2 * part : 4 + 2 * part, part] = 10, 1
    return made


def _place_of(sizes: Any, firsts: Any) -> Any:
    """Return the places of names in the tables: no two names share size and first letter."""
    return sizes << 5 | firsts & 31


def _tables() -> tuple[Words, Words, Words, Kinds]:
    """Return the first and the last bytes of names, which of the last matter, and their kinds."""
    heads, tails, masks = (np.zeros(_place_of(_MOST_LETTERS + 1, 31) + 1, np.uint64) for _ in range(3))
    kinds = np.full(len(heads), _NONE, np.int8)
    for name, kind in _NAMES.items():
        at = _place_of(len(name), name[0])
        heads[at], kinds[at] = int.from_bytes(name[:8], "little"), kind
        if len(name) > 8:
            tails[at], masks[at] = int.from_bytes(name[-8:], "little"), _MASKS[8]
    return heads, tails, masks, kinds


_UNITS = _units()
_HEADS, _TAILS, _TAIL_MASKS, _KINDS = _tables()


def documents_of(texts: Sequence[str]) -> Iterator[dict[str, Value] | None]:
    """Yield the document of each text, as :func:`dts_assets.wire.documents.shell_syntax.document_of` returns it.

    None stands for a text of which that function has to be asked. Each document is read when it is asked for: a document that is
    let go before the next one takes half of the time.
    """
    if sum(map(len, texts)) < _FEW:
        yield from (None for _ in texts)
        return
    block = _Block([text.encode() for text in texts])
    data, places = block.replaced()
    decode = _VALUE.decode
    for is_known, (start, end) in zip(block.known.tolist(), pairwise(places), strict=True):
        try:
            yield decode(data[start:end]) if is_known else None
        except MALFORMED:
            yield None


@dataclass(slots=True)
class _Parts:
    """Words and numbers outside of strings, in parts of one class of bytes: ``5.5`` has three parts.

    A part that has a kind stands for a value. The bytes from ``starts`` to ``ends`` are replaced by the text before values of
    the kind, by the bytes from ``froms`` to ``tos`` (or a made text, whose number ``texts`` has), and by the text behind.
    """

    starts: Places
    ends: Places
    kinds: Kinds
    froms: Places
    tos: Places
    texts: Places

    @classmethod
    def of(cls, starts: Places, ends: Places) -> _Parts:
        count = len(starts)
        return cls(starts, ends, np.full(count, _NONE, np.int8), starts.copy(), starts.copy(), np.full(count, _NONE))

    def replace(self, parts: Places, kind: int | Kinds, froms: Places, tos: Places, ends: Places) -> None:
        self.kinds[parts] = kind
        self.froms[parts], self.tos[parts], self.ends[parts] = froms, tos, ends


def _places(where: Bools | Bytes | Kinds) -> Places:
    """Return the places of what is not zero; numpy's own function for it takes longer to begin."""
    return where.nonzero()[0]


class _Block:
    """Texts behind one another.

    ``known`` are the texts that may be read here, ``quotes`` the places of quotes that begin and end strings, ``made`` texts that
    stand nowhere in the block, and ``count`` their number.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.raw = b"".join((*texts, _BEYOND))
        self.bounds: Places = run_lengths(np.array([len(text) for text in texts])).astype(np.int64)
        self.data: Bytes = np.frombuffer(self.raw, np.uint8)
        self.eights: Words = np.ndarray((len(self.raw) - 7,), np.dtype("<u8"), self.raw, strides=(1,))
        # No value has a brace outside of its strings: none reaches from any text into a text with these braces, or out of it.
        self.known: Bools = self.data[self.bounds[:-1]] == ord("{")
        self.known &= self.data[self.bounds[1:] - 1] == ord("}")
        self.quotes: Places = np.zeros(0, np.int64)
        self.made: list[pa.Array] = []
        self.count = 0

    def replaced(self) -> tuple[bytes, list[int]]:
        """Return all texts with JSON in the place of each constructor and number, and where each text begins."""
        starts, ends, is_digits = self._parts()
        parts = self._classified(_Parts.of(starts, ends), is_digits)
        chosen = _places(parts.kinds >= 0)
        count = 4 * len(chosen) + 1
        cuts = np.zeros(count + 1, np.int32)
        cuts[1:-1:4], cuts[2:-1:4], cuts[3:-1:4], cuts[4::4] = (
            column[chosen] for column in (parts.starts, parts.froms, parts.tos, parts.ends)
        )
        replaced_to, cuts[-1] = cuts[:-1:4].copy(), self.bounds[-1]
        pieces = binary_array(pa.binary(), cuts, pa.py_buffer(self.raw), None)
        every = pa.concat_arrays([pieces, pa.array(_TEXTS, pa.binary()), *self.made])
        kinds, texts = parts.kinds[chosen].astype(np.int64), parts.texts[chosen]
        wanted = np.arange(count)
        wanted[1::4] = count + kinds
        wanted[2::4] = np.where(texts < 0, wanted[2::4], count + len(_TEXTS) + texts)
        wanted[3::4] = count + _BEHIND[kinds]
        made = every.take(pa.array(wanted))
        before = np.searchsorted(replaced_to, self.bounds, "right") - 1
        places: list[int] = (offsets_of(made)[4 * before] + self.bounds - replaced_to[before]).tolist()
        return made.buffers()[2].to_pybytes(), places

    def _parts(self) -> tuple[Places, Places, Bools]:
        """Return the starts and ends of parts of words and numbers, and which parts are digits."""
        is_quote = self.data == _QUOTE
        escapes = _places(self.data == _BACKSLASH)
        if len(escapes):
            firsts = _places(np.diff(escapes, prepend=-2) != 1)
            runs = np.diff(firsts, append=len(escapes))
            is_quote[(escapes[firsts] + runs)[runs & 1 == 1]] = False
        self.quotes = _places(is_quote)
        behind = np.searchsorted(self.quotes, self.bounds)
        odd = _places(np.diff(behind) & 1)
        if len(odd):  # a string without an end must not turn the texts behind it inside out
            self.known[odd] = False
            is_quote[self.quotes[behind[odd + 1] - 1]] = False
            self.quotes = _places(is_quote)
        self._look_at_dollars()
        inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8))
        classes = np.frombuffer(self.raw.translate(_CLASSES), np.uint8) & (inside - 1)
        cuts = _places(classes[1:] != classes[:-1]) + 1
        found = classes[cuts]
        parts = _places(found)
        return cuts[parts], cuts[parts + 1], found[parts] == _DIGIT

    def _look_at_dollars(self) -> None:
        """Put aside texts with a string that may be called like a type of Extended JSON."""
        opened = self.quotes[::2]
        dollars = opened[self.data[opened + 1] == _DOLLAR]
        if len(dollars):
            self._put_aside(dollars[np.isin(self.eights[dollars + 1] & _MASKS[_NAME_BEGIN], _TYPE_NAMES)])

    def _put_aside(self, places: Places) -> None:
        if len(places):
            self.known[np.searchsorted(self.bounds, places, "right") - 1] = False

    def _classified(self, parts: _Parts, is_digits: Bools) -> _Parts:
        """Note what replaces each part; texts with a number that is not known for certain are put aside."""
        starts, ends, count = parts.starts, parts.ends, len(parts.starts)
        joint, minus = np.zeros(count + 1, np.bool_), np.zeros(count + 2, np.bool_)
        np.equal(starts[1:], ends[:-1], out=joint[1:count])
        is_behind, goes_on = joint[:-1], joint[1:]
        is_minus, has_minus = minus[1:-1], minus[:-2]
        is_minus[:] = (self.data[starts] == _MINUS) & (ends - starts == 1) & ~is_behind & goes_on
        is_whole = is_digits & ~goes_on & (~is_behind | has_minus)
        is_minus[:-1] &= is_whole[1:]
        is_word = ~(is_digits | is_behind | goes_on)
        named, others = _places(is_word), _places(~(is_whole | is_minus | is_word))
        calls = np.full(count, _NONE, np.int8)
        calls[named] = self._named(starts[named], ends[named])
        if len(unusual := named[calls[named] == _NONE]):
            done = self._other_calls(parts, unusual)
            is_whole &= ~done
            calls[done] = _NONE
            others = others[~done[others]]
        wholes = _places(is_whole)
        self._wholes(parts, wholes, has_minus[wholes], calls)
        if len(others):
            self._doubles(parts, others[~is_behind[others]], others[~goes_on[others]])
        for kind, replace in (
            (_OBJECT_ID, self._object_ids), (_DATE, self._dates), (_DECIMAL, self._decimals), (_LONG, self._longs),
        ):  # fmt: skip
            if len(of_kind := _places(calls == kind)):
                replace(parts, of_kind)
        return parts

    def _named(self, starts: Places, ends: Places) -> Kinds:
        """Return the kinds of words; the parser refuses words that have none."""
        sizes = ends - starts
        at = _place_of(np.minimum(sizes, _MOST_LETTERS + 1), self.data[starts])
        is_known = self.eights[starts] & _MASKS[np.minimum(sizes, 8)] == _HEADS[at]
        is_known &= self.eights[np.maximum(ends - 8, 0)] & _TAIL_MASKS[at] == _TAILS[at]
        return np.where(is_known, _KINDS[at], _NONE)

    def _other_calls(self, parts: _Parts, of: Places) -> Bools:
        """Replace calls that are not usual, one by one, and return which parts stand inside of calls then."""
        done = np.zeros(len(parts.starts), np.bool_)
        found, ends, made, end = [], [], [], 0
        starts = parts.starts[of]
        of_texts = self.bounds[np.searchsorted(self.bounds, starts, "right")]
        for part, start, of_text in zip(of.tolist(), starts.tolist(), of_texts.tolist(), strict=True):
            call = _CALL.match(self.raw, start, of_text) if start >= end else None
            if call and (json := _json_of(call[0].decode())):
                end = call.end()
                done[part + 1 : np.searchsorted(parts.starts, end)] = True
                found.append(part)
                ends.append(end)
                made.append(json)
        if found:
            replaced = np.array(found)
            self._add(parts, replaced, pa.array(made, pa.binary()))
            parts.replace(replaced, _OTHER_CALL, parts.starts[replaced], parts.starts[replaced], np.array(ends))
        return done

    def _wholes(self, parts: _Parts, wholes: Places, has_minus: Bools, calls: Kinds) -> None:
        """Replace whole numbers, bare ones and those of NumberLong, whose calls are done then."""
        starts, ends = parts.starts[wholes], parts.ends[wholes]
        froms, sizes, first = starts - has_minus, ends - starts, self.data[starts]
        is_argument = self.data[froms - 1] == _OPEN
        fits = (sizes < _INT_DIGITS) | (sizes == _INT_DIGITS) & (first == _ONE) | is_argument & _fits_long(sizes, first)
        good = fits & _is_plain(sizes, first, has_minus)
        called = _places(is_argument)
        callers = np.maximum(wholes[called] - 1 - has_minus[called], 0)
        good[called] &= (
            (calls[callers] == _LONG) & (parts.ends[callers] == froms[called] - 1) & (self.data[ends[called]] == _CLOSE)
        )
        calls[callers] = _NONE
        self._put_aside(froms[~good])
        begins = froms.copy()
        begins[called] = parts.starts[callers]
        parts.starts[wholes[good]] = begins[good]
        kinds = np.where(is_argument, np.int8(_LONG), np.int8(_INT))
        parts.replace(wholes[good], kinds[good], froms[good], ends[good], (ends + is_argument)[good])

    def _doubles(self, parts: _Parts, firsts: Places, lasts: Places) -> None:
        """Replace numbers that are written in several parts; texts where these are none are put aside."""
        found, made = [], []
        starts, ends = parts.starts[firsts], parts.ends[lasts]
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            try:
                made.append(repr(_REAL.decode(self.raw[start:end])).encode())
            except MALFORMED:  # it is none, or greater than all doubles
                continue
            found.append(number)
        good = np.zeros(len(firsts), np.bool_)
        good[found] = True
        self._put_aside(starts[~good])
        self._add(parts, firsts[good], pa.array(made, pa.binary()))
        parts.replace(firsts[good], _DOUBLE, starts[good], starts[good], ends[good])

    def _add(self, parts: _Parts, of: Places, made: pa.Array) -> None:
        parts.texts[of] = self.count + np.arange(len(of))
        self.made.append(made)
        self.count += len(made)

    def _object_ids(self, parts: _Parts, of: Places) -> None:
        at = parts.ends[of]
        rows = self._rows(at, _OBJECT_ID_DIGITS + 4)
        digits = rows[:, 2:-2]
        good = _is_call(rows, _OBJECT_ID_DIGITS) & ((digits - _ZERO < 10) | (digits - ord("a") < 6)).all(axis=1)
        at = at[good]
        parts.replace(of[good], _OBJECT_ID, at + 2, at + 2 + _OBJECT_ID_DIGITS, at + 4 + _OBJECT_ID_DIGITS)

    def _dates(self, parts: _Parts, of: Places) -> None:
        at = parts.ends[of]
        rows = self._rows(at, 28)
        has_fraction = rows[:, 21] == _POINT
        digits = rows[:, _CLOCK] - _ZERO
        good = (digits < 10).all(axis=1) & (rows[:, 6] == _MINUS) & (rows[:, 9] == _MINUS)
        good &= (rows[:, 12] == _T) & (rows[:, 15] == _COLON) & (rows[:, 18] == _COLON)
        good &= np.where(
            has_fraction, _is_call(rows, 24) & (rows[:, 25] == _Z), _is_call(rows, 20) & (rows[:, 21] == _Z)
        )
        year, month, day, hour, minute, second = (digits @ _UNITS).astype(np.int64).T
        months = (year * 12 + month - 1 - _EPOCH_MONTH).view("datetime64[M]")
        dates = months.astype("datetime64[D]") + (day - 1)
        good &= (year > 0) & (month > 0) & (month <= 12) & (dates.astype("datetime64[M]") == months)
        good &= (hour < 24) & (minute < 60) & (second < 60)
        milliseconds = (((dates.astype(np.int64) * 24 + hour) * 60 + minute) * 60 + second) * 1000
        if has_fraction.any():
            thousandths = rows[:, 22:25] - _ZERO
            good &= ~has_fraction | (thousandths < 10).all(axis=1)
            milliseconds += has_fraction * (thousandths @ np.array([100, 10, 1]))
        of, at = of[good], at[good]
        self._add(parts, of, pc.cast(pa.array(milliseconds[good]), pa.string()).view(pa.binary()))
        parts.replace(of, _DATE, at, at, at + np.where(has_fraction[good], 28, 24))

    def _decimals(self, parts: _Parts, of: Places) -> None:
        at, sizes, good = self._quoted(parts, of, _MOST_DECIMAL)
        digits = self._rows(at + 2, int(sizes.max()))
        is_digit = digits - _ZERO < 10
        is_there = np.arange(digits.shape[1]) < sizes[:, None]
        has_minus = digits[:, 0] == _MINUS
        is_point = (digits == _POINT) & is_there
        point = np.where(is_point.any(axis=1), is_point.argmax(axis=1), sizes)
        whole, fraction = point - has_minus, sizes - point - 1
        good &= (is_digit & is_there).sum(axis=1) == sizes - has_minus - (point < sizes)
        good &= (whole > 0) & (fraction != 0) & (fraction <= _MOST_FRACTION)
        good &= (whole == 1) | (self.data[at + 2 + has_minus] != _ZERO)
        at = at[good]
        behind = at + 2 + sizes[good]
        parts.replace(of[good], _DECIMAL, at + 2, behind, behind + 2)

    def _longs(self, parts: _Parts, of: Places) -> None:
        """Replace numbers of NumberLong in quotes."""
        at, sizes, good = self._quoted(parts, of, _MOST_DIGITS + 1)
        rows = self._rows(at + 2, int(sizes.max()))
        has_minus = rows[:, 0] == _MINUS
        is_digit = (rows - _ZERO < 10) & (np.arange(rows.shape[1]) < sizes[:, None])
        digits, first = sizes - has_minus, self.data[at + 2 + has_minus]
        good &= (is_digit.sum(axis=1) == digits) & (digits > 0)
        good &= _fits_long(digits, first) & _is_plain(digits, first, has_minus)
        at = at[good]
        behind = at + 2 + sizes[good]
        parts.replace(of[good], _LONG, at + 2, behind, behind + 2)

    def _quoted(self, parts: _Parts, of: Places, most: int) -> tuple[Places, Places, Bools]:
        """Return the places where calls open, the sizes of their strings, and which calls have a string alone."""
        at = parts.ends[of]
        closing = np.minimum(np.searchsorted(self.quotes, at + 1) + 1, len(self.quotes) - 1)
        ends = self.quotes[closing] if len(self.quotes) else at
        sizes = ends - at - 2
        good = (self.data[at] == _OPEN) & (self.data[at + 1] == _QUOTE) & (self.data[ends + 1] == _CLOSE)
        good &= (sizes > 0) & (sizes <= most)
        return at, np.clip(sizes, 1, most), good

    def _rows(self, places: Places, width: int) -> Bytes:
        """Return as many bytes from each place on."""
        every: Bytes = np.ndarray((len(self.raw) - width + 1, width), np.uint8, self.raw, strides=(1, 1))
        return every[places]


def _json_of(call: str) -> bytes | None:
    """Return the JSON of a call; None where the JSON would have bare numbers, and for a call that is none."""
    if WITH_NUMBERS.search(call):
        return None
    try:
        value, end = constructed(call, 0)
    except ValueError:
        return None
    return dumps(value, separators=(",", ":")).encode() if end == len(call) else None


def _is_call(rows: Bytes, size: int) -> Bools:
    """Tell which rows are a call with a string of this size."""
    found: Bools = rows[:, 0] == _OPEN
    found &= (rows[:, 1] == _QUOTE) & (rows[:, size + 2] == _QUOTE) & (rows[:, size + 3] == _CLOSE)
    return found


def _fits_long(sizes: Places, first: Bytes) -> Bools:
    """Tell which numbers have 64 bits for certain, by their digits and the first of these."""
    found: Bools = (sizes < _MOST_DIGITS) | (sizes == _MOST_DIGITS) & (first <= _EIGHT)
    return found


def _is_plain(sizes: Places, first: Bytes, has_minus: Bools) -> Bools:
    """Tell which whole numbers have no needless zero or sign."""
    found: Bools = (first != _ZERO) | (sizes == 1) & ~has_minus
    return found
