"""Flat messages to the row changes of every wanted table ("Kafka Message Format", ``data`` and ``old``).

Values are texts in JSON objects. Rows of the usual form, all columns in the order of their types, are added to one long list,
those of many messages together. Then the shared pivot takes over, with values read as a dialect writes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw
from msgspec.json import Decoder

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import slices, with_empty_last
from dts_assets.wire.columns.images import ABSENT, FIELD, NULL, UNFIT, Image
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.pivot import Reading, pivot
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.flat_json.dialect import NO_CELLS, NO_IMAGE, Dialect, images_of_all
from dts_assets.wire.flat_json.messages import OPERATIONS, Cells, Described, Event, Refused, event_of, whole_rows
from dts_assets.wire.flat_json.sent_values import NONE, SentCells, ValueList
from dts_assets.wire.format import MOST_CELLS, DecodedChanges, TooLargeError

_OF_KEYS = (OPERATIONS["UPDATE"], OPERATIONS["DELETE"])
_NO_KEY = "a row lacks a column of its key: the server has to write binlog_row_image=FULL"
_OPERATIONS = pa.array(["insert", "update", "delete", "read"])
_FEW_MESSAGES, _PATIENCE = 16, 64
"""Messages before which no decoder of whole rows is made, and refusals after which it is dropped.

So many messages, at least, are looked at together.
"""

_TOGETHER = 1 << 18
"""The bytes of messages that are looked at together: objects of more would leave the processor's cache."""

_FACTS = 7
"""The numbers that are noted of an entry."""


