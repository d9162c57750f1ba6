"""A shop in a real database that was there before its topic, and is written to: most of its rows are in no binlog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Protocol

from pymysql.cursors import Cursor

from dts_assets.model.tables import TableId
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.machine.ports import free_port
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from tests.dts_emulator.sql_numbers import numbers

DATABASE = "shop"
START = datetime(2026, 3, 1, 10, tzinfo=UTC)
EVERY = timedelta(seconds=60)
OPTIONS = DtsOptions(partitions=2)
USER, PASSWORD = "copier", "s3cret-of-the-copier"
GOODS, LINES, EMPTY = (TableId(DATABASE, "", name) for name in ("goods", "lines", "empty"))

_GOODS = """CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET latin1, price DECIMAL(10,2), f FLOAT, d DOUBLE,
    b VARBINARY(9), bi BIT(9), at TIMESTAMP(3) NULL, dt DATETIME(6), y YEAR, tm TIME(2), e ENUM('a', 'ß'), st SET('x', 'y'),
    n BIGINT UNSIGNED, note TEXT, fixed CHAR(5), day DATE)"""
_ROWS = """INSERT INTO goods SELECT seq, CONCAT('näme', seq), seq / 7, seq / 3, seq / 3, UNHEX(HEX(seq)), seq % 512,
    '2026-01-01 00:00:00.123', '2025-12-31 23:59:59.000001', 2000 + seq % 50, '-838:00:00.5', 'ß', 'x,y',
    18446744073709551615 - seq, IF(seq % 10 = 0, NULL, CONCAT('💰', seq)), 'ab ', IF(seq % 7 = 0, '0000-00-00', '2026-02-28')
    FROM {numbers}"""


class Starts(Protocol):
    """A function that runs a server for the length of a block."""

    def __call__(self, *, extra: tuple[str, ...]) -> AbstractContextManager[Server]: ...


class Shop:
    """The server, and the writer's own time, in seconds since the epoch."""

    def __init__(self, server: Server, port: int, rows: int) -> None:
        self.server, self.port, self.rows = server, port, rows
        self.now = START.timestamp() + 1
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET timestamp = {self.now - 0.5}")
            cursor.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT SELECT, RELOAD, REPLICATION CLIENT ON *.* TO {USER}@'127.0.0.1'")
            for sql in (f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", "SET sql_mode = ''", _GOODS):
                cursor.execute(sql)
            cursor.execute("CREATE TABLE `lines` (a INT, b VARCHAR(10))")
            cursor.execute("CREATE TABLE `empty` (id INT PRIMARY KEY)")
            cursor.execute("SET sql_log_bin = 0")  # what was there before the topic is in no binlog
            cursor.execute(_ROWS.format(numbers=numbers(rows)))
            cursor.execute(f"INSERT INTO `lines` SELECT seq % 7, 'x' FROM {numbers(100)}")

    @contextmanager
    def written(self, *, seed: int = 5, pause: float = 0.002, image: str = "FULL") -> Iterator[None]:
        """Write to the shop for as long as the block takes, with row images as ``binlog_row_image`` has them.

        MariaDB sends a REPLACE as an update, of which minimal images lack the columns that it sets to their defaults: no reader
        of the binlog can follow that.
        """
        stop, new = Event(), "REPLACE" if image == "FULL" else "INSERT IGNORE"

        def write() -> None:
            random = Random(seed)
            with self.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET sql_mode = '', binlog_row_image = {image}")
                while not stop.wait(pause):
                    self._transaction(cursor, random, new)

        thread = Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def move(self, keys: Iterable[int], *, beyond: int, image: str) -> None:
        """Give the first rows behind a key other keys, in a transaction each."""
        with self.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET binlog_row_image = {image}, timestamp = {self.now:.3f}")
            for key in keys:
                cursor.execute("BEGIN")
                cursor.execute("DELETE FROM goods WHERE id = %s", (key,))
                cursor.execute("UPDATE goods SET id = %s WHERE id > %s ORDER BY id LIMIT 1", (key, beyond))
                cursor.execute("COMMIT")

    def _transaction(self, cursor: Cursor, random: Random, new: str) -> None:
        self.now += 0.2
        cursor.execute(f"SET timestamp = {self.now:.3f}")
        cursor.execute("BEGIN")
        for _ in range(random.randint(1, 3)):
            one, other = random.randint(1, self.rows + 1000), random.randint(1, self.rows + 1000)
            match random.randrange(5):
                case 0:
                    cursor.execute("DELETE FROM goods WHERE id = %s", (one,))
                case 1:
                    cursor.execute(f"{new} INTO goods (id, name) VALUES (%s, 'new')", (one,))
                case 2:
                    cursor.execute(
                        "UPDATE goods SET f = f + 1, note = CONCAT(IFNULL(note, ''), 'u') WHERE id = %s", (one,)
                    )
                case 3:
                    cursor.execute("UPDATE IGNORE goods SET id = %s WHERE id = %s", (other, one))
                case _:
                    cursor.execute("INSERT INTO `lines` VALUES (%s, 'n')", (one % 7,))
                    cursor.execute("DELETE FROM `lines` WHERE a = %s LIMIT 1", (other % 7,))
        cursor.execute("COMMIT")

    @property
    def bootstrap(self) -> dict[str, object]:
        """The configuration's part."""
        jdbc = {"url": f"jdbc:mariadb://127.0.0.1:{self.port}/", "user": USER, "password": PASSWORD}
        return {"from": {"jdbc": jdbc}, "chunk_rows": 1000}

    def record(self, capture: Path) -> int:
        """Record all that was written, and return the number of windows that it fills."""
        write_capture(record(self.server, OPTIONS, until=int(self.now) + 70), capture, topic=OPTIONS.topic)
        return int((self.now - START.timestamp()) // EVERY.total_seconds()) + 1


@contextmanager
def busy_shop(*, rows: int = 5000, start: Starts = private_server) -> Iterator[Shop]:
    """A shop in a server of its own, which also listens on a port."""
    port = free_port()
    network = ("--skip-networking=0", f"--port={port}", "--bind-address=127.0.0.1")
    with start(extra=network) as server:
        yield Shop(server, port, rows)
