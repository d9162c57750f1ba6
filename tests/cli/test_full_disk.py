"""A full disk is one sentence and exit code 11, wherever it is met, and the lake is whole afterwards."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PythonException
from sqlalchemy.exc import OperationalError

from dts_assets.cli.main import cli
from dts_assets.errors import DtsAssetsError, LakeTableError
from dts_assets.errors.disks import FullDiskError
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from dts_assets.store import durable
from dts_assets.store.catalog import SqliteCatalog
from dts_assets.store.contention import explained_trouble
from tests.cli.test_maintain import CONFIGURATION
from tests.flows.harness import Harness
from tests.flows.short import items, three_windows
from tests.flows.source import write_capture

SAID = "A disk that this run writes to is full"


def no_room() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def of_sqlite() -> OperationalError:
    return OperationalError("UPDATE iceberg_tables", {}, sqlite3.OperationalError("database or disk is full"))


def of_a_task() -> PythonException:
    return PythonException("Traceback ... OSError: [Errno 28] Error writing bytes. Detail: No space left on device")


def with_cause() -> RuntimeError:
    error = RuntimeError("a value of a row")
    error.__cause__ = of_sqlite()
    return error


@pytest.mark.parametrize(
    "error",
    [no_room(), OSError(errno.EDQUOT, "Disk quota exceeded", "/lake/a"), of_sqlite(), of_a_task(), with_cause()],
)
def test_every_library_that_writes_is_understood(error: Exception) -> None:
    found = explained_trouble(error)
    assert isinstance(found, FullDiskError)
    assert found.exit_code == 11
    assert found.place == (getattr(error, "filename", "") or "")
    assert "a value of a row" not in str(found)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("No space left on device"), OSError(errno.EIO, "broken"), LakeTableError("t", "no space left")],
)
def test_an_error_that_only_speaks_of_it_is_none(error: Exception) -> None:
    found = explained_trouble(error)
    assert found is None or (isinstance(found, DtsAssetsError) and not isinstance(found, FullDiskError))


def made(folder: Path) -> Harness:
    folder.mkdir(parents=True, exist_ok=True)
    write_capture(folder / "capture", three_windows(items()).messages)
    (folder / "pipeline.yaml").write_text(CONFIGURATION)
    harness = Harness(open_pipeline(load_settings(folder / "pipeline.yaml"), "shop"), this_process())
    for number in range(3):
        harness.all(number)
    return harness


def called(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--config", str(folder / "pipeline.yaml")])


@pytest.mark.more
@pytest.mark.parametrize("error", [no_room, of_sqlite])
@pytest.mark.parametrize(
    "command",
    [
        ("maintain", "shop", "--only", "expiry"),
        ("tables", "pause", "bank.items", "--reason", "x"),
        ("tables", "remove", "bank.items"),
    ],
)
def test_a_command_that_writes_ends_with_one_sentence(
    command: tuple[str, ...], error: Callable[[], Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = made(tmp_path)
    rows = harness.everything()

    def full(*_: object, **__: object) -> None:
        raise error()

    with monkeypatch.context() as patched:
        patched.setattr(*((durable, "sync", full) if error is no_room else (SqliteCatalog, "commit_table", full)))
        done = called(tmp_path, *command)
    assert done.exit_code == 11, done.output
    assert SAID in done.output
    assert "Traceback" not in done.output
    assert harness.everything() == rows


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes, where this machine lets tests mount one."""
    place = tmp_path / "small" / "lake"
    place.mkdir(parents=True)
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(file: Path) -> None:
    """Write a file until there is no room."""
    with suppress(OSError), file.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(1 << 12))


@pytest.mark.more
def test_a_disk_that_is_really_full_and_has_room_again(small_disk: Path) -> None:
    folder = small_disk.parent
    harness = made(folder)
    rows, ballast = harness.everything(), small_disk / "ballast"
    fill(ballast)
    done = called(folder, "maintain", "shop")
    assert (done.exit_code, SAID in done.output) == (11, True), done.output
    assert "Traceback" not in done.output
    assert harness.everything() == rows
    ballast.unlink()
    assert called(folder, "maintain", "shop").exit_code == 0
    harness.settle()
    assert harness.everything() == rows
