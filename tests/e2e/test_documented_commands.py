"""The commands of README and docs run as they stand there, in a checkout of their own and in a shell without a keyboard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import CHEAP, ENTER, IN_ORDER

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands name; nothing has run in it yet."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pipeline.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("dagster_home/dagster.yaml", "registry/shop.json"):
        (folder / name).parent.mkdir()
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell of its own, as README says how to."""
    own = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DTS_ASSETS_CONFIG")}
    return subprocess.run(
        ["bash", "-c", "set -e; " + "; ".join([*ENTER, command])],
        env={**own, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.e2e
@pytest.mark.parametrize("command", CHEAP)
def test_a_command_that_needs_no_lake(command: str, checkout: Path) -> None:
    done = run(command, checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    shows_progress = command.startswith("dts-assets statements --capture")  # it makes changelogs first
    assert bool(done.stderr) == shows_progress, done.stderr


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_commands_of_the_example_in_order(checkout: Path) -> None:
    for command in IN_ORDER:
        done = run(command, checkout)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.stdout + done.stderr, command
