"""Records to the row changes of every wanted table; a record has one row or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.avro.records import Records, read_records
from dts_assets.wire.avro.side_by_side import Extent, Ints, Wanted
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.digests import digests
from dts_assets.wire.columns.pivot import pivot
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.drs_avro.columns import COLUMN_WISHES, columns_of, describes_columns, with_columns_of
from dts_assets.wire.drs_avro.framing import NO_RECORD, Schemas, unframed
from dts_assets.wire.drs_avro.images import Side, Store
from dts_assets.wire.drs_avro.operations import DELETE, INSERT, READ, UPDATE, operations_of
from dts_assets.wire.drs_avro.roles import SENT
from dts_assets.wire.drs_avro.values import drs_avro_reading
from dts_assets.wire.format import DecodedChanges

_OPERATIONS = pa.array(["insert", "update", "delete", "read"])
_WANTED: Mapping[str, Wanted] = {"operation": None, "before": None, "after": None, **COLUMN_WISHES}
"""The fields that rows are made of."""


def changes_of(
    entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]], schemas: Schemas, zone: str
) -> DecodedChanges:
    """Return the row changes of entries, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them.

    ``zone`` (``+08:00``) is that of wall clocks that are instants.

    Raises:
        TooLargeError: There are far more cells than bytes.
    """
    wanted, codes = table_codes(entries, tables)
    reject = Rejections(entries, wanted)
    found = _Found(tuple(tables.values()))
    payloads = entries["payload"].take(pa.array(wanted))
    for schema, rows, messages in unframed(payloads, schemas):
        for records in read_records(schema, messages, _WANTED):
            found.add(records, rows[records.rows], codes)
            for number in rows[records.failed].tolist():
                reject.add(number, Reason.UNDECODABLE_ENTRY, NO_RECORD)
    events = found.events()
    for places, reason, detail in events.faults():
        for number in events.numbers[places].tolist():
            reject.add(number, reason, detail)
    order = np.flatnonzero(events.good & (events.operations <= READ))
    order = order[np.lexsort((events.numbers[order], codes[events.numbers[order]]))]
    numbers, counts, done = events.numbers[order], events.counts[order], events.operations[order]
    owners = np.repeat(np.arange(len(order)), counts)
    row_numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    beside = beside_images(wanted[numbers][owners], row_numbers, _OPERATIONS.take(pa.array(done[owners])))
    chunks = table_rows(tables, codes[numbers], events.lists[order], found.groups, owners)
    widths = events.widths[order][owners]
    sides = []
    for firsts, present in (events.before, events.after):
        sides.append((firsts[order][owners] + row_numbers * widths, widths, present[order][owners]))
    (before, after), bare = found.store.images(sides)
    changes, _ = pivot(chunks, before, after, beside, reading=drs_avro_reading(zone, bare))
    return DecodedChanges(changes, reject.all(), frozenset(), dict(sorted(found.store.unknown.items())))


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a call: ``numbers`` are those of their payloads, ``counts`` their rows.

    ``before`` and ``after`` have the first value of each event's image, and which events have it.
    """

    numbers: Ints
    operations: Ints
    lists: Ints
    widths: Ints
    counts: Ints
    before: tuple[Ints, Bools]
    after: tuple[Ints, Bools]
    wrong: tuple[tuple[Bools, Reason, str], ...]

    @property
    def good(self) -> Bools:
        """The events that can be used."""
        found: Bools = ~np.logical_or.reduce([wrong for wrong, _, _ in self.wrong])
        return found

    def faults(self) -> list[tuple[Ints, Reason, str]]:
        """Return the events that cannot be used, each with its first fault."""
        seen, found = np.zeros(len(self.numbers), np.bool_), []
        for wrong, reason, detail in self.wrong:
            found.append((np.flatnonzero(wrong & ~seen), reason, detail))
            seen |= wrong
        return found


