"""Imports go one way, and only settings look at the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGE = HOUSE / "dts_assets"

KNOWS_DAGSTER = ("defs/", "definitions.py", "cli/run.py", "cli/redrive.py", "cli/demo.py")

READS_ENVIRONMENT = {
    "settings/load.py": "the one reader: the configuration file's place, and ${NAME} in it",
    "store/session.py": "sets PYSPARK_PYTHON and SPARK_LOCAL_IP, which Spark has no other way to be told, and finds JAVA_HOME",
    "defs/event_log.py": "sets how many events Dagster writes at once, which it can be told in no other way",
    "store/connect.py": "starts the server with its own environment, less the address of another server",
    "cli/live_processes.py": "gives the processes that it starts its own environment and a mark",
    "emulator/server.py": "finds the programs of MariaDB on PATH",
    "emulator/broker_files.py": "finds Java below JAVA_HOME",
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(PACKAGE / "protocol"))


def room_path(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def reads_environment(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "putenv", "expandvars"):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return any(alias.name in ("environ", "environb", "getenv", "putenv") for alias in node.names)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "EnvVar":
            return True
    return False


def test_every_contract_of_import_directions_holds() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-logo", "--no-cache"], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", modules(), ids=room_path)
def test_dagster_is_imported_by_definitions_and_the_command_that_starts_it(path: Path) -> None:
    names = {name.partition(".")[0] for name in imported(ast.parse(path.read_text()))}
    if any(name == "dagster" or name.startswith("dagster_") for name in names):
        assert room_path(path).startswith(KNOWS_DAGSTER)


def test_only_settings_read_the_environment() -> None:
    readers = {room_path(path) for path in modules() if reads_environment(ast.parse(path.read_text()))}
    assert readers <= set(READS_ENVIRONMENT)


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("import os\nos.environ['A']", True),
        ("import os\nos.getenv('A')", True),
        ("from os import environ", True),
        ("from os import path", False),
        ("import dagster as dg\ndg.EnvVar('A')", True),
        ("environment = {}", False),
    ],
)
def test_reading_the_environment_is_recognized(code: str, *, reads: bool) -> None:
    assert reads_environment(ast.parse(code)) is reads


def test_no_import_is_relative() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), room_path(path)
