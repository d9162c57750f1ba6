"""Cases that a real MariaDB judges: tasks read its binlog, and its own SELECT has the rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from dts_emulator.conformance.expected import Built, Case, ExpectedColumn, ExpectedTable
from dts_emulator.conformance.formats import ABILITIES
from dts_emulator.conformance.mysql_cases import CLOCK
from dts_emulator.conformance.plays import AFTERWARDS, stage_of
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.dump_format import METADATA_KEY
from dts_emulator.source.binlog import read_transactions
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import private_server
from dts_emulator.source.source_schema import ReplayedCatalog
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS

_HISTORY_ID = 4_000_000_003
_RULE = "MariaDB itself: rows are what it answers to SELECT"
_BEGINNING = (
    "CREATE DATABASE d",
    "USE d",
    "SET NAMES utf8mb4, time_zone = '+00:00', TIMESTAMP = 1767571200",
)


@dataclass(frozen=True, slots=True)
class Script:
    """Statements in the database ``d``, and the case that is made of them."""

    name: str
    title: str
    trap: str
    statements: tuple[str, ...]


SCRIPTS: tuple[Script, ...] = (
    Script(
        "types_of_a_server", "Columns of most types of MariaDB, at their borders, told as new, as old and as deleted",
        "a type is read in another way than the server means it",
        (
            "SET sql_mode = 'ALLOW_INVALID_DATES'",
            "CREATE TABLE types (id INT PRIMARY KEY, t TINYINT, s SMALLINT UNSIGNED, m MEDIUMINT, i INT UNSIGNED, "
            "b BIGINT UNSIGNED, n DECIMAL(65,30), f FLOAT, e DOUBLE, x BIT(12), y YEAR, d DATE, w DATETIME(6), "
            "z TIMESTAMP(6) NULL, h TIME(3), c CHAR(9), v VARCHAR(99) CHARACTER SET latin1, "
            "g VARCHAR(40) CHARACTER SET gbk, l LONGTEXT, k VARBINARY(40), o BLOB, q ENUM('a','it''s','第'), r SET('x','y z'))",
            "INSERT INTO types VALUES (1, -128, 65535, -8388608, 4294967295, 18446744073709551615, "
            "-99999999999999999999999999999999999.999999999999999999999999999999, 0.1, 5e-324, 4095, 2155, '9999-12-31', "
            "'1969-12-31 23:59:59.999999', '2038-01-19 03:14:07.999999', '-838:59:59.500', 'ab  ', 'café €', '第一', '𠀀😀', "
            "X'6100', X'80FF', 'it''s', 'x,y z')",
            "INSERT INTO types VALUES (2, 127, 0, 8388607, 0, 9223372036854775808, 0.000000000000000000000000000001, "
            "-1e10, 1e300, 0, 1901, '0000-00-00', '2026-02-31 00:00:00', '1970-01-01 00:00:01', '838:59:59', '', '', '', '', "
            "X'', X'', '第', '')",
            "INSERT INTO types (id) VALUES (3)",
            "UPDATE types SET id = id + 10",
            "INSERT INTO types SELECT id + 10, t, s, m, i, b, n, f, e, x, y, d, w, z, h, c, v, g, l, k, o, q, r FROM types",
            "DELETE FROM types WHERE id = 21",
        ),
    ),
    Script(
        "busy_tables_of_a_server", "Transactions, savepoints, REPLACE, ON DUPLICATE KEY and statements on three tables",
        "changes that one statement of the source makes are taken for one change",
        (
            "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40), n INT)",
            "CREATE TABLE bag (word VARCHAR(10), n INT)",
            "CREATE TABLE pairs (a INT, b CHAR(8), c LONGTEXT, PRIMARY KEY (b, a))",
            "INSERT INTO t SELECT seq, CONCAT('第', seq), seq % 7 FROM seq_1_to_200",
            "BEGIN",
            "UPDATE t SET id = id + 1 WHERE id > 100 ORDER BY id DESC",
            "DELETE FROM t WHERE id % 10 = 3",
            "INSERT INTO pairs SELECT seq % 5, CONCAT('k', seq), REPEAT('lorem ', seq * 20) FROM seq_1_to_40",
            "COMMIT",
            "SET TIMESTAMP = 1767571260",
            "ALTER TABLE t ADD COLUMN late INT NOT NULL DEFAULT 7 AFTER id",
            "UPDATE t SET late = id WHERE id < 50",
            "UPDATE pairs SET b = CONCAT(b, '!'), a = -a WHERE a > 2",
            "INSERT INTO bag VALUES ('x', 1), ('x', 1), (NULL, 2), ('', 2)",
            "DELETE FROM bag LIMIT 1",
            "BEGIN",
            "INSERT INTO bag VALUES ('kept', 1)",
            "SAVEPOINT s",
            "INSERT INTO bag VALUES ('undone', 1)",
            "ROLLBACK TO s",
            "COMMIT",
            "REPLACE INTO t (id, n) VALUES (1, 1), (1, 2)",
            "INSERT INTO t (id, n) VALUES (2, 3) ON DUPLICATE KEY UPDATE id = 9001",
        ),
    ),
)  # fmt: skip


def server_cases() -> tuple[Case, ...]:
    """Return a case for each script, which a server of its own has run.

    Raises:
        EmulatorError: No server starts.
    """
    return tuple(_case(script) for script in SCRIPTS)


def _case(script: Script) -> Case:
    transactions, tables = _run(script)

    def built(name: str) -> Built:
        abilities, vendor = ABILITIES[name], VENDOR_TASKS[name]
        stage = stage_of(name, {"source_time_zone": CLOCK} if abilities.wall_clock else {})
        until = transactions[-1].end.timestamp + AFTERWARDS
        return Built(
            messages=tuple(vendor.recording(transactions, stage.options, until)),
            tables=tuple(one.cut_to_milliseconds() for one in tables) if abilities.milliseconds else tuple(tables),
            source_type="MariaDB",
            time_zone="+08:00" if abilities.wall_clock else "+00:00",
            schema=None if vendor.schema is None else vendor.schema(),
            judged_by="a MariaDB",
        )

    return Case(script.name, script.title, script.trap, _RULE, tuple(ABILITIES), built)


def _run(script: Script) -> tuple[list[Transaction], list[ExpectedTable]]:
    with private_server() as server, private_server(server_id=_HISTORY_ID) as history:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in (*_BEGINNING, *script.statements):
                cursor.execute(statement)
        with history.connect() as connection:
            transactions = list(read_transactions(server, ReplayedCatalog(connection)))
        with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
            return transactions, _tables(dump_database(server, "d", Path(folder)))


def _tables(files: Sequence[Path]) -> list[ExpectedTable]:
    found = []
    for file in files:
        table = pq.read_table(file)
        described = json.loads(table.schema.metadata[METADATA_KEY])
        columns = tuple(ExpectedColumn(one["name"], one["type"]) for one in described["columns"])
        keys = tuple(one["name"] for one in described["columns"] if one["key"])
        rows = tuple(table.to_pylist())
        found.append(ExpectedTable(described["database"], "", described["table"], columns, keys, rows))
    return found
