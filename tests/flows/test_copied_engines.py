"""Tables on engines without transactions are copied while they are written to: each row is there as often as at the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, cast

import pytest
from pymysql.err import MySQLError
from pyspark.sql import SparkSession

from dts_assets.errors import LakeTableError
from dts_assets.flows import database_copies
from dts_assets.flows.copies import Copying, bootstrap_of
from dts_assets.flows.copying import copy_tables
from dts_assets.flows.jdbc_rows import ReadChunk, write_chunk
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.copied_tables import CopiedTable, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.sources.mysql_server import MySqlServer
from dts_emulator.source.server import Server, private_server
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.flows.verified_source import EVERY, START, lake_of, place_of, run

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import SparkProvider

pytestmark = pytest.mark.database

BAG = TableId("d", "", "bag")
COLUMNS = "(word VARCHAR(10) NOT NULL, n INT NOT NULL)"
ENGINES = ("MyISAM", "Aria", "MEMORY", "CSV", "MERGE")


@contextmanager
def bag(engine: str, *, network: tuple[str, ...] = ()) -> Iterator[Server]:
    """A server whose table was filled before the topic began."""
    with private_server(extra=network) as server:
        made = [f"CREATE TABLE d.bag {COLUMNS} ENGINE={engine}"]
        if engine == "MERGE":
            made = [
                f"CREATE TABLE d.below {COLUMNS} ENGINE=MyISAM",
                f"CREATE TABLE d.bag {COLUMNS} ENGINE=MERGE UNION=(d.below) INSERT_METHOD=LAST",
            ]
        run(server, ["CREATE DATABASE d", "USE d", *made], second=START + 1)
        untold = "INSERT INTO d.bag SELECT CONCAT('w', seq % 97), seq % 3 FROM seq_1_to_3000"
        run(server, ["USE d", "SET sql_log_bin = 0", untold])
        yield server


@contextmanager
def written(server: Server) -> Iterator[Event]:
    """The table is written to as fast as it goes; the event is set once something was written."""
    stop, begun = Event(), Event()

    def write() -> None:
        random, number = Random(5), 0
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                number += 1
                cursor.execute("SET TIMESTAMP = %s", (START + 62 + min(number / 100, 50),))
                cursor.execute("INSERT INTO d.bag VALUES (%s, %s)", (f"new{number}", random.randrange(3)))
                if number % 5 == 0:
                    cursor.execute("DELETE FROM d.bag WHERE word = %s", (f"new{random.randrange(1, number)}",))
                begun.set()

    thread = Thread(target=write)
    thread.start()
    try:
        yield begun
    finally:
        stop.set()
        thread.join()


def no_spark() -> SparkSession:
    raise AssertionError("a table that is locked is read without Spark")


def copying(server: Server, folder: Path) -> tuple[Harness, Copying]:
    jdbc = {"url": f"jdbc:mariadb://localhost/?localSocket={server.socket}", "user": "root"}
    harness = lake_of(
        server, folder, name="engines", complete=False, bootstrap={"from": {"jdbc": jdbc}, "tables": ["d.*"]}
    )
    pipeline = harness.pipeline
    return harness, Copying(pipeline, bootstrap_of(pipeline), no_spark, harness.lines.append)


@pytest.mark.more
@pytest.mark.parametrize("engine", ENGINES)
def test_each_row_is_there_once_though_its_table_was_written_to(engine: str, tmp_path: Path) -> None:
    with bag(engine) as server:
        harness, work = copying(server, tmp_path)
        with written(server) as begun:
            assert begun.wait(60)
            (copied,) = copy_tables(work, CopyKind.BOOTSTRAP, [BAG]).copied
        assert copied.low == copied.high
        assert any("nobody can write to it while it is read" in line for line in harness.lines)
        after = lake_of(server, tmp_path, until=START + 120, name="engines", complete=False)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT word, n FROM d.bag")
            there = Counter(cursor.fetchall())
        assert Counter((row["word"], row["n"]) for row in after.rows("snapshot", *BAG.path)) == there
        assert max(there.values()) > 1


@pytest.mark.more
def test_nobody_can_write_while_a_table_without_transactions_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer comes between the position and the first row, whoever is quicker."""
    tries = list[int]()

    def written_to(server: Server, *given: Any) -> ReadChunk:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout = 1")
            try:
                cursor.execute("INSERT INTO d.bag VALUES ('late', 1)")
            except MySQLError as error:
                tries.append(error.args[0])
        return write_chunk(*given)

    with bag("MyISAM") as server:
        _, work = copying(server, tmp_path)
        monkeypatch.setattr(database_copies, "write_chunk", partial(written_to, server))
        (copied,) = copy_tables(work, CopyKind.BOOTSTRAP, [BAG]).copied
    assert (tries, copied.rows) == ([1205], 3_000)


