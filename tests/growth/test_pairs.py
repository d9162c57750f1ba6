"""Twice as much of any two things in a message costs twice as much, in executed lines and in the greatest allocation.

A cost that is the product of two things is small while both are few, and takes all memory in a message of a megabyte.
"""

from __future__ import annotations

import pytest

from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.format import MOST_CELLS, MOST_NAME_BYTES, TooLargeError
from tests.growth.costs import MOST_RATIO, cost, doubled
from tests.growth.repeated import DECODERS, short_rows
from tests.growth.whole_way import Way, as_messages
from tests.tiers import times

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
"""Rows that lack columns, beside columns: a changelog has every column of each row, and ``MOST_CELLS`` bounds how many.

What they cost up to there is looked at below.
"""

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
    found = {other: growth(decoder, name, other, size=times(SIZE // 4, SIZE)) for other in others}
    assert not {other: round(ratio, 1) for other, ratio in found.items() if ratio > MOST_RATIO}


BYTES_OF_CELL, PEAK = 90, 200 << 20
"""What ``MOST_CELLS`` says of a cell, and the most that the cells of one message may take."""

WIDTH = 1_000
FEW = MOST_CELLS // 8 // WIDTH
"""Columns, and the rows of a message whose peak is made of cells already."""


@pytest.mark.parametrize(
    "kind", [pytest.param("int", id="int"), pytest.param("decimal(38,0)", id="decimal", marks=pytest.mark.more)]
)
@pytest.mark.parametrize(
    "decoder",
    ["canal-json", *(pytest.param(one, marks=pytest.mark.more) for one in ("drs-json", "drs-json-c", "drs-avro"))],
)
def test_a_cell_takes_the_bytes_that_its_bound_says(decoder: str, kind: str) -> None:
    message = DECODERS[decoder].written(short_rows(WIDTH, FEW, kind))
    DECODERS[decoder].step(message)
    found = cost(DECODERS[decoder].step, message).bytes
    assert found <= BYTES_OF_CELL * WIDTH * FEW
    assert BYTES_OF_CELL * MOST_CELLS <= PEAK


@pytest.mark.more
def test_the_whole_way_of_a_message_with_most_cells_stays_below_the_bound() -> None:
    """Rows of a changelog are made of it, and hashed, by lists of names that would take much as objects of Python."""
    message = DECODERS["canal-json"].written(short_rows(WIDTH, MOST_CELLS // (WIDTH + 1) - 2, "int"))
    assert len(message) < 200_000
    messages = as_messages([(message, [])])
    assert Way(CanalJson()).go(messages).changes == MOST_CELLS // (WIDTH + 1) - 1
    assert cost(lambda some: Way(CanalJson()).go(some), messages).bytes <= PEAK


@pytest.mark.more
@pytest.mark.parametrize("decoder", ["canal-json", "drs-json-c", "drs-avro"])
def test_more_cells_and_longer_names_than_the_bounds_are_refused(decoder: str) -> None:
    one = DECODERS[decoder]
    with pytest.raises(TooLargeError, match="cells"):
        one.step(one.written(short_rows(WIDTH, MOST_CELLS // WIDTH + 1, "int")))
    long = short_rows(100, 1_000, "int", name="n" * (MOST_NAME_BYTES // 100_000))
    with pytest.raises(TooLargeError, match="names of columns"):
        one.step(one.written(long))