@dataclass(slots=True)
class _Found:
    """The records of a call, block by block. ``tables`` has the columns of each wanted table."""

    tables: Sequence[tuple[Column, ...]]
    store: Store = field(default_factory=Store)
    _numbers: list[Ints] = field(default_factory=list)
    _operations: list[Ints] = field(default_factory=list)
    _lists: list[Ints] = field(default_factory=list)
    _known: dict[ColumnList | None, int] = field(default_factory=dict)
    _sides: tuple[list[Side], list[Side]] = field(default_factory=lambda: ([], []))

    @property
    def groups(self) -> list[ColumnList | None]:
        """The distinct column lists."""
        return list(self._known)

    def add(self, records: Records, numbers: Ints, of_table: Ints) -> None:
        """Add a block of records; ``numbers`` are those of their payloads, ``of_table`` has the table of each payload.

        Raises:
            TooLargeError: There are far more cells than bytes.
        """
        self._numbers.append(numbers)
        self._operations.append(operations_of(records.texts("operation")))
        codes, lists = columns_of(records)
        if not describes_columns(records.schema):
            codes, lists = with_columns_of(self.tables, of_table[numbers], codes, lists)
        known = np.asarray([self._known.setdefault(one, len(self._known)) for one in lists], np.int64)
        self._lists.append(known[codes] if len(known) else codes)
        self.store.size += records.data.size
        for role, sides in zip(("before", "after"), self._sides, strict=True):
            sides.append(self.store.add(records, role, codes, lists))

    def events(self) -> _Events:
        """Return all events."""
        operations, lists = _joined(self._operations), _joined(self._lists)
        widths = np.asarray([0 if one is None else len(one.columns) for one in self.groups], np.int64)
        unreadable = np.asarray([one is None for one in self.groups], np.bool_)
        old, new = ([_joined([getattr(side, name) for side in sides]) for name in _PARTS] for sides in self._sides)
        # The vendor's JSON has a deleted row in the old image, its JSON-C in the new one.
        deleted = (operations == DELETE) & (old[0] < 0)
        old[0], old[1] = np.where(deleted, new[0], old[0]), np.where(deleted, new[1], old[1])
        has_old = (operations == DELETE) | (operations == UPDATE) & (old[0] > 0)
        has_new = (operations == INSERT) | (operations == UPDATE) | (operations == READ)
        counts = np.where(has_new, new[0], old[0])
        has_rows = operations <= READ
        lost = unreadable[lists] if len(unreadable) else lists > 0
        wrong = (
            (operations < 0, Reason.UNKNOWN_OPERATION, "its type is not known"),
            (lost & has_rows, Reason.UNDECODABLE_ENTRY, "its columns cannot be read"),
            ((old[3] | new[3]).astype(np.bool_), Reason.UNDECODABLE_ENTRY, "a value is of a kind that is not known"),
            ((counts <= 0) & has_rows, Reason.RAGGED_ROW, "it lacks the rows that its type is about"),
            (has_old & has_new & (old[0] != new[0]), Reason.RAGGED_ROW, "its images differ in their number of rows"),
            ((old[2] | new[2]).astype(np.bool_), Reason.RAGGED_ROW, "its values do not fit its columns"),
        )
        width = widths[lists] if len(widths) else lists
        return _Events(
            _joined(self._numbers), operations, lists, width, np.maximum(counts, 0),
            (old[1], has_old), (new[1], has_new), wrong,
        )  # fmt: skip


_PARTS = ("counts", "firsts", "ragged", "strange")


def _joined(parts: list[npt.NDArray[np.int64]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def contents_of(payloads: pa.Array, schemas: Schemas) -> npt.NDArray[np.int64]:
    """Return a digest per record of all its fields that its copies share.

    Its id, its time, and when it was sent are left aside. A payload that is no record is its own content.
    """
    said: list[bytes] = [b""] * len(payloads)
    for schema, rows, messages in unframed(payloads, schemas):
        places = [place for role, place in schema.fields.items() if role not in ("id", "time")]
        places += [place for place in schema.others if place.name not in SENT]
        for records in read_records(schema, messages, dict.fromkeys(schema.fields, Extent.BYTES), others=Extent.BYTES):
            parts = zip(*(records.extents_at(place).to_pylist() for place in places), strict=True)
            for row, part in zip(rows[records.rows].tolist(), parts, strict=True):
                said[row] = b"\0".join(part)
            for row in rows[records.failed].tolist():
                said[row] = payloads[row].as_py()
    return digests(said)


def name_keys(payloads: pa.Array, schemas: Schemas) -> Bools:
    """Return which records name a column of their table's key."""
    found = np.zeros(len(payloads), np.bool_)
    for schema, rows, messages in unframed(payloads, schemas):
        for records in read_records(schema, messages, COLUMN_WISHES | {"before": None, "after": None}):
            codes, lists = columns_of(records)
            keyed = [one is not None and any(column.is_key for column in one.columns) for one in lists]
            found[rows[records.rows]] = np.asarray(keyed, np.bool_)[codes]
    return found
