"""Flat messages to the row changes of every wanted table ("Kafka Message Format", ``data`` and ``old``).

Values are texts in JSON objects. A row of the usual form, all columns in the order of their types, is added to one long list
with a single call; then the shared pivot takes over, with values read as a dialect writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw
from msgspec.json import Decoder
from msgspec.structs import astuple

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import with_empty_last
from dts_assets.wire.columns.images import ABSENT, FIELD, NULL, Image
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.pivot import Reading, pivot
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.flat_json.dialect import Dialect, SentCells
from dts_assets.wire.flat_json.messages import OPERATIONS, Cells, Described, Event, Refused, event_of, whole_rows
from dts_assets.wire.format import MOST_CELLS, DecodedChanges, TooLargeError

_OPERATIONS = pa.array(["insert", "update", "delete", "read"])
_NONE = -1
_UNDESCRIBED = "a row has a column that the message does not describe"
_FEW_MESSAGES, _PATIENCE = 16, 64
"""Messages before which no decoder of whole rows is made, and refusals after which it is dropped."""

_MOST_VALUES = 1 << 14
"""The most texts that are kept as objects: a million of them would take a hundred megabytes."""


@dataclass(slots=True)
class _Side:
    """The before or the after images: all values one behind the other, and each entry's first.

    ``values`` are the values that are not Arrow yet, and ``base`` is how many are.
    """

    values: list[str | None] = field(default_factory=list)
    base: int = 0
    parts: list[pa.Array] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    absent: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def add_whole(self, rows: Sequence[Any] | None) -> None:
        """Add rows of an entry that have a field for each column.

        None stands for an entry that has no such image.
        """
        if rows is None:
            self.starts.append(_NONE)
            return
        values = self.values
        if len(values) > _MOST_VALUES:
            self.settle()
        self.starts.append(self.base + len(values))
        for row in rows:
            values += astuple(row)

    def add(self, rows: Sequence[Cells] | None, columns: Described) -> None:
        """Add the rows of an entry; None where it has no such image.

        Raises:
            Refused: a row has a column that the message does not describe.
        """
        if rows is None:
            self.starts.append(_NONE)
            return
        if len(self.values) > _MOST_VALUES:
            self.settle()
        self.starts.append(self.base + len(self.values))
        names, add = columns.names, self.values.extend
        for row in rows:
            keys = tuple(row)
            if keys == names:
                add(row.values())
                continue
            if not row.keys() <= columns.list.positions.keys():
                raise Refused(Reason.RAGGED_ROW, _UNDESCRIBED)
            if len(keys) < len(names):
                missing = [place for place, name in enumerate(names) if name not in row]
                self.absent.append(self.base + len(self.values) + np.asarray(missing, np.int64))
            add(map(row.get, names))

    def add_changed(self, rows: Sequence[Any], changed: Sequence[Cells], columns: Described) -> None:
        """Add what whole rows were before the values of their changed columns became the present ones.

        Raises:
            Refused: a changed column is none that the message describes.
        """
        values, positions = self.values, columns.list.positions
        if len(values) > _MOST_VALUES:
            self.settle()
        self.starts.append(self.base + len(values))
        for row, cells in zip(rows, changed, strict=True):
            start = len(values)
            values += astuple(row)
            for name, text in cells.items():
                place = positions.get(name)
                if place is None:
                    raise Refused(Reason.RAGGED_ROW, _UNDESCRIBED)
                values[start + place] = text

    def cut(self, entries: int) -> None:
        """Remove the values, still in ``values``, that were added behind so many entries."""
        if len(self.starts) > entries:
            start = self.starts.pop()
            if start != _NONE:
                del self.values[start - self.base :]
                self.absent = [cells for cells in self.absent if cells[0] < start]

    def settle(self) -> None:
        """Turn the values into Arrow and let go of them.

        So memory does not grow with the call.
        """
        self.parts.append(pa.array(self.values, pa.binary()))
        self.base += len(self.values)
        self.values.clear()

    def array(self) -> pa.Array:
        """Return all values."""
        self.settle()
        return self.parts[0] if len(self.parts) == 1 else pa.concat_arrays(self.parts)


@dataclass(slots=True)
class _Usual:
    """The columns of a table's last message, and a decoder of messages with whole rows of them.

    ``types`` and ``keys`` are its types by name and its pkNames. ``decoder`` is None until some messages have come: to make it
    costs as much as to read a hundred messages. It is not asked any more once it has refused ``patience`` messages.
    """

    columns: Described
    types: Raw
    keys: Raw
    group: int
    seen: int = 0
    patience: int = _PATIENCE
    decoder: Decoder[Event] | None = None

    def read(self, payload: bytes) -> Event | None:
        """Return a message with whole rows of these columns; None for any other message."""
        if self.decoder is None:
            return None
        try:
            event = self.decoder.decode(payload)
        except MALFORMED:
            self.patience -= 1
            if not self.patience:
                self.decoder = None
            return None
        return event if event.types == self.types and event.pkNames == self.keys else None


@dataclass(slots=True)
class _Rows:
    """The entries that can be used, grouped by table.

    ``known`` has the names of every table's columns. ``entries`` has for each its number, table, operation, number of rows and
    column list.
    """

    dialect: Dialect
    known: Sequence[tuple[str, ...]]
    entries: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    groups: dict[tuple[int, ColumnList], int] = field(default_factory=dict)
    usual: dict[int, _Usual] = field(default_factory=dict)
    before: _Side = field(default_factory=_Side)
    after: _Side = field(default_factory=_Side)
    cells: int = 0
    size: int = 0

    def add(self, number: int, table: int, payload: bytes) -> None:
        """Add an entry.

        Raises:
            Refused: the entry cannot be used; nothing was added.
            TooLargeError: the entries so far have too many cells for their bytes: a row of two bytes may have thousands.
        """
        usual = self.usual.get(table)
        whole = None if usual is None else usual.read(payload)
        event = event_of(payload, self.dialect.events) if whole is None else whole
        operation = OPERATIONS.get(event.type)
        if operation is None:
            raise Refused(Reason.UNKNOWN_OPERATION, "its type is not known")
        if usual is None or whole is None:
            usual = self._usual(table, event)
        before, after = self.dialect.images(operation, event.data, event.old)
        rows = len(before or ()) if after is None else len(after)
        images = (before is not None) + (after is not None)
        self.cells += len(usual.columns.names) * rows * images
        self.size += len(payload)
        if self.cells > MOST_CELLS and self.cells > self.size:
            raise TooLargeError(f"its rows and columns make {self.cells} cells of {self.size} bytes")
        if whole is None:
            self._add_named(before, after, usual.columns)
        elif self.dialect.changed_only and before is not None and after is not None:
            self._add_changed(before, after, usual.columns)
        else:
            self.before.add_whole(before)
            self.after.add_whole(after)
        self.entries.append((number, table, operation, rows, usual.group))

    def _usual(self, table: int, event: Event) -> _Usual:
        """Return the columns of a message, and remember them for the next message of its table.

        Raises:
            Refused: the columns cannot be read.
        """
        columns = self.dialect.described(event, self.known[table])
        if columns is None:
            raise Refused(Reason.UNDECODABLE_ENTRY, "its columns or the names of its key cannot be read")
        usual = self.usual.get(table)
        if usual is None or usual.columns is not columns:
            group = self.groups.setdefault((table, columns.list), len(self.groups))
            usual = self.usual[table] = _Usual(columns, event.types, event.pkNames, group)
        usual.seen += 1
        if usual.seen == _FEW_MESSAGES:
            usual.decoder = whole_rows(columns.names, self.dialect.events, changed_only=self.dialect.changed_only)
        return usual

    def _add_named(self, before: Sequence[Cells] | None, after: Sequence[Cells] | None, columns: Described) -> None:
        """Add the images of an entry.

        Raises:
            Refused: a row has a column that the message does not describe; nothing was added.
        """
        if self.dialect.changed_only and before is not None and after is not None:
            before = [row | changed for row, changed in zip(after, before, strict=True)]
        try:
            self.before.add(before, columns)
            self.after.add(after, columns)
        except Refused:
            self._cut()
            raise

    def _add_changed(self, changed: Sequence[Cells], after: Sequence[Any], columns: Described) -> None:
        """Add the images of an entry whose rows are whole.

        ``changed`` has what their changed columns were.

        Raises:
            Refused: a changed column is none that the message describes; nothing was added.
        """
        try:
            self.before.add_changed(after, changed, columns)
        except Refused:
            self._cut()
            raise
        self.after.add_whole(after)

    def _cut(self) -> None:
        """Remove what was added of an entry that is refused."""
        self.before.cut(len(self.entries))
        self.after.cut(len(self.entries))


def changes_of(
    entries: pa.RecordBatch,
    tables: Mapping[TableId, tuple[Column, ...]],
    *,
    reading: Reading,
    dialect: Dialect,
) -> DecodedChanges:
    """Return the row changes of entries, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them.

    ``dialect`` is the way in which their messages are written, ``reading`` types its values.
    """
    wanted, codes = table_codes(entries, tables)
    order = np.argsort(codes, kind="stable")
    payloads = entries["payload"].take(pa.array(wanted[order])).to_pylist()
    reject = Rejections(entries, wanted)
    found = _Rows(dialect, [tuple(column.source_names[0] for column in columns) for columns in tables.values()])
    for number, table, payload in zip(order.tolist(), codes[order].tolist(), payloads, strict=True):
        try:
            found.add(number, table, payload)
        except Refused as refused:
            reject.add(number, refused.reason, refused.detail)
    numbers, entry_tables, operations, counts, entry_lists = np.asarray(found.entries, np.int64).reshape(-1, 5).T
    owners = np.repeat(np.arange(len(counts)), counts)
    row_numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    groups = [columns for _, columns in found.groups]
    widths = np.asarray([len(one.columns) for one in groups], np.int64)[entry_lists]
    beside = beside_images(wanted[numbers][owners], row_numbers, _OPERATIONS.take(pa.array(operations[owners])))
    spread = _Spread(owners, row_numbers, widths, entry_lists[owners], groups)
    keyed = np.asarray([any(one.is_key for one in columns.columns) for columns in groups], np.bool_)[entry_lists]
    sent = [SentCells(np.asarray(side.starts, np.int64), operations, keyed) for side in (found.before, found.after)]
    before = _image(found.before, spread, dialect, sent[0], old=True)
    after = _image(found.after, spread, dialect, sent[1], old=False)
    chunks = table_rows(tables, entry_tables, entry_lists, groups, owners)
    changes, _ = pivot(chunks, before, after, beside, reading=reading)
    return DecodedChanges(changes, reject.all(), frozenset(), {})


@dataclass(frozen=True, slots=True)
class _Spread:
    """The rows of all entries.

    For each there is its entry, its number there, and the number of its column list among ``lists``. ``widths`` are those of
    entries.
    """

    owners: npt.NDArray[np.int64]
    row_numbers: npt.NDArray[np.int64]
    widths: npt.NDArray[np.int64]
    list_numbers: npt.NDArray[np.int64]
    lists: Sequence[ColumnList]


def _image(side: _Side, rows: _Spread, dialect: Dialect, cells: SentCells, *, old: bool) -> Image:
    values = side.array()
    kinds = np.full(len(values) + 1, FIELD, np.uint8)  # a text is found in whichever field it is looked for
    kinds[-1] = NULL
    if values.null_count:
        kinds[:-1][np.asarray(values.is_null())] = NULL
    absent = [*side.absent, dialect.unsent(values, cells, old=old)]
    has_absent = any(map(len, absent))
    if has_absent:
        kinds[np.concatenate(absent)] = ABSENT
    first = cells.starts[rows.owners]
    present, widths = first != _NONE, rows.widths[rows.owners]
    starts = np.where(present, first + rows.row_numbers * widths, len(values)).astype(np.int32)
    sizes = np.where(present, widths, 0).astype(np.int32)
    values = dialect.restored(values, starts, np.where(present, rows.list_numbers, -1), rows.lists)
    # Two objects: one alone would have marks between its values.
    fields = with_empty_last(values), with_empty_last(values)
    return Image(starts, sizes, present, kinds, *fields, None, False, has_absent, {})
