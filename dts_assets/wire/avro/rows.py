"""Records to the row changes of every wanted table: each record is one changed row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.avro.clock_texts import clock_code
from dts_assets.wire.avro.column_lists import column_lists
from dts_assets.wire.avro.images import ClockColumns, ImageParts
from dts_assets.wire.avro.records import Records, RecordSchema, read_records
from dts_assets.wire.avro.side_by_side import Extent, Ints, Wanted
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.digests import digests
from dts_assets.wire.columns.pivot import pivot, typed_values
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.format import DecodedChanges

OPERATIONS = ("insert", "update", "delete", "read")
_INSERT, _UPDATE, _DELETE, _READ = range(len(OPERATIONS))
_UNKNOWN = -1
_OPERATIONS = pa.array(OPERATIONS)

_WANTED: Mapping[str, Wanted] = {
    "operation": None, "columns": Extent.BYTES, "key_names": Extent.BYTES, "before": None, "after": None
}  # fmt: skip
"""The fields that rows are made of."""


def changes_of(
    entries: pa.RecordBatch,
    tables: Mapping[TableId, tuple[Column, ...]],
    schema: RecordSchema,
    operations: Mapping[str, str],
    *,
    zone: str,
) -> DecodedChanges:
    """Return the row changes of entries, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them.

    ``operations`` says which of :data:`OPERATIONS` each text in the field ``operation`` stands for. ``zone`` (``+08:00``) is that
    of wall clocks that are declared to be instants.
    """
    wanted, codes = table_codes(entries, tables)
    order = np.argsort(codes, kind="stable")
    reject = Rejections(entries, wanted)
    found = _Found(operations)
    payloads = entries["payload"].take(pa.array(wanted[order]))
    for records in read_records(schema, payloads, _WANTED):
        found.add(records)
        for number in records.failed.tolist():
            reject.add(int(order[number]), Reason.UNDECODABLE_ENTRY, "its bytes are no record of the schema")
    usable, problems = found.usable()
    for places, reason, detail in problems:
        for place in places.tolist():
            reject.add(int(order[found.rows[place]]), reason, detail)
    numbers = order[found.rows[usable]]
    owners = np.arange(len(numbers))
    done = found.codes[usable]
    beside = beside_images(wanted[numbers], np.zeros(len(numbers), np.int64), _OPERATIONS.take(pa.array(done)))
    chunks = table_rows(tables, codes[numbers], found.lists[usable], found.groups, owners)
    before = found.before.image(usable, (done == _UPDATE) | (done == _DELETE))
    after = found.after.image(usable, done != _DELETE)
    changes, unsigned = pivot(chunks, before, after, beside, reading=partial(typed_values, zone=zone))
    counts = found.before.unknown + found.after.unknown + Counter(before.unknown) + Counter(after.unknown)
    return DecodedChanges(changes, reject.all(), unsigned, dict(sorted(counts.items())))


_SAID: Mapping[str, Wanted] = dict.fromkeys(("operation", "database", "table", "before", "after"), Extent.BYTES)


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


class _Found:
    """The records of a call, block by block: ``rows`` are their numbers among the payloads."""

    def __init__(self, operations: Mapping[str, str]) -> None:
        self._operations = operations
        self._rows: list[Ints] = [np.zeros(0, np.int64)]
        self._codes: list[Ints] = [np.zeros(0, np.int64)]
        self._lists: list[Ints] = [np.zeros(0, np.int64)]
        self._numbers: dict[ColumnList | None, int] = {}
        self.before, self.after = ImageParts(), ImageParts()

    @property
    def rows(self) -> Ints:
        return np.concatenate(self._rows)

    @property
    def codes(self) -> Ints:
        """The operation of each record by number, -1 for one that is not known."""
        return np.concatenate(self._codes)

    @property
    def lists(self) -> Ints:
        return np.concatenate(self._lists)

    @property
    def groups(self) -> list[ColumnList | None]:
        return list(self._numbers)

    def add(self, records: Records) -> None:
        """Add a block."""
        self._rows.append(records.rows)
        named = records.texts("operation").dictionary_encode()
        known = [self._operation(name) for name in named.dictionary.to_pylist()]
        self._codes.append(np.asarray([*known, _UNKNOWN])[named.indices.fill_null(-1).to_numpy()])
        codes, lists = column_lists(records)
        numbers = np.asarray([self._numbers.setdefault(one, len(self._numbers)) for one in lists], np.int64)
        self._lists.append(numbers[codes])
        clocks = _clocks(codes, lists)
        self.before.add(records, "before", clocks)
        self.after.add(records, "after", clocks)

    def usable(self) -> tuple[Ints, list[tuple[Ints, Reason, str]]]:
        """Return the places of records that can be used, and the faults of all others."""
        codes, rows = self.codes, len(self.rows)
        widths = np.asarray([-1 if one is None else len(one.columns) for one in self.groups], np.int64)
        width = widths[self.lists] if len(widths) else np.zeros(0, np.int64)
        sizes = [np.concatenate([np.zeros(0, np.int64), *side.sizes]) for side in (self.before, self.after)]
        strange = [np.concatenate([np.zeros(0, np.bool_), *side.unusable]) for side in (self.before, self.after)]
        ragged: Bools = ((sizes[0] >= 0) & (sizes[0] != width)) | ((sizes[1] >= 0) & (sizes[1] != width))
        missing = np.where(codes == _DELETE, sizes[0] < 0, sizes[1] < 0)
        problems, good = [], np.ones(rows, np.bool_)
        for wrong, reason, detail in (
            (codes == _UNKNOWN, Reason.UNKNOWN_OPERATION, "its message type stands for no change of a row"),
            (width < 0, Reason.UNDECODABLE_ENTRY, "its columns cannot be read"),
            (strange[0] | strange[1], Reason.UNDECODABLE_ENTRY, "a value is of a kind that is not known"),
            (missing, Reason.RAGGED_ROW, "it lacks the row that its type is about"),
            (ragged, Reason.RAGGED_ROW, "its number of values is not the number of columns"),
        ):
            problems.append((np.flatnonzero(wrong & good), reason, detail))
            good &= ~wrong
        return np.flatnonzero(good), problems

    def _operation(self, name: bytes) -> int:
        operation = self._operations.get(name.decode(errors="replace"))
        return _UNKNOWN if operation is None else OPERATIONS.index(operation)


def _clocks(codes: npt.NDArray[np.int64], lists: list[ColumnList | None]) -> ClockColumns:
    forms = [[] if one is None else [clock_code(column.original_type) for column in one.columns] for one in lists]
    widths = np.asarray([len(one) for one in forms], np.int64)
    firsts = np.cumsum(widths) - widths
    joined = np.asarray([form for one in forms for form in one], np.int64)
    return ClockColumns(joined, firsts[codes], widths[codes])
