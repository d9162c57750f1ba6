"""Times that are numbers become the texts that MySQL prints, whichever times come together."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.wire.columns.clock_texts import AS_NEEDED, DATE, DATETIME, clock_texts, instant_texts
from tests.tiers import examples

LAST = 253_402_300_799
INSTANTS = st.tuples(
    st.integers(1, LAST) | st.sampled_from([-1, 0, LAST + 1]),
    st.just(0) | st.integers(0, 999),
    st.sampled_from([0, 3, 7]),
)
PARTS = st.tuples(
    st.integers(0, 9999) | st.integers(0, 20_000), *(st.integers(0, 99) | st.integers(0, 200) for _ in range(5)),
    st.just(0) | st.integers(0, 999), st.sampled_from([DATE, DATETIME]), st.sampled_from([0, 3, 7]),
)  # fmt: skip


def fraction(millis: int, digits: int) -> str:
    return f".{millis:03d}" if millis or digits == 3 else ""


def printed(seconds: int, millis: int, digits: int) -> str:
    if not 0 <= seconds <= LAST:
        return str(seconds)
    if seconds == millis == 0:
        return "0000-00-00 00:00:00"
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}{fraction(millis, digits)} +00:00"


def clock(parts: tuple[int, ...]) -> str:
    year, month, day, hour, minute, second, millis, form, digits = parts
    date = f"{year:04d}-{month:02d}-{day:02d}"
    return date if form == DATE else f"{date} {hour:02d}:{minute:02d}:{second:02d}{fraction(millis, digits)}"


@examples(300)
@given(st.lists(INSTANTS, max_size=5))
@example([(1, 0, 0), (LAST, 0, AS_NEEDED), (951_782_400, 0, 0), (4_107_542_400, 0, 0)])
@example([(951_782_400, 0, 0), (0, 0, 0)])
def test_instants_are_printed_in_utc_and_the_instant_zero_as_the_zero_timestamp(
    found: list[tuple[int, int, int]],
) -> None:
    seconds, millis, digits = np.array(found, np.int64).reshape(-1, 3).T
    made = instant_texts(seconds.copy(), millis.copy(), DATETIME * 8 + digits)
    assert made.to_pylist() == [printed(*one).encode() for one in found]


@examples(300)
@given(st.lists(PARTS, max_size=5))
@example(
    [(2021, 5, 17, 7, 22, 42, 0, DATETIME, 0), (2021, 5, 17, 0, 0, 0, 0, DATE, 0), (0, 0, 0, 0, 0, 0, 0, DATETIME, 7)]
)
@example([(2021, 5, 17, 7, 22, 42, 0, DATETIME, 0), (10_000, 5, 100, 0, 0, 0, 0, DATE, 0)])
def test_wall_clocks_and_dates_are_printed_part_by_part(found: list[tuple[int, ...]]) -> None:
    *parts, forms, digits = (column.copy() for column in np.array(found, np.int64).reshape(-1, 9).T)
    assert clock_texts(tuple(parts), forms * 8 + digits).to_pylist() == [clock(one).encode() for one in found]
