"""Row changes of one table become rows of its changelog.

The source coordinates stand beside the decoder's columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.entry_columns import source_positions
from dts_assets.wire.columns.buffers import numbers_of, offsets_of
from dts_assets.wire.format import TableChanges

ENTRY_COLUMNS = (
    "kafka_partition", "epoch", "window_start", "last_offset", "event_time", "gtid", "transaction_id", "file_name", "position",
)  # fmt: skip
"""The columns of ``entries`` that changelog rows take over; beside them stands ``lineage``, which the ledger decides."""

ROWS_BEFORE = "rows_before"
"""The column beside them with the rows that came before an entry at its place."""


def changelog_rows(
    changes: TableChanges, entries: pa.RecordBatch, *, rows_apart: bool = False, deletes_first: bool = False
) -> pa.RecordBatch:
    """Return changelog rows in the order of the changes; ``entries`` is the batch that they were decoded from.

    ``rows_apart`` says that each row of an event is an entry, whose ``entry_number`` is its number there. ``deletes_first`` says
    that entries without a file have the place of their transaction, in which a key is deleted before it is there again.
    """
    row_numbers = changes.batch["row_number"]
    # Both are never told together: where rows are apart their number is that in the event.
    before = "entry_number" if rows_apart else ROWS_BEFORE
    if before in entries.schema.names:
        row_numbers = pc.add(row_numbers, entries[before].take(changes.batch["entry_index"]))
    taken = entries.select([*ENTRY_COLUMNS, "lineage"]).take(changes.batch["entry_index"])
    if deletes_first and taken["file_name"].null_count:
        later = pc.and_(taken["file_name"].is_null(), pc.not_equal(changes.batch["op"], "delete"))
        row_numbers = pc.add(row_numbers, later.cast(pa.int32()))
    decoded = ("op", "before", "after", "absent", "invalid")
    columns = {name: changes.batch[name] for name in decoded} | {
        "event_time": taken["event_time"],
        "transaction_id": pc.coalesce(taken["gtid"], taken["transaction_id"]),
        "source_position": source_positions(taken),
        "row_number": row_numbers,
        "kafka_partition": taken["kafka_partition"],
        "kafka_offset": taken["last_offset"],
        "epoch": taken["epoch"],
        "window_start": taken["window_start"],
    }
    return pa.RecordBatch.from_pydict(columns)


def position_bounds(rows: pa.RecordBatch) -> tuple[SourcePosition, SourcePosition]:
    """Return the smallest and the greatest source position of some changelog rows (at least one)."""
    parts = [rows["source_position"].field(name).to_numpy() for name in ("lineage", "file", "position")]
    order = np.lexsort(parts[::-1])
    first, last = (SourcePosition(*(int(part[row]) for part in parts)) for row in (order[0], order[-1]))
    return first, last


def placed_at(entries: pa.RecordBatch, position: SourcePosition) -> pa.RecordBatch:
    """Return entries with one position in the place of their own."""
    count = entries.num_rows
    found = entries.set_column(
        entries.schema.get_field_index("position"), "position", pa.array(np.full(count, position.position, np.int64))
    )
    return found.append_column("lineage", pa.array(np.full(count, position.lineage, np.int32)))


def invalid_by_column(invalid: pa.MapArray) -> Counter[str]:
    """Return the number of values in maps such as ``{"after.day": "0000-00-00"}`` by column, both images together."""
    bounds = offsets_of(invalid)
    found: Counter[str] = Counter()
    names = invalid.keys.slice(bounds[0], bounds[-1] - bounds[0])
    for one in pc.value_counts(names).to_pylist() if len(names) else ():
        found[one["values"].partition(".")[2]] += one["counts"]
    return found


def stretches(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each stretch of one Kafka partition and window."""
    partitions, windows = numbers_of(rows["kafka_partition"]), numbers_of(rows["window_start"].view(pa.int64()))
    changes = (np.diff(partitions) != 0) | (np.diff(windows) != 0)
    return pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows])