@dataclass(slots=True)
class _Usual:
    """Columns that a table's messages have, and a decoder of messages with whole rows of them.

    ``types`` and ``keys`` are the types by name and the pkNames of such messages, and ``kinds`` their types: an UPDATE may leave
    columns out, which are its columns all the same. ``decoder`` is None until some messages have come: to make it
    costs as much as to read a hundred messages. It is not asked any more once it has refused ``patience``
    messages, of which many that it reads win one back.
    """

    columns: Described
    types: Raw
    keys: Raw
    group: int
    kinds: set[str] = field(default_factory=set)
    seen: int = 0
    patience: int = _PATIENCE
    decoder: Decoder[Event] | None = None

    def read(self, payloads: Iterable[memoryview]) -> list[Event]:
        """Return messages with whole rows of these columns, up to the first message that is another one."""
        events: list[Event] = []
        decoder = self.decoder
        if decoder is None:
            return events
        decode, types, keys, kinds = decoder.decode, self.types, self.keys, self.kinds
        try:
            for payload in payloads:
                event = decode(payload)
                if event.types != types or event.pkNames != keys or event.type not in kinds:
                    break
                events.append(event)
            else:
                return events
        except MALFORMED:
            pass
        self.patience = min(self.patience + len(events) // _FEW_MESSAGES, _PATIENCE) - 1
        if self.patience <= 0:
            self.decoder = None
        return events


@dataclass(slots=True)
class _Rows:
    """The entries that can be used, grouped by table.

    ``known`` has the names of every table's columns. ``entries`` has for each its number, table, operation, number of rows,
    column list, and the numbers of the first values of its images; ``blocks`` are entries before them. ``lists`` are all columns
    that tables have, and ``usual`` those of each table's last message.
    """

    dialect: Dialect
    known: Sequence[tuple[str, ...]]
    reject: Callable[[int, Reason, str], None]
    entries: list[tuple[int, ...]] = field(default_factory=list)
    blocks: list[npt.NDArray[np.int64]] = field(default_factory=list)
    lists: dict[tuple[int, ColumnList], _Usual] = field(default_factory=dict)
    usual: dict[int, _Usual] = field(default_factory=dict)
    values: ValueList = field(default_factory=ValueList)
    cells: int = 0
    size: int = 0

    def add(self, numbers: Sequence[int], table: int, payloads: Sequence[memoryview]) -> None:
        """Add the entries of a table, or reject them.

        Raises:
            TooLargeError: the entries so far have too many cells for their bytes: a row of two bytes may have thousands.
        """
        sizes, start = list(accumulate(map(len, payloads))), 0
        while start < len(payloads):
            end = bisect_left(sizes, _TOGETHER + (sizes[start - 1] if start else 0)) + 1
            self._add_some(numbers[start:end], table, payloads[start:end])
            start = end

    def _add_some(self, numbers: Sequence[int], table: int, payloads: Sequence[memoryview]) -> None:
        """Add entries: those of messages with whole rows together, each other entry alone."""
        start = 0
        while start < len(payloads):
            usual = self.usual.get(table)
            if usual is not None and usual.decoder is not None:
                events = usual.read(islice(payloads, start, None))
                some = slice(start, start + len(events))
                if not self._add_together(numbers[some], table, payloads[some], events, usual):
                    for number, payload, event in zip(numbers[some], payloads[some], events, strict=True):
                        self._add_or_reject(number, table, payload, event)
                start += len(events)
            if start < len(payloads):
                self._add_or_reject(numbers[start], table, payloads[start], None)
                start += 1

    def _add_together(
        self,
        numbers: Sequence[int],
        table: int,
        payloads: Sequence[memoryview],
        events: Sequence[Event],
        usual: _Usual,
    ) -> bool:
        """Add entries with whole rows; False, and nothing is added, if each has to be looked at.

        Such messages have no more cells than bytes. So the number of cells need not be looked at where this holds for all others.
        """
        if len(events) < _FEW_MESSAGES or self.dialect.changed_only or self.cells > self.size:
            return False
        operations = np.fromiter([OPERATIONS.get(event.type, NONE) for event in events], np.int64, len(events))
        lists = [event.data for event in events], [event.old for event in events]
        counts = np.asarray([[NONE if rows is None else len(rows) for rows in some] for some in lists])
        try:
            sides, rows = images_of_all(self.dialect, operations, counts)
        except Refused:
            return False
        width, sent = len(usual.columns.names), np.maximum(counts, 0).ravel()
        # Behind the first values of data and of old stands the place of no image.
        places = np.full((3, len(events)), NONE)
        places[:2] = (np.cumsum(sent) - sent).reshape(2, -1) * width + self.values.add_entries(chain(*lists))
        starts = np.take_along_axis(places, sides, axis=0)
        same = np.ones(len(events), np.int64)
        self._settle()
        self.blocks.append(np.vstack([numbers, same * table, operations, rows, same * usual.group, starts]))
        self.cells += width * int(np.sum(rows * np.count_nonzero(sides != NO_IMAGE, axis=0)))
        self.size += sum(map(len, payloads))
        return True

    def _settle(self) -> None:
        if self.entries:
            self.blocks.append(np.asarray(self.entries, np.int64).T)
            self.entries.clear()

    def all(self) -> npt.NDArray[np.int64]:
        """Return all entries, a column for each."""
        self._settle()
        return np.concatenate([np.zeros((_FACTS, 0), np.int64), *self.blocks], axis=1)

    def _add_or_reject(self, number: int, table: int, payload: memoryview, whole: Event | None) -> None:
        """Add an entry, of which ``whole`` is the message if it has whole rows of the usual columns.

        Raises:
            TooLargeError: the entries so far have too many cells for their bytes.
        """
        try:
            self._add_one(number, table, payload, whole)
        except Refused as refused:
            self.reject(number, refused.reason, refused.detail)

    def _add_one(self, number: int, table: int, payload: memoryview, whole: Event | None) -> None:
        """Add an entry.

        Raises:
            Refused: the entry cannot be used; nothing was added.
            TooLargeError: the entries so far have too many cells for their bytes.
        """
        usual = self.usual.get(table)
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
        values, columns = self.values, usual.columns
        start = values.begin()
        changed = self.dialect.changed_only and before is not None and after is not None
        try:
            if whole is None:
                if self.dialect.changed_only:
                    _refuse_without_key(operation, before, after, columns)
                if changed:
                    before = [row | cells for row, cells in zip(after or (), before or (), strict=True)]
                starts = values.add(before, columns), values.add(after, columns)
            elif changed:
                starts = values.add_changed(after or (), before or (), columns), values.add_whole(after)
            else:
                starts = values.add_whole(before), values.add_whole(after)
        except Refused:
            values.cut(start)
            raise
        self.entries.append((number, table, operation, rows, usual.group, *starts))

    def _usual(self, table: int, event: Event) -> _Usual:
        """Return the columns of a message, and remember them for the next message of its table.

        Raises:
            Refused: the columns cannot be read.
        """
        columns = self.dialect.described(event, self.known[table])
        if columns is None:
            raise Refused(Reason.UNDECODABLE_ENTRY, "its columns or the names of its key cannot be read")
        place = (table, columns.list)
        if place not in self.lists:
            self.lists[place] = _Usual(columns, event.types, event.pkNames, len(self.lists))
        usual = self.usual[table] = self.lists[place]
        usual.kinds.add(event.type)
        usual.seen += 1
        if usual.seen == _FEW_MESSAGES:
            usual.decoder = whole_rows(columns.names, self.dialect.events, changed_only=self.dialect.changed_only)
        return usual


def _refuse_without_key(
    operation: int, before: Sequence[Cells] | None, after: Sequence[Cells] | None, columns: Described
) -> None:
    """Refuse an entry that updates or deletes a row without telling each column of its key.

    Raises:
        Refused: neither image of a row has a column of the key.
    """
    keys = [one.name for one in columns.list.columns if one.is_key]
    if operation not in _OF_KEYS or not keys:
        return
    for number, row in enumerate(after or before or ()):
        old: Cells = before[number] if before is not None else {}
        if any(name not in row and name not in old for name in keys):
            raise Refused(Reason.RAGGED_ROW, _NO_KEY)


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
    payloads, reject = slices(entries["payload"]), Rejections(entries, wanted)
    known = [tuple(column.source_names[0] for column in columns) for columns in tables.values()]
    found = _Rows(dialect, known, reject.add)
    order = np.argsort(codes, kind="stable")
    in_turn, places = order.tolist(), wanted[order].tolist()
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in pairwise([*firsts.tolist(), len(codes)]):
        found.add(in_turn[start:end], int(codes[in_turn[start]]), [payloads[place] for place in places[start:end]])
    numbers, entry_tables, operations, counts, entry_lists, *starts = found.all()
    owners = np.repeat(np.arange(len(counts)), counts)
    row_numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    groups = [columns for _, columns in found.lists]
    widths = np.asarray([len(one.columns) for one in groups], np.int64)[entry_lists]
    beside = beside_images(wanted[numbers][owners], row_numbers, _OPERATIONS.take(pa.array(operations[owners])))
    spread = _Spread(owners, row_numbers, widths, entry_lists[owners], groups)
    sides = [SentCells(side, counts * widths, operations) for side in starts]
    before, after = _images(found.values, spread, dialect, sides)
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


def _images(sent: ValueList, rows: _Spread, dialect: Dialect, sides: Sequence[SentCells]) -> tuple[Image, Image]:
    """Return the images before and after of all rows, which share their values."""
    values = sent.all()
    kinds = np.full(len(values) + 1, FIELD, np.uint8)  # a text is found in whichever field it is looked for
    kinds[-1] = NULL
    if values.null_count:
        kinds[:-1][np.asarray(values.is_null())] = NULL
    unsent = dialect.unsent(values, sides[1])
    has_absent = bool(sent.absent) or len(unsent) > 0
    for start, missing in sent.absent:
        kinds[start + missing] = ABSENT
    kinds[unsent] = ABSENT
    widths = rows.widths[rows.owners]
    places, wrong = [], [NO_CELLS]
    for side in sides:
        first = side.starts[rows.owners]
        present = first != NONE
        starts = np.where(present, first + rows.row_numbers * widths, len(values)).astype(np.int32)
        places.append((starts, np.where(present, widths, 0).astype(np.int32), present))
        values, unfit = dialect.restored(values, starts, np.where(present, rows.list_numbers, -1), rows.lists)
        wrong.append(unfit)
    # Two objects over the same bytes: one alone would have marks between its values.
    field_of_both = with_empty_last(values)
    fields = field_of_both, field_of_both.slice(0)
    kinds[np.concatenate(wrong)] |= UNFIT
    has_unfit = any(map(len, wrong))
    before, after = (Image(*place, kinds, *fields, None, False, has_absent, {}, has_unfit) for place in places)
    return before, after