@pytest.mark.more
def test_a_lake_table_that_cannot_be_written_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepared(_: Pipeline, copied: CopiedTable) -> None:
        raise LakeTableError(str(copied.table), "it is strange", "remove it")

    monkeypatch.setattr(database_copies, "prepare", prepared)
    with private_server() as server:
        run(
            server,
            ["CREATE DATABASE d", *(f"CREATE TABLE d.{name} (id INT PRIMARY KEY)" for name in ("bag", "two"))],
            second=START + 1,
        )
        _, work = copying(server, tmp_path)
        report = copy_tables(work, CopyKind.BOOTSTRAP)
    assert list(report.failed) == [BAG, TableId("d", "", "two")]
    assert all("it is strange" in reason for reason in report.failed.values())


@pytest.mark.more
def test_messages_without_positions_are_refused_for_that_reason(tmp_path: Path) -> None:
    with bag("MyISAM") as server:
        jdbc = {"url": f"jdbc:mariadb://localhost/?localSocket={server.socket}", "user": "root"}
        harness = bench_in_process(tmp_path, "ids").open(
            tmp_path / "nothing", name="ids", format="drs-json", partitions=1, complete=False, consistency="window",
            window={"every": EVERY, "start": datetime.fromtimestamp(START, UTC)},
            bootstrap={"from": {"jdbc": jdbc}, "tables": ["d.bag"]},
        )  # fmt: skip
        work = Copying(harness.pipeline, bootstrap_of(harness.pipeline), no_spark, harness.lines.append)
        assert "messages in drs-json tell no position" in copy_tables(work, CopyKind.BOOTSTRAP).failed[BAG]


@pytest.mark.more
def test_chunks_that_another_server_gave_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection may reach another server behind one address; the first one was looked at."""
    with private_server() as server:
        run(server, ["CREATE DATABASE d", "CREATE TABLE d.bag (id INT PRIMARY KEY)"], second=START + 1)
        _, work = copying(server, tmp_path)

        def elsewhere(*arguments: Any, **_: Any) -> list[ReadChunk]:
            (chunk,) = arguments[3]
            at = SourcePosition(0, 7, 4711)
            return [ReadChunk(replace(chunk, low=at, high=at, rows=1), ())]

        monkeypatch.setattr(database_copies, "read_chunks", elsewhere)
        monkeypatch.setattr(database_copies, "add_driver", lambda *_: None)
        report = copy_tables(replace(work, spark=cast("SparkProvider", object)), CopyKind.BOOTSTRAP)
        assert "its rows are of another server" in report.failed[BAG]
        assert not work.pipeline.ledger.copied_tables()[0].rows


@pytest.mark.more
def test_an_account_that_may_not_lock_is_told_the_right(tmp_path: Path) -> None:
    with bag("MyISAM") as server:
        run(server, [
            "CREATE USER reader@localhost IDENTIFIED BY ''", "GRANT SELECT, BINLOG MONITOR ON *.* TO reader@localhost",
        ], second=START + 1)  # fmt: skip
        _, work = copying(server, tmp_path)
        jdbc = work.bootstrap.source.jdbc
        assert jdbc is not None
        reader = jdbc.model_copy(update={"user": "reader"})
        source = work.bootstrap.source.model_copy(update={"jdbc": reader})
        report = copy_tables(
            replace(work, bootstrap=work.bootstrap.model_copy(update={"source": source})), CopyKind.BOOTSTRAP
        )
        assert "grant LOCK TABLES" in report.failed[BAG]


def test_the_server_says_which_engines_have_transactions() -> None:
    with private_server() as server:
        run(
            server,
            ["CREATE DATABASE d", *(f"CREATE TABLE d.{name} (n INT NOT NULL) ENGINE={name}" for name in ENGINES[:4])],
        )
        run(server, ["CREATE TABLE d.innodb (n INT) ENGINE=InnoDB"])
        with MySqlServer(place_of(server)).connected() as asked:
            found = {one.table: asked.table(one) for one in asked.tables(lambda one: one.database == "d")}
    assert {name: one.has_transactions for name, one in found.items()} == {
        "Aria": False, "CSV": False, "MEMORY": False, "MyISAM": False, "innodb": True,
    }  # fmt: skip
