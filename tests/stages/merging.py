"""The engine behind snapshots put together in memory, as its tasks put it together on files."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.change_columns import CHANGE_COLUMNS, Counted, RowShape, truncations_of
from dts_assets.stages.judged_changes import judged
from dts_assets.stages.key_operations import Operations, joined, operations_of, partial_moves, shared_out, standing
from dts_assets.stages.row_folds import last_operations, living_rows
from dts_assets.stages.row_patterns import RowPatterns, patterns_of_changes
from dts_assets.stages.snapshot_in_arrow import Touched, keys_of_rows, linked_keys, text_of, touched_keys, with_linked
from dts_assets.stages.soft_deletes import rows_with_deleted
from tests.stages.worlds import COLUMNS, HOUR, START, Change, Key, Row, Shown

IMAGE = pa.struct([("world", pa.int32()), ("id.no", pa.int32()), ("name", pa.string()), ("amount", pa.int32())])


def changes_of(image: pa.StructType) -> pa.Schema:
    """The columns of a changelog with such images."""
    return pa.schema(
        [
            ("op", pa.string()), ("before", image), ("after", image), ("event_time", pa.timestamp("us", "UTC")),
            ("source_position", pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])),
            ("row_number", pa.int32()), ("kafka_partition", pa.int32()), ("kafka_offset", pa.int64()),
            ("window_start", pa.timestamp("us", "UTC")), ("absent", pa.list_(pa.string())),
            ("invalid", pa.map_(pa.string(), pa.string())),
        ]
    )  # fmt: skip


CHANGES = changes_of(IMAGE)
SNAPSHOT = pa.schema(
    [
        ("world", pa.int32()), ("id.no", pa.int32()), ("name", pa.string()), ("_source_amount", pa.int64()),
        ("_event_time", pa.timestamp("us", "UTC")), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64()),
        ("_invalid", pa.map_(pa.string(), pa.string())),
    ]
)  # fmt: skip
NAMES = tuple(SNAPSHOT.names[:4])
SHAPE = RowShape(COLUMNS, NAMES, SNAPSHOT)
UNFIT = RowShape(COLUMNS, NAMES, SNAPSHOT, unfit=True)
ALL = Frontier(START + 100 * HOUR, START + 100 * HOUR, None)
EVERYTHING = Counted(ALL)


def image(values: Row | None, absent: Sequence[str] = ()) -> dict[str, object] | None:
    if values is None:
        return None
    return {name: None if name in absent else value for name, value in zip(IMAGE.names, values, strict=True)}


def batch(changes: Iterable[Change]) -> pa.RecordBatch:
    """Changes as a batch of a changelog, in no order."""
    rows: list[dict[str, object]] = [
        {
            "op": change.op, "before": image(change.before, change.unsent), "after": image(change.after, change.absent),
            "event_time": change.event_time,
            "source_position": {
                "lineage": change.position.lineage, "file": change.position.file, "position": change.position.position,
            },
            "row_number": change.row_number, "kafka_partition": change.kafka_partition,
            "kafka_offset": change.kafka_offset, "window_start": START + change.window * HOUR,
            "absent": [f"after.{name}" for name in change.absent] + [f"before.{name}" for name in change.unsent],
            "invalid": list(change.invalid),
        }
        for change in changes
    ]  # fmt: skip
    random.Random(1).shuffle(rows)
    return pa.RecordBatch.from_pylist(rows, schema=CHANGES)


def stored(rows: Iterable[Shown]) -> pa.RecordBatch:
    """Rows of a snapshot."""
    made = [(*one.row, one.event_time, one.kafka_partition, one.kafka_offset, None) for one in rows]
    return pa.RecordBatch.from_pylist([dict(zip(SNAPSHOT.names, row, strict=True)) for row in made], schema=SNAPSHOT)


def emptied_at(batches: Sequence[pa.RecordBatch]) -> SourcePosition | None:
    """The position of the last truncation; None without one."""
    return max((one.position for one in truncations_of(batches, ALL)), default=None)


def parts_of(
    batches: Sequence[pa.RecordBatch], counted: Counted = EVERYTHING, shape: RowShape = SHAPE, *, hashed: bool = False
) -> list[Operations]:
    return [operations_of(one.select(shape.change_columns), shape, counted, hashed=hashed) for one in batches]


def shared(parts: Sequence[Operations], all_of: Sequence[Operations], shares: int) -> Iterator[Operations]:
    """Operations as tasks get them that share keys out, through bytes; changes of ``all_of`` keep rows together."""
    linked = linked_keys(partial_moves(part) for part in all_of)
    patterns = RowPatterns.joined(patterns_of_changes(part.touches, part.keys) for part in all_of)
    pieces = [[piece.to_bytes() for piece in shared_out(part, shares, linked, patterns)] for part in parts]
    for share in zip(*pieces, strict=True):
        yield joined([Operations.of_bytes(piece) for piece in share])


def merged(
    snapshot: pa.RecordBatch,
    batches: Sequence[pa.RecordBatch],
    counted: Counted = EVERYTHING,
    *,
    shape: RowShape = SHAPE,
    fold_absent: bool = False,
    shares: int = 1,
) -> pa.RecordBatch:
    """The rows of a snapshot after changes: untouched rows and the rows that live behind the operations.

    With ``shares`` operations go through bytes to several folds, as they do between tasks.
    """
    parts = parts_of(batches, counted, shape, hashed=fold_absent or shares > 1)
    touched = touched_keys(parts, counted.again)
    keys = keys_of_rows(snapshot, shape)
    gone = touched.rows(keys)
    if shape.is_soft and shape.is_bag:
        gone = (gone & np.asarray(snapshot["_deleted_at"].is_null())) | touched.rows_again(keys)
    cuts = truncations_of([one.select(CHANGE_COLUMNS) for one in batches], counted.after)

    def fold(operations: Operations) -> pa.RecordBatch:
        whole = judged(operations, shape, cuts)
        if shape.is_soft:
            return rows_with_deleted(whole, shape, truncations=cuts, fold_absent=fold_absent).rows
        return living_rows(whole, shape, fold_absent=fold_absent).rows

    if fold_absent:
        base = snapshot.filter(pa.array(gone & ~touched.rows_again(keys)))
        texts = {place: text_of(base.column("_invalid"), [name]) for place, name in enumerate(shape.names)}
        parts.append(standing(base, shape, texts, hashed=True))
    found = [snapshot.filter(pa.array(~gone))]
    if shares == 1:
        found += [fold(joined(parts))] if parts else []
    else:
        some = parts if fold_absent else [last_operations(part) for part in parts]
        found += map(fold, shared(some, parts, shares))
    return (
        pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        if sum(one.num_rows for one in found)
        else found[0]
    )


def again(
    batches: Sequence[pa.RecordBatch], *, whole: Sequence[pa.RecordBatch] = (), shape: RowShape = SHAPE
) -> npt.NDArray[np.uint64]:
    """The sorted hashes of the keys that changes touch, and of those that moves of all changes link to them."""
    parts = parts_of(batches, EVERYTHING, shape, hashed=True)
    hashes = np.unique(np.concatenate([np.zeros(0, np.uint64), *(part.hashes() for part in parts)]))
    return with_linked(
        hashes, linked_keys(partial_moves(one) for one in parts_of(whole, EVERYTHING, shape, hashed=True))
    )


def shown(rows: pa.RecordBatch) -> dict[Key, Shown]:
    made = {}
    for one in rows.to_pylist():
        values = tuple(one[name] for name in NAMES)
        assert values[:2] not in made, "a key stands there twice"
        made[values[:2]] = Shown(values, one["_event_time"], one["_kafka_partition"], one["_kafka_offset"])
    return made


def touched_by(batches: Sequence[pa.RecordBatch]) -> Touched:
    return touched_keys(parts_of(batches))
