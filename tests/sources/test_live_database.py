"""Moments of a source database: MySQL's ways to a position, judged by the position that MariaDB tells of a snapshot itself."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from dts_assets.errors.sources import DatabaseError
from dts_assets.model.database_places import DatabasePlace, ServerProof, database_place
from dts_assets.sources import live_database
from dts_assets.sources.live_database import moment_of
from dts_emulator.source.server import Server, private_server
from tests.flows.verified_source import place_of

pytestmark = pytest.mark.database


@pytest.fixture
def server() -> Iterator[Server]:
    with private_server() as running, running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        yield running


def as_mysql(monkeypatch: pytest.MonkeyPatch, *, locks: bool) -> None:
    """Let moments begin as of a MySQL, by a lock or between positions."""

    def begin(cursor: Any, place: DatabasePlace) -> tuple[str, int, bool]:
        found = live_database._under_lock(cursor, place) if locks else None
        return found or live_database._between_positions(cursor, place)

    monkeypatch.setattr(live_database, "_begin", begin)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("locks", [True, False])
def test_the_ways_of_mysql_find_the_position_of_the_snapshot(
    server: Server, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_mysql(monkeypatch, locks=locks)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES ()")
        with moment_of(place_of(server)) as moment:
            ((_, file), (_, position)) = moment.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")
            assert (moment.file_name, moment.position, moment.surely) == (file, int(position), locks)
            cursor.execute("INSERT INTO d.t VALUES ()")  # no lock is left
            assert moment.rows("SELECT COUNT(*) FROM d.t") == ((1,),)


@pytest.mark.more
def test_a_lock_is_exact_while_writes_go_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    as_mysql(monkeypatch, locks=True)
    stop = Event()

    def write() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("INSERT INTO d.t VALUES ()")

    writer = Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            with moment_of(place_of(server)) as moment:
                told = dict(moment.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
                assert moment.position == int(told["Binlog_snapshot_position"])
    finally:
        stop.set()
        writer.join()


def test_a_binlog_that_never_stands_still_tells_no_position(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    as_mysql(monkeypatch, locks=False)
    monkeypatch.setattr(live_database, "_TRIES", 3)
    count = iter(range(10_000))

    def position(cursor: Any, place: DatabasePlace) -> tuple[str, int, str]:
        return "mysql-bin.000001", next(count), ""

    monkeypatch.setattr(live_database, "binlog_position", position)
    with pytest.raises(DatabaseError, match="never stood still"), moment_of(place_of(server)):
        pass


def test_a_server_without_a_binlog_is_refused() -> None:
    with private_server(extra=("--skip-log-bin",)) as server:  # noqa: SIM117
        with pytest.raises(DatabaseError, match="writes no binlog"), moment_of(place_of(server)):
            pass


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("jdbc:mysql://db.internal/", "db.internal:3306"),
        ("jdbc:mariadb://db:3307/shop?useSSL=true", "db:3307"),
        ("mysql://[::1]:3306", "::1:3306"),
        ("jdbc:mariadb://localhost/?localSocket=/run/db.sock", "/run/db.sock"),
    ],
)
def test_urls_name_places(url: str, place: str) -> None:
    found = database_place(url, user="u", password="s3cret")
    assert str(found) == place
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("options", "proof", "authority"),
    [
        ("", ServerProof.UNASKED, None),
        ("?sslMode=verify-full&serverSslCert=/etc/db/ca.pem", ServerProof.NAME, "/etc/db/ca.pem"),
        ("?tcpKeepAlive=true&sslMode=VERIFY_CA", ServerProof.AUTHORITY, None),
        ("?sslMode=REQUIRED", ServerProof.NONE, None),
        ("?sslMode=disable&", ServerProof.OFF, None),
    ],
)
def test_urls_say_what_a_server_has_to_prove(options: str, proof: ServerProof, authority: str | None) -> None:
    found = database_place(f"jdbc:mysql://db/{options}", user="u", password="")
    assert (found.proof, found.authority) == (proof, authority)


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql://db/", "db:3306", "jdbc:mysql://db:0/", "jdbc:mysql://db:99999/", ""]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no URL"):
        database_place(url, user="u", password="")
