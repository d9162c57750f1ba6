"""A lake compared with the real MariaDB that it was made of: equal at each moment, and unequal where a cell was damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from dts_assets.errors import NothingFoundError
from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.compared_snapshots import stored_total, version_of_others
from dts_assets.flows.compared_tables import ComparedTable, compared_table, sums_of_files
from dts_assets.flows.differing_rows import differing_rows
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import Selection
from dts_assets.flows.moments import tables_at
from dts_assets.flows.verdict_words import verdict_words
from dts_assets.flows.verification import SourceSums, TableVerdict, Verification, verify, verify_at, wait_for
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_assets.stages.sum_sql import sum_statement
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.source.server import Server, private_server
from tests.flows.damaged_cells import Damage, damaged_file, damaged_rows
from tests.flows.harness import Harness
from tests.flows.verified_source import START, fill, lake_of, moments, place_of, run
from tests.tiers import chosen, times

pytestmark = pytest.mark.database

ORDERS, PAIRS, BAG = (TableId("d", "", name) for name in ("orders", "pairs", "bag"))
CHANGES = (
    "UPDATE d.orders SET amount = amount + 1, long_note = CONCAT(long_note, 'é') WHERE id % 7 = {n} % 7",
    "DELETE FROM d.orders WHERE id = {n} + 20",
    "REPLACE INTO d.orders (id, note, price) VALUES ({n} + 5000, '第', 0.1), ({n} + 9000, 'x', 1e300)",
    "UPDATE IGNORE d.orders SET id = id + 20000 WHERE id = {n} + 100",
    "UPDATE IGNORE d.pairs SET b = CONCAT(b, '!'), a = -a WHERE a = {n} % 5 AND LENGTH(b) < 7",
    "INSERT INTO d.bag VALUES ('again', {n} % 2), ('again', {n} % 2)",
    "DELETE FROM d.bag LIMIT 1",
)


LEFT_OUT = {"price"}
"""Columns of orders whose text at the server is not proven to be the lake's."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        fill(running)
        yield running


@pytest.fixture(scope="module")
def harness(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return lake_of(server, tmp_path_factory.mktemp("verified"))


def judge(server: Server, tables: dict[TableId, ComparedTable], folder: Path) -> bool:
    """Whether the laboratory's own comparison, which knows no sums, finds all tables equal to the database as it is."""
    folder.mkdir()
    dump_database(server, "d", folder)
    return differences({name: one.snapshot.scan().to_arrow() for name, one in tables.items()}, folder) == ()


def compared(harness: Harness, moment: SourceMoment, folder: Path) -> dict[TableId, ComparedTable]:
    at, _ = wait_for(harness.pipeline, moment, timeout=0)
    found, described = tables_at(harness.pipeline, at, folder), moment.tables()
    known = known_tables(harness.pipeline)
    made = {
        name: compared_table(
            harness.pipeline, name, table, columns=known[name], source=name, described=described[name], unknown={}
        )
        for name, table in found.tables.items()
    }
    return {name: one for name, one in made.items() if one is not None}


def verdict(moment: SourceMoment, table: ComparedTable) -> TableVerdict:
    ((rows, summed, misfits),) = moment.rows(
        sum_statement(table.rows, table.pairs)
    )  # fmt: skip
    source = SourceSums(int(rows), int(summed), int(misfits))
    return TableVerdict(table.source, sums_of_files(table), stored_total(table.snapshot), source)


@pytest.mark.more
def test_an_equal_lake_is_equal(server: Server, harness: Harness, tmp_path: Path) -> None:
    with moment_of(place_of(server)) as moment:
        found = verify_at(harness.pipeline, moment, tmp_path / "moment", timeout=0)
        assert judge(server, compared(harness, moment, tmp_path / "again"), tmp_path / "dump")
    assert {table: (one.is_equal, one.refused) for table, one in found.verdicts.items()} == dict.fromkeys(
        [ORDERS, PAIRS, BAG], (True, "")
    )
    assert all(one.stored is not None for one in found.verdicts.values())
    assert found.verdicts[ORDERS].lake.rows == 302
    assert set(found.verdicts[ORDERS].left_out) == LEFT_OUT
    assert found.verdicts[ORDERS].lake.misfits == found.verdicts[ORDERS].source.misfits == 2


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 5)))
@pytest.mark.parametrize("how", ["files", "rows"])
def test_each_damaged_cell_is_found_and_named(
    server: Server, harness: Harness, tmp_path: Path, how: str, seed: int
) -> None:
    random, found = Random(seed), 0
    with moment_of(place_of(server)) as moment:
        tables = compared(harness, moment, tmp_path / "moment")
        assert all(verdict(moment, one).is_equal for one in tables.values())
        for _ in range(times(12, 100)):
            name = random.choice([ORDERS, ORDERS, PAIRS, BAG])
            table, columns = tables[name], [one.name for one in tables[name].summed]
            if how == "files":
                with damaged_file(table.snapshot, columns, random) as (_, damage):
                    found += assert_found(moment, table, damage)
                assert verdict(moment, table).is_equal
            else:
                before = table.snapshot.current_snapshot()
                assert before is not None
                _, damage = damaged_rows(table.snapshot, columns, random)
                found += assert_found(moment, table, damage)
                with table.snapshot.manage_snapshots() as managed:
                    managed.rollback_to_snapshot(before.snapshot_id)
                assert verdict(moment, table).is_equal
    assert found == times(12, 100)


