"""Commands whose reader has gone, whose output cannot be written, or that a person stops, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dts_emulator.machine.waiting import wait_until
from tests.shop_example import ROOT, shop_config

EXAMPLE = str(ROOT / "examples" / "shop")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return shop_config(tmp_path, "coupons", hours=2)


def started(config: Path, *command: str, **pipes: Any) -> subprocess.Popen[bytes]:
    own = {
        "DAGSTER_HOME": str(config.parent / "home"),
        "DTS_ASSETS_CONFIG": str(config),
        "PYTHONWARNINGS": "error",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "dts_assets", *command],
        cwd=ROOT, env={**os.environ, **own}, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **pipes,
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    with process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        return process.wait(), said


PRINTING = (("config", "schema"), ("tables",), ("inspect", "--help"), ("sniff", EXAMPLE), ("size", "shop", "--json"))


@pytest.mark.more(after=1)
@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_reader_that_has_gone_changes_no_code(config: Path, command: tuple[str, ...]) -> None:
    """As ``| true`` does: the pipe is closed before the command prints."""
    end, pipe = os.pipe()
    os.close(end)
    process = started(config, *command, stdout=pipe)
    os.close(pipe)
    assert ended(process) == (0, "")


@pytest.mark.more(after=1)
@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_output_that_cannot_be_written_is_one_sentence_and_1(config: Path, command: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        code, said = ended(started(config, *command, stdout=full))
    assert code == 1
    assert said.startswith("What this command says cannot be written: no space left on device.")
    assert "Traceback" not in said


@pytest.mark.more
@pytest.mark.spark
def test_a_command_that_a_person_stops_is_1(config: Path) -> None:
    """A run with two subscriptions is stopped as a whole, in the middle of the first one."""
    text = config.read_text()
    shop = text[text.index("  shop:\n") :]
    config.write_text(text + shop.replace("  shop:\n", "  again:\n"))
    process = started(config, "run", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"shop_ingest" in process.stdout.readline()
    log = config.parent / "home" / "spark.log"
    assert wait_until(lambda: log.exists() and log.stat().st_size > 0, seconds=60)
    process.send_signal(signal.SIGINT)
    shown = process.stdout.read().decode()
    code, said = ended(process)
    assert (code, "again" in shown + said) == (1, False), said
    assert "Aborted!" in said
    assert "Traceback" not in said
