"""A real MySQL as a topic's server: by its transactions and the places of its events, in its own GTIDs or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.server_identity import StoredEvent, TopicTrace, Verdict
from dts_assets.planning.server_identity import match_server
from dts_assets.sources.live_database import connected
from dts_assets.sources.server_facts import server_facts
from dts_emulator.source.private_mysql import private_mysql
from dts_emulator.source.server import Server
from tests.dts_emulator.worked_databases import transactions_of
from tests.flows.verified_source import run

pytestmark = pytest.mark.mysql

WATCHER, REPLICA = "watcher", "replica"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_mysql() as running:
        run(running, work())
        yield running


def work() -> list[str]:
    return [
        f"CREATE USER {WATCHER}@localhost IDENTIFIED BY 'pw'",
        f"CREATE USER {REPLICA}@localhost IDENTIFIED BY 'pw'",
        f"GRANT SELECT, REPLICATION CLIENT ON *.* TO {WATCHER}@localhost",
        f"GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO {REPLICA}@localhost",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1)",
        "INSERT INTO d.t VALUES (2), (3)",
    ]


def traced(server: Server, *, gtids: bool) -> TopicTrace:
    """The trace that a task leaves which tells all events, by the bytes behind them."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@server_uuid, @@global.gtid_executed")
        uuid, executed = cursor.fetchone()
    last = int(executed.rpartition("-")[2])
    transactions = transactions_of(server)
    first = last - len(transactions)
    events = tuple(
        StoredEvent(
            int(event.at.file_name[-6:]), event.at.end, event.at.server_id, f"{uuid}:{first + number}" if gtids else None,
            None if gtids else datetime.fromtimestamp(event.at.timestamp, UTC),
        )
        for number, one in enumerate(transactions, 1)
        for event in one.events
    )  # fmt: skip
    return TopicTrace(events[-1].place, events, {uuid: last} if gtids else {}, uuid if gtids else None)


def verdict(server: Server, user: str, trace: TopicTrace) -> Verdict:
    place = DatabasePlace("", 0, user, "" if user == "root" else "pw", str(server.socket))
    with connected(place) as connection:
        return match_server(trace, server_facts(connection, place, trace)).verdict


def test_a_mysql_is_known_with_its_gtids_and_without(server: Server) -> None:
    with_gtids, without = traced(server, gtids=True), traced(server, gtids=False)
    for user in (REPLICA, "root"):
        assert verdict(server, user, with_gtids) is Verdict.MATCHES
        assert verdict(server, user, without) is Verdict.MATCHES
    assert verdict(server, WATCHER, with_gtids) is Verdict.MATCHES
    assert verdict(server, WATCHER, without) is Verdict.UNCHECKED
    assert verdict(server, WATCHER, replace(with_gtids, writer=None)) is Verdict.UNCHECKED


def test_compressed_transactions_leave_the_transactions_alone_to_look_at() -> None:
    with private_mysql(extra=("--binlog-transaction-compression=ON",)) as server:
        run(server, work())
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@server_uuid")
            (uuid,) = cursor.fetchone()
        event = StoredEvent(1, 300, 1, f"{uuid}:8", None)
        assert verdict(server, "root", TopicTrace((1, 300), (event,), {uuid: 8}, uuid)) is Verdict.MATCHES
        assert verdict(server, "root", TopicTrace((1, 300), (event,), {uuid: 8}, None)) is Verdict.UNCHECKED


def test_another_mysql_is_refused(server: Server) -> None:
    with private_mysql(server_id=1) as other:
        run(other, work())
        for gtids in (True, False):
            trace = traced(server, gtids=gtids)
            assert verdict(other, "root", trace) is Verdict.MISMATCHES
        assert verdict(other, WATCHER, traced(server, gtids=True)) is Verdict.MISMATCHES