def assert_found(moment: SourceMoment, table: ComparedTable, damage: Damage) -> int:
    """The comparison says so, and names the column where the source tells it and the row has a key."""
    result = verdict(moment, table)
    told = damage.column in {one.column.name for one in table.pairs}
    others = version_of_others(table.snapshot)
    result = replace(result, version_of_others=others)
    assert not result.is_equal, damage
    assert told or others is not None or not result.is_as_stored, damage
    assert result.is_as_at_source is not told, damage
    if told:
        rows = differing_rows(moment, table, result.lake.rows).rows
        keys = {one.column.name for one in table.key}
        if keys and damage.column not in keys:
            (row,) = rows
            assert row.columns == (damage.column,)
            assert row.server is not None
            assert row.lake is not None
        else:
            assert {(one.server is None, one.lake is None) for one in rows} == {(True, False), (False, True)}
            assert len(rows) == 2
    return 1


@pytest.mark.more
def test_a_commit_of_another_program_is_named_whatever_it_changed(
    server: Server, harness: Harness, tmp_path: Path
) -> None:
    """A value that the source cannot tell, in a commit without a sum: what readers find is not what is compared."""
    path = harness.pipeline.table_path("snapshot", ORDERS)
    table = harness.pipeline.lake.table(path)
    assert table is not None
    _, damage = damaged_rows(table, ["price"], Random(1))
    assert damage.column == "price"
    found = verify(harness.pipeline, place_of(server), timeout=0, repair=True)
    assert found.unequal == (ORDERS,)
    assert "another program has committed version" in verdict_words(found.verdicts[ORDERS])
    assert "tables rebuild" in found.not_repaired[ORDERS]
    harness.tables(selection=Selection({"changelog": set(), "snapshot": {ORDERS}}, anew=True))
    assert not verify(harness.pipeline, place_of(server), timeout=0).unequal


