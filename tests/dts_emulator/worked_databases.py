"""Databases that several modules record: a server that has done some work, its transactions and its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dts_emulator.judge.dump import dump_database
from dts_emulator.source.binlog import read_transactions
from dts_emulator.source.events import Transaction
from dts_emulator.source.private_mysql import private_twin
from dts_emulator.source.server import Server, private_server
from dts_emulator.source.source_schema import ReplayedCatalog

WORK = (
    "CREATE DATABASE d",
    "USE d",
    "SET TIMESTAMP = 1767571200",
    """CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40) CHARACTER SET gbk, doc JSON, kind ENUM('a', 'it''s') NOT NULL,
       raw BINARY(4), amount DECIMAL(12,3) UNSIGNED, seen TIMESTAMP(3) NULL, part FLOAT, flags SET('x', 'y'),
       wide BIGINT UNSIGNED)""",
    "CREATE TABLE bag (word VARCHAR(10), n INT)",
    "CREATE TABLE pairs (a INT, b CHAR(8), c LONGTEXT, PRIMARY KEY (b, a))",
    "INSERT INTO t (id, note, kind) SELECT seq, CONCAT('第', seq), IF(seq % 2, 'a', 'it''s') FROM seq_1_to_300",
    "BEGIN",
    """UPDATE t SET doc = '{"k": [1, 2]}', raw = X'61', amount = id / 7, seen = NOW(3), part = id / 3, flags = 'x,y',
       wide = 18446744073709551615""",
    "UPDATE t SET id = id + 1 WHERE id > 100 ORDER BY id DESC",
    "DELETE FROM t WHERE id % 10 = 3",
    "INSERT INTO pairs SELECT seq % 5, CONCAT('k', seq), REPEAT('lorem ipsum ', seq * 200) FROM seq_1_to_60",
    "COMMIT",
    "ALTER TABLE t ADD COLUMN late INT(5) ZEROFILL NULL AFTER id, DROP COLUMN part",
    "UPDATE t SET late = id WHERE id < 50",
    "FLUSH BINARY LOGS",
    "UPDATE pairs SET b = CONCAT(b, '!'), a = -a WHERE a > 2",
    "INSERT INTO bag VALUES ('x', 1), ('x', 1), (NULL, 2)",
    "DELETE FROM bag LIMIT 1",
    "BEGIN",
    "INSERT INTO bag VALUES ('kept', 1)",
    "SAVEPOINT s",
    "INSERT INTO bag VALUES ('undone', 1)",
    "ROLLBACK TO s",
    "COMMIT",
    "REPLACE INTO t (id, kind) VALUES (1, 'a'), (1, 'it''s')",
    "INSERT INTO t (id, kind) VALUES (2, 'a') ON DUPLICATE KEY UPDATE id = 9001",
)

GALLERY = (
    "USE d",
    "SET sql_mode = 'STRICT_ALL_TABLES,NO_UNSIGNED_SUBTRACTION'",
    """CREATE TABLE gallery (id BIGINT PRIMARY KEY, t TINYINT, s SMALLINT UNSIGNED, m MEDIUMINT, i INT UNSIGNED, b BIT(12),
       y YEAR, f FLOAT, e DOUBLE, n DECIMAL(50,20), c CHAR(9), v VARCHAR(99) CHARACTER SET latin1, x LONGTEXT,
       g VARBINARY(40), o BLOB, d DATE, w DATETIME(6), z TIMESTAMP(6) NULL, h TIME(3))""",
    """INSERT INTO gallery SELECT seq, seq - 128, seq * 250, -seq * 30000, 4294967295 - seq, seq * 15, 1901 + seq % 250,
       seq / 7 * POW(10, seq % 40 - 20), seq / 3 * POW(-10, seq % 300 - 150), seq / 11, CONCAT('<', seq, '>'),
       CONCAT('café = ', seq, '&''"\\\\'), CONCAT('𠀀', CHAR(9, 10, 0 USING utf8mb4), seq), UNHEX(SHA1(seq)),
       REPEAT(CHAR(seq), seq), DATE_ADD('1000-01-01', INTERVAL seq * 30 MONTH), DATE_ADD('2026-01-05 10:11:12.000001',
       INTERVAL seq MICROSECOND), FROM_UNIXTIME(seq * 8000000.000123), SEC_TO_TIME((seq - 120) * 22000.125) FROM seq_1_to_255""",
    "INSERT INTO gallery (id) VALUES (1000), (1001)",
    "UPDATE gallery SET o = NULL, x = '', g = '' WHERE id % 9 = 0",
    "UPDATE gallery SET id = -id WHERE id % 5 = 0",
    "DELETE FROM gallery WHERE id % 11 = 3",
)


@contextmanager
def worked_server(
    statements: Sequence[str], start: Callable[[], AbstractContextManager[Server]] = private_server
) -> Iterator[Server]:
    """A server of its own that has run the statements, one after the other."""
    with start() as running:
        with running.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        yield running


def transactions_of(server: Server) -> list[Transaction]:
    with private_twin(server, server_id=2) as history, history.connect() as connection:
        return list(read_transactions(server, ReplayedCatalog(connection)))


def dump_of(server: Server, folder: Path, *, tables: int) -> Path:
    """A folder that holds the tables of the database ``d``, which must be so many."""
    assert len(dump_database(server, "d", folder)) == tables
    return folder
