"""The laboratory's commands are in ``dts-assets``: listed without the extra's packages, and clear about what is missing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from tests.tiers import chosen

HOUSE = Path(__file__).parents[3]
NAMES = ("demo", "faults", "freshness", "live")

WITHOUT_THE_EXTRA = """\
import sys
sys.modules["pymysql"] = sys.modules["pymysqlreplication"] = None
from dts_assets.cli.main import main
sys.argv = ["dts-assets", *sys.argv[1:]]
main()
"""
"""A `dts-assets` on a machine where the packages of the extra are not installed."""


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, *arguments]
    return subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)


def test_the_project_names_the_commands_and_they_are_there() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    named: dict[str, str] = project["entry-points"]["dts_assets.commands"]
    assert sorted(named) == list(NAMES)
    assert {entry.name: entry.value for entry in entry_points(group="dts_assets.commands")} == named
    for name, place in named.items():
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        assert command.name == name


@pytest.mark.more
def test_help_lists_the_commands_without_the_packages_of_the_extra() -> None:
    done = without_the_extra("--help")
    assert (done.returncode, done.stderr) == (0, "")
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and line.split()}
    assert set(NAMES) <= listed


@pytest.mark.parametrize("name", chosen(NAMES, 2))
def test_help_of_a_command_needs_no_package_of_the_extra(name: str) -> None:
    done = without_the_extra(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"dts-assets {name}" in done.stdout


@pytest.mark.more
def test_a_command_that_needs_a_missing_package_says_how_to_install_it(tmp_path: Path) -> None:
    done = without_the_extra("live", "--folder", str(tmp_path / "live"), "--port", "0")
    assert done.returncode == 13
    assert done.stdout == ""
    assert done.stderr == (
        "The package pymysql is not installed, and this command needs it: "
        "install the extra, pip install 'dts-assets[emulator]'.\n"
    )
    assert not (tmp_path / "live").exists()


@pytest.mark.more
def test_a_command_that_needs_no_missing_package_works_without_the_extra(tmp_path: Path) -> None:
    shop = HOUSE / "examples" / "shop"
    done = without_the_extra("faults", str(shop), str(tmp_path / "out"), "--kinds", "drop", "--count", "1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "options", [["--port", "abc"], ["--port", "65536"], ["--port", "-1"], ["--rate", "0"], ["--tables", "1"]]
)
def test_a_number_that_cannot_be_ends_make_live_with_one_sentence(tmp_path: Path, options: list[str]) -> None:
    result = CliRunner().invoke(cli, ["live", "--folder", str(tmp_path / "live"), "--seconds", "1", *options])
    assert result.exit_code == 2
    assert f"Invalid value for '{options[0]}'" in result.stderr
    assert not (tmp_path / "live").exists()


def test_a_live_pipeline_of_a_format_that_nobody_writes_is_refused() -> None:
    refused = CliRunner().invoke(cli, ["live", "--format", "nothing"])
    assert (refused.exit_code, "write one of dts-protobuf, dts-avro, dts-json, drs-avro" in refused.output) == (
        2,
        True,
    ), refused.output
