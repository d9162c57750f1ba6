"""Times that are numbers in messages, as the texts that MySQL prints: ``2021-05-17 07:22:42.500``.

The pivot reads texts, and a value that is no time (the zero date, the 31st of April) is kept as its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, run_lengths

DATETIME, DATE, TIME, YEAR = range(4)
"""The forms of a text, by the type of its column."""

Codes = npt.NDArray[np.int64]
"""A form and its number of fractional digits: ``form * 8 + digits``.

7 digits stand for as many as are needed.
"""

AS_NEEDED = 7
_MILLIS, _MOST_DIGITS = 3, 6
_CLOCK = re.compile(r"\s*(datetime|timestamp|date|time|year)\b\s*(\(\s*([0-6])\s*\))?", re.I)
_FORMS = {"datetime": DATETIME, "timestamp": DATETIME, "date": DATE, "time": TIME, "year": YEAR}
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""

_ZERO = pa.scalar("0000-00-00 00:00:00")
_UTC_MARK = b" +00:00"
_SECONDS_OF_DAY = 86_400
_MOST_YEAR, _MOST_PART = 9999, 99
"""The greatest year of four digits, and the greatest part of two."""

_DATE_WIDTH = len("2021-05-17")
_TENS, _ONES = (np.array([number // unit % 10 for number in range(100)], np.uint8) + ord("0") for unit in (10, 1))
"""The two digits of numbers below a hundred."""


@lru_cache(maxsize=1 << 12)
def clock_code(original_type: str) -> int:
    """Return the form of a column's times: ``datetime(3)`` is ``DATETIME * 8 + 3``."""
    found = _CLOCK.match(original_type)
    if found is None:
        return DATETIME * 8 + AS_NEEDED
    form = _FORMS[found.group(1).lower()]
    return form * 8 + int(found.group(3) or 0)


@dataclass(frozen=True, slots=True)
class ClockColumns:
    """The forms of times of each column, of all column lists behind one another.

    ``firsts`` and ``widths`` are those of the list of each message of a block.
    """

    codes: Codes
    firsts: Codes
    widths: Codes

    @classmethod
    def of(cls, forms: list[list[int]], codes: Codes) -> ClockColumns:
        """Return the forms of the columns of some lists; ``codes`` has the number of each message's list."""
        widths = np.asarray([len(one) for one in forms], np.int64)
        firsts = np.cumsum(widths) - widths
        return cls(np.asarray([form for one in forms for form in one], np.int64), firsts[codes], widths[codes])

    def of_values(self, owners: Codes, counts: Codes) -> Codes:
        """Return the form of each value.

        ``counts`` are the values of each message that has some, ``owners`` the number of the message of each value.
        """
        if not len(self.codes):
            return np.full(len(owners), DATETIME * 8 + AS_NEEDED)
        places = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.minimum(places, np.maximum(self.widths[owners] - 1, 0))
        found: Codes = self.codes[np.minimum(self.firsts[owners] + places, len(self.codes) - 1)]
        return found


