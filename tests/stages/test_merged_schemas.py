"""The columns of merged tables, shard by shard."""

from __future__ import annotations

from datetime import UTC, datetime

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.followed_schemas import FollowedTable, followed_table
from dts_assets.stages.merged_schemas import followed_shards, known_origins
from dts_assets.stages.row_origins import row_origins
from dts_assets.stages.shard_truncations import Shard
from dts_assets.wire.ddl.schema_history import SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import ServerRules

START = datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = (Column("id", "int", True), Column("day", "string", False))


def shard_of(sql: str) -> FollowedTable:
    said = SourceStatement(SourcePosition(0, 1, 10), "d", sql, START, window_start=START)
    ((table, states),) = schema_history([said], (), rules=ServerRules()).items()
    rows = known_origins(row_origins({table: states}, table, ()))
    made = followed_table(rows, {table: COLUMNS}, table, lambda one: mysql_type(one.type) or "string")
    assert made is not None
    return made


def test_defaults_have_the_type_of_their_own_shard() -> None:
    """A default that this type does not take is NULL and in ``_invalid``, as it is where no other shard has text."""
    shards: dict[Shard, FollowedTable] = {
        ("d", "a"): shard_of("CREATE TABLE a (id int PRIMARY KEY, day date DEFAULT '0000-00-00')"),
        ("d", "b"): shard_of("CREATE TABLE b (id int PRIMARY KEY, day varchar(80) DEFAULT '0000-00-00')"),
    }
    merged = followed_shards(shards, (), ("_source_database", "_source_table"))
    assert merged is not None
    found = merged.followed()
    assert found.shards is not None
    types = {}
    for (_, table), ((_, number),) in found.shards.begins:
        path, default = (ways[1] for ways in (found.schemas[number].paths, found.schemas[number].defaults))
        assert path is not None
        assert default is not None
        types[table] = path.own_type, default.own_type
    assert types == {"a": ("date", "date"), "b": ("", "")}
