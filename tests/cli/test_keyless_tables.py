"""``dts-assets run`` on a topic with a table that has a UNIQUE key alone, of which the server sends minimal images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dts_assets.cli.idle import AS_NAMED
from dts_assets.model.problems import Reason
from tests.cli.test_unproven_tables import CONFIG
from tests.flows.history import START, border
from tests.flows.short import LANES
from tests.flows.source import write_capture
from tests.flows.test_matched_rows import EXPECTED, LEVELS, NAME, journal, levels, quarantine, snapshot
from tests.shop_example import ROOT, shop_of

pytestmark = [pytest.mark.more, pytest.mark.spark]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_capture(tmp_path / "capture", journal().messages)
    path, end = tmp_path / "pipeline.yaml", border(3)
    path.write_text(CONFIG.format(folder=tmp_path, lanes=LANES, start=START.isoformat(), end=end.isoformat()))
    (tmp_path / "home").mkdir()
    return path


def run_command(config: Path) -> tuple[int, str]:
    environment = {**os.environ, "DAGSTER_HOME": str(config.parent / "home"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "dts_assets", "run", "--config", str(config)],
        capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=500,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_rows_are_right_and_changes_that_may_mean_several_are_named(config: Path) -> None:
    """Two windows have such a change, so that the command ends with 3, also when nothing is left to do."""
    for _ in range(2):
        code, said = run_command(config)
        assert code == 3, said
        lines = [line for line in said.splitlines() if "incomplete" in line]
        assert lines == [f"{border(number):%Y-%m-%d-%H:%M}: incomplete (quarantined)" for number in (1, 2)]
    assert AS_NAMED in said
    harness = shop_of(config)
    assert snapshot(harness) == EXPECTED
    assert levels(harness) == LEVELS
    assert [one[:3] for one in quarantine(harness)] == [("snapshot", Reason.AMBIGUOUS, NAME)] * 2
