"""A real MariaDB that is written to and recorded, with a lake of it, for comparisons of both."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dts_assets.model.database_places import DatabasePlace
from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server
from dts_emulator.tasks.recording import record
from tests.dts_emulator.sql_numbers import numbers
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process

START = 1_772_359_200
"""The second at which the source's work begins, by its own clock: a whole hour."""

EVERY = timedelta(minutes=1)

TABLES = (
    "CREATE DATABASE d",
    "USE d",
    """CREATE TABLE orders (id INT UNSIGNED PRIMARY KEY, note VARCHAR(40) CHARACTER SET gbk, amount DECIMAL(14,2),
       raw VARBINARY(12), placed DATETIME(6), seen TIMESTAMP(3) NULL, kind ENUM('new', 'it''s'), marks SET('x', 'y'),
       bits BIT(9), day DATE, doc JSON, price DOUBLE, wide BIGINT UNSIGNED, long_note LONGTEXT, span TIME(3))""",
    "CREATE TABLE pairs (a INT, b CHAR(8), c TEXT, PRIMARY KEY (b, a))",
    "CREATE TABLE bag (word VARCHAR(10), n INT)",
)


def place_of(server: Server) -> DatabasePlace:
    return DatabasePlace("", 0, server.user, server.password, str(server.socket))


def run(server: Server, statements: Sequence[str], *, second: float | None = None) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        if second is not None:
            cursor.execute("SET TIMESTAMP = %s", (second,))
        for statement in statements:
            cursor.execute(statement)


def fill(server: Server, rows: int = 300) -> None:
    run(server, [*TABLES, *filling(rows)], second=START + 1)


def filling(rows: int) -> tuple[str, ...]:
    return (
        f"""INSERT INTO d.orders SELECT seq, CONCAT('第', seq), seq / 7, LEFT(UNHEX(SHA1(CONCAT('', seq))), 12),
            '2026-01-05 10:11:12.000001' + INTERVAL seq MINUTE, FROM_UNIXTIME(1700000000 + seq * 1.125), 1 + seq % 2, seq % 4,
            seq % 512, '2026-01-05' + INTERVAL seq DAY, CONCAT('{{"n": ', seq, '}}'), seq / 3, 18446744073709551615 - seq,
            REPEAT('é😀', seq), SEC_TO_TIME((seq - 120.0) * 2200.125) FROM {numbers(rows)}""",
        f"INSERT INTO d.pairs SELECT seq % 5, CONCAT('k', seq), REPEAT('x ', seq) FROM {numbers(rows // 3)}",
        f"INSERT INTO d.bag SELECT CONCAT('w', seq % 7), seq % 3 FROM {numbers(rows // 3)}",
        "INSERT INTO d.orders (id) VALUES (100000)",
        "INSERT INTO d.orders (id, day, placed) VALUES (100001, '0000-00-00', '2026-02-31')",
    )


def lake_of(
    server: Server,
    folder: Path,
    *,
    until: int = START + 60,
    name: str = "verified",
    settled: bool = True,
    **options: Any,
) -> Harness:
    """The lake of all that the server has done, in windows of a minute up to a second of its clock, made if ``settled``."""
    task = DtsOptions(partitions=2)
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / f"capture{time.monotonic_ns()}"
    write_capture(record(server, task, until=until + 20), capture, topic=task.topic)
    # Messages behind the last window close it, so that it has a cut.
    first, last = datetime.fromtimestamp(START, UTC), datetime.fromtimestamp(-(-until // 60) * 60, UTC)
    options.setdefault("tables", {"include": ["d.*"]})
    harness = bench_in_process(folder, name).open(
        capture, name=name, partitions=2,
        window={"every": EVERY, "start": first, "end": last}, **options
    )  # fmt: skip
    if settled:
        harness.settle()
    return harness


@contextmanager
def moments(server: Server) -> Iterator[Any]:
    """A function that holds the present moment until the block ends."""
    with ExitStack() as held:

        def hold() -> SourceMoment:
            return held.enter_context(moment_of(place_of(server)))

        yield hold
