"""Many documents in the syntax of MongoDB's shell at once, with usual constructors and numbers.

The bytes of many texts are looked at in whole columns. Outside of strings there are words (``ObjectId``, ``true``), numbers and
punctuation. The places of words and numbers are found first; then each usual constructor and each number is replaced by its
Extended JSON (:mod:`dts_assets.wire.documents.usual_values`); then msgspec's parser reads every text, which it refuses if
anything else was left in it.

The rules are those of :mod:`dts_assets.wire.documents.shell_syntax`, to which a text is left that is not known for certain. No
text is refused here, and none is read differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from string import ascii_letters, digits

import numpy as np
from msgspec.json import Decoder

from dts_assets.wire.columns.buffers import Bools, run_lengths
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.documents.shell_syntax import RESERVED, Value
from dts_assets.wire.documents.usual_values import (
    DATE,
    DECIMAL,
    LONG,
    MASKS,
    NONE,
    OBJECT_ID,
    Bytes,
    Places,
    Values,
    eights_of,
    places,
)

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

_QUOTE, _BACKSLASH, _MINUS, _DOLLAR = b'"\\-$'
_NAME_BEGIN = 4
_TYPE_NAMES = np.array([int.from_bytes(name[:_NAME_BEGIN].encode(), "little") for name in RESERVED], np.uint64)
"""The first bytes of names that mean a type."""

_VALUE = Decoder()


def documents_of(texts: Sequence[str]) -> Iterator[dict[str, Value] | None]:
    """Yield the document of each text, as :func:`dts_assets.wire.documents.shell_syntax.document_of` returns it.

    None stands for a text of which that function has to be asked. Each document is read when it is asked for: a document that is
    let go before the next one takes half of the time.
    """
    if sum(map(len, texts)) < _FEW:
        yield from (None for _ in texts)
        return
    block = _Block([text.encode() for text in texts])
    data, starts = block.replaced()
    decode = _VALUE.decode
    for is_known, (start, end) in zip(block.known.tolist(), pairwise(starts), strict=True):
        try:
            yield decode(data[start:end]) if is_known else None
        except MALFORMED:
            yield None


class _Block:
    """Texts behind one another.

    ``known`` are the texts that may be read here, and ``quotes`` the places of quotes that begin and end strings.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.bounds: Places = run_lengths(np.array([len(text) for text in texts])).astype(np.int64)
        self.raw = b"".join((*texts, _BEYOND, bytes(-int(self.bounds[-1]) % 8)))
        self.data: Bytes = np.frombuffer(self.raw, np.uint8)
        # No value has a brace outside of its strings: none reaches from any text into a text with these braces, or out of it.
        self.known: Bools = self.data[self.bounds[:-1]] == ord("{")
        self.known &= self.data[self.bounds[1:] - 1] == ord("}")
        self.quotes: Places = np.zeros(0, np.int64)

    def replaced(self) -> tuple[bytes, list[int]]:
        """Return all texts with JSON in the place of each constructor and number, and where each text begins."""
        starts, ends, is_digits = self._parts()
        values = Values(self.raw, self.quotes, starts, ends)
        self._replace(values, is_digits)
        return values.replaced(self.bounds)

    def _parts(self) -> tuple[Places, Places, Bools]:
        """Return the starts and ends of parts of words and numbers, and which parts are digits."""
        is_quote = self.data == _QUOTE
        escapes = places(self.data == _BACKSLASH)
        if len(escapes):
            firsts = places(np.diff(escapes, prepend=-2) != 1)
            runs = np.diff(firsts, append=len(escapes))
            is_quote[(escapes[firsts] + runs)[runs & 1 == 1]] = False
        self.quotes = places(is_quote)
        behind = np.searchsorted(self.quotes, self.bounds)
        odd = places(np.diff(behind) & 1)
        if len(odd):  # a string without an end must not turn the texts behind it inside out
            self.known[odd] = False
            is_quote[self.quotes[behind[odd + 1] - 1]] = False
            self.quotes = places(is_quote)
        self._look_at_dollars()
        classes = np.frombuffer(self.raw.translate(_CLASSES), np.uint8) & (_inside(is_quote) - 1)
        cuts = places(classes[1:] != classes[:-1]) + 1
        found = classes[cuts]
        parts = places(found)
        return cuts[parts], cuts[parts + 1], found[parts] == _DIGIT

    def _look_at_dollars(self) -> None:
        """Put aside texts with a string that may be called like a type of Extended JSON."""
        opened = self.quotes[::2]
        dollars = opened[self.data[opened + 1] == _DOLLAR]
        if len(dollars):
            self._put_aside(dollars[np.isin(eights_of(self.raw)[dollars + 1] & MASKS[_NAME_BEGIN], _TYPE_NAMES)])

    def _put_aside(self, found: Places) -> None:
        if len(found):
            self.known[self._texts_at(found)] = False

    def _texts_at(self, found: Places) -> Places:
        """Return the numbers of the texts in which some places are."""
        return np.searchsorted(self.bounds, found, "right") - 1

    def _replace(self, values: Values, is_digits: Bools) -> None:
        """Replace all usual values; texts with a number that is not known for certain are put aside."""
        starts, ends, count = values.starts, values.ends, len(values.starts)
        joint, minus = np.zeros(count + 1, np.bool_), np.zeros(count + 2, np.bool_)
        np.equal(starts[1:], ends[:-1], out=joint[1:count])
        is_behind, goes_on = joint[:-1], joint[1:]
        is_minus, has_minus = minus[1:-1], minus[:-2]
        is_minus[:] = (self.data[starts] == _MINUS) & (ends - starts == 1) & ~is_behind & goes_on
        is_whole = is_digits & ~goes_on & (~is_behind | has_minus)
        is_minus[:-1] &= is_whole[1:]
        is_word = ~(is_digits | is_behind | goes_on)
        named, others = places(is_word), places(~(is_whole | is_minus | is_word))
        calls = np.full(count, NONE, np.int8)
        calls[named] = values.calls(named)
        if len(unusual := named[calls[named] == NONE]):
            done = values.other_calls(unusual, self.bounds[self._texts_at(starts[unusual]) + 1])
            is_whole &= ~done
            calls[done] = NONE
            others = others[~done[others]]
        wholes = places(is_whole)
        self._put_aside(values.wholes(wholes, has_minus[wholes], calls))
        if len(others):
            self._put_aside(values.doubles(others[~is_behind[others]], others[~goes_on[others]]))
        for kind, replace in (
            (OBJECT_ID, values.object_ids), (DATE, values.dates), (DECIMAL, values.decimals), (LONG, values.longs),
        ):  # fmt: skip
            if len(of_kind := places(calls == kind)):
                replace(of_kind)


def _inside(is_quote: Bools) -> Bytes:
    """Return 1 for each byte that has an odd number of quotes up to it, else 0.

    There are whole words of eight bytes. Each word is summed up by itself, and then with the words before it, which takes half
    of the time of a sum byte by byte.
    """
    words = is_quote.view(np.uint64).copy()
    for bits in (8, 16, 32):
        words ^= words << np.uint64(bits)
    before = np.bitwise_xor.accumulate(words >> np.uint64(56))
    words[1:] ^= before[:-1] * np.uint64(0x0101010101010101)
    return words.view(np.uint8)
