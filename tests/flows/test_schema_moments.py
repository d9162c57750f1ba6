"""Schemas of tables at moments, from lakes that flows made: of a real MariaDB in each format, and of a made-up source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from dts_assets.errors import NothingFoundError
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.flows.schema_moments import SchemaAnswer, schema_at
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtGtid, AtPosition, AtTime, AtWindow, Moment
from dts_assets.wire.ddl.schema_history import state_at
from dts_assets.wire.ddl.table_schemas import Catalog
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import private_server
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.recorded_lakes import recorded_lake
from tests.dts_emulator.worked_databases import transactions_of
from tests.dts_messages import SERVER
from tests.flows.changing_schemas import WINDOWS, Worked, opened
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, item, items, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import INT, Field
from tests.wire.random_statements import RandomStatements
from tests.wire.recorded_schemas import wrong
from tests.wire.schema_oracle import Beside
from tests.wire.server_catalog import Compared, of_model, of_server

ITEMS = table_id("items")


def at(position: tuple[int, int]) -> AtPosition:
    return AtPosition(0, *position)


def columns(answer: SchemaAnswer) -> str | None:
    schema = answer.state.schema
    return None if schema is None else " ".join(f"{one.name}:{one.type}" for one in schema.columns)


def refused(pipeline: Pipeline, moment: Moment | None, table: TableId = ITEMS) -> str:
    with pytest.raises(NothingFoundError) as found:
        schema_at(pipeline, table, moment)
    return str(found.value)


@pytest.fixture(scope="module")
def worked() -> Worked:
    return Worked()


@pytest.fixture(scope="module")
def made(worked: Worked, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return opened(worked, tmp_path_factory.mktemp("made"), "made", 0, 1, 2)


FIRST, ADDED = "id:int(11) n:int(11)", "id:int(11) n:int(11) late:varchar(80)"
STATED = "id:int(11) n:int(11) late:text"
TOLD = "id:int(11) n:bigint(20) late:varchar(80)"
LAST = f"{TOLD} c:int(11)"


@pytest.mark.more
def test_each_moment_has_the_columns_that_the_source_had(worked: Worked, made: Harness) -> None:
    pipeline, places = made.pipeline, worked.places
    for name, expected in (
        ("rows 0", FIRST), ("new rows 0", ADDED), ("rows 1", ADDED), ("new rows 1", TOLD), ("rows 2", TOLD), ("again", LAST),
        ("new rows 2", LAST),
    ):  # fmt: skip
        answer = schema_at(pipeline, ITEMS, at(places[name]))
        assert (name, columns(answer), answer.state.doubt) == (name, expected, None)
    doubted = schema_at(pipeline, ITEMS, at(places["strange"]))
    assert doubted.state.doubt == "an attribute that is not known"
    assert columns(doubted) == ADDED
    assert columns(schema_at(pipeline, ITEMS, None)) == LAST
    assert schema_at(pipeline, ITEMS, None).later == range(0)


def test_a_statement_counts_from_its_own_position_on(worked: Worked, made: Harness) -> None:
    (statement,) = [one for one in SchemaSources.of(made.pipeline).statements if "late" in one.sql]
    before = AtPosition(0, statement.position.file, statement.position.position - 1)
    here = AtPosition(0, statement.position.file, statement.position.position)
    assert columns(schema_at(made.pipeline, ITEMS, before)) == FIRST
    assert columns(schema_at(made.pipeline, ITEMS, here)) == STATED


def test_a_gtid_is_the_end_of_its_transaction(worked: Worked, made: Harness) -> None:
    """Transactions 1 to 9 are rows, a statement and rows, window by window."""
    shown = [columns(schema_at(made.pipeline, ITEMS, AtGtid(f"{SERVER}:{number}"))) for number in range(1, 10)]
    assert shown == [FIRST, STATED, ADDED, ADDED, ADDED, TOLD, TOLD, LAST, LAST]
    answer = schema_at(made.pipeline, ITEMS, AtGtid(f"{SERVER}:3"))
    assert answer.where == f"as of {SERVER}:3, which ends at {SourcePosition(0, *worked.places['new rows 0'])}"
    for unseen in (f"{SERVER}:10", "00000000-0000-0000-0000-000000000000:1", "0-1-5"):
        assert "no entry of it was ever stored" in refused(made.pipeline, AtGtid(unseen))


def test_a_window_is_its_end_and_a_time_counts_when_a_statement_had_ended(made: Harness) -> None:
    pipeline = made.pipeline
    shown = [columns(schema_at(pipeline, ITEMS, AtWindow(border(window)))) for window in range(WINDOWS)]
    assert shown == [ADDED, TOLD, LAST]
    statement = border(0) + 10 * SECOND  # it took a second
    assert columns(schema_at(pipeline, ITEMS, AtTime(statement + 0.9 * SECOND))) == FIRST
    assert columns(schema_at(pipeline, ITEMS, AtTime(statement + SECOND))) == STATED
    assert columns(schema_at(pipeline, ITEMS, AtTime(border(0) + 60 * SECOND))) == ADDED
    assert columns(schema_at(pipeline, ITEMS, AtTime(border(WINDOWS)))) == LAST


def test_moments_without_an_answer_say_why(worked: Worked, made: Harness) -> None:
    pipeline = made.pipeline
    assert "its first trace stands at 0:9:" in refused(pipeline, AtPosition(0, 9, 5))
    assert "an event told its columns" in refused(pipeline, AtTime(border(0)))
    late = refused(pipeline, AtPosition(0, 10, 4))
    assert f"everything up to window {pipeline.grid.at(2).key} is complete, up to position 0:9:" in late
    assert "is complete" in refused(pipeline, AtTime(border(WINDOWS) + SECOND))
    assert "its windows start every 10m" in refused(pipeline, AtWindow(border(0) + SECOND))
    assert "its windows start every" in refused(pipeline, AtWindow(border(WINDOWS)))
    assert "there is no lineage 4; there are 0" in refused(pipeline, AtPosition(4, 9, 100))
    assert "no statement and no event up to the frontier" in refused(pipeline, None, table_id("nothing"))


@pytest.mark.more
@pytest.mark.parametrize("order", [pytest.param(one, marks=() if n in (3, 5) else pytest.mark.long)
                                   for n, one in enumerate(permutations(range(WINDOWS)))])  # fmt: skip
def test_the_order_in_which_windows_are_made_changes_nothing(
    worked: Worked, made: Harness, order: tuple[int, ...], tmp_path: Path
) -> None:
    harness = opened(worked, tmp_path, "other", *order[:2])
    if 0 in order[:2]:  # the frontier stands before the first window that is missing
        reached = 0 if 1 not in order[:2] else 1
        assert columns(schema_at(harness.pipeline, ITEMS, None)) == (ADDED, TOLD)[reached]
        assert "is complete" in refused(harness.pipeline, AtWindow(border(2)))
        if reached == 0:
            assert "1 later windows wait" in refused(harness.pipeline, at(worked.places["again"]))
    else:
        assert "no statement and no event" in refused(harness.pipeline, None)
    harness.all(order[2])
    harness.all(order[0])
    found, expected = (SchemaSources.of(one.pipeline).states(ITEMS) for one in (harness, made))
    assert found == expected
    assert len(found) == 6


SCRIPT = (
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20) NOT NULL DEFAULT 'x', e ENUM('a','b'), j TEXT, ts TIMESTAMP(3) NULL)",
    "INSERT INTO t (id) VALUES (1)",
    "ALTER TABLE t ADD c INT DEFAULT 7 FIRST, ADD d DECIMAL(10,2) AFTER id",
    "INSERT INTO t (id) VALUES (2)",
    "ALTER TABLE t MODIFY c BIGINT UNSIGNED NOT NULL, DROP e",
    "INSERT INTO t (id, c) VALUES (3, 1)",
    "CREATE TABLE u LIKE t",
    "ALTER TABLE u DROP PRIMARY KEY, ADD k INT AUTO_INCREMENT PRIMARY KEY FIRST, ADD g INT AS (id + 1) VIRTUAL",
    "INSERT INTO u (id, c) VALUES (1, 1), (1, 1)",
    "RENAME TABLE t TO tmp, u TO t, tmp TO u",
    "UPDATE u SET a = 'y'",
    "UPDATE t SET a = 'z'",
    "ALTER TABLE u CONVERT TO CHARACTER SET latin1, RENAME COLUMN a TO A",
    "DROP TABLE t",
    "CREATE TABLE t (x DATE)",
    "INSERT INTO t VALUES ('2026-01-05')",
    "ALTER TABLE t ADD y INT, RENAME v",
    "INSERT INTO v VALUES ('2026-01-06', 1)",
)
STATEMENTS = [one for one in SCRIPT if not one.startswith(("INSERT", "UPDATE"))]


@pytest.fixture(scope="module")
def recorded() -> Iterator[tuple[list[Transaction], list[Compared]]]:
    """What a server wrote, and its catalog behind each statement."""
    catalogs: list[Compared] = []
    with private_server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d CHARSET utf8mb4")
            cursor.execute("USE d")
            for sql in SCRIPT:
                cursor.execute(sql)
                if sql in STATEMENTS:
                    catalogs.append(of_server(connection, ("d",)))
        yield transactions_of(server), catalogs


@pytest.mark.more
@pytest.mark.database
@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in ("dts-protobuf", "drs-json") else pytest.mark.long)
                                  for one in FORMATS])  # fmt: skip
def test_at_each_statement_the_columns_are_those_of_the_server(
    recorded: tuple[list[Transaction], list[Compared]], name: str, tmp_path: Path
) -> None:
    """Also just before the next statement, behind the rows in between."""
    transactions, catalogs = recorded
    harness = recorded_lake(name, transactions, tmp_path)
    sources = SchemaSources.of(harness.pipeline)
    places = sorted(one.position for one in sources.statements)[1:]
    assert len(places) == len(catalogs) == len(STATEMENTS)
    states = {table: sources.states(table) for table in sources.tables}
    assert {table.table for table in states} == {"t", "u", "v"}  # tmp was there within one statement
    ends = [SourcePosition(one.lineage, one.file, one.position - 1) for one in places[1:]]
    for place, end, catalog in zip(places, [*ends, SourcePosition(9, 0, 0)], catalogs, strict=True):
        for moment in (place, end):
            there = {table: state_at(mine, moment) for table, mine in states.items()}
            assert all(one is None or one.doubt is None for one in there.values())
            schemas = {table: one.schema for table, one in there.items() if one is not None and one.schema is not None}
            assert of_model(Catalog(tables=schemas)) == catalog, (name, place, moment)
    assert all(one.statement is not None for mine in states.values() for one in mine)


@pytest.mark.more
def test_what_stands_behind_the_cut_is_not_complete_yet(tmp_path: Path) -> None:
    """A statement comes behind the last CHECKPOINT of a window, so that snapshots of the window stand before it."""
    table = items()
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, item(1))]))
    source.checkpoint(border(0) + 300 * SECOND)
    behind = source.transaction(border(0) + 400 * SECOND, Ddl("ALTER TABLE items ADD c INT"))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "cut"), tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    assert columns(schema_at(harness.pipeline, ITEMS, None)) == "id:int(11) n:int(11) note:varchar(80)"
    assert columns(schema_at(harness.pipeline, ITEMS, AtWindow(border(0)))) == "id:int(11) n:int(11) note:varchar(80)"
    assert "is complete, up to position 0:9:" in refused(harness.pipeline, at(behind))
    assert "is not whole yet" in refused(harness.pipeline, AtGtid(f"{SERVER}:2"))
    harness.all(1)
    for moment in (None, at(behind), AtGtid(f"{SERVER}:2"), AtWindow(border(1))):
        assert columns(schema_at(harness.pipeline, ITEMS, moment)) == "id:int(11) n:int(11) note:varchar(80) c:int(11)"
    assert columns(schema_at(harness.pipeline, ITEMS, AtWindow(border(0)))) == "id:int(11) n:int(11) note:varchar(80)"


@pytest.mark.database
@pytest.mark.long
@pytest.mark.parametrize("name", ["dts-protobuf", "drs-json-c"])
def test_at_each_random_statement_the_columns_are_those_of_the_server(name: str, tmp_path: Path) -> None:
    """Tables have rows, so that events tell their columns between the statements."""
    catalogs: list[tuple[int, Compared]] = []
    with private_server() as server:
        with server.connect() as connection:
            beside = Beside(connection)
            beside.begin(strict=True)
            writer, count = RandomStatements(Random(5)), 0
            for _ in range(400):
                database, sql = writer.statement(beside.catalog)
                if sql.startswith("CREATE OR REPLACE TABLE") or "UNIQUE" in sql.upper():
                    continue  # MariaDB writes the one also where it refuses it, and makes hidden columns for the other
                refused_here, written = beside.refused(database, sql), beside.written(database)
                problems, count = {one.problem for one in beside.follow(written)} - {None}, count + len(written)
                if problems or (refused_here and (written or beside.by_model() != beside.on_server())):
                    break  # half carried out: no text tells that
                if written:
                    catalogs.append((count, beside.on_server()))
                beside.fill()
                beside.written(database)
        transactions = transactions_of(server)
    harness = recorded_lake(name, transactions, tmp_path, tables={"include": ["*"]})
    sources = SchemaSources.of(harness.pipeline)
    places = sorted(one.position for one in sources.statements)[-count:]
    states = {table: sources.states(table) for table in sources.tables}
    for number, catalog in catalogs:
        assert wrong(states, places[number - 1], catalog) == [], number
    assert len(catalogs) > 100


@pytest.mark.more
def test_a_binlog_that_begins_anew_is_a_lineage_behind_the_first(tmp_path: Path) -> None:
    """Positions begin again, so that they need their lineage; GTIDs go on."""
    table = items()
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, item(1))]))
    source.transaction(border(0) + 2 * SECOND, Ddl("ALTER TABLE items ADD c INT"))
    source.checkpoint(border(0) + 300 * SECOND)
    source._file, source._offset = 1, 4  # the server was made anew, and its binlog with it
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items ADD d INT"))
    table.columns += [Field("c", INT), Field("d", INT)]
    last = source.transaction(border(1) + 2 * SECOND, Dml(table, [(None, {**item(2), "c": 1, "d": 2})]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "anew"), tmp_path / "capture", source.messages, windows=2)
    harness.all()
    first = "id:int(11) n:int(11) note:varchar(80)"
    shown = [columns(schema_at(harness.pipeline, ITEMS, AtGtid(f"{SERVER}:{number}"))) for number in range(1, 5)]
    assert shown == [first, f"{first} c:int(11)", *[f"{first} c:int(11) d:int(11)"] * 2]
    answer = schema_at(harness.pipeline, ITEMS, AtPosition(1, *last))
    assert (answer.state.position.lineage, answer.later) == (1, range(0))
    assert "the source has had 2 lineages (0 to 1), so say which one" in refused(
        harness.pipeline, AtPosition(None, 1, 50)
    )
    assert schema_at(harness.pipeline, ITEMS, AtPosition(0, 99, 0)).state.position.lineage == 0
