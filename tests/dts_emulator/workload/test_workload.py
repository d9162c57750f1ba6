"""The workload: the same transactions for the same seed, at the rate that was asked for, written down where they ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from dts_emulator.source.server import Server, private_server
from dts_emulator.workload.transactions import Transactions
from dts_emulator.workload.workload_tables import table_number
from tests.tiers import ALL

_COMMAND = (sys.executable, "-W", "error", "-m", "dts_emulator.workload")


def made(seed: int, *, ddl_every: int | None = None) -> Iterator[list[str]]:
    tables = [table_number(number) for number in range(8)]
    return iter(Transactions(tables, Random(seed), most_rows=200, ddl_every=ddl_every))


def test_the_seed_decides_the_transactions() -> None:
    first, again, other = (list(islice(made(seed, ddl_every=300), 400)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_tables_change_only_if_asked() -> None:
    def statements(ddl_every: int | None) -> set[str]:
        transactions = islice(made(3, ddl_every=ddl_every), 3000)
        return {" ".join(statement.split()[:2]) for transaction in transactions for statement in transaction}

    assert not statements(None) & {"ALTER TABLE", "CREATE TABLE"}
    assert statements(300) >= {"ALTER TABLE", "CREATE TABLE"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        yield running


def run(server: Server, database: str, log: Path, *arguments: str) -> list[dict[str, float]]:
    """Run a workload; the lines that it added to the log."""
    before = len(log.read_text().splitlines()) if log.exists() else 0
    command = (*_COMMAND, "--socket", str(server.socket), "--database", database, "--log", str(log), *arguments)
    subprocess.run(command, check=True, timeout=60)
    return [json.loads(line) for line in log.read_text().splitlines()[before:]]


@pytest.mark.more
@pytest.mark.database
def test_the_rate_is_kept_and_the_last_line_is_where_the_binlog_ends(server: Server, tmp_path: Path) -> None:
    lines = run(server, "steady", tmp_path / "log", "--rate", "400", "--seconds", "4")
    seconds, rows = lines[-1]["time"] - lines[0]["time"], lines[-1]["rows"] - lines[0]["rows"]
    assert rows / seconds / 400 < 1.15
    assert len(lines) < 25
    if ALL:  # a busy machine is slower than it was asked to be
        assert rows / seconds / 400 > 0.85
        assert len(lines) > 12
    with server.connect(database="steady") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone() or ("", 0)
        assert (lines[-1]["file"], lines[-1]["position"]) == (file, position)
        cursor.execute("SELECT @@gtid_binlog_pos")
        assert str(lines[-1]["gtid"]).rpartition(":")[2] == str((cursor.fetchone() or ("",))[0]).rpartition("-")[2]
        cursor.execute("SELECT (SELECT SUM(balance) FROM checking) + (SELECT SUM(balance) FROM savings)")
        assert cursor.fetchone() == (200_000,)
        cursor.execute("SELECT COUNT(DISTINCT balance) FROM checking")
        assert (cursor.fetchone() or (0,))[0] > 1


@pytest.mark.more
@pytest.mark.database
def test_a_workload_goes_on_with_the_tables_of_an_earlier_one(server: Server, tmp_path: Path) -> None:
    """Also with those that were altered and added; it does not forget rows, or tables would grow beyond their size."""
    arguments = ("--rate", "3000", "--tables", "10", "--most-rows", "100", "--ddl")
    log = tmp_path / "log"
    command = (*_COMMAND, "--socket", str(server.socket), "--database", "grown", "--log", str(log), *arguments)
    with subprocess.Popen(command) as first:
        time.sleep(4)
        first.send_signal(signal.SIGTERM)
        assert first.wait(10) == 0
    earlier = json.loads(log.read_text().splitlines()[-1])["rows"]
    with log.open("a") as torn:
        torn.write('{"time": 17')
    lines = run(server, "grown", log, *arguments, "--seconds", "2", "--seed", "2")
    assert lines[0]["rows"] > earlier
    with server.connect(database="grown") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT SUM(TABLE_ROWS) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'grown'")
        assert (cursor.fetchone() or (0,))[0] < 10 * 100 * 3
