"""The engine behind histories put together in memory, as its tasks put it together on files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.stages.change_columns import CHANGE_COLUMNS, Counted, RowShape, truncations_of
from dts_assets.stages.key_operations import standing
from dts_assets.stages.row_versions import versions_of
from dts_assets.stages.snapshot_in_arrow import keys_of_rows, text_of, touched_keys
from tests.stages.merging import EVERYTHING, NAMES, SNAPSHOT, parts_of, shared
from tests.stages.worlds import COLUMNS

PLACE = pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])
HISTORY = pa.schema(
    [
        *(SNAPSHOT.field(name) for name in NAMES), ("_valid_from", pa.timestamp("us", "UTC")),
        ("_valid_to", pa.timestamp("us", "UTC")), ("_valid_from_position", PLACE), ("_valid_to_position", PLACE),
        ("_op", pa.string()), ("_invalid", pa.map_(pa.string(), pa.string())),
    ]
)  # fmt: skip
SHAPE = RowShape(COLUMNS, NAMES, HISTORY, versions=True)
BAG = RowShape.of(
    tuple(Column(one.name, one.type, is_key=False) for one in COLUMNS), NAMES, HISTORY, unfit=False, versions=True
)
NOTHING = pa.RecordBatch.from_pylist([], schema=HISTORY)


def advanced(
    stored: pa.RecordBatch,
    batches: Sequence[pa.RecordBatch],
    counted: Counted = EVERYTHING,
    *,
    shape: RowShape = SHAPE,
    fold_absent: bool = False,
    shares: int = 1,
) -> pa.RecordBatch:
    """A history after changes, put together in memory as tasks put it together on files."""
    parts = parts_of(batches, counted, shape, hashed=True)
    if not parts:
        return stored
    keys = keys_of_rows(stored, shape)
    touched = touched_keys(parts, counted.again)
    new, anew = touched.rows(keys), touched.rows_again(keys)
    ended = np.asarray(stored["_valid_to"].is_valid())
    gone = (new & ~ended) | anew
    early = min((part.numbers("time").min() for part in parts if part.count), default=0)
    late = np.asarray(pc.fill_null(pc.greater(stored["_valid_to"].cast(pa.int64()), int(early)), False))
    base = stored.filter(pa.array(((gone & ~ended) | (new & late & (not shape.is_bag))) & ~anew))
    texts = {place: text_of(base.column("_invalid"), [name]) for place, name in enumerate(shape.names)}
    parts.append(standing(base, shape, texts, hashed=True))
    cuts = truncations_of([one.select(CHANGE_COLUMNS) for one in batches], counted.after)
    found = [stored.filter(pa.array(~gone))]
    for whole in shared(parts, parts, shares):
        found.append(versions_of(whole, shape, truncations=cuts, fold_absent=fold_absent).rows)
    rows = pa.Table.from_batches(found).combine_chunks().to_batches()
    return rows[0] if rows else NOTHING
