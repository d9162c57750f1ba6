"""Servers as a topic's own: real ones, by whatever format, position and account; and others that look like them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dts_assets.errors.databases import OtherServerError, UncheckedServerError
from dts_assets.flows.server_identity import server_match, topic_trace
from dts_assets.flows.verification import verify
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.server_identity import ServerMatch, Verdict
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import connected
from dts_emulator.machine.waiting import wait_until
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.flows.verified_source import EVERY, START, fill, place_of, run

pytestmark = pytest.mark.database

WATCHER, REPLICA = "watcher", "replica"
ACCOUNTS = (
    f"CREATE USER {WATCHER}@localhost IDENTIFIED BY 'pw'",
    f"CREATE USER {REPLICA}@localhost IDENTIFIED BY 'pw'",
    f"GRANT SELECT, BINLOG MONITOR ON *.* TO {WATCHER}@localhost",
    f"GRANT SELECT, BINLOG MONITOR, REPLICATION SLAVE ON *.* TO {REPLICA}@localhost",
)
FORMATS = [
    (name, position) for name in ("dts-protobuf", "dts-avro", "dts-json") for position in ("end", "start")
]  # fmt: skip


@contextmanager
def source(*, second: float = START, server_id: int = 1) -> Iterator[Server]:
    """A server that has always done the same, from a second of its clock on."""
    with private_server(server_id=server_id) as server:
        run(server, ACCOUNTS, second=second)
        fill_at(server, second)
        yield server


def fill_at(server: Server, second: float) -> None:
    run(server, ["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)"], second=second + 1)
    for number in range(20):
        run(server, [f"INSERT INTO d.t VALUES ({number}, 0)"], second=second + 2 + number)


def stored(server: Server, folder: Path, name: str = "dts-protobuf", **options: Any) -> Harness:
    """The entries of all that a server has done."""
    vendor, folder = VENDOR_TASKS[name], folder / f"{name}{len(list(folder.iterdir()))}"
    folder.mkdir()
    task = vendor.options(partitions=2, **options)
    write_capture(record(server, task, until=START + 80), folder / "capture", topic="t")
    settings: dict[str, Any] = {}
    if vendor.schema is not None:
        (folder / "Record.avsc").write_bytes(vendor.schema())
        settings = {"schema": folder / "Record.avsc"}
    first = datetime.fromtimestamp(START, UTC)
    harness = bench_in_process(folder, "matched").open(
        folder / "capture", name="matched", format=name, partitions=2,
        window={"every": EVERY, "start": first, "end": first + EVERY}, **settings
    )  # fmt: skip
    harness.raw(0)
    harness.entries(0)
    return harness


def purge(server: Server) -> None:
    """Let the first file of the binlog go, which waits for whoever still reads it."""

    def gone() -> bool:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("PURGE BINARY LOGS TO 'mysql-bin.000002'")
            cursor.execute("SHOW BINARY LOGS")
            return str(cursor.fetchone()[0]) == "mysql-bin.000002"

    wait_until(gone, seconds=60)


def account(server: Server, user: str) -> DatabasePlace:
    return DatabasePlace("", 0, user, "pw", str(server.socket))


def asked(harness: Harness, place: DatabasePlace) -> ServerMatch:
    with connected(place) as connection:
        return server_match(harness.pipeline, connection, place)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with source() as running:
        yield running


@pytest.mark.parametrize(
    ("name", "position"),
    [pytest.param(*pair, marks=[] if not number else [pytest.mark.more]) for number, pair in enumerate(FORMATS)],
)
def test_a_topic_knows_its_own_server_in_each_format(server: Server, tmp_path: Path, name: str, position: str) -> None:
    harness = stored(server, tmp_path, name, header_position=position)
    for user in (WATCHER, REPLICA):
        found = asked(harness, account(server, user))
        assert (found.verdict, "is the topic's" in found.reason) == (Verdict.MATCHES, True)


@pytest.mark.more
def test_a_server_with_another_id_or_another_past_is_refused(server: Server, tmp_path: Path) -> None:
    """The second one has the same rows at the same places under the same ids: only the times of its events are others."""
    harness = stored(server, tmp_path)
    with source(server_id=99) as other, pytest.raises(OtherServerError) as caught:
        asked(harness, place_of(other))
    assert caught.value.exit_code == 10
    with source(second=START - 86400) as twin:
        for user in (REPLICA, "root"):
            place = place_of(twin) if user == "root" else account(twin, user)
            with pytest.raises(OtherServerError, match="is another one than the topic's"):
                asked(harness, place)


@pytest.mark.more
def test_a_server_that_stands_before_the_topic_or_went_another_way_is_refused(server: Server, tmp_path: Path) -> None:
    """A restored copy has the same binlog up to some moment, and goes on by itself."""
    with source() as copy:
        run(server, ["INSERT INTO d.t VALUES (100, 1)"], second=START + 40)
        harness = stored(server, tmp_path)
        with pytest.raises(OtherServerError, match="its binlog ends at"):
            asked(harness, place_of(copy))
        run(copy, ["INSERT INTO d.t VALUES (100, 7), (101, 7), (102, 7)"], second=START + 40)
        run(copy, ["INSERT INTO d.t VALUES (200, 1)"], second=START + 41)
        with pytest.raises(OtherServerError, match="no event of its binlog ends or begins"):
            asked(harness, place_of(copy))


@pytest.mark.more
def test_a_purged_binlog_and_an_empty_topic_are_not_decided(tmp_path: Path) -> None:
    with source() as server:
        harness = stored(server, tmp_path)
        run(server, ["FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (500, 1)"])
        purge(server)
        found = asked(harness, account(server, WATCHER))
        assert (found.verdict, "has purged" in found.reason) == (Verdict.UNCHECKED, True)
        empty = bench_in_process(tmp_path, "empty").open(
            tmp_path / "nothing", name="empty", partitions=2, complete=False,
            window={"every": EVERY, "start": datetime.fromtimestamp(START, UTC)},
        )  # fmt: skip
        found = asked(empty, place_of(server))
        assert (found.verdict, "no message of the topic" in found.reason) == (Verdict.UNCHECKED, True)


@pytest.mark.more
def test_the_last_events_are_found_behind_a_busy_stretch(server: Server, tmp_path: Path) -> None:
    """Between two stored events may stand thousands that the task does not tell."""
    with source() as busy:
        run(busy, ["USE d", "INSERT INTO d.t SELECT 1000 + seq, REPEAT('9', 5) FROM seq_1_to_20000"], second=START + 30)
        harness = stored(busy, tmp_path)
        assert len(topic_trace(harness.pipeline).events) > 10
        assert asked(harness, account(busy, WATCHER)).verdict is Verdict.MATCHES


@pytest.mark.more
def test_rows_are_repaired_from_the_topics_server_alone(tmp_path: Path) -> None:
    from tests.flows.verified_source import lake_of  # the shop of comparisons

    with private_server() as server, private_server(server_id=99) as other:
        for one in (server, other):
            fill(one, 30)
        harness = lake_of(server, tmp_path)
        run(server, ["SET SESSION sql_log_bin = 0", "UPDATE d.pairs SET c = 'untold' WHERE a = 2"])
        for repair in (False, True):
            with pytest.raises(OtherServerError):
                verify(harness.pipeline, place_of(other), timeout=5, repair=repair, server_is_right=True)
        assert harness.pipeline.ledger.copied_tables() == []
        verify(harness.pipeline, place_of(server), timeout=5, repair=True)
        (copied,) = harness.pipeline.ledger.copied_tables()
        assert (copied.table, copied.server) == (TableId("d", "", "pairs"), "matches")
        harness.settle()

        run(server, ["FLUSH BINARY LOGS"])
        purge(server)
        run(server, ["SET SESSION sql_log_bin = 0", "UPDATE d.pairs SET c = 'again' WHERE a = 3"])
        with pytest.raises(UncheckedServerError, match="--server-is-right"):
            verify(harness.pipeline, place_of(server), timeout=5, repair=True)
