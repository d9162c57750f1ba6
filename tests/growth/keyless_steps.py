"""Changes of tables without a key that tell a part of their rows: many changes on many rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.problems import Completeness
from dts_assets.model.windows import Window
from dts_assets.planning.judgements import corrected_marks
from dts_assets.stages.change_columns import CHANGE_COLUMNS, Counted, RowShape
from dts_assets.stages.key_operations import joined, operations_of, standing
from dts_assets.stages.keys import Bounds
from dts_assets.stages.row_folds import living_rows
from dts_assets.stages.snapshot_in_arrow import keys_of_rows, touched_keys
from tests.growth.long_histories import Case
from tests.stages.merging import ALL, batch, stored
from tests.stages.test_matched_rows import CHANGED, FIELDS, SENT
from tests.stages.worlds import HOUR, START, Change, Row, Shown, at

_TO_SENT = [name for name in FIELDS if name not in ("world", "id.no")]


def _row(number: int, name: str | None = "a") -> Row:
    return number % 97, number, name, None


def _by_key(count: int) -> pa.RecordBatch:
    """As many rows come, change by their key alone, and every third goes."""
    unsent = tuple(_TO_SENT)
    return batch(
        one
        for number in range(count)
        for one in (
            Change("insert", None, _row(number), at(1, number)),
            Change("update", _row(number), _row(number, "b"), at(2, number), unsent=unsent, absent=("world", "id.no")),
            *([Change("delete", _row(number, "b"), None, at(3, number), unsent=unsent)] if number % 3 == 0 else []),
        )
    )


def _by_changes(count: int) -> pa.RecordBatch:
    """The same of a source that sends changed columns alone as old rows."""
    return batch(
        one
        for number in range(count)
        for one in (
            Change("insert", None, _row(number, None if number % 2 else "a"), at(1, number)),
            Change("update", _row(number), (*_row(number)[:3], 7), at(2, number)),
        )
    )


def _folded(changes: pa.RecordBatch, shape: RowShape) -> object:
    part = operations_of(changes.select(CHANGE_COLUMNS), shape, Counted(ALL), hashed=True)
    rows = stored(Shown(_row(number), START, 0, 0) for number in range(20))
    touched = touched_keys([part])
    keys = keys_of_rows(rows, shape)
    found = [(pc.min_max(one), one.null_count > 0) for one in keys]
    bounds = [Bounds(least["min"], least["max"], may_be_null) for least, may_be_null in found]
    assert touched.reach(bounds.__getitem__)
    gone = rows.filter(pa.array(touched.rows(keys)))
    made = living_rows(joined([part, standing(gone, shape, {}, hashed=True)]), shape)
    assert made.rows.num_rows
    return made


def _marks(count: int) -> list[Cut]:
    whole = [Window(START + number * HOUR, START + (number + 1) * HOUR) for number in range(count)]
    told = (Consistency.WINDOW, Completeness.OBSERVED, (), "g", ("proof:x=1",), "7")
    return [Cut(window, None, None, *told) for window in whole]


def _judged(marks: list[Cut]) -> object:
    counts = {mark.window.start: 2 for mark in marks[::2]}
    once = corrected_marks(marks, counts, without=[marks[0].window])
    again = corrected_marks([replace(mark, inputs=()) for mark in once], {START - timedelta(1): 1})
    assert len(once) == len(again)
    return again


KEYLESS_STEPS: dict[str, Case] = {
    "changes that tell their rows by some columns": (_by_key, lambda one: _folded(one, SENT)),
    "changes whose old rows may lack NULL": (_by_changes, lambda one: _folded(one, CHANGED)),
    "marks of windows with ambiguous changes": (_marks, _judged),
}
