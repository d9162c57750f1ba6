"""Periods of primary keys, seen piecemeal by Kafka partitions and windows: every change is found by the key that it told."""

from __future__ import annotations

from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.key_periods import KeyPeriod, KeySpan, joined_periods, spans_of
from dts_assets.model.positions import SourcePosition
from tests.tiers import examples

KEYS = ((), ("id",), ("id", "n"))


def at(place: int) -> SourcePosition:
    """A place of a made-up binlog of several files and lineages."""
    return SourcePosition(place // 40, place // 20 % 2, 3 * (place % 20))


def seen(points: list[tuple[int, tuple[str, ...]]]) -> list[KeyPeriod]:
    """The periods that a window sees of its changes."""
    runs = [list(run) for _, run in groupby(sorted(points), key=lambda point: point[1])]
    return [KeyPeriod(at(run[0][0]), at(run[-1][0]), run[0][1]) for run in runs]


def key_of(spans: tuple[KeySpan, ...], position: SourcePosition) -> list[tuple[str, ...]]:
    return [
        span.columns
        for span in spans
        if (span.since is None or span.since < position) and (span.until is None or position <= span.until)
    ]


@examples(300)
@given(st.data())
def test_every_change_is_in_the_span_of_its_key(data: st.DataObject) -> None:
    changes = data.draw(st.lists(st.booleans(), min_size=1, max_size=80))
    key, points = data.draw(st.sampled_from(KEYS)), []
    for place, there in enumerate(changes):
        if data.draw(st.integers(0, 9)) == 0:
            key = data.draw(st.sampled_from(KEYS))
        if there:
            points.append((place, key))
    groups = data.draw(st.lists(st.integers(0, 4), min_size=len(points), max_size=len(points)))
    parts = [seen([point for point, mine in zip(points, groups, strict=True) if mine == group]) for group in range(5)]
    order = data.draw(st.permutations(range(5)))
    joined: tuple[KeyPeriod, ...] = ()
    for group in order:  # window by window, as a snapshot gets to know them
        joined = joined_periods((*joined, *parts[group]))
    # Where nothing changed, a span's end depends on the order in which the windows came.
    for spans in (spans_of(joined), spans_of(period for part in parts for period in part)):
        for place, told in points:
            assert key_of(spans, at(place)) == [told]
        assert all(one.columns != other.columns for one, other in pairwise(spans))


def test_without_a_period_there_is_no_span() -> None:
    assert joined_periods([]) == ()
    assert spans_of([]) == ()


def test_a_period_inside_another_one_interrupts_it() -> None:
    outer, inner = KeyPeriod(at(0), at(30), ("id",)), KeyPeriod(at(10), at(12), ())
    assert [(one.columns, one.first) for one in joined_periods([outer, inner])] == [
        (("id",), at(0)), ((), at(10)), (("id",), SourcePosition(0, 0, at(12).position + 1)),
    ]  # fmt: skip