@pytest.mark.more
def test_no_alarm_is_false_while_writes_go_on(tmp_path: Path) -> None:
    """Moments are held while a thread writes; the lake is made afterwards, and is equal at each of them."""
    with private_server() as server, moments(server) as hold:
        fill(server, 60)
        stop, held = Event(), list[SourceMoment]()

        def write() -> None:
            with server.connect() as connection, connection.cursor() as cursor:
                number = 0
                while not stop.wait(0.005):
                    number += 1
                    cursor.execute("SET TIMESTAMP = %s", (START + 2 + min(number // 50, 50),))
                    cursor.execute("BEGIN")
                    for statement in Random(number).sample(CHANGES, 3):
                        cursor.execute(statement.format(n=number % 90))
                    cursor.execute("COMMIT")

        writer = Thread(target=write)
        writer.start()
        try:
            for _ in range(times(12, 100)):
                held.append(hold())
                stop.wait(0.02)
        finally:
            stop.set()
            writer.join()
        harness = lake_of(server, tmp_path)
        positions = {str(moment) for moment in held}
        assert len(positions) > len(held) // 3, "writes went on"
        for number, moment in enumerate(held):
            found = verify_at(harness.pipeline, moment, tmp_path / str(number), timeout=0)
            assert found.verdicts.keys() == {ORDERS, PAIRS, BAG}
            assert (found.unequal, found.refused) == ((), {}), moment


@pytest.mark.more
@pytest.mark.parametrize(
    ("text", "is_asked"),
    chosen(
        [
            ("id % 2", None),
            ("kind = 'NEW'", True),  # a collation would take all of them for it
            ("note LIKE '%7'", False),
            ("kind = 'new' AND NOT amount < 20.5", True),
            ("note <> '第3' OR note IS NULL", True),
            ("id IN (3, 4, 100001) AND (bits >= 3 OR day IS NULL)", True),
        ],
        3,
    ),
)
def test_a_row_filter_counts_on_both_sides(server: Server, tmp_path: Path, text: str, is_asked: bool | None) -> None:
    if is_asked is None:
        with pytest.raises(ValueError, match="rows"):
            lake_of(server, tmp_path, rows={"d.orders": text})
        return
    harness = lake_of(server, tmp_path, rows={"d.orders": text})
    with moment_of(place_of(server)) as moment:
        found = verify_at(harness.pipeline, moment, tmp_path / "moment", tables=[ORDERS], timeout=0)
    assert found.unequal == ()
    assert found.verdicts[ORDERS].is_equal is is_asked
    assert found.verdicts[ORDERS].lake.rows < 302


@pytest.mark.more
def test_a_row_filter_counts_by_the_name_that_its_column_has_now(tmp_path: Path) -> None:
    """Two columns of the source swap their names, so that the filter's name is that of another column."""
    before = ("CREATE DATABASE d", "CREATE TABLE d.orders (id INT PRIMARY KEY, n INT, m INT)")
    with private_server() as server:
        run(server, [*before, "INSERT INTO d.orders VALUES (1, 1, 9), (2, 9, 1), (3, 1, 1)"], second=START + 1)
        run(server, ["ALTER TABLE d.orders RENAME COLUMN n TO m, RENAME COLUMN m TO n"], second=START + 2)
        run(server, ["INSERT INTO d.orders (id, n, m) VALUES (4, 1, 9), (5, 9, 1)"], second=START + 3)
        harness = lake_of(server, tmp_path, rows={"d.orders": "n < 2"})
        with moment_of(place_of(server)) as moment:
            found = verify_at(harness.pipeline, moment, tmp_path / "moment", tables=[ORDERS], timeout=0)
        assert found.unequal == ()
        assert found.verdicts[ORDERS].is_equal
        assert {row["id"] for row in harness.rows("snapshot", *ORDERS.path)} == {1, 3, 5}


@pytest.mark.more
def test_rows_that_one_side_lacks_are_named(server: Server, harness: Harness, tmp_path: Path) -> None:
    with moment_of(place_of(server)) as moment:
        tables = compared(harness, moment, tmp_path / "moment")
        table = tables[PAIRS]
        rows = table.snapshot.scan().to_arrow()
        table.snapshot.overwrite(rows.slice(1))
        found = differing_rows(moment, table, rows.num_rows)
        (row,) = found.rows
        assert row.key == {"a": str(rows["a"][0].as_py()), "b": rows["b"][0].as_py()}
        assert row.lake is None
        assert row.server is not None
        assert row.server["c"] == rows["c"][0].as_py()
        table.snapshot.overwrite(rows)


@pytest.mark.more
def test_a_lake_that_is_behind_is_waited_for_until_the_time_is_over(
    server: Server, harness: Harness, tmp_path: Path
) -> None:
    lines = list[str]()
    with moment_of(place_of(server)) as moment:
        later = replace(moment, position=moment.position + 1_000_000)
        with pytest.raises(NothingFoundError):
            verify_at(harness.pipeline, later, tmp_path / "moment", timeout=0.3, progress=lines.append)
    assert any("waited for" in line for line in lines)


@pytest.mark.more
def test_a_lake_that_catches_up_is_waited_for(tmp_path: Path) -> None:
    with private_server() as server:
        fill(server, 30)
        harness = lake_of(server, tmp_path, settled=False)
        with moment_of(place_of(server)) as moment:
            run(server, ["CREATE TABLE d.untold (id INT PRIMARY KEY)"])
            found, told = list[Verification](), Event()

            def compare() -> None:
                lines = lambda _: told.set()  # noqa: E731
                found.append(verify_at(harness.pipeline, moment, tmp_path / "moment", timeout=60, progress=lines))

            waiting = Thread(target=compare)
            waiting.start()
            assert told.wait(30), "it says that it waits"
            harness.settle()
            waiting.join()
    (verification,) = found
    assert verification.unequal == ()
    assert {one for one, verdict in verification.verdicts.items() if verdict.is_equal} == {ORDERS, PAIRS, BAG}
    assert verification.refused.keys() == {TableId("d", "", "untold")}


@pytest.mark.more
def test_a_table_that_was_altered_meanwhile_is_no_false_alarm(tmp_path: Path) -> None:
    with private_server() as server:
        fill(server, 30)
        harness = lake_of(server, tmp_path)
        with moment_of(place_of(server)) as moment:
            run(server, ["ALTER TABLE d.pairs ADD COLUMN late INT NOT NULL DEFAULT 7 FIRST", "DROP TABLE d.bag"])
            found = verify_at(harness.pipeline, moment, tmp_path / "moment", timeout=0)
        assert found.unequal == ()
        assert found.verdicts[ORDERS].is_equal
        assert BAG in found.refused


def test_a_statement_at_the_source_waits_for_no_comparison(server: Server) -> None:
    with moment_of(place_of(server)) as moment:
        assert moment.rows("SELECT COUNT(*) FROM d.pairs")
        run(server, ["SET SESSION lock_wait_timeout = 2", "ALTER TABLE d.pairs COMMENT 'x'"])


def test_errors_of_the_source_hold_no_password(server: Server) -> None:
    place = DatabasePlace("127.0.0.1", 1, "reader", "s3cret")
    with pytest.raises(DatabaseError) as refused, moment_of(place):
        pass
    assert "127.0.0.1:1" in str(refused.value)
    assert "s3cret" not in str(refused.value) + repr(place)
    with moment_of(place_of(server)) as moment, pytest.raises(DatabaseError) as failed:
        moment.rows("SELECT SUM(s3cret")
    assert "s3cret" not in str(failed.value)
