"""``make live`` for a short while: rows that were committed become visible, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dts_emulator.live.process_guard import sweep, tagged

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.kafka, pytest.mark.e2e]

HOUSE = Path(__file__).parents[2]
TAG = "DTS_ASSETS_TEST_LIVE"


@pytest.fixture
def tag() -> Iterator[str]:
    """What the environment of everything that a test starts has in it."""
    name = uuid4().hex
    yield name
    sweep(f"{TAG}={name}")


def start(folder: Path, tag: str, *options: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "dts_assets",
        "live",
        "--folder",
        str(folder),
        "--port",
        "0",
    ]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DTS_ASSETS_CONFIG")
    }
    return subprocess.Popen(
        [*command, "--rate", "100", "--tables", "4", "--window", "1m", *options],
        env={**environment, TAG: tag}, cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def number(name: str, line: str) -> int:
    found = re.search(rf"{name} ([\d,]+\d|\d)", line)
    assert found is not None, line
    return int(found[1].replace(",", ""))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rows_become_visible_and_nothing_is_left(tmp_path: Path, tag: str) -> None:
    said: list[str] = []
    with start(tmp_path / "live", tag, "--seconds", "600") as live:
        assert live.stdout is not None
        for line in live.stdout:  # one every ten seconds; however busy the machine is, it ends by itself after 600
            said.append(line)
            if "row changes visible" in line and number("row changes visible", line) > 1000:
                live.send_signal(signal.SIGTERM)
                break
        rest = live.stdout.read()
    last = said[-1]
    assert number("row changes visible", last) > 1000, "".join(said)
    assert (live.returncode, "nothing is left running" in rest) == (0, True), rest
    assert "UI http://127.0.0.1:" in last
    assert number("row changes committed", last) >= number("row changes visible", last)
    assert re.search(r"runs \d+ done, 0 failed", last), "".join(said)
    assert tagged(f"{TAG}={tag}") == set()
    assert "password" not in "".join([*said, rest])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sign", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_nothing_is_left_when_it_is_interrupted_or_killed(tmp_path: Path, tag: str, sign: signal.Signals) -> None:
    with start(tmp_path / "live", tag) as live:
        assert live.stdout is not None
        for line in live.stdout:
            if "Everything is up" in line:
                break
        assert len(tagged(f"{TAG}={tag}")) >= 9
        live.send_signal(sign)
        rest = live.stdout.read() if sign is signal.SIGINT else ""
    assert live.returncode == (0 if sign is signal.SIGINT else -9)
    assert ("nothing is left running" in rest) is (sign is signal.SIGINT)
    deadline = time.monotonic() + 60
    while tagged(f"{TAG}={tag}") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert tagged(f"{TAG}={tag}") == set()


@pytest.mark.more
def test_a_folder_with_something_else_in_it_is_not_emptied(tmp_path: Path, tag: str) -> None:
    (tmp_path / "mine.txt").write_text("important")
    with start(tmp_path, tag) as live:
        assert live.stdout is not None
        said = live.stdout.read()
    assert live.returncode == 13
    assert "is not empty and was not made by `make live`" in said
    assert (tmp_path / "mine.txt").read_text() == "important"
