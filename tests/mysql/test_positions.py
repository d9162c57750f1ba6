"""Moments of a real MySQL, under a lock and between positions: the rows are those of the binlog up to the position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from dts_assets.errors.sources import DatabaseError
from dts_assets.model.database_places import DatabasePlace
from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_assets.sources.mysql_server import MySqlServer
from dts_emulator.source.events import Rows, Transaction
from dts_emulator.source.private_mysql import private_mysql
from dts_emulator.source.server import Server
from tests.dts_emulator.worked_databases import transactions_of
from tests.flows.verified_source import place_of
from tests.mysql.servers import WITH_MD5

pytestmark = pytest.mark.mysql

READER, LOCKER, NOBODY = (f"{name}@localhost" for name in ("reader", "locker", "nobody"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_mysql() as running, running.connect() as connection, connection.cursor() as cursor:
        for statement in (
            WITH_MD5,
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)",
            *(f"CREATE USER {who} IDENTIFIED BY 'pw'" for who in (READER, LOCKER, NOBODY)),
            f"GRANT SELECT, REPLICATION CLIENT ON *.* TO {READER}",
            f"GRANT SELECT, REPLICATION CLIENT, RELOAD ON *.* TO {LOCKER}",
        ):
            cursor.execute(statement)
        yield running


def place(server: Server, who: str) -> DatabasePlace:
    return DatabasePlace("", 0, who.partition("@")[0], "pw", str(server.socket))


@contextmanager
def written(server: Server, pause: float) -> Iterator[None]:
    """Rows come for as long as the block takes, through four connections."""
    stop = Event()

    def write() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop.wait(pause):
                cursor.execute("INSERT INTO d.t VALUES (), ()")

    writers = [Thread(target=write) for _ in range(4)]
    for one in writers:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in writers:
            one.join()


def told(transactions: list[Transaction], moment: SourceMoment) -> set[int]:
    """The ids of all rows that stand in the binlog before a moment's position."""
    return {
        int(str(row.after[0]))
        for one in transactions
        if (moment.file, moment.position) >= (int(one.events[-1].at.file_name[-6:]), one.events[-1].at.end)
        for event in one.events
        if isinstance(event, Rows)
        for row in event.rows
        if row.after is not None
    }


@pytest.mark.parametrize(("who", "pause", "surely"), [(LOCKER, 0.0, True), (READER, 0.6, False)])
def test_the_position_is_that_of_the_rows_while_writes_go_on(
    server: Server, who: str, pause: float, surely: bool
) -> None:
    seen: list[tuple[SourceMoment, set[int]]] = []
    with written(server, pause):
        for _ in range(15):
            with moment_of(place(server, who)) as moment:
                assert moment.surely is surely
                seen.append((moment, {number for (number,) in moment.rows("SELECT id FROM d.t")}))
    transactions = transactions_of(server)
    assert [ids ^ told(transactions, moment) for moment, ids in seen] == [set()] * 15
    assert len({moment.position for moment, _ in seen}) > 5


def test_statements_pass_a_moment(server: Server) -> None:
    """A moment holds no lock on a table between two questions, though MySQL's binlog is on."""
    with moment_of(place_of(server)) as moment, server.connect() as connection, connection.cursor() as cursor:
        moment.rows("SELECT COUNT(*) FROM d.t")
        cursor.execute("SET lock_wait_timeout = 2")
        cursor.execute("CREATE TABLE d.other (id INT)")
        cursor.execute("ALTER TABLE d.t COMMENT 'passed'")


def test_an_account_without_rights_is_told_which_it_needs(server: Server) -> None:
    with pytest.raises(DatabaseError, match="grant SELECT and REPLICATION CLIENT"), moment_of(place(server, NOBODY)):
        pass


def test_questions_of_copies_are_answered(server: Server) -> None:
    with MySqlServer(place(server, READER)).connected() as asked:
        (table,) = asked.tables(lambda one: one.table == "t")
        assert not asked.is_mariadb
        assert asked.table(table).key == "id"
        assert asked.place_of_binlog().position > 4


def test_a_server_without_md5_is_told_how_to_get_it() -> None:
    with private_mysql() as server, moment_of(place_of(server)) as moment:
        with pytest.raises(DatabaseError, match="component_classic_hashing"):
            moment.check_sums()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(WITH_MD5)
        moment.check_sums()
