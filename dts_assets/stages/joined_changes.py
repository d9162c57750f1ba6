"""Changes of several shards joined to changes of one table.

So each step behind is done once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.tables import TableId
from dts_assets.wire.format import TableChanges, ToldKeys


def joined_by_table(changes: Iterable[TableChanges]) -> list[TableChanges]:
    """Return changes with one value for each table, in the order of the entries they came from."""
    parts: dict[TableId, list[TableChanges]] = {}
    for one in changes:
        parts.setdefault(one.table, []).append(one)
    return [some[0] if len(some) == 1 else _joined(some) for some in parts.values()]


def _joined(parts: Sequence[TableChanges]) -> TableChanges:
    batch = _one_batch([part.batch for part in parts])
    order = np.argsort(batch["entry_index"].to_numpy(), kind="stable")
    rows = pa.array(order)
    own = {
        name: tuple(array.take(rows) for array in _own_arrays(parts, name))
        for name in dict.fromkeys(name for part in parts for name in part.own)
    }
    keys, carried, json = (
        _told(parts, told, order) for told in zip(*((one.keys, one.carried, one.json) for one in parts), strict=True)
    )
    return TableChanges(parts[0].table, batch.take(rows), keys, carried, json, own)


def _told(parts: Sequence[TableChanges], told: Sequence[ToldKeys], order: npt.NDArray[np.int64]) -> ToldKeys:
    """Return what the events of all rows told. Where some told nothing, nothing is known of any."""
    if not all(one.distinct for one in told):
        return ToldKeys()
    distinct = {key: number for number, key in enumerate(dict.fromkeys(key for one in told for key in one.distinct))}
    if len(distinct) == 1:
        return ToldKeys(tuple(distinct))
    numbers = []
    for part, one in zip(parts, told, strict=True):
        codes = np.array([distinct[key] for key in one.distinct], np.int64)
        rows = part.batch.num_rows
        numbers.append(np.full(rows, codes[0]) if one.numbers is None else codes[one.numbers])
    return ToldKeys(tuple(distinct), np.concatenate(numbers)[order])


def _own_arrays(parts: Sequence[TableChanges], name: str) -> list[pa.Array]:
    """Return the values of an image's column (``after.n``), an array for each type of its events.

    Of changes whose events had the lake's type they are the image's own.
    """
    side, _, column = name.partition(".")
    place = parts[0].batch[side].type.get_field_index(column)
    by_type = [
        {array.type: array for array in part.own.get(name) or (pc.struct_field(part.batch[side], [place]),)}
        for part in parts
    ]
    return [
        pa.concat_arrays(
            [some.get(kind, pa.nulls(part.batch.num_rows, kind)) for part, some in zip(parts, by_type, strict=True)]
        )
        for kind in dict.fromkeys(kind for some in by_type for kind in some)
    ]


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    arrays = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, names=batches[0].schema.names)
