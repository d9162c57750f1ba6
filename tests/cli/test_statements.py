"""The command ``statements`` on the example: what it prints is run by real servers, which then hold the source's content."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_emulator.judge.dump import dump_database
from dts_emulator.source.server import Server, private_server, program

ROOT = Path(__file__).parents[2]
EXAMPLE, EXPECTED = ROOT / "examples" / "shop", ROOT / "examples" / "shop.expected"
BARE = ("--capture", str(EXAMPLE), "--format", "dts-protobuf")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["statements", *arguments])


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The statements of the example for MySQL."""
    file = tmp_path_factory.mktemp("statements") / "shop.sql"
    done = called(*BARE, "--out", str(file))
    assert done.exit_code == 0, done.stderr
    assert "25,787 changes and 14 statements of DDL" in done.stderr
    assert done.stdout == ""
    assert [one.name for one in file.parent.iterdir()] == ["shop.sql"]
    return file


def run_in(server: Server, script: Path, *options: str) -> None:
    """Run a script with MariaDB's own client."""
    client = (
        program("mariadb", "mysql"), "--no-defaults", f"--socket={server.socket}", "-uroot", "--binary-mode",
        "--max-allowed-packet=1G", *options,
    )  # fmt: skip
    with script.open("rb") as lines:
        done = subprocess.run(client, stdin=lines, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-300:]


def contents(folder: Path) -> Mapping[str, Counter[str]]:
    """The rows of dumps, as bags: the server's own texts."""
    return {file.name: Counter(map(repr, pq.read_table(file).to_pylist())) for file in folder.glob("*.parquet")}


@pytest.mark.more
@pytest.mark.database
def test_mariadb_ends_with_the_content_of_the_source(script: Path, tmp_path: Path) -> None:
    """All types, keys that move over Kafka partitions within one UPDATE, a table without a key, and DDL."""
    with private_server(extra=("--skip-log-bin",)) as server:
        run_in(server, script)
        dump_database(server, "shopdb", tmp_path)
    found, expected = contents(tmp_path), contents(EXPECTED)
    assert found.keys() == expected.keys()
    assert sum(map(Counter.total, expected.values())) > 10_000
    assert {name for name in expected if found[name] != expected[name]} == set()


@pytest.mark.more
def test_the_script_is_a_line_for_each_change_and_stdout_has_the_same(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[:4] == [
        "-- capture, 1 windows, mysql",
        "SET NAMES utf8mb4;",
        "SET time_zone = '+00:00';",
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';",
    ]
    changes = [line for line in lines if line.startswith(("INSERT INTO ", "UPDATE ", "DELETE FROM "))]
    assert len(changes) == 25_787
    assert all(line.endswith(";") for line in changes)
    done = called(*BARE, "--table", "shopdb.coupons")
    assert done.exit_code == 0
    coupons = [line for line in changes if " `shopdb`.`coupons` " in line]
    assert [line for line in done.stdout.splitlines() if line in set(coupons)] == coupons
    assert "`orders`" not in done.stdout
    assert re.findall(r"CREATE TABLE (\w+)", done.stdout) == ["coupons"]


@pytest.mark.more
def test_a_dialect_that_cannot_write_some_values_says_so_and_fails_a_check() -> None:
    done = called(*BARE, "--dialect", "postgresql", "--table", "shopdb.customers")
    assert done.exit_code == 3
    refused = [line for line in done.stdout.splitlines() if "no statement for" in line]
    assert len(refused) == 24
    assert f"{len(refused)} of the changes have no statement" in done.stderr
    assert all(line.startswith("-- shopdb.customers: no statement for the ") for line in refused)


@pytest.mark.more
def test_a_reader_that_has_enough_ends_the_command_in_silence() -> None:
    """As ``| head`` does: the pipe is closed before all was written."""
    command = [sys.executable, "-m", "dts_assets", "statements", *BARE]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"-- capture, 1 windows, mysql\n"
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait() == 0
    assert "Traceback" not in said
    assert "Broken" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--capture", str(EXAMPLE)), "Say how the capture is encoded"),
        (("--format", "dts-protobuf"), "name it by --capture"),
        ((*BARE, "--time-zone", "Mars"), "Mars is no time zone"),
        (("nobody",), "there is no subscription nobody"),
        ((*BARE, "--from", "tomorrow"), "tomorrow is no window"),
        ((*BARE, "--dialect", "oracle"), "'oracle' is not one of"),
        (("--capture", str(EXAMPLE), "--format", "dts-avro"), "are read with a schema"),
        ((*BARE, "--schema", str(EXAMPLE / "part-00000.parquet")), "are read without a schema"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = called(*arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.more
def test_rules_of_a_subscription_hold_for_a_bare_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule keeps out of tables is in no statement either."""
    monkeypatch.setenv("PII_KEY", "a key that nobody guesses")
    rules = """
    columns: {"*.birthday": drop, "*.customers.EMAIL": {hash: {key: "${PII_KEY}"}}, "*.credit": {mask: "***"}}
    rows: {"shopdb.customers": "status = 'active' AND birthday < '2000-01-01'"}
"""
    config = tmp_path / "pipeline.yaml"
    shipped = (ROOT / "pipeline.yaml").read_text()
    config.write_text(shipped.replace("./examples", str(ROOT / "examples")).rstrip() + rules)
    result = called("shop", "--capture", str(EXAMPLE), "--config", str(config), "--table", "shopdb.customers")
    assert result.exit_code == 0, result.output
    inserts = [one for one in result.stdout.splitlines() if one.startswith("INSERT")]
    assert len(inserts) > 5
    assert all("'active'" in one and "'***'" in one for one in inserts)
    changes = [one for one in result.stdout.splitlines() if one.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert not any("@" in one or "birthday" in one for one in changes)
