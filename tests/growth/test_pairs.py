"""Twice as much of any two things in a message costs twice as much, in executed lines and in the greatest allocation.

A cost that is the product of two things is small while both are few, and takes all memory in a message of a megabyte.
"""

from __future__ import annotations

import pytest

from tests.growth.costs import MOST_RATIO, doubled
from tests.growth.repeated import DECODERS

SIZE = 1 << 16
"""The bytes of a message from which on its cost is looked at."""

FIRST: dict[str, tuple[str, str]] = {
    "documents": ("NULs", "timestamps"),
    "updates": ("far elements", "elements"),
    "canal-json": ("labels of a set", "numbers of labels"),
    "drs-json": ("columns of times", "NULs"),
    "drs-json-c": ("columns of times", "digits of bytes"),
    "dts-json": ("columns of times", "fields that nobody knows"),
    "dts-avro": ("NULs", "digits"),
    "drs-avro": ("NULs", "digits of bytes"),
    "dts-protobuf": ("character sets", "properties"),
    "ddl": ("quotes", "version comments"),
}
"""A pair of each decoder that is looked at in the first tier."""


def growth(decoder: str, *names: str, size: int = SIZE) -> float:
    one = DECODERS[decoder]
    return doubled(lambda size: one.message(names, size), one.step, size)


@pytest.mark.parametrize("decoder", DECODERS)
def test_two_things_cost_their_sum(decoder: str) -> None:
    assert growth(decoder, *FIRST[decoder], size=SIZE // 4) <= MOST_RATIO


PRODUCTS = {
    "numbers of labels": ("columns", "columns of times"),
}
"""Rows that lack columns, beside columns: a changelog has every column of each row, and ``MOST_CELLS`` bounds how many."""

DEAR = frozenset({"dts-avro", "drs-avro", "ddl"})
"""Decoders that take a hundred lines for a value or an action, so that all pairs take minutes."""


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        pytest.param(one, name, marks=pytest.mark.long if one in DEAR else pytest.mark.more)
        for one, found in DECODERS.items()
        for name in found.elements
    ],
)
def test_each_thing_beside_each_other_costs_their_sum(decoder: str, name: str) -> None:
    names = list(DECODERS[decoder].elements)
    others = [one for one in names[names.index(name) :] if name not in PRODUCTS.get(one, ())]
    found = {other: growth(decoder, name, other) for other in others}
    assert not {other: round(ratio, 1) for other, ratio in found.items() if ratio > MOST_RATIO}
