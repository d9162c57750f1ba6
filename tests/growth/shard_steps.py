"""Truncations of shards: many rows, many truncations, and many shards."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.key_periods import KeyPeriod
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.followed_schemas import FollowedTable, followed_table
from dts_assets.stages.merged_schemas import followed_shards, known_origins
from dts_assets.stages.mixed_keys import first_mixed
from dts_assets.stages.moved_shards import MovedShards, ShardMove
from dts_assets.stages.row_origins import row_origins
from dts_assets.stages.row_places import Place
from dts_assets.stages.shard_truncations import Shard, emptied_rows, next_truncations, shard_columns_of, shards_in
from dts_assets.wire.ddl.schema_history import SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import ServerRules
from tests.growth.long_histories import Case

START = datetime(2026, 1, 5, tzinfo=UTC)

NAMES = ("_source_database", "_source_table")
KEYS = (("id",), ("id", "n"))
Shards = tuple[list[pa.Array], Place, list[tuple[SourcePosition, Shard]]]


def _images(count: int) -> pa.RecordBatch:
    image = pa.array(
        [None if number % 7 == 3 else dict.fromkeys(NAMES, f"s{number}") for number in range(count)],
        pa.struct([(name, pa.string()) for name in NAMES]),
    )
    return pa.RecordBatch.from_pydict({"before": image, "after": image})


def _told(batch: pa.RecordBatch) -> object:
    return shards_in(batch["before"], NAMES), shard_columns_of(batch, NAMES)


def _emptied(count: int) -> Shards:
    """As many rows as truncations, each of a shard of its own or of a whole database."""
    columns = [pa.array([f"d{number % 9}" for number in range(count)]), pa.array([f"t{n}" for n in range(count)])]
    zeros, places = np.zeros(count, np.int64), np.arange(count, dtype=np.int64)
    truncations: list[tuple[SourcePosition, Shard]] = [
        (SourcePosition(0, 0, number), (f"d{number % 9}", f"t{number}" if number % 2 else ""))
        for number in range(count)
    ]
    return columns, (zeros, zeros, places), truncations


def _changes(count: int) -> pa.RecordBatch:
    """Changes of as many shards, of which two empty a whole database."""
    zeros, places = np.zeros(count, np.int64), np.arange(count)
    position = pa.StructArray.from_arrays(
        [pa.array(one) for one in (zeros, zeros, places)], ["lineage", "file", "position"]
    )
    op = ["truncate" if number in (2, 11) else "insert" for number in range(count)]
    values = [[f"s{number % 5}", f"s{number}" if number not in (2, 11) else ""] for number in range(count)]
    image = pa.array([dict(zip(NAMES, one, strict=True)) for one in values])
    columns = {"op": pa.array(op), "source_position": position, "before": image, "after": image}
    return pa.RecordBatch.from_pydict(columns)


def _moved(changes: pa.RecordBatch) -> object:
    middle = SourcePosition(0, 0, changes.num_rows // 2)
    moves = [
        move
        for number in range(changes.num_rows)
        for shard, into in ((((f"s{number % 5}", f"s{number}")), (f"s{number % 5}", f"t{number}")),)
        for move in (ShardMove(shard, None, middle, into), ShardMove(shard, middle, None, shard))
    ]
    return MovedShards(NAMES, tuple(moves)).read(changes)


def _altered(count: int) -> dict[Shard, FollowedTable]:
    """As many shards, of which each gets a column at a time of its own."""
    names = [f"t{number}" for number in range(count)]
    said = [f"CREATE TABLE {name} (id int PRIMARY KEY, n int)" for name in names]
    said += [f"ALTER TABLE {name} ADD c int DEFAULT 7, MODIFY n varchar(9)" for name in names]
    statements = [
        SourceStatement(SourcePosition(0, 1, 10 * number), "d", sql, START, window_start=START)
        for number, sql in enumerate(said)
    ]
    found: dict[Shard, FollowedTable] = {}
    columns = [Column("id", "int", True), Column("n", "string", False), Column("c", "int", False)]
    for table, states in schema_history(statements, (), rules=ServerRules()).items():
        rows = known_origins(row_origins({table: states}, table, ()))
        mine = followed_table(rows, {table: columns}, table, lambda one: mysql_type(one.type) or "string")
        assert mine is not None
        found[table.database, table.table] = mine
    return found


def _merged(shards: dict[Shard, FollowedTable]) -> object:
    made = followed_shards(shards, [], NAMES)
    assert made is not None
    assert made.key is not None
    keyed, columns = made.keyed_by(made.key), made.followed()
    assert len(columns.schemas) == 3
    numbers = np.arange(len(shards))
    rows = [pa.array([shard[place] for shard in shards]) for place in range(2)]
    paths = [made.from_state(shard, 0) for shard in shards]
    return (
        columns.schemas_of((numbers * 0, numbers * 0 + 1, numbers * 20), rows),
        made.present(keyed, str, changelog=""),
        paths,
        made.with_defaults(made.columns),
    )


def _keys_told(count: int) -> list[KeyPeriod]:
    """As many periods of two keys, in two Kafka partitions one of which tells a single key."""
    places = [SourcePosition(0, 1, 10 * number) for number in range(count)]
    told = [KeyPeriod(one, one.next, KEYS[number % 2]) for number, one in enumerate(places)]
    return [*told, KeyPeriod(places[0], places[-1], KEYS[0])]


SHARD_STEPS: dict[str, Case] = {
    "keys of shards": (_keys_told, lambda told: first_mixed(told, keeps_deleted=False)),
    "shards of many changes": (_images, _told),
    "shards that had another name": (_changes, _moved),
    "statements of many shards": (lambda count: _altered(count // 10), _merged),
    "many truncations of many shards": (
        _emptied,
        lambda given: (next_truncations(*given), emptied_rows(*given)),
    ),
}
