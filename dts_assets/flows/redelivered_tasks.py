"""The work of one Spark task of the identity check.

The entries of a cell are compared with the entries of windows before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.lineages import LineageRule
from dts_assets.model.lives import Stretch
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.stages.copies_elsewhere import CopiesElsewhere, listed_copies
from dts_assets.stages.redelivered_entries import (
    COPY_COLUMNS,
    KEY_COLUMNS,
    EntryKeys,
    copies_by_transaction,
    copies_in_cell,
    keys_of,
    redelivered_in_cell,
)
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.wire.format import WireFormat


@dataclass(frozen=True, slots=True)
class IdentityTask:
    """The comparison of the entries of one cell with each other and with earlier cells.

    ``earlier`` has the files of each earlier cell, oldest cell first. ``stretches`` are those of all these cells, where messages
    carry ids; empty where positions tell copies. ``elsewhere`` are the copies of messages in other Kafka partitions, and
    ``suspicious`` says that there may be other ones. ``tables`` are lake tables, to which ``routes`` lead. ``end`` is the first
    offset that is not in the changelogs yet, 0 where they are made anew.
    """

    cell: Cell
    own: tuple[str, ...]
    earlier: tuple[tuple[Cell, tuple[str, ...]], ...]
    rules: Mapping[str, LineageRule]
    trust_gtids: bool
    by_gtid: bool
    tables: frozenset[TableId]
    format: WireFormat
    stretches: Mapping[Cell, tuple[Stretch, ...]]
    entries_store: FileStore
    redeliveries: WriteTarget
    routes: Routes = NO_ROUTES
    elsewhere: CopiesElsewhere | None = None
    suspicious: bool = True
    end: int = 0


@dataclass(frozen=True, slots=True)
class IdentityResult:
    """The entries of a cell that were delivered before.

    ``changes`` has the number of their changes by table, ``former`` that of those before the end of the changelogs. The
    ``files`` list them.
    """

    cell: Cell
    keys: EntryKeys
    changes: Mapping[TableId, int]
    former: Mapping[TableId, int]
    files: tuple[WrittenFile, ...]


def find_in_cell(task: IdentityTask, attempt: str) -> IdentityResult:
    """Find and list the entries of a cell that were delivered before."""
    found = _found(task)
    keys = keys_of(found)
    changes, former = _counted(task, found), _counted(task, found.filter(pc.less(found["last_offset"], task.end)))
    with TableWriter(task.redeliveries, attempt) as writer:
        for batch in _listed(task, found).to_batches():
            writer.write(batch)
        return IdentityResult(task.cell, keys, changes, former, writer.close())


def _counted(task: IdentityTask, found: pa.Table) -> Counter[TableId]:
    """Return the number of changes by table."""
    counts, changes = found.group_by(["database", "schema", "table"]).aggregate([("rows", "sum")]), Counter[TableId]()
    for row in counts.to_pylist():
        table = task.routes.decoded_table(TableId(row["database"] or "", row["schema"] or "", row["table"] or ""))
        if table is not None and table in task.tables:
            changes[table] += row["rows_sum"]
    return changes


def _found(task: IdentityTask) -> pa.Table:
    """Return the rows about all copies of a cell; of several originals the first is told."""
    found: list[pa.Table] = []
    if task.suspicious:
        own = _copies(task) if task.stretches else _redelivered(task)
        own = own.append_column("kept_partition", pa.array(np.full(len(own), task.cell.kafka_partition, np.int32)))
        found.append(own)
    if task.elsewhere is not None:
        found = [one.filter(pa.array(~np.isin(keys_of(one), task.elsewhere.keys))) for one in found]
        entries = read_batches(task.entries_store, task.own, KEY_COLUMNS)
        found.append(listed_copies(task.elsewhere, entries, task.rules))
    return pa.concat_tables(found)


def _redelivered(task: IdentityTask) -> pa.Table:
    if task.format.traits.order is ChangeOrder.ARRIVAL:
        earlier = (read_batches(task.entries_store, paths, COPY_COLUMNS) for _, paths in task.earlier)
        return copies_by_transaction(read_batches(task.entries_store, task.own, COPY_COLUMNS), earlier, task.format)
    said = task.format.contents if task.format.traits.rows_apart else None
    columns = KEY_COLUMNS if said is None else COPY_COLUMNS
    return redelivered_in_cell(
        read_batches(task.entries_store, task.own, columns),
        (read_batches(task.entries_store, paths, columns) for _, paths in task.earlier),
        task.rules, trust_gtids=task.trust_gtids, by_gtid=task.by_gtid, said=said,
    )  # fmt: skip


def _copies(task: IdentityTask) -> pa.Table:
    return copies_in_cell(
        (task.stretches[task.cell], read_batches(task.entries_store, task.own, COPY_COLUMNS)),
        (
            (task.stretches[cell], read_batches(task.entries_store, paths, COPY_COLUMNS))
            for cell, paths in task.earlier
        ),
        task.rules, task.format,
    )  # fmt: skip


def _listed(task: IdentityTask, found: pa.Table) -> pa.Table:
    """Return the rows of ``redeliveries``: one for each change of the entries found, of wanted tables."""
    names = zip(*(found[name].to_pylist() for name in ("database", "schema", "table")), strict=True)
    sources = (TableId(*(name or "" for name in parts)) for parts in names)
    wanted = [task.routes.decoded_table(source) in task.tables for source in sources]
    found = found.filter(pa.array(wanted, pa.bool_())).combine_chunks()
    rows = pc.fill_null(found["rows"], 0).to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    each = found.take(pa.array(owners))
    numbers = np.arange(len(owners)) - first[owners]
    if task.format.traits.rows_apart:
        numbers += each["entry_number"].to_numpy()
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
        "kept_partition": each["kept_partition"],
        "kept_offset": each["kept_offset"],
        "source_position": position,
        "row_number": pa.array(numbers.astype(np.int32)),
        "database": each["database"],
        "schema": each["schema"],
        "table": each["table"],
        "reason": each["reason"],
    }
    return pa.table(columns)
