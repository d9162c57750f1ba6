"""The history of schemas: at each position the columns are those that the server had, as far as anything told them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.change_words import all_words, told_words
from dts_assets.wire.ddl.schema_history import (
    NO_DATABASE,
    SEVERAL_SHAPES,
    SchemaState,
    SourceStatement,
    schema_history,
    state_at,
)
from dts_assets.wire.ddl.table_schemas import SchemaColumn, ServerRules, TableSchema
from dts_assets.wire.ddl.told_schemas import ToldColumn, ToldShapes, types_alike
from tests.tiers import times
from tests.wire.recorded_schemas import at, recorded, said, wrong
from tests.wire.schema_oracle import Beside

ORDERS, START = TableId("shop", "", "orders"), datetime(2026, 1, 5, tzinfo=UTC)


def shape(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> tuple[ColumnShape, ...]:
    return tuple(ColumnShape(name, kind, name in key) for name, kind in columns)


def told(first: int, last: int, *shapes: tuple[ColumnShape, ...], table: TableId = ORDERS) -> ToldShapes:
    return ToldShapes(table, at(first), at(last), shapes)


def history(*items: SourceStatement | ToldShapes, table: TableId = ORDERS) -> tuple[SchemaState, ...]:
    """The history of a table; that of the same items in other orders is the same."""
    made = []
    for seed in range(3):
        mixed = Random(seed).sample(items, len(items))
        statements = [one for one in mixed if isinstance(one, SourceStatement)]
        events = [one for one in mixed if isinstance(one, ToldShapes)]
        made.append(schema_history(statements, events, rules=ServerRules()))
    assert made[0] == made[1] == made[2]
    return made[0].get(table, ())


def shown(states: tuple[SchemaState, ...]) -> list[tuple[int, str | None]]:
    """Each state by its position and its columns; an unknown detail of a column is a question mark behind it."""
    return [
        (
            one.position.position,
            None
            if one.schema is None
            else " ".join(
                f"{column.name}:{column.type}{'?' if isinstance(column, ToldColumn) else ''}"
                for column in one.schema.columns
            )
            + (f" ({one.schema.doubt})" if one.schema.doubt else ""),
        )
        for one in states
    ]


CREATE = said(10, "CREATE TABLE orders (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 7)")
FIRST = shape(("id", "int(11)"), ("n", "int(11)"))


def test_a_shape_that_perhaps_no_kept_change_told_is_no_state_beside_one_that_statements_explain() -> None:
    """Where nothing explains either, the other one counts."""
    wide = shape(("id", "int(11)"), ("n", "bigint(20)"))
    modify = said(30, "ALTER TABLE orders MODIFY n BIGINT")
    before = replace(told(40, 50, FIRST, wide), unsure=frozenset({FIRST}))
    after = replace(told(20, 25, FIRST, wide), unsure=frozenset({wide}))
    assert [one.position.position for one in history(CREATE, modify, before)] == [10, 30]
    assert [one.position.position for one in history(CREATE, modify, after)] == [10, 30]
    assert shown(history(before)) == [(40, "id:int(11)? n:bigint(20)?")]


def test_statements_lead_from_state_to_state_and_events_that_fit_change_nothing() -> None:
    states = history(
        CREATE, told(20, 25, FIRST), said(30, "ALTER TABLE orders ADD note VARCHAR(9) FIRST"),
        told(40, 40, shape(("note", "varchar(9)"), ("id", "int(11)"), ("n", "int(11)"))), said(50, "DROP TABLE orders"),
    )  # fmt: skip
    assert shown(states) == [
        (10, "id:int(11) n:int(11)"), (30, "note:varchar(9) id:int(11) n:int(11)"), (50, None),
    ]  # fmt: skip
    assert [all_words(one.changes) for one in states] == [
        "table created with 2 columns", "column note varchar(9) added first", "table dropped"
    ]  # fmt: skip
    assert [state_at(states, at(position)) for position in (9, 10, 29, 30, 99)] == [
        None, states[0], states[0], states[1], states[2],
    ]  # fmt: skip


def test_a_table_that_was_made_before_the_subscription_is_told_by_its_events() -> None:
    states = history(
        said(5, "ALTER TABLE orders DROP gone"), told(20, 25, FIRST), said(30, "ALTER TABLE orders ADD c INT")
    )
    assert shown(states) == [(20, "id:int(11)? n:int(11)?"), (30, "id:int(11)? n:int(11)? c:int(11)")]
    assert states[1].schema is not None
    assert states[1].schema.key == ("id",)


def test_a_renamed_table_takes_its_columns_along_and_two_tables_swap_theirs() -> None:
    other = TableId("shop", "", "other")
    items = (
        CREATE, said(11, "CREATE TABLE other (x DATE)"),
        said(20, "RENAME TABLE orders TO t, other TO orders, t TO other"), said(30, "ALTER TABLE other RENAME attic.orders"),
    )  # fmt: skip
    assert shown(history(*items)) == [(10, "id:int(11) n:int(11)"), (20, "x:date")]
    assert shown(history(*items, table=other)) == [(11, "x:date"), (20, "id:int(11) n:int(11)"), (30, None)]
    assert shown(history(*items, table=TableId("attic", "", "orders"))) == [(30, "id:int(11) n:int(11)")]


def test_a_name_that_an_unknown_table_gets_has_no_columns_before_its_first_event() -> None:
    swap = said(30, "RENAME TABLE orders TO old, new TO orders")
    known = shape(("id", "int(11)"), ("x", "text"))
    assert shown(history(CREATE, swap, told(40, 40, known))) == [
        (10, "id:int(11) n:int(11)"), (30, " (the table that got this name is not known)"), (40, "id:int(11)? x:text?"),
    ]  # fmt: skip
    there_and_back = said(30, "RENAME TABLE a TO b, b TO c, c TO orders, orders TO d")
    assert shown(history(CREATE, said(20, "DROP TABLE orders"), there_and_back)) == [
        (10, "id:int(11) n:int(11)"),
        (20, None),
        (30, None),
    ]


@pytest.mark.parametrize("sql", ["RENAME TABLE orders TO b.moved", "ALTER TABLE orders RENAME TO b.moved"])
def test_a_rename_without_a_database_may_mean_tables_of_others_where_its_own_has_none(sql: str) -> None:
    before = (CREATE, told(20, 25, FIRST))
    elsewhere = replace(said(30, sql), database="b")
    assert shown(history(*before, elsewhere))[1:] == [(30, f"id:int(11) n:int(11) ({NO_DATABASE})")]
    assert shown(history(*before, elsewhere, told(40, 40, FIRST)))[2:] == [(40, "id:int(11)? n:int(11)?")], (
        "it is there"
    )
    there = replace(said(15, "CREATE TABLE orders (x INT)"), database="b")
    assert shown(history(*before, there, elsewhere)) == shown(history(*before))
    by_events = told(15, 15, shape(("x", "int(11)")), table=TableId("b", "", "orders"))
    assert shown(history(*before, by_events, elsewhere)) == shown(history(*before))
    named = replace(elsewhere, sql=sql.replace("orders", "b.orders"))
    assert shown(history(*before, named)) == shown(history(*before))
    other = replace(elsewhere, sql=sql.replace("orders", "more"))
    assert shown(history(*before, other)) == shown(history(*before))
    made_there = replace(elsewhere, sql="RENAME TABLE b.x TO orders, orders TO y")
    assert shown(history(*before, made_there)) == shown(history(*before))
    assert shown(history(*before, replace(elsewhere, database="")))[1:] == [
        (30, f"id:int(11) n:int(11) ({NO_DATABASE})")
    ]


def test_statements_of_oracle_that_empty_a_table_leave_its_columns_and_others_a_doubt() -> None:
    table = TableId("", "HR", "EMP")
    first = told(20, 25, shape(("ID", ""), key=("ID",)), table=table)
    for sql, last in (("TRUNCATE TABLE emp", 1), ("drop table HR.EMP purge", 1), ("TRUNCATE TABLE emp CASCADE", 2)):
        states = history(first, replace(said(30, sql), database="HR", source_type="ORACLE"), table=table)
        assert len(states) == last
        assert (states[-1].doubt is None) == (last == 1)


def test_what_if_not_exists_made_is_doubted_where_it_may_have_been_there_before() -> None:
    create = said(10, "CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY)")
    assert shown(history(create, told(20, 20, FIRST))) == [
        (10, "id:int(11) (the table may have been there before, with other columns)"), (20, "id:int(11)? n:int(11)?"),
    ]  # fmt: skip
    assert shown(history(told(5, 5, FIRST), create)) == [(5, "id:int(11)? n:int(11)?")]
    assert shown(history(said(1, "CREATE DATABASE shop"), create)) == [(10, "id:int(11)")]
    assert shown(history(CREATE, said(11, "DROP TABLE orders"), replace(create, position=at(12)))) == [
        (10, "id:int(11) n:int(11)"), (11, None), (12, "id:int(11)"),
    ]  # fmt: skip


def test_a_database_that_may_have_been_there_has_no_known_character_set() -> None:
    table = said(10, "CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)")
    for sql, charset in (
        ("CREATE DATABASE shop CHARSET gbk", "gbk"), ("CREATE DATABASE IF NOT EXISTS shop CHARSET gbk", None)
    ):  # fmt: skip
        (state,) = history(said(1, sql), table)
        assert state.schema is not None
        assert state.schema.columns[1].charset == charset


def test_a_statement_that_is_not_understood_makes_a_doubt_until_an_event_tells_the_columns() -> None:
    after = shape(("id", "bigint(20)"), ("n", "int(11)"))
    states = history(CREATE, said(30, "ALTER TABLE orders MODIFY id BIGINT FROBNICATE"), told(40, 45, after))
    assert shown(states) == [
        (10, "id:int(11) n:int(11)"),
        (30, "id:int(11) n:int(11) (an attribute that is not known)"),
        (40, "id:bigint(20)? n:int(11)?"),
    ]
    assert told_words(states[1].schema, states[2].schema or TableSchema(())) == (
        "an event told column id bigint(20), was int(11)"
    )


def test_a_statement_that_is_not_understood_may_bring_a_table_back_under_its_name() -> None:
    back = said(30, "ALTER TABLE other ADD c FROBNICATE, RENAME orders")
    assert shown(history(CREATE, said(20, "DROP TABLE orders"), back)) == [
        (10, "id:int(11) n:int(11)"), (20, None), (30, " (a type that is not known)"),
    ]  # fmt: skip
    unlike = said(30, "ALTER TABLE other ADD c FROBNICATE, RENAME orders_2026")
    assert shown(history(CREATE, said(20, "DROP TABLE orders"), unlike)) == [(10, "id:int(11) n:int(11)"), (20, None)]


def test_a_table_made_by_a_statement_that_is_not_understood_has_no_columns_before_its_first_event() -> None:
    states = history(said(10, "CREATE TABLE orders (id INT FROBNICATE)"), told(40, 45, FIRST))
    assert shown(states) == [(10, " (an attribute that is not known)"), (40, "id:int(11)? n:int(11)?")]


def test_columns_that_no_statement_explains_are_those_of_the_event_and_others_keep_what_is_known() -> None:
    states = history(CREATE, told(20, 20, shape(("id", "int(11)"), ("n", "int(11)"), ("new", "text"))))
    assert shown(states) == [(10, "id:int(11) n:int(11)"), (20, "id:int(11) n:int(11) new:text?")]
    assert states[1].schema is not None
    assert states[1].schema.columns[1].default == "7"


def test_types_that_change_within_a_window_are_explained_by_the_statement_between() -> None:
    """Events list equal names before and after, so nothing says which of them had which types."""
    wider = shape(("id", "int(11)"), ("n", "bigint(20)"))
    modify = said(30, "ALTER TABLE orders MODIFY n BIGINT")
    assert shown(history(CREATE, told(20, 40, wider, FIRST), modify)) == [
        (10, "id:int(11) n:int(11)"), (30, "id:int(11) n:bigint(20)"),
    ]  # fmt: skip
    assert shown(history(told(20, 40, wider, FIRST), modify)) == [
        (20, "id:int(11)? n:int(11)?"), (30, "id:int(11)? n:bigint(20)"),
    ]  # fmt: skip


def test_types_whose_first_events_are_known_count_from_these_on() -> None:
    """Also up to a frontier between them, where no statement is held yet that leads from one to the other."""
    text = shape(("id", "int(11)"), ("n", "text"))
    both = replace(told(20, 40, text, FIRST), places=(at(33), at(20)), window_start=START)
    assert shown(history(both)) == [(20, "id:int(11)? n:int(11)?"), (33, "id:int(11)? n:text?")]
    modify = said(30, "ALTER TABLE orders MODIFY n TEXT")
    assert shown(history(both, modify)) == [(20, "id:int(11)? n:int(11)?"), (30, "id:int(11)? n:text")]
    first = both.held_by(Frontier(START, None, at(25)))
    assert first is not None
    assert shown(history(first)) == [(20, "id:int(11)? n:int(11)?")]
    assert both.held_by(Frontier(START, None, at(19))) is None
    assert both.held_by(Frontier(START, None, at(40))) == both == both.held_by(Frontier(START, START, None))


def test_an_event_behind_a_frontier_ends_no_doubt() -> None:
    """The same columns were told before a statement that is not understood, and behind the frontier once more."""
    strange = said(30, "ALTER TABLE orders FROBNICATE n")
    one = replace(told(20, 40, FIRST), window_start=START)
    assert [state.doubt is None for state in history(one, strange)] == [True, False, True]
    held = one.held_by(Frontier(START, None, at(35)))
    assert held is not None
    assert [state.doubt is None for state in history(held, strange)] == [True, False]


def test_types_that_nothing_explains_count_at_the_last_event_and_several_are_a_doubt() -> None:
    wider, text = shape(("id", "int(11)"), ("n", "bigint(20)")), shape(("id", "int(11)"), ("n", "text"))
    assert shown(history(CREATE, told(20, 40, wider, FIRST))) == [
        (10, "id:int(11) n:int(11)"), (40, "id:int(11) n:bigint(20)?"),
    ]  # fmt: skip
    states = history(CREATE, told(20, 40, wider, FIRST, text))
    assert [one.doubt for one in states] == [None, SEVERAL_SHAPES]


def test_an_event_that_lists_types_without_arguments_fits_and_one_without_keys_tells_none() -> None:
    bare = shape(("id", "int"), ("n", "int"), key=())
    states = history(CREATE, replace(told(20, 25, bare), tells_keys=False))
    assert shown(states) == [(10, "id:int(11) n:int(11)")]
    states = history(CREATE, told(20, 25, bare))
    assert [one.schema.key if one.schema else None for one in states] == [("id",), ()]


def test_a_generated_column_need_not_be_listed() -> None:
    create = said(10, "CREATE TABLE orders (id INT PRIMARY KEY, twice INT AS (id * 2) VIRTUAL)")
    assert shown(history(create, told(20, 25, shape(("id", "int(11)"))))) == [(10, "id:int(11) twice:int(11)")]


def test_a_definition_before_a_full_load_changes_nothing_that_is_known() -> None:
    again = replace(CREATE, position=at(30), is_first_state=True)
    assert shown(history(CREATE, again)) == [(10, "id:int(11) n:int(11)")]


def test_a_statement_stands_before_the_rows_of_its_position_and_places_order_statements_of_one() -> None:
    first = replace(said(20, "ALTER TABLE orders ADD a INT"), place=(0, 1))
    second = replace(said(20, "ALTER TABLE orders ADD b INT AFTER a"), place=(0, 2))
    events = told(20, 20, shape(("id", "int(11)"), ("n", "int(11)"), ("a", "int(11)"), ("b", "int(11)")))
    states = history(CREATE, first, second, events)
    assert [position for position, _ in shown(states)] == [10, 20, 20]
    assert state_at(states, at(20)) == states[2]


@pytest.mark.parametrize(
    ("stated", "told_type", "alike"),
    [
        ("int(11)", "int", True),
        ("int(11)", "int(11) unsigned", False),
        ("int(10) unsigned", "int unsigned", True),
        ("int(5) unsigned zerofill", "int(6) unsigned zerofill", False),
        ("varchar(20)", "varchar", True),
        ("varchar(20)", "VARCHAR(20)", True),
        ("varchar(20)", "varchar(21)", False),
        ("varchar(20)", "char(20)", False),
        ("decimal(10,2)", "decimal(10, 2)", True),
        ("enum('a','B')", "enum('a','b')", False),
        ("enum('a)','it''s')", "enum('a)','it''s')", True),
        ("longtext", "json", True),
        ("year(4)", "year", True),
        ("double", "double precision", True),
        ("datetime(3) /* mariadb-5.3 */", "datetime(3)", True),
        ("date", "", True),
    ],
)
def test_types_are_compared_as_events_spell_them(stated: str, told_type: str, alike: bool) -> None:
    assert types_alike(stated, told_type) is alike


def test_a_type_that_is_made_to_be_slow_is_read_at_once() -> None:
    assert not types_alike("enum(" + "''" * 20_000, "enum(" + "'a" * 20_000)


def test_positions_of_a_later_lineage_stand_behind_all_of_an_earlier_one() -> None:
    later = replace(said(5, "ALTER TABLE orders ADD c INT"), position=SourcePosition(1, 1, 5))
    wide = shape(("id", "int(11)"), ("n", "int(11)"), ("c", "int(11)"))
    events = ToldShapes(ORDERS, SourcePosition(1, 1, 7), SourcePosition(1, 1, 7), (wide,))
    states = history(CREATE, later, events, told(20, 900, FIRST))
    assert [(one.position.lineage, one.position.position) for one in states] == [(0, 10), (1, 5)]
    assert state_at(states, SourcePosition(0, 9, 9)) == states[0]


def test_a_column_whose_name_changes_in_case_only_is_told_by_its_event() -> None:
    renamed = shape(("ID", "int(11)"), ("n", "int(11)"), key=("ID",))
    assert shown(history(CREATE, told(20, 20, renamed))) == [(10, "id:int(11) n:int(11)"), (20, "ID:int(11) n:int(11)")]


def test_events_of_many_cells_that_say_the_old_columns_for_a_while_are_believed_at_their_positions() -> None:
    """As Canal's do beside a statement of the same second: each position shows what its events listed."""
    wide = shape(("id", "int(11)"), ("n", "int(11)"), ("c", "int(11)"))
    alter = said(30, "ALTER TABLE orders ADD c INT")
    states = history(CREATE, alter, told(31, 32, FIRST), told(33, 40, wide))
    assert shown(states) == [
        (10, "id:int(11) n:int(11)"),
        (30, "id:int(11) n:int(11) c:int(11)"),
        (31, "id:int(11) n:int(11)"),
        (33, "id:int(11) n:int(11) c:int(11)?"),
    ]


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with private_server() as server, server.connect() as connection:
            yield Beside(connection)
    except ServerUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.database
