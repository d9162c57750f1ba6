"""The columns of decoded entries by which runs, transactions and delivery are told, unpacked once for all trackers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition, file_number, timeline_of
from dts_assets.model.source_types import POSTGRESQL
from dts_assets.stages.gtid_columns import GtidColumn
from dts_assets.wire.columns.buffers import rows_by_code
from dts_assets.wire.format import Checkpoint

BEGIN, COMMIT, DML, DDL, ROLLBACK, CHECKPOINT, HEARTBEAT = range(7)
"""Numbers of the kinds of entries; -1 stands for any other kind. The vendor itself adds the last two."""

_KINDS = pa.array(["BEGIN", "COMMIT", "DML", "DDL", "ROLLBACK", "CHECKPOINT", "HEARTBEAT"])
_POSITION_BITS = 40
_SERVER_BITS = 32
"""Bits of a server id; above them stands a timeline."""

Numbers: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[Any]
"""Positions as numbers that compare in the order of positions.

They are int64, or Python's own integers where file or position is too large.
"""


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Entries with one value each per column, without nulls.

    A number that is not there is 0, a GTID that is not there has the code -1.

    ``offsets`` are those of the last message of each entry's set, ``times`` microseconds since 1970. ``shard_codes`` index
    ``shards``, None where all entries are of one shard. ``checkpoints`` index the rows. ``goes_on`` marks rows that go on with
    the event of the row before, where each row is a message of its own. ``by_lsn`` marks entries of a PostgreSQL: there each
    timeline counts as a server of its own.
    """

    kinds: npt.NDArray[np.int32]
    offsets: Numbers
    files: Numbers
    positions: Numbers
    keys: Keys
    times: Numbers
    server_ids: Numbers
    seq_ids: Numbers
    placed: npt.NDArray[np.bool_]
    gtids: GtidColumn
    shards: tuple[str, ...]
    shard_codes: Numbers | None
    checkpoints: tuple[Checkpoint, ...]
    goes_on: npt.NDArray[np.bool_]
    by_lsn: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, batch: pa.RecordBatch, sets: pa.RecordBatch, checkpoints: tuple[Checkpoint, ...] = ()) -> EntryColumns:
        """Return the columns of a decoded batch; ``sets`` (``last_offset``, ``shard``) are the sets that it was decoded from."""
        index = batch["set_index"].to_numpy()
        shards = pc.fill_null(sets["shard"], "").dictionary_encode()
        names = tuple(shards.dictionary.to_pylist())
        named = batch["file_name"]
        kinds = pc.fill_null(pc.index_in(batch["message_type"], value_set=_KINDS), -1).to_numpy()
        files, positions = file_numbers(named).to_numpy(), filled(batch["position"])
        by_lsn = np.asarray(pc.fill_null(pc.equal(batch["source_type"], POSTGRESQL), False))
        servers = filled(batch["server_id"])
        return cls(
            kinds=kinds,
            offsets=sets["last_offset"].to_numpy()[index],
            files=files,
            positions=positions,
            keys=position_keys(files, positions),
            times=filled(batch["event_time"].view(pa.int64())),
            server_ids=_with_timelines(servers, named) if by_lsn.any() else servers,
            seq_ids=filled(batch["seq_id"]),
            placed=(positions > 0) | np.asarray(named.is_valid())
            if named.null_count
            else np.ones(len(kinds), np.bool_),
            gtids=GtidColumn.of(batch["gtid"]),
            shards=names,
            shard_codes=shards.indices.to_numpy()[index].astype(np.int64) if len(names) > 1 else None,
            checkpoints=checkpoints,
            goes_on=np.zeros(len(kinds), np.bool_),
            by_lsn=by_lsn,
        )

    def __len__(self) -> int:
        return len(self.kinds)

    def of_shards(self) -> Iterator[tuple[str, EntryColumns]]:
        """Yield each shard that has entries, with its entries alone."""
        if self.shard_codes is None:
            if len(self):
                yield self.shards[0], self
            return
        for code, rows in rows_by_code(self.shard_codes):
            yield self.shards[code], self.take(rows)

    def take(self, rows: Numbers) -> EntryColumns:
        """Return some of the entries of one shard, without checkpoints."""
        if len(rows) == len(self):
            return self
        picked = {name: getattr(self, name)[rows] for name in _BY_ROW}
        return replace(self, **picked, gtids=self.gtids.take(rows), shard_codes=None, checkpoints=())

    def shard(self, row: int) -> str:
        """Return the shard of an entry."""
        return self.shards[0 if self.shard_codes is None else int(self.shard_codes[row])]

    def place(self, row: int) -> tuple[int, int]:
        """Return file number and position of an entry."""
        return int(self.files[row]), int(self.positions[row])

    def position(self, row: int) -> SourcePosition:
        """Return the position of an entry in lineage 0: lineages are decided later."""
        return SourcePosition(0, int(self.files[row]), int(self.positions[row]))


