"""The scripts behind the Makefile say in one sentence what is in the way."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]


def test_a_busy_port_is_one_sentence_before_anything_starts() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        command = [sys.executable, "scripts/check_port.py", str(port), "Dagster"]
        done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 13
    assert done.stderr.startswith(f"Port {port} is in use, so Dagster cannot start there.")
    assert done.stderr.count("\n") == 1
    free = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    assert (free.returncode, free.stderr) == (0, "")


@pytest.mark.parametrize("port", ["abc", "", "0", "-1", "65536", "99999999999999999999", "3000 ", "٣"])
def test_a_port_that_is_none_is_one_sentence(port: str) -> None:
    command = [sys.executable, "scripts/check_port.py", port, "Dagster"]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"PORT={port} is no port: write a number from 1 to 65535")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A copy of what setup reads, and a PATH without Java, MariaDB, apt-get and sudo."""
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(HOUSE / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    shutil.copy(HOUSE / "scripts" / "setup.sh", tmp_path / "scripts" / "setup.sh")
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "env", "dirname", "sed", "head", "grep", "cut", "cat", "sha256sum", "id"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def set_up(machine: Path) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    environment = {"PATH": str(machine / "bin"), "PYTHON": sys.executable, "HOME": str(machine)}
    return subprocess.run(
        [bash, "scripts/setup.sh"], cwd=machine, env=environment, capture_output=True, text=True, check=False
    )


def fake_java(machine: Path, version: str) -> None:
    java = machine / "bin" / "java"
    java.write_text(f"#!/usr/bin/env bash\necho 'openjdk version \"{version}\" 2024-04-16' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", [None, "11.0.2", "1.8.0_402"])
def test_a_missing_or_old_java_that_cannot_be_installed_is_one_sentence(
    bare_machine: Path, version: str | None
) -> None:
    if version is not None:
        fake_java(bare_machine, version)
    done = set_up(bare_machine)
    assert done.returncode == 13
    assert done.stderr.startswith("setup: Java 17 or newer is missing")
    assert done.stderr.count("\n") == 1


def test_a_missing_python_is_one_sentence(bare_machine: Path) -> None:
    fake_java(bare_machine, "17.0.15")
    bash = shutil.which("bash")
    assert bash is not None
    environment = {"PATH": str(bare_machine / "bin"), "HOME": str(bare_machine)}
    done = subprocess.run(
        [bash, "scripts/setup.sh"], cwd=bare_machine, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 13
    assert done.stderr.splitlines()[-1].startswith("setup: Python 3.11 to 3.13")


def test_setting_up_again_does_nothing_until_the_lock_changes(bare_machine: Path) -> None:
    fake_java(bare_machine, "21.0.2")
    python = bare_machine / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/usr/bin/env bash\necho "$*" >> {bare_machine / "calls"}\n')
    python.chmod(0o755)

    first = set_up(bare_machine)
    assert first.returncode == 0
    calls = (bare_machine / "calls").read_text()
    assert "--require-hashes" in calls
    assert "fetch_jars" in calls

    again = set_up(bare_machine)
    assert (again.returncode, again.stdout + again.stderr) == (0, "")
    assert (bare_machine / "calls").read_text() == calls

    with (bare_machine / "requirements.lock").open("a") as lock:
        lock.write("# another\n")
    assert "installing the locked packages" in set_up(bare_machine).stderr
