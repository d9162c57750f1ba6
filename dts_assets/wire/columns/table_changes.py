"""What the decoders of all formats share around the pivot: which entries are wanted, which are refused, the batch of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.pivot import Pivoted
from dts_assets.wire.format import Rejected, TableChanges

_COLUMNS = ["entry_index", "row_number", "op", "before", "after", "absent", "invalid"]


@dataclass(frozen=True, slots=True)
class Beside:
    """The columns of all tables' changes that are not their images; each table gets a slice."""

    entry_index: pa.Array
    row_number: pa.Array
    op: pa.Array
    absent: pa.Array
    invalid: pa.Array


class Rejections:
    """Entries that cannot be used, at most one reason each."""

    def __init__(self, entries: pa.RecordBatch, wanted: npt.NDArray[np.int64]) -> None:
        self._entries = entries
        self._wanted = wanted
        self._found: dict[int, Rejected] = {}

    def add(self, number: int, reason: Reason, detail: str) -> None:
        """Reject the entry that is ``number`` among those wanted."""
        index = int(self._wanted[number])
        payload = self._entries["payload"][index].as_py()
        self._found.setdefault(index, Rejected(index, None, reason, detail, payload))

    def all(self) -> tuple[Rejected, ...]:
        """In the order of the entries."""
        return tuple(self._found[index] for index in sorted(self._found))


def table_codes(
    entries: pa.RecordBatch, numbers: Mapping[TableId, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The entries of tables asked for, and the number of each one's table. Each distinct name is looked at once."""
    parts = [pc.fill_null(entries[name], "").dictionary_encode() for name in ("database", "schema", "table")]
    sizes = [max(1, len(part.dictionary)) for part in parts]
    codes = [part.indices.to_numpy().astype(np.int64) for part in parts]
    combined = (codes[0] * sizes[1] + codes[1]) * sizes[2] + codes[2]
    distinct = pa.array(combined).dictionary_encode()
    databases, schemas, names = (part.dictionary.to_pylist() for part in parts)
    places = (np.unravel_index(code, sizes) for code in distinct.dictionary.to_pylist())
    named = [numbers.get(TableId(databases[one], schemas[two], names[three]), -1) for one, two, three in places]
    found = np.asarray(named, np.int64)[distinct.indices.to_numpy()]
    wanted = np.flatnonzero(found >= 0)
    return wanted, found[wanted]


def table_changes(one: Pivoted, beside: Beside) -> TableChanges:
    """The changes of one table: its images, and its slice of what stands beside them."""
    start, count = one.rows.start, one.rows.end - one.rows.start
    absent, invalid = one.marks.absent_lists(count), one.marks.invalid_maps(count)
    columns = [
        beside.entry_index.slice(start, count),
        beside.row_number.slice(start, count),
        beside.op.slice(start, count),
        one.before,
        one.after,
        beside.absent.slice(start, count) if absent is None else absent,
        beside.invalid.slice(start, count) if invalid is None else invalid,
    ]
    return TableChanges(one.rows.table, pa.RecordBatch.from_arrays(columns, names=_COLUMNS))
