"""A registry that was lost: it comes back from the ledger as it was, whichever way it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dts_assets.flows.known_tables import known_tables, register_counted, register_shapes, widen_unsigned
from dts_assets.flows.lake_shapes import stored_shapes
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.taught_types import TAUGHT_PROPERTY
from dts_assets.model.column_rules import no_rule
from dts_assets.model.columns import Column, ColumnShape, mysql_type
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.key_periods import KeyPeriod, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.routes import NO_ROUTES
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.model.type_mappings import TypeMapping, mapped_type
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry, read_registry
from tests.flows.history import border

ITEMS = TableId("bank", "", "items")


def shape(partition: int, number: int, position: int, kind: str) -> TableShapeRow:
    at = ServerPosition(1, position)
    return TableShapeRow(partition, border(number), ITEMS, (ColumnShape("n", kind, False),), at, "1")


ROWS = [shape(0, 0, 10, "int"), shape(1, 0, 30, "text"), shape(0, 1, 50, "int"), shape(1, 2, 20, "int")]
"""A column of two types, the first of which is seen again behind the second."""


def pipeline_of(
    registry: Path,
    rows: list[TableShapeRow],
    *,
    counts: Sequence[WindowTable] = (),
    lake: str | None = "this",
    ignores_case: bool = True,
) -> Pipeline:
    kinds = {"int": "int", "text": "string"}
    made: Any = SimpleNamespace(
        settings=SimpleNamespace(
            registry_path=registry,
            tables=SimpleNamespace(takes=lambda _: True),
            types_of=lambda _: {},
            mapped_type=lambda _, original_type, lake_type: None,
            has_rules=False,
            rule_finder=lambda _: no_rule,
            routes=NO_ROUTES,
            decoded_sources=lambda table, _: (table,),
            traits=SimpleNamespace(ignores_case=ignores_case, order=ChangeOrder.BINLOG_POSITION),
        ),
        name="bank",
        lake=SimpleNamespace(identity=lambda _: lake, table=lambda path: None),
        table_path=lambda layer, table: (layer, *table.path),
        ledger=SimpleNamespace(
            table_shapes=lambda windows=None: rows,
            window_tables=lambda windows=None: counts,
            of_tables=lambda tables: (rows, counts),
            paused_tables=list,
        ),
        format=SimpleNamespace(column_type=lambda original, *, unsigned, table: kinds[original]),
    )
    made.lake_type = partial(Pipeline.lake_type, made)
    return cast(Pipeline, made)


WHOLE = Column("n", "string", False, own_types=(("int", "int"),))


def test_a_lost_registry_comes_back_with_the_type_that_holds_all(tmp_path: Path) -> None:
    for number, rows in enumerate((ROWS, ROWS[::-1])):
        lost = pipeline_of(tmp_path / f"lost{number}.json", rows)
        assert known_tables(lost) == {ITEMS: (WHOLE,)}
        asked = pipeline_of(tmp_path / f"asked{number}.json", rows)
        register_shapes(asked, stored_shapes(rows))
        assert known_tables(asked) == known_tables(lost)


def test_a_lost_registry_comes_back_whole_where_a_run_knows_some_shapes(tmp_path: Path) -> None:
    """A run of one window, or new entries, must not leave a registry that looks whole and lacks a column."""
    more = TableShapeRow(0, border(2), ITEMS, (ColumnShape("later", "text", False),), ServerPosition(1, 90), "1")
    lost = pipeline_of(tmp_path / "lost.json", [*ROWS, more])
    register_shapes(lost, stored_shapes(ROWS[:1]))
    assert known_tables(lost) == {ITEMS: (WHOLE, Column("later", "string", False))}


PHANTOM = RegisteredTable(TableId("bank", "", "phantom"), (RegisteredColumn("n", "int", "int", True),))


@pytest.mark.parametrize("lake", ["another", None])
def test_a_registry_of_another_lake_counts_as_lost(tmp_path: Path, lake: str | None) -> None:
    """A lake that was removed and made anew in the same place, or a file of a version that named no lake."""
    file = tmp_path / "registry.json"
    merge_registry(file, [PHANTOM], lake=lake)
    assert known_tables(pipeline_of(file, ROWS)) == {ITEMS: (WHOLE,)}
    assert set(read_registry(file)) == {ITEMS}


@pytest.mark.parametrize("lake", ["another", None])
def test_new_entries_take_over_no_table_of_another_lake(tmp_path: Path, lake: str | None) -> None:
    file = tmp_path / "registry.json"
    merge_registry(file, [PHANTOM], lake=lake)
    assert register_shapes(pipeline_of(file, ROWS), stored_shapes(ROWS)) == (ITEMS,)
    assert set(read_registry(file)) == {ITEMS}


def test_a_lake_without_tables_forgets_those_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    merge_registry(file, [PHANTOM], lake="another")
    assert known_tables(pipeline_of(file, [])) == {}
    assert read_registry(file) == {}


def test_before_the_lake_is_made_no_table_is_known_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    assert known_tables(pipeline_of(file, [], lake=None)) == {}
    assert not file.exists()
    merge_registry(file, [PHANTOM], lake="another")
    assert known_tables(pipeline_of(file, [], lake=None)) == {}
    assert set(read_registry(file)) == {PHANTOM.table}


def spelled(name: str, number: int, position: int) -> TableShapeRow:
    columns = (ColumnShape(name, "int", True), ColumnShape("note", "text", False))
    return TableShapeRow(0, border(number), ITEMS, columns, ServerPosition(1, position), "1")


SPELLED = [spelled("id", 0, 10), spelled("Id", 1, 50), spelled("ID", 1, 70), spelled("id", 2, 60), spelled("ID", 3, 90)]
"""A column whose name is spelled three ways; in window 2 an old event is delivered again."""


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_column_is_spelled_as_last_whatever_the_order_of_windows(order: tuple[int, ...], tmp_path: Path) -> None:
    stored: list[TableShapeRow] = []
    pipeline = pipeline_of(tmp_path / "registry.json", stored)
    merge_registry(pipeline.settings.registry_path, [], lake="this")
    for number in order:
        mine = [row for row in SPELLED if row.window_start == border(number)]
        stored += mine
        register_shapes(pipeline, stored_shapes(mine))
    key, note = known_tables(pipeline)[ITEMS]
    assert (key.name, key.is_key, key.spellings[-1], set(key.spellings)) == ("ID", True, "ID", {"id", "Id", "ID"})
    assert note == Column("note", "string", False)
    assert set(key.lake_names) == set(key.source_names) == {"id", "Id", "ID"}
    for number in order:  # each window once more
        register_shapes(pipeline, stored_shapes(row for row in SPELLED if row.window_start == border(number)))
    assert known_tables(pipeline)[ITEMS] == (key, note)
    pipeline.settings.registry_path.unlink()
    assert known_tables(pipeline)[ITEMS] == (key, note)


def test_names_that_differ_in_case_are_two_columns_elsewhere(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path / "registry.json", SPELLED[:2], ignores_case=False)
    found = known_tables(pipeline)[ITEMS]
    assert [(column.name, column.source_names) for column in found] == [
        ("id", ("id",)), ("note", ("note",)), ("Id__12156e", ("Id",)),
    ]  # fmt: skip


def test_a_declared_type_holds_for_every_spelling(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path / "registry.json", SPELLED)
    pipeline.settings.types_of = lambda _: {"Id": "bigint"}  # type: ignore[method-assign, assignment]
    assert known_tables(pipeline)[ITEMS][0] == Column("ID", "bigint", True, ("Id", "id", "ID"))


def keyed(window: int, position: int, **is_key: bool) -> TableShapeRow:
    columns = tuple(ColumnShape(name, "int", one) for name, one in is_key.items())
    return TableShapeRow(0, border(window), ITEMS, columns, ServerPosition(1, position), "1")


KEYED = [
    keyed(0, 10, id=True, note=False), keyed(1, 50, id=False, note=False), keyed(1, 70, note=False),
    keyed(2, 60, id=True, note=False), keyed(3, 90, note=False, uid=True),
]  # fmt: skip
"""A table that loses its key, and then the column; in window 2 an old event is delivered again."""


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_key_is_that_of_the_last_event_whatever_the_order_of_windows(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    stored: list[TableShapeRow] = []
    pipeline = pipeline_of(tmp_path / "registry.json", stored)
    merge_registry(pipeline.settings.registry_path, [], lake="this")
    for number in (*order, *order):
        mine = [row for row in KEYED if row.window_start == border(number)]
        stored += mine if len(stored) < len(KEYED) else []
        register_shapes(pipeline, stored_shapes(mine))
        last = max(stored, key=lambda row: (row.window_start, row.first_position and row.first_position.of(0)))
        found = {column.name for column in known_tables(pipeline)[ITEMS] if column.is_key}
        assert found == {column.name for column in last.columns if column.is_key}
    pipeline.settings.registry_path.unlink()
    assert {column.name for column in known_tables(pipeline)[ITEMS] if column.is_key} == {"uid"}


def counted(*lists: tuple[int, int, TableShapeRow]) -> WindowTable:
    """The counts of window 0, with lineages and positions of the lists of columns."""
    periods = tuple(
        KeyPeriod(
            SourcePosition(lineage, 1, position),
            SourcePosition(lineage, 1, position),
            (list_digest(one.name for one in row.columns),),
        )
        for lineage, position, row in lists
    )
    return WindowTable(
        0, border(0), ITEMS, changes=9, kept=9, redelivered=0, quarantined=0, row_hash=0, absent_rows=0, invalid_values=0,
        first_position=periods[0].first, last_position=periods[-1].last, lists=periods,
    )  # fmt: skip


def test_counts_tell_the_last_key_and_spelling_behind_a_failover_in_a_window(tmp_path: Path) -> None:
    """The server that took over counts from lower positions, and has the column under another key and spelling."""
    before, after = keyed(0, 50, id=True, note=False), keyed(0, 10, ID=False, note=True)
    counts = [counted((0, 50, before), (1, 10, after))]
    pipeline = pipeline_of(tmp_path / "registry.json", [after, before], counts=counts)
    register_shapes(pipeline, stored_shapes([after, before]))
    register_counted(pipeline, [])
    found = {column.name: column.is_key for column in known_tables(pipeline)[ITEMS]}
    assert found == {"ID": False, "note": True}


def test_a_shape_that_comes_again_is_the_last_one(tmp_path: Path) -> None:
    one, other = keyed(0, 10, id=True, note=False), keyed(0, 20, note=True)
    pipeline = pipeline_of(
        tmp_path / "registry.json", [one, other], counts=[counted((0, 10, one), (0, 20, other), (0, 30, one))]
    )
    register_shapes(pipeline, stored_shapes([one, other]))
    assert {column.name: column.is_key for column in known_tables(pipeline)[ITEMS]} == {"id": True, "note": False}


def of_mysql(registry: Path, rows: list[TableShapeRow], *mappings: TypeMapping, taught: str | None = None) -> Pipeline:
    """A subscription to a MySQL, whose changelogs have a note of taught types."""
    made: Any = pipeline_of(registry, rows)
    made.format = SimpleNamespace(
        column_type=lambda original, *, unsigned, table: mysql_type(original, unsigned=unsigned) or "string"
    )
    made.settings.mapped_type = lambda _, original, kind: mapped_type(original, kind, mappings)
    if taught is not None:
        made.lake.table = lambda path: SimpleNamespace(properties={TAUGHT_PROPERTY: taught})
    return cast(Pipeline, made)


LARGE = "bigint(20)"
TAUGHT = {ITEMS: (Column("n", "decimal(20,0)", False, own_types=((LARGE, "decimal(20,0)"),)),)}


def test_a_type_that_values_taught_stays_when_its_table_is_met_again(tmp_path: Path) -> None:
    rows = [shape(0, 0, 10, LARGE), shape(0, 1, 50, LARGE)]
    pipeline = of_mysql(tmp_path / "registry.json", rows)
    register_shapes(pipeline, stored_shapes(rows[:1]))
    assert known_tables(pipeline) == {ITEMS: (Column("n", "bigint", False),)}
    assert widen_unsigned(pipeline, [TaughtType(ITEMS, "n", LARGE)])
    assert known_tables(pipeline) == TAUGHT
    for some in (rows[1:], rows):
        register_shapes(pipeline, stored_shapes(some))
        assert known_tables(pipeline) == TAUGHT
    assert not widen_unsigned(pipeline, [TaughtType(ITEMS, "n", LARGE)])


def test_a_column_with_its_one_type_is_asked_for_once(tmp_path: Path) -> None:
    """The time of a run over a thousand tables is that of their columns."""
    rows = [shape(0, 0, 10, LARGE), shape(0, 1, 50, LARGE)]
    pipeline, asked = of_mysql(tmp_path / "registry.json", rows), list[str]()
    register_shapes(pipeline, stored_shapes(rows[:1]))
    settings: Any = pipeline.settings
    settings.mapped_type = lambda _, original, __: asked.append(original)
    register_shapes(pipeline, stored_shapes(rows[1:]))
    assert asked == [LARGE]
    assert known_tables(pipeline) == {ITEMS: (Column("n", "bigint", False),)}


def test_a_lost_registry_knows_what_values_taught(tmp_path: Path) -> None:
    rows = [shape(0, 0, 10, LARGE)]
    assert known_tables(of_mysql(tmp_path / "r.json", rows, taught='{"n": ["bigint(20)"]}')) == TAUGHT


def test_a_registry_that_had_no_place_for_taught_types_keeps_them(tmp_path: Path) -> None:
    rows = [shape(0, 0, 10, LARGE)]
    before = RegisteredTable(ITEMS, (RegisteredColumn("n", LARGE, "decimal(20,0)", False),))
    merge_registry(tmp_path / "registry.json", [before], lake="this")
    pipeline = of_mysql(tmp_path / "registry.json", rows)
    register_shapes(pipeline, stored_shapes(rows))
    assert known_tables(pipeline) == TAUGHT


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_values_teach_does_not_depend_on_the_order(order: tuple[int, ...], tmp_path: Path) -> None:
    """Types are met in any order, and each of them teaches its sign when it is met."""
    rows = [shape(0, 0, 10, LARGE), shape(0, 1, 50, "int(10)"), shape(0, 2, 90, "varchar(9)")]
    pipeline = of_mysql(tmp_path / "registry.json", rows)
    for number in order:
        register_shapes(pipeline, stored_shapes([rows[number]]))
        (column,) = rows[number].columns
        widen_unsigned(pipeline, [TaughtType(ITEMS, "n", column.original_type)])
    own = ((LARGE, "decimal(20,0)"), ("int(10)", "bigint"))
    assert known_tables(pipeline) == {ITEMS: (Column("n", "string", False, own_types=own),)}


def test_a_mapped_type_is_one_of_several_when_its_table_is_met_again(tmp_path: Path) -> None:
    rows = [shape(0, 0, 10, "tinyint(1)"), shape(0, 1, 50, "int(11)")]
    pipeline = of_mysql(tmp_path / "registry.json", rows, TypeMapping.TINYINT1_TO_BOOLEAN)
    for some in (rows[1:], rows[:1], rows[:1], rows):
        register_shapes(pipeline, stored_shapes(some))
    own = (("int(11)", "int"), ("tinyint(1)", "boolean"))
    assert known_tables(pipeline) == {ITEMS: (Column("n", "string", False, own_types=own),)}
