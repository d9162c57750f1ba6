"""Snapshots behind statements: schemas, changes of them, names of a table and values as lists grow."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.key_periods import KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import EMPTY_STATE, SnapshotPlan, TableWindow, needs_schemas
from dts_assets.stages.followed_schemas import FollowedTable, followed_table, unchanged_columns
from dts_assets.stages.key_parts import last_state
from dts_assets.stages.row_origins import origins_in_set, row_origins
from dts_assets.stages.unknown_values import UNKNOWN_FIELD, count_unknown, unknown_names
from dts_assets.stages.value_paths import followed, value_path
from dts_assets.wire.columns.lake_texts import read_back
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import ServerRules
from tests.growth.long_histories import Case

TABLE, START = TableId("d", "", "t"), datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = [Column("id", "int", True), Column("n", "string", False), Column("c", "string", False)]
LIFE = (
    "ALTER TABLE t MODIFY n varchar(20)", "ALTER TABLE t MODIFY n int, ADD c int DEFAULT 7", "ALTER TABLE t RENAME COLUMN c TO e",
    "ALTER TABLE t DROP e, DROP PRIMARY KEY, MODIFY n int FIRST", "ALTER TABLE t ADD PRIMARY KEY (id)",
)  # fmt: skip
MOVES = ("RENAME TABLE t TO u, v TO t, u TO v", "RENAME TABLE t TO u", "RENAME TABLE u TO t")


def _at(number: int) -> SourcePosition:
    return SourcePosition(0, number % 7, 10 * number)


def _histories(sql: tuple[str, ...], count: int) -> dict[TableId, tuple[SchemaState, ...]]:
    said = [f"CREATE TABLE {name} (id int PRIMARY KEY, n int)" for name in "tv"]
    said += [sql[number % len(sql)] for number in range(count)]
    statements = [
        SourceStatement(SourcePosition(0, 1, 10 * number), "d", text, START, window_start=START)
        for number, text in enumerate(said)
    ]
    return dict(schema_history(statements, (), rules=ServerRules()))


def _table(histories: dict[TableId, tuple[SchemaState, ...]]) -> FollowedTable:
    rows = row_origins(histories, TABLE, histories)
    found = followed_table(rows, {TABLE: COLUMNS}, TABLE, lambda one: mysql_type(one.type) or "string")
    assert found is not None
    return found


def _follow(histories: dict[TableId, tuple[SchemaState, ...]]) -> Any:
    table = _table(histories)
    told = [KeySpan(("id",), *bounds) for bounds in pairwise([None, *(_at(n) for n in range(3))])]
    parts = table.key_parts(told, since=0)
    present = table.present(table.keyed_by(parts[-1]), str, changelog="")
    last_state(table.states, _at(3))
    return table.followed(), table.from_state(0), table.step_columns(parts), unchanged_columns(table.columns, present)


def _schemas(count: int) -> Any:
    columns = _table(_histories(LIFE, 40)).followed()
    number = np.arange(count)
    return columns, (number * 0, number % 3, number)


def _windows(count: int) -> list[TableWindow]:
    return [TableWindow(START, 1, _at(number), _at(number)) for number in range(count)]


def _needs(windows: list[TableWindow]) -> bool:
    plan = SnapshotPlan(EMPTY_STATE, (), (), None, False)
    shapes = {str(number) for number in range(len(windows))}
    return needs_schemas(EMPTY_STATE, plan, windows, COLUMNS * len(windows), shapes, names=(), made_again=())


def _values(count: int) -> pa.Array:
    return pa.array([str(number) if number % 3 else "x" for number in range(count)])


def _on_their_way(values: pa.Array) -> Any:
    states = _histories(LIFE, 2)[TABLE]
    path = value_path(states, 0, len(states) - 1, "n")
    return followed(path, values, None, len(values), "int", None), read_back(values, "int")


def _marked(count: int) -> Any:
    number = np.arange(count)
    return {f"c{place}": number % 7 == place for place in range(5)}, count


def _count_marks(given: Any) -> Any:
    names = unknown_names(*given)
    return count_unknown(pa.RecordBatch.from_arrays([names], schema=pa.schema([UNKNOWN_FIELD])))


FOLLOWED_STEPS: dict[str, Case] = {
    "schemas that a snapshot follows": (lambda count: _histories(LIFE, count // 10), _follow),
    "names that a table had": (
        lambda count: _histories(MOVES, count // 20),
        lambda histories: row_origins(histories, TABLE, histories),
    ),
    "names that a table had in a set": (
        lambda count: _histories(MOVES, count // 20),
        lambda histories: origins_in_set(histories, TABLE.of_set("s"), [one.of_set("s") for one in histories]),
    ),
    "changes by their schemas": (_schemas, lambda given: given[0].schemas_of(given[1])),
    "windows of snapshots that may have statements": (_windows, _needs),
    "values behind statements": (_values, _on_their_way),
    "values behind statements that nobody knows": (_marked, _count_marks),
}
"""By kind: what makes a list, and what is done with it."""
