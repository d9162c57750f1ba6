"""The changes of tables around the pivot: wanted entries, rejected entries, the batch of each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import empty_lists, empty_maps, joint_codes, offsets_of
from dts_assets.wire.columns.texts import readable
from dts_assets.wire.format import MOST_NAME_BYTES, DecodedChanges, Rejected, TableChanges, ToldKeys, TooLargeError

_COLUMNS = ["entry_index", "row_number", "op", "before", "after", "absent", "invalid"]


def beside_images(entries: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], operations: pa.Array) -> pa.RecordBatch:
    """Return the columns of all tables' changes that are not their images; each table gets a slice."""
    numbers = [pa.array(part.astype(np.int32)) for part in (entries, rows)]
    columns = [*numbers, operations, empty_lists(len(rows)), empty_maps(len(rows))]
    return pa.RecordBatch.from_arrays(columns, names=[*_COLUMNS[:3], *_COLUMNS[5:]])


class Rejections:
    """Entries that cannot be used, at most one reason each."""

    def __init__(self, entries: pa.RecordBatch, wanted: npt.NDArray[np.int64]) -> None:
        self._entries = entries
        self._wanted = wanted
        self._found: dict[int, Rejected] = {}

    def add(self, number: int, reason: Reason, detail: str) -> None:
        """Reject the entry that is ``number`` among the wanted entries."""
        index = int(self._wanted[number])
        payload = self._entries["payload"][index].as_py()
        self._found.setdefault(index, Rejected(index, None, reason, detail, payload))

    def all(self) -> tuple[Rejected, ...]:
        """Return all rejections in the order of the entries."""
        return tuple(self._found[index] for index in sorted(self._found))


def table_codes(
    entries: pa.RecordBatch, tables: Iterable[TableId]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the entries of wanted tables, and the number of each entry's table among them.

    Each distinct name is looked at once.
    """
    parts = [pc.fill_null(entries[name], "") for name in ("database", "schema", "table")]
    codes, first = joint_codes(*parts)
    numbers = {table: number for number, table in enumerate(tables)}
    distinct = zip(*(part.take(pa.array(first)).to_pylist() for part in parts), strict=True)
    found = np.asarray([numbers.get(TableId(*names), -1) for names in distinct], np.int64)[codes]
    wanted = np.flatnonzero(found >= 0)
    return wanted, found[wanted]


def joined(*some: DecodedChanges) -> DecodedChanges:
    """Return the changes of different tables of the same entries as those of one call."""
    rejected = sorted((one for each in some for one in each.rejected), key=lambda one: one.index)
    tables = tuple(one for each in some for one in each.tables)
    unknown = Counter[str]()
    for each in some:
        unknown.update(each.unknown)
    return DecodedChanges(tables, tuple(rejected), frozenset().union(*(each.unsigned for each in some)), dict(unknown))


def table_changes(
    table: TableId,
    images: tuple[pa.StructArray, pa.StructArray],
    notes: ValueNotes,
    beside: pa.RecordBatch,
    keys: ToldKeys,
    carried: ToldKeys,
    json: ToldKeys,
    own: Mapping[str, tuple[pa.Array, ...]],
) -> TableChanges:
    """Return the changes of a table from its images, and from what stands beside them."""
    entries, rows, operations, no_absent, no_invalid = beside.columns
    absent, invalid = notes.absent_lists(len(beside)), notes.invalid_maps(len(beside))
    columns = [
        *(entries, rows, operations, *images),
        no_absent if absent is None else absent,
        no_invalid if invalid is None else invalid,
    ]
    return TableChanges(table, pa.RecordBatch.from_arrays(columns, names=_COLUMNS), keys, carried, json, own)


class ValueNotes:
    """The notes on values of one table, gathered type by type and turned into one column each."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._width = 2 * len(columns)
        self._absent: list[npt.NDArray[np.int64]] = []
        self._invalid: list[tuple[npt.NDArray[np.int64], pa.Array]] = []

    def absent(self, side: int, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int32]) -> None:
        """Note that values of ``rows`` (of the table) and ``columns`` were not sent.

        ``side`` is 0 for the before image, 1 for the after image.
        """
        self._absent.append(self._places(side, rows, columns))

    def invalid(self, side: int, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], values: pa.Array) -> None:
        """Note that values did not fit; ``values`` are their bytes."""
        self._invalid.append((self._places(side, rows, columns), readable(values)))

    def _places(self, side: int, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the places of values among those of all rows, both images of a row side by side."""
        places = rows * self._width
        places += columns
        places += side * len(self._columns)
        return places

    def absent_lists(self, count: int) -> pa.ListArray | None:
        """Return a list of absent columns per row, such as ``["after.note"]``; None if all are empty.

        The names are in the order of the columns. Notes are let go of: there may be as many as values.

        Raises:
            TooLargeError: The names take too many bytes.
        """
        if not self._absent:
            return None
        places = np.concatenate(self._absent)
        self._absent.clear()
        places.sort()
        offsets = self._offsets(places, count)
        places %= self._width
        columns, names = places.astype(np.int32), self._names()
        size = int(np.diff(offsets_of(names)).astype(np.int64) @ np.bincount(columns, minlength=self._width))
        if size > MOST_NAME_BYTES:
            raise TooLargeError(f"the names of columns that its rows lack take {size} bytes")
        del places
        return pa.ListArray.from_arrays(offsets, names.take(pa.array(columns)))

    def invalid_maps(self, count: int) -> pa.MapArray | None:
        """Return a map of original texts per row, such as ``{"after.day": "0000-00-00"}``; None if all are empty."""
        if not self._invalid:
            return None
        places = np.concatenate([part[0] for part in self._invalid])
        texts = pa.concat_arrays([part[1] for part in self._invalid])
        order = np.argsort(places, kind="stable")
        places = places[order]
        keys = self._names().take(pa.array(places % self._width))
        return pa.MapArray.from_arrays(self._offsets(places, count), keys, texts.take(pa.array(order)))

    def _names(self) -> pa.Array:
        return pa.array(
            [f"{side}.{column.name}" for side in ("before", "after") for column in self._columns], pa.string()
        )

    def _offsets(self, places: npt.NDArray[np.int64], count: int) -> pa.Array:
        """Return where the notes of each row begin among sorted places, and where all end."""
        return pa.array(np.searchsorted(places, np.arange(count + 1) * self._width).astype(np.int32))
