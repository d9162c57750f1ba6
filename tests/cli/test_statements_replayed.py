"""A script of a database that does everything to its tables, in each format, run by a second MariaDB: the contents are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dts_emulator.judge.dump import dump_database
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.cli.test_statements import called, contents, run_in

pytestmark = pytest.mark.database

KEYS_THAT_MOVE = (
    "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(40), u INT, UNIQUE KEY (u))",
    "INSERT INTO plain SELECT seq, CONCAT('r', seq), seq * 10 FROM seq_1_to_60",
    "UPDATE plain SET id = id + 1 ORDER BY id DESC",
    "UPDATE plain SET id = id - 1 ORDER BY id",
    "UPDATE plain SET id = -id",
    "UPDATE plain SET id = -id + 1000",
    "REPLACE INTO plain VALUES (1001, 'rep', 1), (1002, 'rep2', 2)",
    "INSERT INTO plain VALUES (1003, 'dup', 3) ON DUPLICATE KEY UPDATE a = 'dup', u = u + 1000",
    "CREATE TABLE k2 (a INT, b VARBINARY(9), c INT, PRIMARY KEY (b, a))",
    "INSERT INTO k2 VALUES (1, x'00', 1), (1, x'0000', 2), (1, '', 3)",
    "UPDATE k2 SET c = 9 WHERE b = ''",
    "DELETE FROM k2 WHERE b = x'00'",
)
COLUMNS_THAT_COME_AND_GO = (
    "ALTER TABLE plain ADD COLUMN late INT NOT NULL DEFAULT 7",
    "INSERT INTO plain (id, a) VALUES (1, 'x')",
    "ALTER TABLE plain DROP COLUMN late",
    "INSERT INTO plain (id, a) VALUES (2, 'y')",
    "ALTER TABLE plain CHANGE COLUMN a b VARCHAR(50) CHARACTER SET latin1 AFTER u",
    "INSERT INTO plain VALUES (3, 3333, 'z')",
    "UPDATE plain SET b = 'café' WHERE id < 3",
    "ALTER TABLE plain RENAME TO renamed",
    "INSERT INTO renamed VALUES (4, 4444, 'w')",
    "DELETE FROM renamed WHERE id = 3",
)
VALUES = (
    "0.1, 0.1, '2026-01-01', '01:00:00.5', 1.5, x'01', 2020, b'1', 'p', 'a,b', "
    "'2026-01-01 00:00:00.001', '2026-01-01 00:00:00.5'"
)
ROWS_WITHOUT_A_KEY = (
    "CREATE TABLE bag (a VARCHAR(20), f FLOAT, g DOUBLE, d DATE, t TIME(6), n DECIMAL(20,5), b BINARY(4), y YEAR, x BIT(64), "
    "e ENUM('p', 'q'), s SET('a', 'b'), w DATETIME(6), z TIMESTAMP(6) NULL)",
    f"INSERT INTO bag VALUES ('tea', {VALUES}), ('Tea', {VALUES}), ('tea ', {VALUES})",
    "INSERT INTO bag (a) VALUES (NULL), (NULL), ('')",
    "INSERT INTO bag SELECT * FROM bag",
    "INSERT INTO bag (a, d, w, y, e) VALUES ('zero', '0000-00-00', '0000-00-00 00:00:00', 0, 'nope'), "
    "('inv', '2026-02-31', '2026-02-31 01:02:03', 0000, '')",
    "INSERT INTO bag (a, x, n) VALUES ('bits', 18446744073709551615, -0.00001)",
    "DELETE FROM bag WHERE a = BINARY 'Tea' LIMIT 1",
    "DELETE FROM bag WHERE a IS NULL LIMIT 1",
    "UPDATE bag SET f = f * 3 WHERE a = BINARY 'tea ' LIMIT 1",
    "UPDATE bag SET a = 'zeroed' WHERE d = '0000-00-00'",
    "DELETE FROM bag WHERE a = 'inv'",
    "UPDATE bag SET a = NULL WHERE a = ''",
    "CREATE TABLE nokey (a INT, j JSON)",
    """INSERT INTO nokey VALUES (1, '{"a": 1}'), (2, NULL)""",
    "DELETE FROM nokey WHERE a = 1",
    "ALTER TABLE nokey ADD PRIMARY KEY (a)",
    "UPDATE nokey SET a = 3, j = '[]'",
    "ALTER TABLE nokey DROP PRIMARY KEY",
    "INSERT INTO nokey VALUES (3, '[]')",
    "DELETE FROM nokey WHERE a = 3 LIMIT 1",
)
NAMES_AND_TEXTS = (
    'CREATE TABLE `we``ird "t;--` (`k``ey` VARCHAR(30) COLLATE utf8mb4_bin, `sel ect` TEXT, `中;` BLOB, PRIMARY KEY (`k``ey`)) '
    "COMMENT 'a;b'",
    "INSERT INTO `we``ird \"t;--` VALUES ('a\\'b\\\\', 'line\nbreak\r\t\\0 \\\\ ; -- x', x'00ff'), ('\\n', '', ''), "
    "(' lead', NULL, NULL), ('🚲', '\u2028', NULL)",
    "UPDATE `we``ird \"t;--` SET `k``ey` = CONCAT(`k``ey`, '\\\\') ORDER BY `k``ey` DESC",
    "DELETE FROM `we``ird \"t;--` WHERE `k``ey` LIKE ' %'",
)
WORK_OF_THE_SERVER = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "INSERT INTO parent VALUES (1), (2), (3)",
    "INSERT INTO child VALUES (10, 1), (11, 1), (20, 2)",
    "DELETE FROM parent WHERE id = 1",
    "UPDATE parent SET id = 22 WHERE id = 2",
    "CREATE TABLE audited (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
    "CREATE TRIGGER tr AFTER INSERT ON audited FOR EACH ROW BEGIN INSERT INTO audit (what) VALUES (CONCAT('i', NEW.id)); END",
    "INSERT INTO audited VALUES (1, 1), (2, 2)",
    "CREATE PROCEDURE p() BEGIN INSERT INTO audited VALUES (3, 3); DELETE FROM audited WHERE id = 1; END",
    "CALL p()",
    "CREATE TABLE gen (id INT PRIMARY KEY, a INT, b INT AS (a * 2) STORED, c INT AS (a + 1) VIRTUAL)",
    "INSERT INTO gen (id, a) VALUES (1, 1), (2, 2)",
    "UPDATE gen SET a = 5 WHERE id = 1",
    "CREATE TABLE auto (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "INSERT INTO auto VALUES (0, 1)",
    "INSERT INTO auto (v) VALUES (2)",
    "CREATE VIEW seen AS SELECT id FROM auto",
)
TABLES_THAT_COME_AND_GO = (
    "CREATE TABLE emptied (id INT PRIMARY KEY)",
    "INSERT INTO emptied VALUES (1), (2)",
    "TRUNCATE emptied",
    "INSERT INTO emptied VALUES (2)",
    "DROP TABLE emptied",
    "CREATE TABLE emptied (id INT PRIMARY KEY, more INT)",
    "INSERT INTO emptied VALUES (2, 3)",
    "CREATE DATABASE `other db`",
    "CREATE TABLE `other db`.t (id INT PRIMARY KEY)",
    "INSERT INTO `other db`.t VALUES (1)",
    "USE `other db`",
    "ALTER TABLE t ADD x INT",
    "INSERT INTO t VALUES (2, 2)",
    "DROP TABLE t",
    "CREATE TABLE t (z INT)",
    "INSERT INTO t VALUES (5), (5)",
    "DELETE FROM t LIMIT 1",
    "DROP DATABASE `other db`",
    "CREATE DATABASE e",
    "USE e",
    "CREATE TABLE t (id INT PRIMARY KEY, c CHAR(5), v VARCHAR(5))",
    "INSERT INTO t VALUES (1, 'a  ', 'a  ')",
    "DROP TABLE IF EXISTS nothing",
    "RENAME TABLE t TO d.moved",
    "INSERT INTO d.moved VALUES (2, '', '')",
)
WORK = (
    "CREATE DATABASE d", "USE d", "SET sql_mode = 'ALLOW_INVALID_DATES'", *KEYS_THAT_MOVE, *COLUMNS_THAT_COME_AND_GO,
    *ROWS_WITHOUT_A_KEY, *NAMES_AND_TEXTS, *WORK_OF_THE_SERVER, *TABLES_THAT_COME_AND_GO,
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A server with its work done, and the dump of its content."""

    server: Server
    content: Mapping[str, Counter[str]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    folder = tmp_path_factory.mktemp("content")
    with private_server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in WORK:
                cursor.execute(statement)
        dump_database(server, "d", folder)
        yield Source(server, contents(folder))


@pytest.mark.parametrize(
    ("wire_format", "options"),
    [
        ("dts-protobuf", {"partitions": 4}),
        pytest.param("dts-protobuf", {"partitions": 4, "key_change_routing": "new"}, marks=pytest.mark.long),
        pytest.param("dts-avro", {"partitions": 3}, marks=pytest.mark.long),
        pytest.param("dts-json", {"partitions": 3}, marks=pytest.mark.long),
        pytest.param(
            "drs-json", {"partitions": 4, "partition_policy": 2, "rows_per_message": 7}, marks=pytest.mark.long
        ),
        pytest.param("drs-json-c", {"partitions": 4, "partition_policy": 2}, marks=pytest.mark.long),
    ],
)
def test_the_second_server_has_the_content_of_the_first(
    source: Source, wire_format: str, options: dict[str, Any], tmp_path: Path
) -> None:
    vendor = VENDOR_TASKS[wire_format]
    write_capture(record(source.server, vendor.options(**options)), tmp_path / "capture", topic="t")
    arguments = ["--capture", str(tmp_path / "capture"), "--format", wire_format, "--time-zone", "+00:00"]
    if vendor.schema is not None:
        (tmp_path / "Record.avsc").write_bytes(vendor.schema())
        arguments += ["--schema", str(tmp_path / "Record.avsc")]
    done = called(*arguments, "--out", str(tmp_path / "d.sql"))
    assert done.exit_code == 0, done.stderr
    with private_server(extra=("--skip-log-bin",)) as other:
        run_in(other, tmp_path / "d.sql")
        dump_database(other, "d", tmp_path / "found")
    found = contents(tmp_path / "found")
    assert found.keys() == source.content.keys()
    assert len(found) == 13
    assert {name: found[name] - source.content[name] for name in found if found[name] != source.content[name]} == {}
