"""Changes whose images lack columns of the key that their table has: these go to quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.key_periods import PartialLists
from dts_assets.model.problems import Reason
from dts_assets.stages.entries_wanted import CellKey
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.format import DecodedChanges, Rejected, TableChanges

_OF_KEYS = pa.array(["update", "delete"])
"""The operations that find their row by the key."""


def without_partial(
    decoded: DecodedChanges, entries: pa.RecordBatch, partial: Mapping[CellKey, PartialLists]
) -> DecodedChanges:
    """Return changes without entries that lack a column of the key by which rows are found.

    These are rejected. ``entries`` is the batch that the changes were decoded from, ``partial`` has the lists of columns by cell.
    """
    concerned = {table for lists in partial.values() for table, _ in lists}
    if concerned.isdisjoint(one.table for one in decoded.tables):
        return decoded
    lacking: dict[int, tuple[str, ...]] = {}
    for one in decoded.tables:
        if one.table in concerned:
            lacking |= _lacking(one, entries, partial)
    if not lacking:
        return decoded
    gone = np.fromiter(lacking, np.int64, len(lacking))
    tables = tuple(found for one in decoded.tables if (found := _without(one, gone)) is not None)
    rejected = [
        Rejected(entry, None, Reason.RAGGED_ROW, _detail(columns), entries["payload"][entry].as_py())
        for entry, columns in sorted(lacking.items())
    ]
    return replace(decoded, tables=tables, rejected=(*decoded.rejected, *rejected))


def _lacking(
    changes: TableChanges, entries: pa.RecordBatch, partial: Mapping[CellKey, PartialLists]
) -> dict[int, tuple[str, ...]]:
    """Return the entries of a table that lack a part of the key, with its columns."""
    rows = np.flatnonzero(np.asarray(pc.is_in(changes.batch["op"], value_set=_OF_KEYS)))
    of_entries = changes.batch["entry_index"].to_numpy()[rows]
    numbers = changes.carried.numbers
    lists = np.zeros(len(rows), np.int64) if numbers is None else numbers[rows]
    pairs = np.unique(np.stack([of_entries, lists]), axis=1)
    return {
        entry: columns
        for entry, number in pairs.T.tolist()
        if (columns := _of_list(changes, number, entries, entry, partial))
    }


def _of_list(
    changes: TableChanges, number: int, entries: pa.RecordBatch, entry: int, partial: Mapping[CellKey, PartialLists]
) -> tuple[str, ...]:
    cell = entries["kafka_partition"][entry].as_py(), entries["window_start"][entry].as_py()
    digests = changes.carried.distinct[number : number + 1]
    return next((partial.get(cell, {}).get((changes.table, one), ()) for (one,) in digests), ())


def _without(changes: TableChanges, entries: npt.NDArray[np.int64]) -> TableChanges | None:
    """Return the changes of a table without those of some entries; None where none is left."""
    kept: Bools = ~np.isin(changes.batch["entry_index"].to_numpy(), entries)
    if kept.all():
        return changes
    if not kept.any():
        return None
    mask = pa.array(kept)
    return replace(
        changes,
        batch=changes.batch.filter(mask),
        keys=changes.keys.of_rows(kept),
        carried=changes.carried.of_rows(kept),
        json=changes.json.of_rows(kept),
        own={name: tuple(part.filter(mask) for part in parts) for name, parts in changes.own.items()},
    )


def _detail(columns: tuple[str, ...]) -> str:
    return f"it lacks {', '.join(columns)} of the key of its table: the server has to write binlog_row_image=FULL"
