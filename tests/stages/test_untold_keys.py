"""A change that tells no whole key, by either image, changes no row, and is counted."""

from __future__ import annotations

import pytest

from dts_assets.model.removals import NotRemoved
from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.key_operations import joined
from dts_assets.stages.row_folds import living_rows
from tests.stages.merging import SHAPE, UNFIT, batch, parts_of
from tests.stages.worlds import Change, at, row

STOOD = [Change("insert", None, row(number, "old"), at(1, number)) for number in (1, 2, 3)]


def untold(operation: str, *absent: str, unsent: tuple[str, ...] = ()) -> Change:
    """A change of the first row, whose images lack columns."""
    before = None if operation == "insert" else row(1, "old")
    after = None if operation == "delete" else row(1, "new")
    return Change(operation, before, after, at(2, 1), absent=absent, unsent=unsent)


@pytest.mark.parametrize("shape", [SHAPE, UNFIT])
@pytest.mark.parametrize(
    "change",
    [
        untold("update", "id.no", unsent=("id.no",)),
        untold("update", "world", "id.no", "amount", unsent=("world", "name")),
        untold("delete", unsent=("world",)),
    ],
)
def test_rows_stay_as_they_were(shape: RowShape, change: Change) -> None:
    parts = parts_of([batch([*STOOD, change])], shape=shape, hashed=True)
    made = living_rows(joined(parts), shape, fold_absent=True)
    assert sorted((one["world"], one["name"]) for one in made.rows.to_pylist()) == [(1, "old"), (2, "old"), (3, "old")]
    assert made.not_removed == NotRemoved(0, 1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (untold("update", "id.no", unsent=("name",)), "new"),
        (untold("update", "amount", unsent=("world", "id.no")), "new"),
        (untold("update", "name", unsent=("world",)), "old"),
        (untold("insert", "amount"), "new"),
    ],
)
def test_a_key_that_one_image_tells_is_told(change: Change, name: str) -> None:
    made = living_rows(joined(parts_of([batch([*STOOD, change])], hashed=True)), SHAPE, fold_absent=True)
    assert sorted((one["world"], one["name"]) for one in made.rows.to_pylist()) == [(1, name), (2, "old"), (3, "old")]
    assert made.not_removed == NotRemoved()
