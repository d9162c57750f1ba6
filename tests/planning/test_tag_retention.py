"""The oldest moments go first, by age or by the bytes that tags alone hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.planning.tag_retention import TaggedMoment, moments_that_go

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def moment(name: str, age: int, **files: int) -> TaggedMoment:
    return TaggedMoment(name, NOW - age * DAY, files)


OLD, MIDDLE, NEW = moment("a", 9, x=5, y=1), moment("b", 5, y=1, z=3), moment("c", 1, z=3, w=2)


@pytest.mark.parametrize(
    ("days", "most", "gone"),
    [
        (None, None, ""), (9, None, ""), (8, None, "a"), (4, None, "ab"), (0, None, "abc"),
        (None, 11, ""), (None, 10, "a"), (None, 6, "a"), (None, 5, "ab"), (None, 4, "abc"), (None, 0, "abc"),
        (8, 0, "abc"), (4, 11, "ab"),
    ],
)  # fmt: skip
def test_which_moments_go(days: int | None, most: int | None, gone: str) -> None:
    before = None if days is None else NOW - days * DAY
    assert "".join(moments_that_go((NEW, OLD, MIDDLE), before=before, most=most)) == gone


def test_nothing_goes_where_nothing_is() -> None:
    assert moments_that_go((), before=NOW, most=0) == ()
