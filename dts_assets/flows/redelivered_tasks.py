"""What one Spark task of the identity check does: the entries of a cell compared with those of windows before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.lineages import LineageRule
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.stages.redelivered_entries import KEY_COLUMNS, find_redelivered, relevant
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches

EntryKeys = npt.NDArray[np.int64]

_ENTRY_BITS = 24
"""An entry set of 10 MB has far fewer than 16 million entries, and offsets stay below 2 to the 39."""


@dataclass(frozen=True, slots=True)
class IdentityTask:
    """Compare the entries of one cell with themselves and with earlier cells (files of each, oldest first)."""

    cell: Cell
    own: tuple[str, ...]
    earlier: tuple[tuple[str, ...], ...]
    rules: Mapping[str, LineageRule]
    trust_gtids: bool
    by_gtid: bool
    tables: frozenset[TableId]
    io_properties: Mapping[str, str]
    redeliveries: WriteTarget


@dataclass(frozen=True, slots=True)
class IdentityResult:
    """The entries of a cell that were delivered before, how many changes they hold by table, and the files that list them."""

    cell: Cell
    keys: EntryKeys
    changes: Mapping[TableId, int]
    files: tuple[WrittenFile, ...]


def entry_keys(last_offsets: pa.Array, entry_numbers: pa.Array) -> EntryKeys:
    """One number per entry of a Kafka partition."""
    keys: EntryKeys = (last_offsets.to_numpy() << _ENTRY_BITS) | entry_numbers.to_numpy()
    return keys


def find_in_cell(task: IdentityTask, attempt: str) -> IdentityResult:
    """Find and list what was delivered before among the entries of a cell."""
    own = _read(task, task.own, positions=None, gtids=pa.array([], pa.string()) if task.by_gtid else None)
    positions = pc.unique(own["position"])
    gtids = pc.unique(own["gtid"]).drop_null() if task.by_gtid else None
    earlier = [_read(task, paths, positions=positions, gtids=gtids) for paths in task.earlier]
    found = find_redelivered(earlier, own, task.rules, trust_gtids=task.trust_gtids, by_gtid=task.by_gtid)
    keys = entry_keys(found["last_offset"].combine_chunks(), found["entry_number"].combine_chunks())
    counts = found.group_by(["database", "schema", "table"]).aggregate([("rows", "sum")])
    changes = {
        table: row["rows_sum"]
        for row in counts.to_pylist()
        if (table := TableId(row["database"] or "", row["schema"] or "", row["table"] or "")) in task.tables
    }
    with TableWriter(task.redeliveries, attempt) as writer:
        for batch in _listed(task, found).to_batches():
            writer.write(batch)
        return IdentityResult(task.cell, keys, changes, writer.close())


def _read(
    task: IdentityTask, paths: tuple[str, ...], *, positions: pa.Array | None, gtids: pa.Array | None
) -> pa.Table:
    batches = [
        relevant(batch, positions=positions, gtids=gtids)
        for batch in read_batches(task.io_properties, paths, KEY_COLUMNS)
    ]
    return pa.Table.from_batches(batches) if batches else _NO_ENTRIES


def _listed(task: IdentityTask, found: pa.Table) -> pa.Table:
    """Rows of ``redeliveries``: one for each change of the entries found, of tables that are wanted."""
    names = zip(*(found[name].to_pylist() for name in ("database", "schema", "table")), strict=True)
    wanted = [TableId(*(name or "" for name in parts)) in task.tables for parts in names]
    found = found.filter(pa.array(wanted, pa.bool_())).combine_chunks()
    rows = pc.fill_null(found["rows"], 0).to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    each = found.take(pa.array(owners))
    count = len(owners)
    position = pa.StructArray.from_arrays(
        [each[name].combine_chunks() for name in ("lineage", "file", "position")], names=["lineage", "file", "position"]
    )
    partition = pa.array(np.full(count, task.cell.kafka_partition), pa.int32())
    columns = {
        "kafka_partition": partition,
        "window_start": pa.array([task.cell.window.start] * count, pa.timestamp("us", tz="UTC")),
        "stage": pa.array(["tables"] * count, pa.string()),
        "kafka_offset": each["last_offset"],
        "kept_partition": partition,
        "kept_offset": each["kept_offset"],
        "source_position": position,
        "row_number": pa.array((np.arange(count) - first[owners]).astype(np.int32)),
        "database": each["database"],
        "schema": each["schema"],
        "table": each["table"],
        "reason": each["reason"],
    }
    return pa.table(columns)


_NO_ENTRIES = pa.schema(
    [
        ("last_offset", pa.int64()),
        ("entry_number", pa.int32()),
        ("message_type", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("gtid", pa.string()),
        ("file_name", pa.string()),
        ("position", pa.int64()),
        ("database", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("rows", pa.int32()),
        ("shard", pa.string()),
        ("sequence", pa.int64()),
    ]
).empty_table()
