"""Messages with the id and the content of one in another Kafka partition.

They are copies where their table has a key.

An event may have pieces in several Kafka partitions, which share its id; but no event changes a row twice, so in a table with a
key equal messages are one. Without a key each one counts. Ids alone are read first, since most topics share none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.lineages import LineageRule
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.redelivered_entries import REREAD, EntryKeys, entry_keys
from dts_assets.wire.format import WireFormat

ID_COLUMNS = ("message_type", "position")
"""The columns of ``entries`` that ids are found by."""

SAID_COLUMNS = ("last_offset", "entry_number", "message_type", "event_time", "gtid", "shard", "position", "payload")
"""The columns of ``entries`` that contents are compared by."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellEntries:
    """The entries of a cell: ``read`` gives batches with some columns.

    ``is_own`` says that copies are looked for in the cell, and not only their originals.
    """

    kafka_partition: int
    is_own: bool
    rules: Mapping[str, LineageRule]
    read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class CopiesElsewhere:
    """The entries of a cell that are copies, by their keys, ascending.

    ``partitions`` and ``offsets`` are those of the originals, ``cells`` the places of their cells among all cells.
    """

    keys: EntryKeys
    cells: _Numbers
    partitions: _Numbers
    offsets: _Numbers


def copies_elsewhere(cells: Sequence[CellEntries], wire: WireFormat) -> dict[int, CopiesElsewhere]:
    """Return the copies in own cells of messages that several Kafka partitions have.

    They are by the place of the cell. Of equal messages the first counts; ``cells`` are in their order. Messages that one Kafka
    partition alone has are left out: :func:`dts_assets.stages.redelivered_entries.copies_in_cell` finds copies among them.
    """
    ids = [_ids_in(cell) for cell in cells]
    shared = _shared(cells, ids)
    if not len(shared):
        return {}
    found = [_said(place, cell, shared, wire) for place, cell in enumerate(cells) if np.isin(ids[place], shared).any()]
    places, keys, offsets, *what = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((keys, places, *what))
    places, keys, offsets = places[order], keys[order], offsets[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any([column[order][1:] != column[order][:-1] for column in what], axis=0)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    partitions = np.array([cell.kafka_partition for cell in cells])[places]
    several = np.unique(first[partitions[first] != partitions])
    copies = np.flatnonzero(np.isin(first, several) & ~begins)
    copies = copies[np.argsort(keys[copies])]
    return {
        place: CopiesElsewhere(keys[rows], places[first[rows]], partitions[first[rows]], offsets[first[rows]])
        for place, cell in enumerate(cells)
        if cell.is_own and len(rows := copies[places[copies] == place])
    }


def listed_copies(
    copies: CopiesElsewhere, batches: Iterable[pa.RecordBatch], rules: Mapping[str, LineageRule]
) -> pa.Table:
    """Return the rows about the copies of a cell, whose entries are ``batches`` of KEY_COLUMNS.

    The columns are those of :func:`dts_assets.stages.redelivered_entries.find_redelivered`, and ``kept_partition``.
    """
    found = []
    for batch in batches:
        keys = entry_keys(batch["last_offset"], batch["entry_number"])
        rows = np.flatnonzero(np.isin(keys, copies.keys))
        mine, at = batch.take(pa.array(rows)), np.searchsorted(copies.keys, keys[rows])
        found.append(
            pa.table(
                {name: mine[name] for name in ("last_offset", "entry_number", "rows", "database", "schema", "table")}
                | {"lineage": entry_lineages(mine, rules), "file": np.zeros(len(rows), np.int64)}
                | {"position": mine["position"], "kept_offset": copies.offsets[at]}
                | {"reason": pa.array([REREAD] * len(rows), pa.string())}
                | {"kept_partition": copies.partitions[at].astype(np.int32)}
            )
        )
    return pa.concat_tables(found)


def _changes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that change a table and have an id."""
    for batch in batches:
        wanted = pc.and_(pc.equal(batch["message_type"], "DML"), batch["position"].is_valid())
        yield batch.filter(pc.fill_null(wanted, False))


def _ids_in(cell: CellEntries) -> _Numbers:
    """Return the ids of a cell, ascending, each once."""
    some = [np.unique(batch["position"].to_numpy()) for batch in _changes(cell.read(ID_COLUMNS))]
    return np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64)


def _shared(cells: Sequence[CellEntries], ids: Sequence[_Numbers]) -> _Numbers:
    """Return the ids that an own cell shares with another Kafka partition."""
    by_partition: dict[int, list[_Numbers]] = {}
    for cell, mine in zip(cells, ids, strict=True):
        by_partition.setdefault(cell.kafka_partition, []).append(mine)
    each = [np.unique(np.concatenate(some)) for some in by_partition.values()]
    own = [mine for cell, mine in zip(cells, ids, strict=True) if cell.is_own]
    if len(each) < 2 or not own:
        return np.zeros(0, np.int64)
    found, counts = np.unique(np.concatenate(each), return_counts=True)
    shared: _Numbers = np.intersect1d(found[counts > 1], np.concatenate(own))
    return shared


def _said(place: int, cell: CellEntries, shared: _Numbers, wire: WireFormat) -> tuple[_Numbers, ...]:
    """Return the messages of a cell with shared ids, of tables with a key.

    They come as columns: the place of the cell, keys, offsets, lineages, ids and digests of what they say.
    """
    found = [tuple(np.zeros(0, np.int64) for _ in range(6))]
    wanted = pa.array(shared)
    for batch in _changes(cell.read(SAID_COLUMNS)):
        some = batch.filter(pc.is_in(batch["position"], value_set=wanted))
        some = some.filter(pa.array(wire.has_key(some["payload"]), pa.bool_()))
        lineages = entry_lineages(some, cell.rules).astype(np.int64)
        found.append(
            (
                np.full(some.num_rows, place, np.int64),
                entry_keys(some["last_offset"], some["entry_number"]),
                some["last_offset"].to_numpy(),
                lineages,
                some["position"].to_numpy(),
                wire.contents(some["payload"]),
            )
        )
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))
