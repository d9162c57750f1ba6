"""Deletes and updates of a key among decoded changes, by table, cell and side of an offset."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from dts_assets.model.tables import TableId
from dts_assets.stages.parent_changes import parent_changes, parent_spans
from dts_assets.wire.format import TableChanges

START = datetime(2026, 3, 1, tzinfo=UTC)
TABLE = TableId("d", "", "t")
Change = tuple[str, int | None, int | None, Sequence[str]]
"""An operation, the key before and behind it, and the columns that images lack."""


def changes(*some: Change) -> TableChanges:
    def image(ids: list[int | None]) -> pa.Array:
        rows = [None if one is None else {"id": one, "n": 1} for one in ids]
        return pa.array(rows, pa.struct([("id", pa.int64()), ("n", pa.int64())]))

    operations, before, after, absent = (list(one) for one in zip(*some, strict=True))
    return TableChanges(
        TABLE,
        pa.RecordBatch.from_pydict(
            {
                "entry_index": pa.array(range(len(some)), pa.int32()), "op": pa.array(operations), "before": image(before),
                "after": image(after), "absent": pa.array(absent, pa.list_(pa.string())),
            }
        ),
    )  # fmt: skip


def entries(count: int) -> pa.RecordBatch:
    """Entries at the positions 0, 10, 20, ..., of which the third begins a window, in files without order."""
    zeros = pa.array([0] * count, pa.int32())
    return pa.RecordBatch.from_pydict(
        {
            "kafka_partition": zeros, "window_start": pa.array([START + timedelta(hours=n // 2) for n in range(count)]),
            "last_offset": range(count), "lineage": zeros, "file_name": ["bin.000004"] * count,
            "position": [10 * n for n in range(count)],
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (("insert", None, 1, []), False),
        (("delete", 1, None, []), True),
        (("delete", 1, None, ["before.n"]), True),
        (("update", 1, 1, []), False),
        (("update", 1, 2, []), True),
        (("update", 1, 2, ["before.n"]), True),
        (("update", 1, None, ["after.id"]), False),
        (("update", None, 2, []), False),
    ],
)
def test_deletes_and_other_keys_count(change: Change, counts: bool) -> None:
    assert (parent_changes(changes(("insert", None, 9, []), change), ["id", "gone"]) is not None) == counts


def test_other_columns_are_no_key() -> None:
    assert parent_changes(changes(("update", 1, 2, [])), []) is None
    assert parent_changes(changes(("update", 1, 2, [])), ["n"]) is None


def test_spans_are_of_one_cell_one_kind_and_one_side() -> None:
    moved: Change = ("update", 1, 2, [])
    gone: Change = ("delete", 1, None, [])
    found = parent_changes(changes(gone, gone, moved, gone, moved, ("insert", None, 1, []), gone, gone), ["id"])
    assert found is not None
    sides = np.array([False] * 7 + [True])
    spans = {
        (one.row // 2, one.is_delete, bool(sides[one.row])): (one.span.first.position, one.span.last.position)
        for one in parent_spans([found], entries(8), sides)
    }
    assert spans == {
        (0, True, False): (0, 10), (1, True, False): (30, 30), (1, False, False): (20, 20), (2, False, False): (40, 40),
        (3, True, False): (60, 60), (3, True, True): (70, 70),
    }  # fmt: skip
    assert not list(parent_spans([], entries(8), sides))
