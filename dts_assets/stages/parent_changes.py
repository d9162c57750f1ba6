"""Changes by which foreign keys may change rows of other tables: deletes, and updates of a key.

They are counted for every table, whether a foreign key is known or not: which ones there are may be told later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.foreign_keys import PositionSpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.entry_columns import source_positions
from dts_assets.stages.moved_rows import moved_keys
from dts_assets.wire.columns.buffers import Bools, numbers_of
from dts_assets.wire.format import TableChanges

_PLACE = ["kafka_partition", "window_start", "last_offset", "lineage", "file_name", "position"]


@dataclass(frozen=True, slots=True)
class ParentChanges:
    """Deletes of a table and updates that change its key.

    ``entries`` are the rows of their entries, and ``is_delete`` is a mask of them.
    """

    table: TableId
    entries: npt.NDArray[np.int32]
    is_delete: Bools


@dataclass(frozen=True, slots=True)
class ParentSpan:
    """The place of deletes, or of updates of a key, in one Kafka partition and window.

    ``row`` is the entry of one of them.
    """

    table: TableId
    row: int
    is_delete: bool
    span: PositionSpan


def parent_changes(changes: TableChanges, keys: Iterable[str]) -> ParentChanges | None:
    """Return the deletes and the updates of a key among decoded changes, None without any.

    ``keys`` are the columns that the registry has as a key; those that events told are among them.
    """
    operations = changes.batch["op"]
    deletes, updates = (_mask(pc.equal(operations, kind)) for kind in ("delete", "update"))
    chosen = deletes
    if updates.any():
        names = sorted({*keys}.union(*changes.keys.distinct))
        chosen = deletes | moved_keys(changes.batch, updates, names)
    if not chosen.any():
        return None
    return ParentChanges(changes.table, changes.batch["entry_index"].to_numpy()[chosen], deletes[chosen])


def parent_spans(found: Sequence[ParentChanges], entries: pa.RecordBatch, apart: Bools) -> Iterator[ParentSpan]:
    """Yield the places of changes by table, cell and side of a mask.

    ``entries`` is the batch that the changes were decoded from, and ``apart`` a mask of it.
    """
    if not found:
        return
    rows = np.concatenate([one.entries for one in found])
    kinds = np.concatenate([one.is_delete for one in found])
    tables = np.repeat(np.arange(len(found)), [len(one.entries) for one in found])
    taken = entries.select(_PLACE).take(pa.array(rows))
    position = source_positions(taken)
    parts = [position.field(name).to_numpy() for name in ("lineage", "file", "position")]
    partitions, windows = numbers_of(taken["kafka_partition"]), numbers_of(taken["window_start"].view(pa.int64()))
    groups = [tables, partitions, windows, apart[rows], kinds]
    order = np.lexsort([*reversed(parts), *reversed(groups)])
    differs = (
        np.logical_or.reduce([np.diff(one[order]) != 0 for one in groups]) if len(order) > 1 else np.zeros(0, bool)
    )
    bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(order)]
    for start, end in pairwise(bounds):
        first, last = order[start], order[end - 1]
        span = PositionSpan(*(SourcePosition(*(int(part[at]) for part in parts)) for at in (first, last)))
        yield ParentSpan(found[tables[first]].table, int(rows[first]), bool(kinds[first]), span)


def _mask(array: pa.Array) -> Bools:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
