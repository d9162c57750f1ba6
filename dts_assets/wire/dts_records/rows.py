"""Records to the row changes of every wanted table: each record is one changed row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.image_parts import ImageParts, Ints
from dts_assets.wire.columns.pivot import Reading, pivot
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.dts_records import OPERATIONS
from dts_assets.wire.dts_records.blocks import RowBlock
from dts_assets.wire.format import DecodedChanges

_DONE = ("insert", "update", "delete", "read")
_UPDATE, _DELETE = _DONE.index("update"), _DONE.index("delete")
_UNKNOWN = -1
_OPERATIONS = pa.array(_DONE)


def changes_of(
    entries: pa.RecordBatch,
    tables: Mapping[TableId, tuple[Column, ...]],
    blocks: Callable[[pa.Array], Iterable[RowBlock]],
    *,
    reading: Reading,
) -> DecodedChanges:
    """Return the row changes of entries, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them.

    ``blocks`` reads payloads, and ``reading`` types their values.
    """
    wanted, codes = table_codes(entries, tables)
    order = np.argsort(codes, kind="stable")
    reject = Rejections(entries, wanted)
    found = _Found()
    for block in blocks(entries["payload"].take(pa.array(wanted[order]))):
        found.add(block)
        for one in block.unread:
            reject.add(int(order[one.number]), Reason.UNDECODABLE_ENTRY, one.detail)
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
    changes, unsigned = pivot(chunks, before, after, beside, reading=reading)
    counts = found.before.unknown + found.after.unknown + Counter(before.unknown) + Counter(after.unknown)
    return DecodedChanges(changes, reject.all(), unsigned, dict(sorted(counts.items())))


class _Found:
    """The records of a call, block by block: ``rows`` are their numbers among the payloads."""

    def __init__(self) -> None:
        self._rows: list[Ints] = [np.zeros(0, np.int64)]
        self._codes: list[Ints] = [np.zeros(0, np.int64)]
        self._lists: list[Ints] = [np.zeros(0, np.int64)]
        self._numbers: dict[ColumnList | None, int] = {}
        self._own: list[tuple[Ints, Reason, str]] = []
        self._count = 0
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

    def add(self, block: RowBlock) -> None:
        """Add a block."""
        self._own += [(self._count + np.flatnonzero(wrong), reason, detail) for wrong, reason, detail in block.faults]
        self._count += len(block.rows)
        self._rows.append(block.rows)
        named = block.operations.dictionary_encode()
        known = [_operation(name) for name in named.dictionary.to_pylist()]
        self._codes.append(np.asarray([*known, _UNKNOWN])[named.indices.fill_null(-1).to_numpy()])
        numbers = np.asarray([self._numbers.setdefault(one, len(self._numbers)) for one in block.lists], np.int64)
        self._lists.append(numbers[block.codes])
        self.before.add(block.before)
        self.after.add(block.after)

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
        for places, reason, detail in self._own:
            problems.append((places[good[places]], reason, detail))
            good[places] = False
        return np.flatnonzero(good), problems


def _operation(name: bytes) -> int:
    operation = OPERATIONS.get(name.decode(errors="replace"))
    return _UNKNOWN if operation is None else _DONE.index(operation)
