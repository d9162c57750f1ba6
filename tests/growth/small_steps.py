"""Steps over columns that a stream does not reach, or reaches with few values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.backlog import backlog_of, concerned_tables, entered, layers_asked_for, taken_out
from dts_assets.planning.counts_needed import StoredSnapshot, counts_needed
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.change_columns import Counted, RowShape
from dts_assets.stages.counted_rows import CountedRows
from dts_assets.stages.entry_columns import entries_by_set
from dts_assets.stages.keys import DistinctKeys, hash_keys, twin_hashes
from dts_assets.stages.moved_rows import connected
from dts_assets.stages.raw_rows import ContentDigest
from dts_assets.stages.repeated_keys import repeated_keys
from dts_assets.wire.avro.logical_types import decimal_texts
from dts_assets.wire.avro.schema import Type
from dts_assets.wire.columns.casts import clocks_in, parse
from dts_assets.wire.columns.postgresql_values import instants_with_offsets
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.dts_json import DtsJson
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import ToldKeys
from tests.dts_messages import dml, number
from tests.growth.altered_steps import ALTERED_STEPS
from tests.growth.copied_steps import COPIED_STEPS
from tests.growth.followed_steps import FOLLOWED_STEPS
from tests.growth.history_steps import HISTORY_STEPS
from tests.growth.hostile_records import SCHEMA
from tests.growth.hostile_streams import DTS
from tests.growth.key_steps import KEY_STEPS
from tests.growth.keyless_steps import KEYLESS_STEPS
from tests.growth.long_histories import Case
from tests.growth.partial_steps import PARTIAL_STEPS
from tests.growth.policy_steps import POLICY_STEPS
from tests.growth.proof_steps import PROOF_STEPS
from tests.growth.retention_steps import RETENTION_STEPS
from tests.growth.rule_steps import RULE_STEPS
from tests.growth.schema_steps import SCHEMA_STEPS
from tests.growth.shard_steps import SHARD_STEPS
from tests.growth.shared_id_steps import SHARED_ID_STEPS
from tests.growth.source_steps import SOURCE_STEPS
from tests.growth.statement_steps import STATEMENT_STEPS
from tests.growth.sum_steps import SUM_STEPS
from tests.growth.tag_steps import TAG_STEPS
from tests.growth.transaction_steps import TRANSACTION_STEPS
from tests.growth.whole_way import as_messages
from tests.stages.merging import CHANGES, NAMES, SNAPSHOT, again, emptied_at, merged
from tests.stages.test_soft_deletes import SOFT, SOFT_BAG
from tests.stages.versioning import BAG, advanced
from tests.stages.versioning import NOTHING as HISTORY
from tests.stages.versioning import SHAPE as HISTORY_SHAPE
from tests.stages.worlds import COLUMNS
from tests.wire.made import batch

START = datetime(2026, 1, 5, tzinfo=UTC)
ALL = Frontier(START, START, SourcePosition(9, 0, 0))
NUMBER = number("1")
NOTHING = pa.RecordBatch.from_pylist([], schema=SNAPSHOT)


def _pairs(count: int, *, shuffled: bool) -> pa.Table:
    """A chain of so many members, whose pairs come in order or in any."""
    numbers = list(range(count + 1))
    if shuffled:
        Random(3).shuffle(numbers)
    return pa.table({"one": pa.array(numbers[:-1]), "other": pa.array(numbers[1:])})


def _changes(count: int, *, keys: int, moving: bool = False) -> pa.RecordBatch:
    """Inserts of rows with so many keys, or updates that move each row to the next key and send nothing else."""
    numbers = np.arange(count)
    ids = pa.array((numbers % keys).astype(np.int32))
    image = CHANGES.field("after").type
    after = pa.StructArray.from_arrays([ids, ids, pa.nulls(count, pa.string()), ids], fields=list(image))
    position = pa.StructArray.from_arrays(
        [pa.array(np.zeros(count, np.int32)), pa.array(np.zeros(count, np.int64)), pa.array(numbers[::-1])],
        fields=list(CHANGES.field("source_position").type),
    )
    zeros, instants = pa.array(np.zeros(count, np.int32)), pa.repeat(pa.scalar(START, pa.timestamp("us", "UTC")), count)
    none = pa.array(np.zeros(count + 1, np.int32))
    before = pa.StructArray.from_arrays(
        [ids, pc.subtract(ids, pa.scalar(1, pa.int32())), pa.nulls(count, pa.string()), ids], fields=list(image)
    )
    sent = pa.ListArray.from_arrays(none, pa.array([], pa.string()))
    columns = {
        "op": pa.repeat("update" if moving else "insert", count),
        "before": before if moving else pa.nulls(count, image),
        "after": after,
        "event_time": instants,
        "source_position": position,
        "row_number": zeros,
        "kafka_partition": zeros,
        "kafka_offset": pa.array(numbers),
        "window_start": instants,
        "absent": pa.array([["after.name"]] * count, pa.list_(pa.string())) if moving else sent,
        "invalid": pa.MapArray.from_arrays(none, pa.array([], pa.string()), pa.array([], pa.string())),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in CHANGES.names], schema=CHANGES)


def _merge(changes: pa.RecordBatch) -> object:
    """Changes over the rows that they give, so that all of these go, with everything that a merge may have to do."""
    last = emptied_at([changes])
    rows = merged(NOTHING, [changes], Counted(ALL, emptied_at=last))
    keys = again([changes], whole=[changes])
    counted = Counted(ALL, ALL, again=keys[::2], newer=frozenset({START}))
    return merged(rows, [changes], counted, fold_absent=True, shares=3)


def _merge_bag(changes: pa.RecordBatch) -> object:
    """Inserts of rows of a table without a key, of which every second takes an equal row away instead."""
    shape = RowShape.of(
        tuple(Column(one.name, one.type, is_key=False) for one in COLUMNS), NAMES, SNAPSHOT, unfit=False
    )
    removes = pa.array(np.arange(changes.num_rows) % 4 == 1)
    image = pc.if_else(removes, changes.column("after"), changes.column("before"))
    changes = changes.set_column(0, "op", pc.if_else(removes, "delete", "insert")).set_column(1, "before", image)
    return merged(NOTHING, [changes], shape=shape, fold_absent=True, shares=3)


def _deleted(changes: pa.RecordBatch, shape: RowShape = SOFT) -> object:
    """The rows of a snapshot with soft deletes, at once with truncations, and going on."""
    half, number = changes.num_rows // 2, np.arange(changes.num_rows)
    nothing = pa.RecordBatch.from_pylist([], schema=shape.schema)
    removes = pa.array(number % 4 == 1)
    image = pc.if_else(removes, changes.column("after"), changes.column("before"))
    changes = changes.set_column(0, "op", pc.if_else(removes, "delete", "insert")).set_column(1, "before", image)
    op = pc.if_else(pa.array(number % 10 == 3), "truncate", changes.column("op"))
    emptied = merged(nothing, [changes.set_column(0, "op", op)], shape=shape, fold_absent=True, shares=3)
    rows = merged(nothing, [changes.slice(half)], shape=shape, fold_absent=True)
    return emptied, merged(rows, [changes.slice(0, half)], shape=shape, fold_absent=True)


def _versions(changes: pa.RecordBatch, shape: RowShape = HISTORY_SHAPE) -> object:
    """Changes of which every tenth is a truncation, one half after the other, then with half of all keys made again."""
    op = pc.if_else(pa.array(np.arange(changes.num_rows) % 10 == 3), "truncate", changes.column("op"))
    emptied = advanced(HISTORY, [changes.set_column(0, "op", op)], shape=shape, shares=3)
    half = changes.num_rows // 2
    rows = advanced(HISTORY, [changes.slice(half)], shape=shape, fold_absent=True)
    rows = advanced(rows, [changes.slice(0, half)], shape=shape, fold_absent=True, shares=3)
    counted = Counted(ALL, ALL, again=again([changes], shape=shape)[::2], newer=frozenset({START}))
    return emptied, advanced(rows, [changes], counted, shape=shape)


def _look_at_all(tables: list[TableId]) -> object:
    """A run that looks at all tables, of which every second waits, and then another of the tables that wait."""
    layers, rows = ("changelog", "snapshot"), entered([], tables, "r1")
    rows = taken_out(rows, seen=(), run="r1", done=set(tables[::2]), layers=layers, all_tables=tables)
    assert not layers_asked_for(rows, layers)
    known = concerned_tables(backlog_of(rows, layers), [], described=tables, counted=tables, tables=tables)
    return taken_out(entered(rows, tables, "r2"), seen=set(rows), run="r2", done=known or (), layers=layers)


def _needed(count: int) -> list[StoredSnapshot]:
    """Snapshots of which half lacked nothing, each with a replaced window of its own."""
    starts = [START + n * timedelta(hours=1) for n in range(count)]
    return [
        StoredSnapshot(SnapshotState(Frontier(start, None, None)), frozenset([start]), lacked_nothing=bool(n % 2))
        for n, start in enumerate(starts)
    ]


def _rows(count: int, *, keys: int) -> pa.RecordBatch:
    ids = pa.array(np.arange(count) % keys)
    return pa.RecordBatch.from_arrays([ids, pa.nulls(count, pa.map_(pa.string(), pa.string()))], ["id", "_invalid"])


def _distinct(keys: pa.Array) -> object:
    found = DistinctKeys.of([hash_keys([keys])], [twin_hashes([keys])])
    return found.all_among(found)


def _counted(count: int) -> CountedRows:
    """Rows of which each tells a list of columns of its own."""
    rows = pa.RecordBatch.from_pydict({"kafka_offset": range(count)})
    told = ToldKeys(tuple((f"list_{n}",) for n in range(count)), np.arange(count))
    return CountedRows(TableId("d", "", "t"), rows, np.zeros(count, np.uint64), told, told)


def _digest(messages: pa.RecordBatch) -> str:
    digest = ContentDigest()
    digest.add(messages)
    return digest.text()


def _entries(count: int, *, lists: int) -> pa.RecordBatch:
    """Entries of two tables by turns, with so many lists of columns; calls of some dozens have their columns compared."""
    made = [
        dml([("id", "int(11)"), (f"c{number % lists}", "int(11)")], [([], [NUMBER, NUMBER])], table=f"t{number % 2}")
        for number in range(64 + 2 * count)
    ]
    return batch(*made)


def _ragged_entries(count: int) -> pa.RecordBatch:
    """Entries of which every fifth lacks a value, so that its row is taken out."""
    columns = [("id", "int(11)"), ("n", "int(11)")]
    made = [dml(columns, [([], [NUMBER] * (1 if number % 5 == 0 else 2))], table="t0") for number in range(count)]
    return batch(*made)


def _changes_of_one_table(entries: pa.RecordBatch) -> object:
    return DtsProtobuf().changes(entries, {TableId("shopdb", "", "t0"): (Column("id", "int", True),)})


_STEPS: dict[str, Case] = {
    "entries of tables that are not wanted": (lambda count: _entries(count, lists=1), _changes_of_one_table),
    "entries of which some cannot be used": (_ragged_entries, _changes_of_one_table),
    "entries with many lists of columns": (lambda count: _entries(count, lists=50), _changes_of_one_table),
    "moves in order": (lambda count: _pairs(count, shuffled=False), connected),
    "moves in any order": (lambda count: _pairs(count, shuffled=True), connected),
    "changes of many rows": (lambda count: _changes(count, keys=count), _merge),
    "changes of one row": (lambda count: _changes(count, keys=1), _merge),
    "changes of a bag's rows": (lambda count: _changes(count, keys=max(1, count // 5)), _merge_bag),
    "changes of a bag's one row": (lambda count: _changes(count, keys=1), _merge_bag),
    "versions of many rows": (lambda count: _changes(count, keys=count), _versions),
    "versions of one row": (lambda count: _changes(count, keys=1), _versions),
    "versions of a bag's one row": (lambda count: _changes(count, keys=1), lambda changes: _versions(changes, BAG)),
    "soft deletes of many rows": (lambda count: _changes(count, keys=count), _deleted),
    "soft deletes of one row": (lambda count: _changes(count, keys=1), _deleted),
    "soft deletes of a bag's one row": (lambda count: _changes(count, keys=1), lambda rows: _deleted(rows, SOFT_BAG)),
    "versions of rows that move": (lambda count: _changes(count, keys=count, moving=True), _versions),
    "rows that move": (lambda count: _changes(count, keys=count, moving=True), _merge),
    "snapshots that need counts": (_needed, lambda given: counts_needed(given, run={START})),
    "tables in the backlog": (lambda count: [TableId("shopdb", "", f"t{n}") for n in range(count)], _look_at_all),
    "keys by two hashes": (lambda count: pa.array(np.arange(count) % max(1, count // 3)), _distinct),
    "keys": (lambda count: _rows(count, keys=count), lambda rows: repeated_keys(lambda: [rows], ["id"])),
    "keys that are repeated": (
        lambda count: _rows(count, keys=max(1, count // 2)),
        lambda rows: repeated_keys(lambda: [rows], ["id"]),
    ),
    "messages": (lambda count: as_messages(DTS["empty messages"](count)), _digest),
    "contents": (lambda count: pa.array([b"x"] * count), lambda payloads: DtsProtobuf().contents(payloads)),
    "names of keys": (lambda count: pa.array([b"x"] * count), lambda payloads: DtsProtobuf().has_key(payloads)),
    "contents of Avro": (lambda count: pa.array([b"x"] * count), lambda payloads: DtsAvro(SCHEMA).contents(payloads)),
    "names of keys of Avro": (
        lambda count: pa.array([b"x"] * count),
        lambda payloads: DtsAvro(SCHEMA).has_key(payloads),
    ),
    "contents of DTS JSON": (lambda count: pa.array([b"x"] * count), lambda payloads: DtsJson().contents(payloads)),
    "names of keys of DTS JSON": (
        lambda count: pa.array([b"x"] * count),
        lambda payloads: DtsJson().has_key(payloads),
    ),
    "decimals of Avro": (
        lambda count: pa.array([bytes([1]) * 500] * count),
        lambda values: decimal_texts(Type("bytes", logical="decimal", scale=2), values),
    ),
    "one long decimal of Avro": (
        lambda count: pa.array([bytes([1]) * 100 * count]),
        lambda values: decimal_texts(Type("bytes", logical="decimal"), values),
    ),
    "values that do not fit": (lambda count: pa.array([b"2026-02-30"] * count), lambda values: parse(values, "date")),
    "every other value does not fit": (
        lambda count: pa.array([b"2026-02-30", b"2026-02-01"] * (count // 2)),
        lambda values: parse(values, "date"),
    ),
    "decimals with exponents": (lambda count: pa.array([b"1e3"] * count), lambda values: parse(values, "decimal(9,2)")),
    "one long number": (lambda count: pa.array([b"1" * count]), lambda values: parse(values, "decimal(38,0)")),
    "one number of many zeros": (
        lambda count: pa.array([b"0" * count + b"1"]),
        lambda values: parse(values, "decimal(38,0)"),
    ),
    "instants of which every other has an odd offset": (
        lambda count: pa.array([b"2026-01-05 10:00:00+08", b"1900-01-01 00:05:43+08:05:43"] * (count // 2)),
        lambda values: instants_with_offsets(values, "+08:00"),
    ),
    "clocks that a zone shows": (
        lambda count: pa.array(range(count)).cast(pa.timestamp("us", tz="UTC")),
        lambda instants: [clocks_in(instants, zone) for zone in ("Asia/Shanghai", "+08:00")],
    ),
    "entries of as many sets": (
        lambda count: pa.RecordBatch.from_pydict({"shard": [f"set_{n}" for n in range(count)]}),
        lambda entries: list(entries_by_set(entries)),
    ),
    "every other row of a changelog": (
        _counted,
        lambda counted: counted.chosen(np.arange(counted.rows.num_rows) % 2 == 0),
    ),
}


def _all(*rooms: dict[str, Case]) -> dict[str, Case]:
    """Return all steps by their names, of which no two are equal."""
    found = {kind: case for room in rooms for kind, case in room.items()}
    assert len(found) == sum(map(len, rooms)), "a step of one name replaces another"
    return found


STEPS = _all(
    ALTERED_STEPS,
    COPIED_STEPS,
    FOLLOWED_STEPS,
    POLICY_STEPS,
    RETENTION_STEPS,
    TAG_STEPS,
    HISTORY_STEPS,
    RULE_STEPS,
    SCHEMA_STEPS,
    SHARD_STEPS,
    SHARED_ID_STEPS,
    SOURCE_STEPS,
    STATEMENT_STEPS,
    PROOF_STEPS,
    KEY_STEPS,
    PARTIAL_STEPS,
    KEYLESS_STEPS,
    SUM_STEPS,
    TRANSACTION_STEPS,
    _STEPS,
)
"""By kind: what makes a list, and what is done with it."""
