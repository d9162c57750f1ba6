"""What lies in the repository: no address of an index, no path of a machine, and every module says what it knows."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

HOUSE = Path(__file__).parents[2]

INDEX_ADDRESS = re.compile(
    r"https?://[^\s\"')]*(/simple\b|/maven2\b|/packages/[0-9a-f]{2}/|registry|/debian\b)"
    r"|(?<![\w-])--(extra-)?index-url|(?<![\w-])--find-links|(?<![\w.])(pypi|repo1?\.maven)\.(org|apache)"
)
MACHINE_PATH = re.compile(r"(?<![\w.\-$}/])/(work|root|srv|Users)/\w|(?<![\w.\-$}/])/home/(?!user\b)\w")
LARGEST = 3_000_000
LONGEST_MODULE = 450
"""The soft limit is 400 lines; what is beyond this one must be taken apart."""


def tracked() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (HOUSE / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=HOUSE, capture_output=True, check=True).stdout
    paths = [HOUSE / name.decode() for name in listed.split(b"\0") if name]
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(HOUSE)}:{number}: {line.strip()[:120]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def python_modules() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and "protocol" not in path.parts]


def test_no_file_names_a_package_index() -> None:
    assert lines_with(INDEX_ADDRESS) == []


def test_no_file_holds_a_path_of_a_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install --index-url x", True),
        ("--no-emit-index-url --no-emit-find-links", False),
        ("see https://host/simple/numpy", True),
        ("https://www.apache.org/licenses/LICENSE-2.0", False),
    ],
)
def test_index_addresses_are_recognized(line: str, *, found: bool) -> None:
    assert bool(INDEX_ADDRESS.search(line)) is found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('Path("/Users/x")', True),
        ("cd /srv/x", True),
        ("./srv/x", False),
        ("a/srv/b", False),
        ("/home/user/x", False),
    ],
)
def test_machine_paths_are_recognized(line: str, *, found: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is found


def test_no_file_is_large() -> None:
    assert [str(path) for path in tracked() if path.stat().st_size > LARGEST] == []


def test_every_module_opens_by_saying_what_it_knows() -> None:
    silent = [
        str(path.relative_to(HOUSE)) for path in python_modules() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_module_is_a_drawer_for_everything() -> None:
    assert [str(path) for path in python_modules() if path.stem in ("utils", "common", "helpers", "misc")] == []


def test_no_module_is_too_long_to_read() -> None:
    lengths = {str(path.relative_to(HOUSE)): len(path.read_text().splitlines()) for path in python_modules()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_every_room_has_its_tests() -> None:
    product = {path.parent.name for path in (HOUSE / "dts_assets").glob("*/__init__.py")} - {"protocol"}
    laboratory = {f"dts_emulator/{path.parent.name}" for path in (HOUSE / "dts_emulator").glob("*/__init__.py")}
    without = {room for room in product | laboratory if not any((HOUSE / "tests" / room).glob("test_*.py"))}
    assert without == set()


def test_test_folders_are_no_packages() -> None:
    assert [str(path) for path in python_modules() if path.name == "__init__.py" and "tests" in path.parts] == []


def test_make_help_lists_every_target() -> None:
    text = (HOUSE / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.M))
    phony = re.search(r"^\.PHONY: (.*)$", text, re.M)
    assert phony is not None
    assert targets == set(phony.group(1).split())
    shown = subprocess.run(["make", "help"], cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    assert targets == {line.split()[1] for line in shown.splitlines()}
    assert {"help", "setup", "demo", "test", "dev", "check"} <= targets


def test_continuous_integration_runs_two_tiers_of_tests() -> None:
    commands = [line for line in (HOUSE / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[0] == "set -euo pipefail"
    assert commands[-2:] == ["make test", "make test-more"]
    assert (HOUSE / ".ci" / "run").stat().st_mode & 0o111


def test_the_workspace_names_the_location_that_sensors_are_known_by() -> None:
    workspace = yaml.safe_load((HOUSE / "workspace.yaml").read_text())
    (location,) = workspace["load_from"]
    assert location["python_module"]["location_name"] == "dts_assets"
    # A block of either name would take precedence over workspace.yaml, and name the location after the module.
    assert not re.search(r"^\[tool\.(dagster|dg)\b", (HOUSE / "pyproject.toml").read_text(), re.M)


def test_only_the_instance_settings_are_tracked_in_dagster_home() -> None:
    assert [path.name for path in tracked() if path.parent.name == "dagster_home"] == ["dagster.yaml"]
