"""A real database, recorded while it is busy: after each window all snapshots are its content at the window's cut, exactly.

The content comes from a replay of the database's own binlog by its own tools, up to the GTID set that the ledger names, while
the database goes on writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.tables import TableId
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.moments import Moment, content_at, moment_of_gtids, moment_of_position
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.server import BINLOG_NAME, Server, private_server
from dts_emulator.tasks.recording import record
from tests.e2e.market import DATABASE, Market
from tests.flows.harness import Bench, Harness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.long]

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
EVERY = timedelta(seconds=60)
WINDOWS = 3
END = START + WINDOWS * EVERY
OPTIONS = DtsOptions(partitions=4, max_message_bytes=2_000, bytes_per_second=7_000)
"""A slow line and small messages: what one transaction did in four Kafka partitions arrives seconds apart."""

SEED = 11


def work(server: Server) -> None:
    """About two transactions a second over all windows, and a little further, so that the last one closes too."""
    random = Random(SEED)
    with server.connect() as connection, connection.cursor() as cursor:
        market = Market(cursor, SEED)
        now, last = START.timestamp() + 1, END.timestamp() + 5
        market.open(now)
        # In the middle of a window, and behind the last CHECKPOINT of one: a column that the cut does not have yet.
        columns = iter([(75.0, "orders"), (117.0, "wallets"), (1e9, "")])
        due, table = next(columns)
        while now < last:
            now += random.uniform(0.1, 0.9)
            if now > START.timestamp() + due:
                market.add_column(now, table)
                cursor.execute("FLUSH BINARY LOGS")
                due, table = next(columns)
            market.transaction(now)


@contextmanager
def going_on(server: Server) -> Iterator[None]:
    """The database is written to for as long as the block takes, at the real time of day."""
    stop, written = Event(), list[int]()

    def write() -> None:
        with server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
            while not stop.wait(0.2):
                written.append(cursor.execute("UPDATE safes SET balance = balance + 1, touched = NOW(3)"))
                cursor.execute("DELETE FROM orders LIMIT 1")

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
    assert len(written) > 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        work(running)
        yield running


@pytest.fixture
def harness(server: Server, spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path) -> Harness:
    messages = record(server, OPTIONS, until=int(END.timestamp()) + 20)
    write_capture(messages, tmp_path / "capture", topic=OPTIONS.topic)
    window = {"every": EVERY, "start": START, "end": None}
    return Bench(spark, spark_lake, tmp_path, "at_gtid").open(
        tmp_path / "capture", partitions=OPTIONS.partitions, window=window
    )


def snapshots(harness: Harness) -> Mapping[TableId, pa.Table]:
    """All snapshots as they are now."""
    pipeline = harness.pipeline
    found = {table: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for table in known_tables(pipeline)}
    return {table: rows for table, rows in found.items() if rows is not None}


def content(server: Server, moment: Moment, folder: Path) -> Path:
    """The folder, with the dumps of a moment."""
    with content_at(server, moment) as past:
        dump_database(past, DATABASE, folder)
    return folder


def last_gtid(server: Server, cut: Cut) -> str:
    """The last transaction before a cut's position, by the server's own books, as ``uuid:n``."""
    assert cut.cut is not None
    file = f"{BINLOG_NAME}.{cut.cut.file:06d}"
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (file, cut.cut.position))
        ((found,),) = cursor.fetchall()
    return str(Gtid(*map(int, found.split("-"))))


def torn(harness: Harness, window: datetime) -> set[str]:
    """Transactions of which a window has a part, and others another: what must not be seen half."""
    windows: dict[str, set[datetime]] = {}
    for table in known_tables(harness.pipeline):
        for row in harness.rows("changelog", *table.path):
            windows.setdefault(row["transaction_id"], set()).add(row["window_start"])
    return {transaction for transaction, starts in windows.items() if window in starts and len(starts) > 1}


def test_after_each_window_every_snapshot_is_the_database_at_its_cut(
    server: Server, harness: Harness, tmp_path: Path
) -> None:
    contents: list[Path] = []
    with going_on(server):
        for number in range(WINDOWS):
            harness.all(number)
            (cut,) = [row for row in harness.pipeline.ledger.cuts() if row.window == harness.windows(number)[0]]
            assert cut.consistency == "cut"
            uuid, last = last_gtid(server, cut).split(":")
            assert cut.gtid_set == f"{uuid}:1-{last}"
            contents.append(content(server, moment_of_gtids(server, cut.gtid_set), tmp_path / f"cut{number}"))
            found = snapshots(harness)
            assert {table.table for table in found} == {"wallets", "safes", "orders", "goods"}
            assert all(rows.num_rows for rows in found.values())
            assert differences(found, contents[-1]) == ()
        # By its position the last cut is the same moment; and the judge tells it from every other one.
        assert cut.cut is not None
        by_position = moment_of_position(server, cut.cut.file, cut.cut.position)
        assert differences(found, content(server, by_position, tmp_path / "position")) == ()
        one_less = moment_of_gtids(server, f"{uuid}:1-{int(last) - 1}")
        dump_database(server, DATABASE, tmp_path / "now")
        for other in (*contents[:-1], content(server, one_less, tmp_path / "one_less"), tmp_path / "now"):
            assert differences(found, other)
    for window in harness.windows(0, 1):
        assert torn(harness, window.start), "some transaction arrived on both sides of the window's end"
