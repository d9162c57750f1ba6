"""Values as MongoDB's driver writes nearly all of them, and the Extended JSON in their place.

Each function looks at all values of a kind at once, in columns of bytes, and replaces those that are usual beyond doubt. Of any
other value something is left that no parser of JSON takes, or its place is returned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.json import Decoder

from dts_assets.wire.columns.buffers import Bools, Words, binary_array, offsets_of
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.documents.shell_syntax import WITH_NUMBERS, constructed

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.int8]

_QUOTE, _OPEN, _CLOSE, _ZERO, _ONE, _EIGHT, _MINUS, _POINT, _T, _Z, _COLON = b'"()018-.TZ:'

OBJECT_ID, LONG, DECIMAL, DATE, _INT, _DOUBLE, _OTHER_CALL = range(7)
NONE, _WORD_OF_JSON = -1, 7
_NAMES: Mapping[bytes, int] = {
    b"ObjectId": OBJECT_ID, b"NumberLong": LONG, b"NumberDecimal": DECIMAL, b"ISODate": DATE,
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

MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""The bytes that a name of each size has in eight bytes."""

_MOST_LETTERS, _INT_DIGITS, _MOST_DIGITS, _OBJECT_ID_DIGITS, _MOST_DECIMAL, _MOST_FRACTION = 16, 10, 19, 24, 34, 6
_EPOCH_MONTH = 1970 * 12
_CLOCK = (2, 3, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20)
"""The places of digits in ``("2026-01-05T00:00:00``."""

_REAL = Decoder(float)


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
    kinds = np.full(len(heads), NONE, np.int8)
    for name, kind in _NAMES.items():
        at = _place_of(len(name), name[0])
        heads[at], kinds[at] = int.from_bytes(name[:8], "little"), kind
        if len(name) > 8:
            tails[at], masks[at] = int.from_bytes(name[-8:], "little"), MASKS[8]
    return heads, tails, masks, kinds


_UNITS = _units()
_HEADS, _TAILS, _TAIL_MASKS, _KINDS = _tables()


def places(where: Bools | Bytes | Kinds) -> Places:
    """Return the places of what is not zero; numpy's own function for it takes longer to begin."""
    return where.nonzero()[0]


def eights_of(raw: bytes) -> Words:
    """Return the eight bytes from each place on, the first of them in the lowest bits."""
    return np.ndarray((len(raw) - 7,), np.dtype("<u8"), raw, strides=(1,))