@pytest.mark.parametrize("seed", range(times(3, 40)))
def test_at_each_statement_the_columns_are_the_servers(beside: Beside, seed: int) -> None:
    found = recorded(beside, seed, times(40, 150))
    random = Random(seed)
    statements = random.sample(found.statements, len(found.statements))
    for share in (0.0, 0.3):
        events = list(found.shapes(random, share, whole=False))
        states = dict(schema_history(statements, events, rules=beside.rules))
        for position, catalog in found.catalogs:
            assert set(catalog) <= set(states)
            assert wrong(states, at(position), catalog) == [], (seed, share, position)
            told_now = {table for table, mine in states.items() if (one := state_at(mine, at(position))) and one.schema}
            assert told_now == catalog.keys(), (seed, share, position)
        assert all(one.statement is not None for mine in states.values() for one in mine)


@pytest.mark.database
@pytest.mark.parametrize("seed", range(100, 100 + times(3, 40)))
def test_a_subscription_that_begins_later_shows_nothing_that_the_server_did_not_have(beside: Beside, seed: int) -> None:
    found = recorded(beside, seed, times(40, 150))
    random = Random(seed)
    begin = found.catalogs[len(found.catalogs) // 3][0]
    events = [one for one in found.shapes(random, 0.4) if one.first > at(begin)]
    known = [one for one in found.statements if one.position > at(begin)]
    states = dict(schema_history(known, events, rules=beside.rules))
    checked = 0
    for position, catalog in found.catalogs:
        if position > begin:
            assert wrong(states, at(position), catalog) == [], (seed, position)
            checked += sum(1 for table in catalog if table in states and state_at(states[table], at(position)))
    assert checked > 5


@pytest.mark.database
@pytest.mark.parametrize("seed", range(200, 200 + times(3, 40)))
def test_behind_an_event_the_columns_are_the_servers_whatever_became_of_statements(beside: Beside, seed: int) -> None:
    """Some statements never came, some cannot be read."""
    found = recorded(beside, seed, times(40, 150))
    random = Random(seed)
    kept = []
    for one in found.statements:
        fate = random.random()
        if fate < 0.2:
            kept.append(replace(one, sql=f"{one.sql} FROBNICATE"))
        elif fate > 0.4:
            kept.append(one)
    events = list(found.shapes(random, 0.4))
    states = dict(schema_history(kept, events, rules=beside.rules))
    catalogs = dict(found.catalogs)
    for event in events:
        state = state_at(states[event.table], event.first)
        assert state is not None
        assert state.schema is not None
        assert state.doubt is None
        columns = catalogs[event.first.position - 5][event.table][0]
        generated = {one[0] for one in columns if one[4]}  # type: ignore[attr-defined]
        generated |= {column.name for column in state.schema.columns if column.generated}  # perhaps no longer there
        have = {column.name: column.type for column in state.schema.columns if column.name not in generated}
        server = {one[0]: one[1] for one in columns if one[0] not in generated}  # type: ignore[attr-defined]
        assert have.keys() == server.keys()
        assert all(types_alike(kind, server[name]) for name, kind in have.items())  # widths of integers mean nothing
    assert len(events) > 5


def test_a_told_column_is_another_one_than_a_stated_column() -> None:
    assert ToldColumn("id", "int(11)") != SchemaColumn("id", "int(11)")
