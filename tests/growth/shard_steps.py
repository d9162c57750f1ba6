"""Truncations of shards: many rows, many truncations, and many shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.shard_truncations import (
    Place,
    Shard,
    emptied_rows,
    next_truncations,
    shard_columns_of,
    shards_in,
)
from tests.growth.long_histories import Case

NAMES = ("_source_database", "_source_table")
Shards = tuple[list[pa.Array], Place, list[tuple[SourcePosition, Shard]]]


def _images(count: int) -> pa.RecordBatch:
    image = pa.array(
        [None if number % 7 == 3 else dict.fromkeys(NAMES, f"s{number}") for number in range(count)],
        pa.struct([(name, pa.string()) for name in NAMES]),
    )
    return pa.RecordBatch.from_pydict({"before": image, "after": image})


def _told(batch: pa.RecordBatch) -> object:
    return shards_in(batch["before"], NAMES), shard_columns_of(batch, NAMES)


def _emptied(count: int) -> Shards:
    """As many rows as truncations, each of a shard of its own or of a whole database."""
    columns = [pa.array([f"d{number % 9}" for number in range(count)]), pa.array([f"t{n}" for n in range(count)])]
    zeros, places = np.zeros(count, np.int64), np.arange(count, dtype=np.int64)
    truncations: list[tuple[SourcePosition, Shard]] = [
        (SourcePosition(0, 0, number), (f"d{number % 9}", f"t{number}" if number % 2 else ""))
        for number in range(count)
    ]
    return columns, (zeros, zeros, places), truncations


SHARD_STEPS: dict[str, Case] = {
    "shards of many changes": (_images, _told),
    "many truncations of many shards": (
        _emptied,
        lambda given: (next_truncations(*given), emptied_rows(*given)),
    ),
}
