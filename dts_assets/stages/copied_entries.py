"""Rows of copied tables as entries, so that they are decoded, ruled, routed and counted as all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.copied_tables import NO_KAFKA_PARTITION, CopiedTable, CopyKind
from dts_assets.model.lineages import LineageRule
from dts_assets.model.message_ids import Load
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.copied_texts import row_fields
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.wire.copied_rows import payload_of
from dts_assets.wire.format import MOST_CELLS

COPIED_COLUMNS = ("copy", "chunk", "row_number", "read_at", "removed", "row")
"""The columns of a copied table that are read."""

_ROWS = 1 << 16
"""The most rows of an entry."""

_NAMES = (
    "kafka_partition", "epoch", "window_start", "last_offset", "event_time", "gtid", "transaction_id", "file_name", "position",
    "entry_number", "shard", "message_type", "database", "schema", "table", "rows", "payload",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """A part of a copied table in a window, which starts at ``window_start``.

    ``empties`` says that the rows that the table had before go with this part.
    """

    copied: CopiedTable
    window_start: datetime
    empties: bool = False

    @property
    def operation(self) -> str:
        """The operation of the changes that rows become."""
        return "repair" if self.copied.kind is CopyKind.REPAIR else "read"

    def wanted(self) -> EntriesWanted:
        """Return the entries that count: all rows, and the emptying of the table before the first of them."""
        low, cell = self.copied.low, (NO_KAFKA_PARTITION, self.window_start)
        assert low is not None, "a window takes only tables that were copied"
        table = self.copied.table
        load = Load(0, table.database, table.schema, table.table, low.previous)
        loads = {cell: (load,)} if self.empties else {}
        return EntriesWanted(rules={cell: {self.copied.copy: LineageRule(low.lineage)}}, loads=loads)

    def emptying(self) -> pa.RecordBatch:
        """Return the entry at which the table is emptied; it has no rows."""
        low, copied = self.copied.low, self.copied
        assert low is not None, "a window takes only tables that were copied"
        return _entry(self, 0, low, copied.ended or copied.began, 0, 0, b"", "CONTROL")

    def entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield entries with the rows of batches, each of which is of one chunk and has :data:`COPIED_COLUMNS`."""
        shapes, chunks = self.copied.columns, {one.number: one for one in self.copied.chunks}
        before = _rows_before(self.copied)
        size = max(1, min(_ROWS, MOST_CELLS // (2 * max(1, len(shapes)))))
        for batch in chain.from_iterable(map(_by_removal, batches)):
            fields = row_fields(batch.schema.field("row").type, shapes)
            for start in range(0, batch.num_rows, size):
                piece = batch.slice(start, size)
                number = piece["chunk"][0].as_py()
                chunk, rows = chunks[number], piece["row"]
                assert chunk.low is not None, "a chunk whose rows are there was read"
                columns = [rows.field(name) for name in fields]
                told = pa.RecordBatch.from_arrays(columns, names=[one.name for one in shapes])
                payload = payload_of(told, shapes, removed=bool(piece["removed"][0].as_py()))
                first = before[number] + piece["row_number"][0].as_py()
                yield _entry(
                    self, number, chunk.low, piece["read_at"][0].as_py(), first, piece.num_rows, payload, "DML"
                )


def _by_removal(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the source has, then those that it has not."""
    removed = pc.fill_null(rows["removed"], False)
    if not pc.any(removed).as_py():
        yield rows
        return
    yield rows.filter(pc.invert(removed))
    yield rows.filter(removed)


def without_kafka(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return changelog rows of a copied table, which came from no Kafka partition and no offset."""
    for name in ("kafka_partition", "kafka_offset"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.nulls(rows.num_rows, rows.schema.field(name).type))
    return rows


def _rows_before(copied: CopiedTable) -> Mapping[int, int]:
    """Return the rows of all chunks before each chunk, so that the numbers of rows differ."""
    found, count = {}, 0
    for one in sorted(copied.chunks, key=lambda one: one.number):
        found[one.number] = count
        count += one.rows or 0
    return found


def _entry(
    part: CopiedPart,
    number: int,
    position: SourcePosition,
    time: datetime,
    first_row: int,
    rows: int,
    payload: bytes,
    message_type: str,
) -> pa.RecordBatch:
    table = part.copied.table
    values = (
        NO_KAFKA_PARTITION, 0, part.window_start, number, time, None, None, f"copy.{position.file:06d}", position.position,
        first_row, part.copied.copy, message_type, table.database, table.schema, table.table, rows, payload,
    )  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip(values, _TYPES, strict=True)], names=list(_NAMES)
    )


_INSTANT = pa.timestamp("us", tz="UTC")
_TYPES = (
    pa.int32(), pa.int32(), _INSTANT, pa.int64(), _INSTANT, pa.string(), pa.string(), pa.string(), pa.int64(),
    pa.int32(), pa.string(), pa.string(), pa.string(), pa.string(), pa.string(), pa.int32(), pa.binary(),
)  # fmt: skip
