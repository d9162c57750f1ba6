"""Rows that may be found by a key that is not theirs, against a model that goes through the positions one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.key_periods import KeyPeriod, joined_periods, spans_of
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.mixed_keys import first_mixed

KEYS = (("id",), ("id", "n"), ())
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(KEYS)), max_size=30)
"""Changes at positions 0, 1 and so on: each its Kafka partition and its key."""


def at(place: int) -> SourcePosition:
    return SourcePosition(0, 1, place)


def told_by(changes: list[tuple[int, tuple[str, ...]]]) -> list[KeyPeriod]:
    cells: dict[int, list[KeyPeriod]] = {}
    for place, (cell, key) in enumerate(changes):
        cells.setdefault(cell, []).append(KeyPeriod(at(place), at(place), key))
    return [period for periods in cells.values() for period in joined_periods(periods)]


@given(CHANGES)
def test_a_change_that_another_key_matches_is_at_the_named_position_or_later(
    changes: list[tuple[int, tuple[str, ...]]],
) -> None:
    told = told_by(changes)
    named, spans = first_mixed(told, keeps_deleted=False), spans_of(told)
    wrong = [
        place
        for place, (_, key) in enumerate(changes)
        for span in spans
        if (span.since is None or span.since < at(place)) and (span.until is None or at(place) <= span.until)
        if span.columns != key
    ]
    assert not wrong or (named is not None and named <= at(wrong[0]))


@given(st.lists(st.sampled_from(KEYS), max_size=30))
def test_no_position_is_named_where_one_partition_has_all_changes(keys: list[tuple[str, ...]]) -> None:
    told = told_by([(0, key) for key in keys])
    assert first_mixed(told, keeps_deleted=False) is None
    second = next((place for place, key in enumerate(keys) if key != keys[0]), None)
    assert first_mixed(told, keeps_deleted=True) == (None if second is None else at(second))
