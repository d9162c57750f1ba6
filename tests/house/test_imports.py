"""Imports go one way, and only settings look at the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGES = (HOUSE / "dts_assets", HOUSE / "dts_emulator")

KNOWS_DAGSTER = ("dts_assets/defs/", "dts_assets/definitions.py", "dts_assets/cli/dagster_runs.py")

LABORATORY_KNOWS = {
    "judge": {"model"},
    "live": {"errors", "flows", "model", "planning", "settings"},
    "commands": {"cli", "flows", "settings"},
}
"""Rooms of the product that a room of the laboratory imports; those that are not named here import ``model`` and ``protocol``."""

READS_ENVIRONMENT = {
    "dts_assets/settings/load.py": "the configuration file's place, Dagster's home, and ${NAME} in the file",
    "dts_assets/settings/environment.py": "JAVA_HOME, what Spark and Dagster are told by, environments of child processes",
    "dts_emulator/machine/process_environment.py": "JAVA_HOME and environments of child processes, for the laboratory",
}


PICKLES = {"dts_assets/flows/spark_tasks.py"}
"""Tasks and their results travel between driver and workers of one run. What is stored is never pickled: whoever writes the lake
could run code here, and a class that moves would break what was stored."""


def modules() -> list[Path]:
    found = (path for package in PACKAGES for path in package.rglob("*.py"))
    return sorted(path for path in found if path.parent.name != "protocol")


def room_path(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports; ``from package import name`` gives ``package.name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def reads_environment(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "putenv", "expandvars"):
            return True
        names = (
            {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) and node.module == "os" else set()
        )
        if names & {"environ", "environb", "getenv", "putenv"}:
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "EnvVar":
            return True
        if isinstance(node, ast.keyword) and node.arg in ("envvar", "auto_envvar_prefix"):
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


def test_the_product_never_imports_the_laboratory() -> None:
    found = {
        f"{room_path(path)} imports {name}"
        for path in modules()
        if path.is_relative_to(HOUSE / "dts_assets")
        for name in imported(ast.parse(path.read_text()))
        if name.split(".")[0] == "dts_emulator"
    }
    assert found == set()


def test_a_room_of_the_laboratory_imports_only_its_rooms_of_the_product() -> None:
    imports: dict[str, set[str]] = {}
    for path in modules():
        if path.is_relative_to(HOUSE / "dts_emulator"):
            room = path.relative_to(HOUSE / "dts_emulator").parts[0]
            names = (name.split(".") for name in imported(ast.parse(path.read_text())))
            imports.setdefault(room, set()).update(name[1] for name in names if name[0] == "dts_assets")
    for room, known in imports.items():
        assert known <= LABORATORY_KNOWS.get(room, {"model", "protocol"}), room
    for room, known in LABORATORY_KNOWS.items():
        assert known <= imports[room], room


def test_only_settings_read_the_environment() -> None:
    readers = {room_path(path) for path in modules() if reads_environment(ast.parse(path.read_text()))}
    assert readers == set(READS_ENVIRONMENT), "one more that reads, or one that need not be named any more"


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("import os\nos.environ['A']", True),
        ("import os\nos.getenv('A')", True),
        ("from os import environ", True),
        ("from os import path", False),
        ("import dagster as dg\ndg.EnvVar('A')", True),
        ("import click\nclick.option('--a', envvar='A')", True),
        ("from os import path\nfrom os import environ", True),
        ("environment = {}", False),
    ],
)
def test_reading_the_environment_is_recognized(code: str, *, reads: bool) -> None:
    assert reads_environment(ast.parse(code)) is reads


def test_only_tasks_under_way_are_pickled() -> None:
    picklers = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    found = {
        room_path(path)
        for path in modules()
        if any(name.partition(".")[0] in picklers for name in imported(ast.parse(path.read_text())))
    }
    assert found == PICKLES


def test_no_import_is_relative() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), room_path(path)
