"""Commands that only read work on a lake that nobody can write, and those that write say so."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.store.catalog import LakeLocation, open_catalog
from tests.cli.test_full_disk import made

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose folder, with its lake and its registry, is a read-only file system."""
    folder = tmp_path_factory.mktemp("project")
    made(folder)
    mount = shutil.which("mount")
    steps = (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)])
    if mount is None or any(
        subprocess.run([mount, *one], capture_output=True, check=False).returncode for one in steps
    ):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def called(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--config", str(folder / "pipeline.yaml")], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("size", "shop"), "snapshot"),
        (("inspect", "window", "2026-03-01T10:00"), "10:00"),
        (("inspect", "message", "0", "5"), "offset"),
        (("keys", "shop"), ""),
        (("tables",), "bank.items"),
        (("schema", "bank.items", "--at", "2026-03-01T10:25"), "note"),
        (("statements", "shop", "--dialect", "mysql"), "INSERT"),
    ],
)
def test_commands_that_read(command: tuple[str, ...], said: str, read_only: Path) -> None:
    done = called(read_only, *command)
    assert done.exit_code == 0, done.output
    assert said in done.output


def test_tables_as_of_a_moment_are_written_elsewhere(read_only: Path, tmp_path: Path) -> None:
    done = called(read_only, "as-of", "shop", "--window", "2026-03-01-10:00", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("command", [("maintain", "shop"), ("tables", "pause", "bank.items", "--reason", "x")])
def test_commands_that_write_say_so(command: tuple[str, ...], read_only: Path) -> None:
    done = called(read_only, *command)
    assert (done.exit_code, "Traceback" in done.output) == (11, False), done.output
    assert "cannot be written: read-only file system" in done.output


def test_a_catalog_that_can_be_written_is_opened_as_ever(tmp_path: Path) -> None:
    catalog = open_catalog(LakeLocation(str(tmp_path / "lake"), only_read=True))
    catalog.create_namespace("shop")
    assert catalog.list_namespaces() == [("shop",)]
