"""Keys in more than one row are counted, whatever their types, and no likeness is taken for a repetition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dts_assets.stages import repeated_keys as stage
from dts_assets.stages.repeated_keys import repeated_keys

INVALID = pa.map_(pa.string(), pa.string())
LARGE = pa.map_(pa.large_string(), pa.large_string())
"""The type that readers of Iceberg give."""


def count(
    keys: Sequence[pa.Array], invalid: Sequence[Any] | None = None, *, cut: int = 3, kind: pa.DataType = INVALID
) -> int:
    rows = len(keys[0])
    columns = [*keys, pa.array(invalid or [None] * rows, kind)]
    names = [f"k{number}" for number in range(len(keys))]
    table = pa.Table.from_arrays(columns, [*names, "_invalid"])
    return repeated_keys(lambda: iter(table.to_batches(max_chunksize=cut)), names)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3, -1, 4], pa.int64()),
        ([1, 2, None, 3, 4], pa.int32()),
        (["a", "b", "A", "", None], pa.string()),
        ([b"a", b"b", b"A", b"", None], pa.binary()),
        ([b"\xff\xfe", b"\xff", b"\x00", b"", None], pa.large_binary()),
        ([b"\xff\xfe", b"\xff\xff", None], pa.binary(2)),
        (["a", "b", "A", "", None], pa.large_string()),
        ([Decimal("1.10"), Decimal("1.11"), Decimal("-1.10"), None, Decimal("0")], pa.decimal128(20, 2)),
        ([datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 6)], pa.timestamp("us", tz="UTC")),
        ([datetime(2026, 1, day) for day in range(1, 6)], pa.timestamp("us")),
        ([True, False, None], pa.bool_()),
        ([1.5, 1.25, -0.5, 0.0, None], pa.float64()),
    ],
)
def test_one_row_for_each_key(values: list[Any], kind: pa.DataType) -> None:
    assert count([pa.array(values, kind)]) == 0
    assert count([pa.array([*values, values[0]], kind)]) == 1
    assert count([pa.array([*values, *values, values[1]], kind)]) == len(values)


def test_keys_of_several_columns() -> None:
    assert count([pa.array([1, 1, 2, 2]), pa.array(["a", "b", "a", "b"])]) == 0
    assert count([pa.array([1, 1, 2, 1]), pa.array(["a", "b", "a", "b"])]) == 1


@pytest.mark.parametrize("kind", [INVALID, LARGE], ids=["string", "large_string"])
@pytest.mark.parametrize("cut", [1, 3], ids=["in batches with and without such values", "in one batch"])
def test_the_text_of_a_value_that_does_not_fit_belongs_to_the_key(kind: pa.DataType, cut: int) -> None:
    nothing = pa.array([None, None, None], pa.date32())
    assert count([nothing], [[("k0", "0000-00-00")], [("k0", "2026-02-31")], [("other", "x")]], cut=cut, kind=kind) == 0
    assert count([nothing], [[("k0", "0000-00-00")], [("k0", "0000-00-00")], None], cut=cut, kind=kind) == 1
    assert count([nothing], [[("k0", "0000-00-00")], None, None], cut=cut, kind=kind) == 1


def test_an_equal_hash_is_no_equal_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_hashes", lambda key: np.zeros(key.num_rows, np.uint64))
    assert count([pa.array([1, 2, 3, 4, 5])]) == 0
    assert count([pa.array([1, 2, 3, 4, 1])]) == 1


def test_nothing_at_all() -> None:
    assert count([pa.array([], pa.int64())]) == 0
