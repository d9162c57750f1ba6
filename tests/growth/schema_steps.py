"""Schemas over time: steps over statements, cells and events that no stream reaches."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import KeyPeriod, joined_lists, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import told_places
from dts_assets.planning.kept_positions import first_lacking, kept_positions
from dts_assets.planning.source_moments import AtPosition, complete_until, position_of
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.ddl_statements import source_statements
from dts_assets.stages.row_origins import held_counts, moved_changes
from dts_assets.wire.ddl.change_words import all_words
from dts_assets.wire.ddl.filter_names import filter_names, filters_by_position
from dts_assets.wire.ddl.schema_history import SourceStatement, schema_history, state_at
from dts_assets.wire.ddl.schema_news import statement_news
from dts_assets.wire.ddl.set_histories import histories_by_set
from dts_assets.wire.ddl.table_schemas import ServerRules, TableSchema
from dts_assets.wire.ddl.told_schemas import ToldShapes, told_shapes
from tests.growth.long_histories import Case
from tests.growth.statement_steps import life

TABLE, START = TableId("d", "", "t"), datetime(2026, 1, 5, tzinfo=UTC)
SHAPES = tuple((ColumnShape("id", kind, is_key=True),) for kind in ("int(11)", "bigint(20)", "text"))


def _at(number: int) -> SourcePosition:
    return SourcePosition(0, 1, number)


def _said(count: int) -> list[SourceStatement]:
    return [SourceStatement(_at(10 * n), "d", sql, window_start=START) for n, sql in enumerate(life(count))]


def _renaming(count: int) -> list[SourceStatement]:
    """Columns that swap their names, and tables that do."""
    texts = ("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "RENAME TABLE t TO x, u TO t, x TO u")
    return [SourceStatement(_at(10 * n), "d", texts[n % 2], window_start=START) for n in range(count)]


def _told(count: int) -> list[ToldShapes]:
    """Events that fit what is known or do not, some of them of cells in which types changed."""
    found = [ToldShapes(TABLE, _at(10 * n + 3), _at(10 * n + 5), SHAPES[n % 3 :][:1]) for n in range(count)]
    return [*found, *(replace(one, shapes=SHAPES, last=_at(one.last.position + 30)) for one in found[::5])]


def _history(given: tuple[list[SourceStatement], list[ToldShapes]]) -> object:
    states = schema_history(*given, rules=ServerRules()).get(TABLE, ())
    return state_at(states, _at(0)), [all_words(one.changes) for one in states]


def _of_sets(count: int) -> tuple[list[SourceStatement], list[ToldShapes]]:
    """As many sets, each of which sends a statement and tells columns once."""
    said = SourceStatement(_at(1), "d", "ALTER TABLE t ADD c int", window_start=START)
    told = ToldShapes(TABLE, _at(0), _at(5), SHAPES[:1])
    names = [f"set_{n}" for n in range(count)]
    return [replace(said, source_set=name) for name in names], [
        replace(told, table=TABLE.of_set(name)) for name in names
    ]


def _cells(count: int) -> tuple[list[WindowTable], list[TableShapeRow]]:
    digest = list_digest(["id"])
    counts = [
        WindowTable(
            kafka_partition=n, window_start=START, table=TABLE, changes=1, kept=1, redelivered=0, quarantined=0, row_hash=0,
            absent_rows=0, invalid_values=0, first_position=_at(n), last_position=_at(n + 1),
            lists=(KeyPeriod(_at(n), _at(n + 1), (digest,)),),
        )
        for n in range(count)
    ]  # fmt: skip
    return counts, [
        TableShapeRow(n, START, TABLE, shape, _at(n).at_server, "") for n in range(count) for shape in SHAPES
    ]


def _of_one_cell(count: int) -> tuple[list[WindowTable], list[TableShapeRow]]:
    """A cell whose events list another column each."""
    (cell,), _ = _cells(1)
    shapes = [(ColumnShape(f"c{n}", "int", is_key=False),) for n in range(count // 2)]
    lists = [
        KeyPeriod(_at(n), _at(n), (list_digest(column.name for column in shapes[n % len(shapes)]),))
        for n in range(count)
    ]
    return [replace(cell, lists=tuple(lists))], [
        TableShapeRow(0, START, TABLE, one, _at(0).at_server, "") for one in shapes
    ]


def _of_shards(count: int) -> tuple[list[WindowTable], list[TableShapeRow]]:
    """A cell of a merged table with as many shards."""
    (cell,), _ = _cells(1)
    columns, names = SHAPES[0], [f"s{n}" for n in range(count)]
    digest = list_digest(one.name for one in columns)
    lists = tuple(KeyPeriod(_at(n), _at(n + 1), (digest, name)) for n, name in enumerate(names))
    rows = [TableShapeRow(0, START, replace(TABLE, table=name), columns, _at(0).at_server, "") for name in names]
    return [replace(cell, lists=joined_lists((*lists, *lists)))], rows


def _as_shard(source: TableId) -> tuple[TableId, tuple[str, ...]]:
    return TABLE, (source.table,)


def _rows(count: int) -> pa.RecordBatch:
    place = {"lineage": 0, "file": 1, "position": 7}
    row = {
        "kafka_partition": 0, "window_start": START, "kafka_offset": 1, "source_position": place, "gtid": None,
        "event_time": START, "execution_seconds": 0, "database": "d", "sql": "TRUNCATE t", "effect": "truncate d.t",
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row] * count)


def _news(count: int) -> dict[TableId, TableSchema]:
    return {TableId("d", "", f"t{n}"): TableSchema(()) for n in range(count)}


SCHEMA_STEPS: dict[str, Case] = {
    "statements of a table's history": (lambda count: (_said(count), []), _history),
    "events of a table's history": (lambda count: (_said(20), _told(count)), _history),
    "a table's history": (lambda count: (_said(count), _told(count)), _history),
    "sets of a table's history": (
        lambda count: _of_sets(count // 4),
        lambda given: histories_by_set(*given, rules=ServerRules(), by_set=True),
    ),
    "cells that tell shapes": (_cells, lambda given: told_shapes(*given)),
    "shapes of one cell": (_of_one_cell, lambda given: told_shapes(*given)),
    "shards of one cell": (_of_shards, lambda given: told_shapes(given[0], given[1], _as_shard)),
    "places in one cell": (_of_one_cell, lambda given: told_places(given[1], given[0])),
    "statements about a filter's columns": (_said, lambda said: filter_names(said, TABLE, ["a", "b"])),
    "new names of a filter's columns": (
        _renaming,
        lambda said: filters_by_position(said, TABLE, [(START, filter_of("a = 1")), (None, filter_of("b = 1"))]),
    ),
    "statements that are stored": (_rows, source_statements),
    "tables that a database takes along": (
        _news,
        lambda tables: statement_news(SourceStatement(_at(0), "d", "DROP DATABASE d"), tables),
    ),
    "positions that are complete": (
        lambda count: [(START, _at(n)) for n in range(count)],
        lambda seen: complete_until(Frontier(START, START, None), seen),
    ),
    "lineages": (lambda count: list(range(count)), lambda numbers: position_of(AtPosition(0, 0, 0), numbers)),
    "positions of a filtered table's changes": (
        lambda count: _cells(count)[0],
        lambda rows: (
            kept_positions(rows, {TABLE}, Frontier(START, START, None)),
            first_lacking(rows, {TABLE}, Frontier(START, START, None)),
        ),
    ),
    "changes under former names": (
        lambda count: _cells(count)[0],
        lambda rows: moved_changes([(TABLE, _at(9))], held_counts(rows, Frontier(START, START, None))),
    ),
}
