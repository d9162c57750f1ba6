"""Histories over statements as lists grow: states of a table's columns, and changes over a few statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import EMPTY_STATE, TableWindow, needs_statements, plan_snapshot
from dts_assets.stages.change_columns import Truncation
from dts_assets.stages.followed_schemas import followed_table
from dts_assets.stages.history_statements import (
    MOVED,
    HistoryColumns,
    arrived_columns,
    history_statements,
    statements_text,
    with_defaults,
)
from dts_assets.stages.row_origins import name_changes
from dts_assets.stages.version_eras import VersionEra, as_arrival, version_eras, versions_over_eras
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import ServerRules
from tests.growth.long_histories import Case
from tests.stages.merging import ALL, batch, parts_of, shared
from tests.stages.versioning import SHAPE
from tests.stages.worlds import DOINGS, Change, World

_TABLE, _OTHER, _START = TableId("d", "", "t"), TableId("d", "", "u"), datetime(2026, 1, 5, tzinfo=UTC)
_COLUMNS = tuple(Column(name, "int", name == "id") for name in ("id", "x", "y"))
_TURNS = (
    "ALTER TABLE t ADD x INT DEFAULT 1",
    "ALTER TABLE t MODIFY x BIGINT",
    "ALTER TABLE t RENAME COLUMN x TO y",
    "ALTER TABLE t DROP y",
    "ALTER TABLE t MODIFY id VARCHAR(20)",
    "ALTER TABLE t MODIFY id INT",
)


def _states(count: int) -> dict[TableId, Sequence[SchemaState]]:
    said = [
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "RENAME TABLE u TO t",
        *(_TURNS[n % len(_TURNS)] for n in range(count)),
    ]
    statements = [SourceStatement(SourcePosition(0, 1, n), "d", sql, window_start=_START) for n, sql in enumerate(said)]
    return dict(schema_history(statements, (), rules=ServerRules()))


def _follow(states: dict[TableId, Sequence[SchemaState]]) -> object:
    moves = name_changes(states, _TABLE, {_TABLE, _OTHER})
    found = history_statements(states[_TABLE], moves, HistoryColumns(_COLUMNS))
    changes = with_defaults(states[_TABLE], HistoryColumns(_COLUMNS))
    (move,) = moves
    assert move.rows is not None
    rows = followed_table(move.rows, {_TABLE: _COLUMNS, _OTHER: _COLUMNS}, _TABLE, lambda _: "int")
    assert rows is not None
    arrived_columns(rows, _COLUMNS)
    return statements_text(found, [str(one.position) for one in found], changes), version_eras(found)


def _changes(count: int) -> list[Change]:
    return World(1, Random(3)).live(count, DOINGS).changes


def _versions(changes: list[Change]) -> object:
    middle, place = changes[: len(changes) // 2], changes[len(changes) // 2].position
    eras = [
        VersionEra(place, 0, True),
        VersionEra(place, 0, arrival=1, truncations=(Truncation(SourcePosition(0, 0, 0), 0),)),
    ]
    own = parts_of([batch(changes)], shape=SHAPE, hashed=True)
    came = [as_arrival(one, 1) for one in parts_of([batch(middle)], shape=SHAPE, hashed=True)]
    return [versions_over_eras(one, SHAPE, eras) for one in shared([*own, *came], own, 2)]


def _needed(windows: list[TableWindow]) -> object:
    plan = plan_snapshot(EMPTY_STATE, ALL, changelog_snapshot=1, windows=windows, replaced=())
    return needs_statements(EMPTY_STATE, plan, windows, _COLUMNS, moved=MOVED)


HISTORY_STEPS: dict[str, Case] = {
    "statements that histories follow": (_states, _follow),
    "changes of a history over statements": (_changes, _versions),
    "windows that may have statements": (
        lambda count: [TableWindow(_START, 1, SourcePosition(0, 1, n), SourcePosition(0, 1, n)) for n in range(count)],
        _needed,
    ),
}
"""By kind: what makes a list, and what is done with it."""