@dataclass(slots=True)
class Values:
    """The words and numbers of a text outside of its strings, in parts: ``5.5`` has three parts.

    A part that has a kind stands for a value. The bytes from ``starts`` to ``ends`` are replaced by the text before values of
    the kind, by the bytes from ``froms`` to ``tos`` (or one of the texts ``made``, whose number ``texts`` has), and by the text
    behind. ``raw`` are the bytes of the text with some behind it, ``quotes`` the places of quotes around its strings.
    """

    raw: bytes
    quotes: Places
    starts: Places
    ends: Places
    data: Bytes = field(init=False)
    eights: Words = field(init=False)
    kinds: Kinds = field(init=False)
    froms: Places = field(init=False)
    tos: Places = field(init=False)
    texts: Places = field(init=False)
    made: list[pa.Array] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.data = np.frombuffer(self.raw, np.uint8)
        self.eights = eights_of(self.raw)
        self.kinds = np.full(len(self.starts), NONE, np.int8)
        self.froms, self.tos = self.starts.copy(), self.starts.copy()
        self.texts = np.full(len(self.starts), NONE)

    def _replace(self, of: Places, kind: int | Kinds, froms: Places, tos: Places, ends: Places) -> None:
        self.kinds[of] = kind
        self.froms[of], self.tos[of], self.ends[of] = froms, tos, ends

    def _add(self, of: Places, made: pa.Array) -> None:
        self.texts[of] = self.count + np.arange(len(of))
        self.made.append(made)
        self.count += len(made)

    def replaced(self, bounds: Places) -> tuple[bytes, list[int]]:
        """Return the text with JSON in the place of each value, and where ``bounds`` are then."""
        chosen = places(self.kinds >= 0)
        count = 4 * len(chosen) + 1
        cuts = np.zeros(count + 1, np.int32)
        cuts[1:-1:4], cuts[2:-1:4], cuts[3:-1:4], cuts[4::4] = (
            column[chosen] for column in (self.starts, self.froms, self.tos, self.ends)
        )
        replaced_to, cuts[-1] = cuts[:-1:4].copy(), bounds[-1]
        pieces = binary_array(pa.binary(), cuts, pa.py_buffer(self.raw), None)
        every = pa.concat_arrays([pieces, pa.array(_TEXTS, pa.binary()), *self.made])
        kinds, texts = self.kinds[chosen].astype(np.int64), self.texts[chosen]
        wanted = np.arange(count)
        wanted[1::4] = count + kinds
        wanted[2::4] = np.where(texts < 0, wanted[2::4], count + len(_TEXTS) + texts)
        wanted[3::4] = count + _BEHIND[kinds]
        made = every.take(pa.array(wanted))
        before = np.searchsorted(replaced_to, bounds, "right") - 1
        found: list[int] = (offsets_of(made)[4 * before] + bounds - replaced_to[before]).tolist()
        return made.buffers()[2].to_pybytes(), found

    def calls(self, of: Places) -> Kinds:
        """Return the kinds of values that words begin; words that are not known begin none."""
        starts, ends = self.starts[of], self.ends[of]
        sizes = ends - starts
        at = _place_of(np.minimum(sizes, _MOST_LETTERS + 1), self.data[starts])
        is_known = self.eights[starts] & MASKS[np.minimum(sizes, 8)] == _HEADS[at]
        is_known &= self.eights[np.maximum(ends - 8, 0)] & _TAIL_MASKS[at] == _TAILS[at]
        return np.where(is_known, _KINDS[at], NONE)

    def other_calls(self, of: Places, before: Places) -> Bools:
        """Replace calls that are not usual, one by one, and return which parts are done with that.

        ``before`` are the ends of the documents in which they stand.
        """
        done = np.zeros(len(self.starts), np.bool_)
        found, ends, made, end = [], [], [], 0
        starts = self.starts[of]
        for part, start, last in zip(of.tolist(), starts.tolist(), before.tolist(), strict=True):
            call = _CALL.match(self.raw, start, last) if start >= end else None
            if call and (json := _json_of(call[0].decode())):
                end = call.end()
                done[part + 1 : np.searchsorted(self.starts, end)] = True
                found.append(part)
                ends.append(end)
                made.append(json)
        if found:
            replaced = np.array(found)
            self._add(replaced, pa.array(made, pa.binary()))
            self._replace(replaced, _OTHER_CALL, self.starts[replaced], self.starts[replaced], np.array(ends))
        return done

    def wholes(self, of: Places, has_minus: Bools, calls: Kinds) -> Places:
        """Replace whole numbers, bare ones and those of calls of NumberLong, which leave ``calls``.

        The places of others are returned.
        """
        starts, ends = self.starts[of], self.ends[of]
        froms, sizes, first = starts - has_minus, ends - starts, self.data[starts]
        is_argument = self.data[froms - 1] == _OPEN
        fits = (sizes < _INT_DIGITS) | (sizes == _INT_DIGITS) & (first == _ONE) | is_argument & _fits_long(sizes, first)
        good = fits & _is_plain(sizes, first, has_minus)
        called = places(is_argument)
        callers = np.maximum(of[called] - 1 - has_minus[called], 0)
        is_call = (calls[callers] == LONG) & (self.ends[callers] == froms[called] - 1)
        calls[callers[is_call]] = NONE
        good[called] &= is_call & (self.data[ends[called]] == _CLOSE)
        begins = froms.copy()
        begins[called] = self.starts[callers]
        self.starts[of[good]] = begins[good]
        kinds = np.where(is_argument, np.int8(LONG), np.int8(_INT))
        self._replace(of[good], kinds[good], froms[good], ends[good], (ends + is_argument)[good])
        others: Places = froms[~good]
        return others

    def doubles(self, firsts: Places, lasts: Places) -> Places:
        """Replace numbers that are written in several parts, and return the places of others.

        ``firsts`` and ``lasts`` are the first and the last part of each.
        """
        found, made = [], []
        starts, ends = self.starts[firsts], self.ends[lasts]
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            try:
                made.append(repr(_REAL.decode(self.raw[start:end])).encode())
            except MALFORMED:  # it is none, or greater than all doubles
                continue
            found.append(number)
        good = np.zeros(len(firsts), np.bool_)
        good[found] = True
        self._add(firsts[good], pa.array(made, pa.binary()))
        self._replace(firsts[good], _DOUBLE, starts[good], starts[good], ends[good])
        return starts[~good]

    def object_ids(self, of: Places) -> None:
        """Replace calls of ObjectId."""
        at = self.ends[of]
        rows = self._rows(at, _OBJECT_ID_DIGITS + 4)
        digits = rows[:, 2:-2]
        good = _is_call(rows, _OBJECT_ID_DIGITS) & ((digits - _ZERO < 10) | (digits - ord("a") < 6)).all(axis=1)
        at = at[good]
        self._replace(of[good], OBJECT_ID, at + 2, at + 2 + _OBJECT_ID_DIGITS, at + 4 + _OBJECT_ID_DIGITS)

    def dates(self, of: Places) -> None:
        """Replace calls of ISODate with a time in UTC, in seconds or milliseconds."""
        at = self.ends[of]
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
        self._add(of, pc.cast(pa.array(milliseconds[good]), pa.string()).view(pa.binary()))
        self._replace(of, DATE, at, at, at + np.where(has_fraction[good], 28, 24))

    def decimals(self, of: Places) -> None:
        """Replace calls of NumberDecimal with a number whose text is that of its value."""
        at, sizes, good = self._quoted(of, _MOST_DECIMAL)
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
        self._replace(of[good], DECIMAL, at + 2, behind, behind + 2)

    def longs(self, of: Places) -> None:
        """Replace calls of NumberLong with a number in quotes."""
        at, sizes, good = self._quoted(of, _MOST_DIGITS + 1)
        rows = self._rows(at + 2, int(sizes.max()))
        has_minus = rows[:, 0] == _MINUS
        is_digit = (rows - _ZERO < 10) & (np.arange(rows.shape[1]) < sizes[:, None])
        digits, first = sizes - has_minus, self.data[at + 2 + has_minus]
        good &= (is_digit.sum(axis=1) == digits) & (digits > 0)
        good &= _fits_long(digits, first) & _is_plain(digits, first, has_minus)
        at = at[good]
        behind = at + 2 + sizes[good]
        self._replace(of[good], LONG, at + 2, behind, behind + 2)

    def _quoted(self, of: Places, most: int) -> tuple[Places, Places, Bools]:
        """Return the places where calls open, the sizes of their strings, and which calls have a string alone."""
        at = self.ends[of]
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
    """Return the JSON of a call; None for a call that is none.

    None stands for a call whose JSON has bare numbers, too.
    """
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