def instant_texts(seconds: Codes, millis: Codes, codes: Codes) -> pa.Array:
    """Return instants as texts in UTC: ``2021-05-17 07:22:42 +00:00``; the instant 0 is MySQL's zero."""
    fits = (seconds >= 0) & (seconds <= _LAST_SECOND)
    if bool((fits & (seconds > 0)).all()) and _without_fractions(millis, codes):
        return _digit_by_digit(_civil(seconds), _UTC_MARK)
    clocks = pc.strftime(pa.array(np.where(fits, seconds, 0)).view(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S")
    zero = (seconds == 0) & (millis == 0)
    made = pc.if_else(pa.array(zero), _ZERO, pc.binary_join_element_wise(clocks, _fractions(millis, codes), ""))
    made = pc.if_else(pa.array(zero), made, pc.binary_join_element_wise(made, " +00:00", ""))
    others = pc.cast(pa.array(seconds), pa.string())
    return pc.cast(made if fits.all() else pc.if_else(pa.array(fits), made, others), pa.binary())


def clock_texts(parts: tuple[Codes, ...], codes: Codes) -> pa.Array:
    """Return wall clocks as texts from their parts: year, month, day, hour, minute, second, milliseconds.

    A part that was not sent is 0. A time below zero has its parts below zero.
    """
    forms = codes >> 3
    is_date = forms == DATE
    if bool((is_date | (forms == DATETIME)).all()) and _without_fractions(parts[-1], codes) and _are_short(parts[:-1]):
        return _digit_by_digit(parts[:-1], b"", is_date)
    found = pa.nulls(len(codes), pa.string())
    date = _joined("-", (parts[0], 4), (parts[1], 2), (parts[2], 2))
    if is_date.any():
        found = pc.if_else(pa.array(is_date), date, found)
    if (forms == YEAR).any():
        found = pc.if_else(pa.array(forms == YEAR), _padded(parts[0], 4), found)
    timed = (forms == DATETIME) | (forms == TIME)
    if timed.any():
        below = np.logical_or.reduce([part < 0 for part in parts[3:]]) & (forms == TIME)
        hour, minute, second, millis = (np.where(below, -part, part) for part in parts[3:])
        time = pc.binary_join_element_wise(
            _joined(":", (hour, 2), (minute, 2), (second, 2)), _fractions(millis, codes), ""
        )
        signed = pc.if_else(pa.array(below), pc.binary_join_element_wise("-", time, ""), time)
        moment = pc.binary_join_element_wise(date, time, " ")
        found = pc.if_else(pa.array(timed), pc.if_else(pa.array(forms == TIME), signed, moment), found)
    return pc.cast(found, pa.binary())


def _civil(seconds: Codes) -> tuple[Codes, ...]:
    """Return the year, month, day, hour, minute and second of instants in UTC."""
    dates = seconds.view("datetime64[s]").astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    of_day, month = seconds % _SECONDS_OF_DAY, months.astype(np.int64)
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    return month // 12 + 1970, month % 12 + 1, day, of_day // 3600, of_day // 60 % 60, of_day % 60


def _are_short(parts: tuple[Codes, ...]) -> bool:
    """Tell whether years have four digits at most, other parts two, and no part is negative."""
    bounds = (_MOST_YEAR, *(_MOST_PART for _ in parts[1:]))
    return all(
        part.min(initial=0) >= 0 and part.max(initial=0) <= most for part, most in zip(parts, bounds, strict=True)
    )


def _digit_by_digit(parts: tuple[Codes, ...], mark: bytes, is_date: Bools | None = None) -> pa.Array:
    """Return wall clocks as texts, such as ``2021-05-17 07:22:42``, and dates without their time.

    ``mark`` stands behind each text. Each digit is written in all texts at once.
    """
    year, *others = parts
    pattern = np.frombuffer(b"0000-00-00 00:00:00" + mark, np.uint8)
    made = np.tile(pattern, (len(year), 1))
    for place, number in zip((0, 2, 5, 8, 11, 14, 17), (year // 100, year % 100, *others), strict=True):
        made[:, place], made[:, place + 1] = _TENS[number], _ONES[number]
    widths = np.full(len(year), len(pattern))
    if is_date is not None and is_date.any():
        widths[is_date] = _DATE_WIDTH
        made = made[np.arange(len(pattern)) < widths[:, None]]
    return binary_array(pa.binary(), run_lengths(widths), pa.py_buffer(made), None)


def _without_fractions(millis: Codes, codes: Codes) -> bool:
    """Tell whether no text has a fraction: no type asks for digits, and no value has some."""
    digits = codes & AS_NEEDED
    return not bool(millis.any()) and bool(((digits == 0) | (digits == AS_NEEDED)).all())


def _fractions(millis: Codes, codes: Codes) -> pa.Array:
    """Return ``.500`` for 500 milliseconds, as long as a column's type says, and nothing for none."""
    digits = codes & AS_NEEDED
    wanted = np.where(digits == AS_NEEDED, np.where(millis != 0, _MILLIS, 0), digits)
    wanted = np.where((wanted < _MILLIS) & _has_more(millis, wanted), _MILLIS, wanted)
    if not wanted.any():
        return pa.repeat(pa.scalar(""), len(millis))
    texts = pc.binary_join_element_wise(".", pc.utf8_rpad(_padded(millis, _MILLIS), _MOST_DIGITS, "0"), "")
    shortened = [pc.utf8_slice_codeunits(texts, 0, 0 if not size else size + 1) for size in range(_MOST_DIGITS + 1)]
    return pc.choose(pa.array(wanted), *shortened)


def _has_more(millis: Codes, digits: Codes) -> Bools:
    """Return which milliseconds have more digits than a type has: they are kept."""
    unit = np.array([1000, 100, 10, 1, 1, 1, 1])[digits]
    more: Bools = millis % unit != 0
    return more


def _joined(between: str, *parts: tuple[Codes, int]) -> pa.Array:
    return pc.binary_join_element_wise(*[_padded(*part) for part in parts], between)


def _padded(numbers: Codes, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")
