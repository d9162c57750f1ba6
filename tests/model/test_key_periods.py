"""Periods of primary keys, seen piecemeal by Kafka partitions and windows: every change is found by the key that it told."""

from __future__ import annotations

from itertools import groupby, pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from dts_assets.model.key_periods import KeyPeriod, KeySpan, joined_lists, joined_periods, spans_of
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


def is_open(periods: list[KeyPeriod]) -> bool:
    """Whether two periods of different keys lie partly in one another: then nobody can tell which key a change between told."""
    return any(
        one.columns != other.columns and one.first < other.first <= one.last < other.last
        for one in periods
        for other in periods
    )


@st.composite
def told_keys(draw: st.DrawFn, *, groups: int) -> tuple[list[tuple[int, tuple[str, ...]]], list[int]]:
    """Changes by place, each with the key that it told, and the number of the group that each belongs to."""
    changes = draw(st.lists(st.booleans(), min_size=1, max_size=80) | st.just([True] * 6))
    key, points, seldom = draw(st.sampled_from(KEYS)), [], draw(st.sampled_from([1, 2, 9]))
    for place, there in enumerate(changes):
        if draw(st.integers(0, seldom)) == 0:
            key = draw(st.sampled_from(KEYS))
        if there:
            points.append((place, key))
    return points, draw(st.lists(st.integers(0, groups - 1), min_size=len(points), max_size=len(points)))


@examples(300)
@given(told_keys(groups=5))
def test_every_change_is_in_the_span_of_its_key(told: tuple[list[tuple[int, tuple[str, ...]]], list[int]]) -> None:
    points, groups = told
    periods = [
        period
        for group in range(5)
        for period in seen([point for point, mine in zip(points, groups, strict=True) if mine == group])
    ]
    assume(not is_open(periods))
    spans = spans_of(periods)
    for place, key in points:
        assert key_of(spans, at(place)) == [key]
    assert all(one.columns != other.columns for one, other in pairwise(spans))


def test_changes_behind_a_border_are_a_span_of_their_own() -> None:
    periods = [KeyPeriod(at(2), at(4), ("id",)), KeyPeriod(at(6), at(9), ("n",))]
    spans = spans_of(periods, [at(place) for place in (7, 1, 3, 5, 9)])
    found = [[number for number, one in enumerate(spans) if key_of((one,), at(place))] for place in range(2, 10)]
    assert found == [[0], [0], [1], [1], [2], [2], [3], [3]]
    assert [one.columns for one in spans] == [("id",), ("id",), ("n",), ("n",)]


def test_without_a_period_there_is_no_span() -> None:
    assert joined_periods([]) == ()
    assert spans_of([]) == ()


def test_a_period_inside_another_one_interrupts_it() -> None:
    outer, inner = KeyPeriod(at(0), at(30), ("id",)), KeyPeriod(at(10), at(12), ())
    assert [(one.columns, one.first) for one in joined_periods([outer, inner])] == [
        (("id",), at(0)), ((), at(10)), (("id",), SourcePosition(0, 0, at(12).position + 1)),
    ]  # fmt: skip


def test_a_period_that_is_interrupted_goes_on_behind_all_that_interrupts_it() -> None:
    outer, first, second = (
        KeyPeriod(at(0), at(8), ("id",)),
        KeyPeriod(at(1), at(3), ()),
        KeyPeriod(at(2), at(7), ()),
    )
    spans = spans_of([outer, first, second])
    assert [key_of(spans, at(place)) for place in (0, 1, 3, 7, 8)] == [[("id",)], [()], [()], [()], [("id",)]]


def test_lists_of_shards_do_not_interrupt_one_another() -> None:
    """Rows of shards follow one another; each shard has one list, or another one from a place on."""
    rows = [(place, ("new" if place > 60 else "old", f"s{place % 3}")) for place in range(90)]
    found = joined_lists(KeyPeriod(at(place), at(place), told) for place, told in rows)
    assert sorted((one.columns[1], one.columns[0], one.first, one.last) for one in found) == [
        (f"s{shard}", told, at(first + shard), at(last + shard))
        for shard in range(3)
        for told, first, last in (("new", 63 if not shard else 60, 87), ("old", 0, 60 if not shard else 57))
    ]
    assert joined_lists((*found[::2], *found[1::2])) == found
