"""Messages in Avro as blocks of records, read with the customer's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.problems import Reason
from dts_assets.wire.avro.column_lists import column_lists
from dts_assets.wire.avro.field_values import holds_bytes, is_scalar, lists_of, pairs, texts
from dts_assets.wire.avro.images import image_part
from dts_assets.wire.avro.records import Records, RecordSchema, read_records
from dts_assets.wire.avro.side_by_side import LENGTHS, Extent, Wanted
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.clock_texts import ClockColumns, clock_code
from dts_assets.wire.columns.digests import digests
from dts_assets.wire.columns.image_parts import Ints
from dts_assets.wire.columns.integers import Integers
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8, readable
from dts_assets.wire.dts_records import FIELDS, LISTS
from dts_assets.wire.dts_records.blocks import Faults, RowBlock, Unread

_HEADS: Mapping[str, Wanted] = {
    role: Extent.BYTES if role in ("columns", "key_names") else LENGTHS if role in ("before", "after") else None
    for role in FIELDS
}
"""The fields that entries are made of: all but the values of rows."""

_ROWS: Mapping[str, Wanted] = {
    "operation": None, "columns": Extent.BYTES, "key_names": Extent.BYTES, "before": None, "after": None
}  # fmt: skip
"""The fields that rows are made of."""

_SAID: Mapping[str, Wanted] = dict.fromkeys(("operation", "database", "table", "before", "after"), Extent.BYTES)
_TEXTS = tuple(role for role in FIELDS if role not in LISTS)


def heads_of(sets: pa.Array, schema: RecordSchema) -> Iterator[AvroHeads]:
    """Yield messages as records without the values of their rows."""
    return map(AvroHeads, read_records(schema, sets, _HEADS, others=None))


def rows_of(payloads: pa.Array, *, schema: RecordSchema) -> Iterator[RowBlock]:
    """Yield the rows of messages."""
    for records in read_records(schema, payloads, _ROWS):
        codes, lists = column_lists(records)
        clocks = _clocks(codes, lists)
        before, after = (image_part(records, role, clocks) for role in ("before", "after"))
        yield RowBlock(records.rows, _unread(records), records.texts("operation"), codes, lists, before, after)


def contents_of(payloads: pa.Array, schema: RecordSchema) -> npt.NDArray[np.int64]:
    """Return a digest per record of what it says of its row.

    A message that is no record is its own content.
    """
    said: list[bytes] = [b""] * len(payloads)
    for records in read_records(schema, payloads, _SAID):
        parts = zip(*(records.extents(role).to_pylist() for role in _SAID), strict=True)
        for row, part in zip(records.rows.tolist(), parts, strict=True):
            said[row] = b"\0".join(part)
        for row in records.failed.tolist():
            said[row] = payloads[row].as_py()
    return digests(said)


def _unread(records: Records) -> Sequence[Unread]:
    detail = "its bytes are no record of the schema"
    return [Unread(number, None, Reason.UNDECODABLE_ENTRIES, detail) for number in records.failed.tolist()]


def _clocks(codes: Ints, lists: Sequence[ColumnList | None]) -> ClockColumns:
    return ClockColumns.of(
        [[] if one is None else [clock_code(column.original_type) for column in one.columns] for one in lists], codes
    )


@dataclass(frozen=True, slots=True)
class AvroHeads:
    """The :class:`dts_assets.wire.dts_records.blocks.HeadBlock` of records in Avro."""

    records: Records

    @property
    def rows(self) -> Ints:
        """The numbers of the records among all messages."""
        return self.records.rows

    @property
    def unread(self) -> Sequence[Unread]:
        """The messages of the block that are no records."""
        return _unread(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def take(self, rows: Ints) -> AvroHeads:
        """Return some of the records, in this order."""
        return AvroHeads(self.records.take(rows))

    def texts(self, role: str) -> pa.Array:
        """Return a role's values as bytes, null where there is none."""
        return self.records.texts(role)

    def integers(self, role: str) -> Integers:
        """Return a role's values as whole numbers."""
        return self.records.integers(role)

    def column_lists(self) -> tuple[Ints, Sequence[ColumnList | None]]:
        """Return the number of each record's column list, and the distinct lists."""
        return column_lists(self.records)

    def has_image(self, role: str) -> Bools:
        """Return which records have a value at least in an image."""
        found = np.zeros(len(self), np.bool_)
        column = self.records.column(role)
        arrays = None if column is None else lists_of(*column, len(self))
        if arrays is not None:
            found[arrays[0]] = arrays[2].counts > 0
        return found

    def faults(self) -> Faults:
        """Yield the faults of texts: their bytes may be no UTF-8."""
        places = self.records.schema.fields
        for role in [role for role in _TEXTS if role in places and holds_bytes(places[role].type)]:
            yield not_utf8(self.texts(role)), Reason.UNDECODABLE_ENTRY, f"its {FIELDS[role][0]} is not UTF-8"

    def pairs(self) -> pa.ListArray | None:
        """Return the tags of records as lists of key and value in UTF-8."""
        found = self.records.column("tags")
        return None if found is None else pairs(*found, self.records.data, len(self))

    def unknown(self) -> Mapping[str, int]:
        """Count nothing: every record has all fields of the schema."""
        return {}

    def others(self) -> Iterator[tuple[str, pa.Array]]:
        """Yield the fields without a role, each with its texts."""
        for other in self.records.schema.others:
            if is_scalar(other.type):
                found = texts(*self.records.at(other), self.records.data, len(self))
                yield other.name, readable(found)