_BY_ROW = (
    "kinds",
    "offsets",
    "files",
    "positions",
    "keys",
    "times",
    "server_ids",
    "seq_ids",
    "placed",
    "goes_on",
    "by_lsn",
)


def rows_by_shard(shards: pa.StringArray, *, among: npt.NDArray[np.bool_]) -> Iterator[tuple[str, Numbers]]:
    """Yield each shard ("" for none) with its rows among some, ascending."""
    encoded = pc.fill_null(shards, "").dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    for code, rows in rows_by_code(np.where(among, codes, -1)):
        yield names[code], rows


def entries_by_set(entries: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the sets of a TDSQL ("" for none) with their entries, in order."""
    for source_set, rows in rows_by_shard(entries["shard"], among=np.ones(entries.num_rows, np.bool_)):
        yield source_set, entries if len(rows) == entries.num_rows else entries.take(pa.array(rows))


def source_positions(entries: pa.RecordBatch) -> pa.StructArray:
    """Return the ``source_position`` of entries that have their ``lineage``."""
    parts = [entries["lineage"], file_numbers(entries["file_name"]), pc.fill_null(entries["position"], 0)]
    return pa.StructArray.from_arrays(parts, names=["lineage", "file", "position"])


def file_numbers(names: pa.StringArray) -> pa.Int64Array:
    """Return the numbers in binlog file names, 0 without a name. A batch names few files, and each is looked at once."""
    codes = pc.fill_null(names, "").dictionary_encode()
    numbers = pa.array([file_number(name) for name in codes.dictionary.to_pylist()], pa.int64())
    return numbers.take(codes.indices)


def _with_timelines(servers: Numbers, names: pa.StringArray) -> Numbers:
    """Return server ids that differ where timelines in file names do.

    On the first timeline they are as they were.
    """
    codes = pc.fill_null(names, "").dictionary_encode()
    later = np.array([max(0, timeline_of(name) - 1) for name in codes.dictionary.to_pylist()], np.int64)
    found: Numbers = servers + (later[codes.indices.to_numpy()] << _SERVER_BITS)
    return found


def filled(column: pa.Array) -> Numbers:
    """Return a column of whole numbers with 0 in the place of nulls."""
    found: Numbers = (pc.fill_null(column, 0) if column.null_count else column).to_numpy()
    return found


def position_keys(files: Numbers, positions: Numbers) -> Keys:
    """Return one number per position, by which the positions of one batch compare."""
    if not len(files) or (int(files.max()) < 1 << 23 and int(positions.max()) < 1 << _POSITION_BITS):
        return (files << _POSITION_BITS) | positions
    if bool(np.all(files == files[0])):
        return positions  # made by arrival, or in PostgreSQL's log: one file, and large positions
    return np.array([(file << 64) | at for file, at in zip(files.tolist(), positions.tolist(), strict=True)], object)
