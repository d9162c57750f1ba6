"""``dts-assets freshness``: the workload's commits against the cuts of a lake."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.settings import load_settings
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message

START = datetime(2026, 1, 5, tzinfo=UTC)
CONFIGURATION = """\
lake: {warehouse: ./lake}
subscriptions:
  shop:
    format: dts-protobuf
    source: {capture: {path: ./capture, complete: false}}
    partitions: 1
    window: {every: 5m, start: 2026-01-05T00:00Z}
    tables: {include: ["shopdb.*"]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration, and its lake with one cut behind position 700."""
    message = Message(0, 0, int(START.timestamp() * 1000) + 60_000, None, b"", ())
    write_capture([message], tmp_path / "capture", topic="t")
    file = tmp_path / "pipeline.yaml"
    file.write_text(CONFIGURATION)
    pipeline = open_pipeline(load_settings(file), "shop")
    window = pipeline.grid.at(0)
    cut = SourcePosition(0, 3, 700)
    pipeline.ledger.replace_cuts(
        [window], [Cut(window, cut, None, Consistency.CUT, Completeness.OBSERVED, (), "", (), "")]
    )
    return file


@pytest.fixture
def commits(tmp_path: Path) -> Path:
    """A commit log: 10 row changes up to position 600 some seconds ago, 5 more behind the cut."""
    now = datetime.now(UTC).timestamp()
    rows = ((now - 30, 0, 400), (now - 20, 10, 600), (now - 5, 15, 900))
    file = tmp_path / "commits.jsonl"
    file.write_text(
        "".join(
            json.dumps({"time": time, "rows": count, "gtid": "", "file": "mysql-bin.000003", "position": position})
            + "\n"
            for time, count, position in rows
        )
    )
    return file


def test_it_says_how_many_changes_are_visible_and_after_how_long(config: Path, commits: Path) -> None:
    result = CliRunner().invoke(cli, ["freshness", str(commits), "--config", str(config)])
    assert (result.exit_code, result.stderr) == (0, "")
    first, p50, _, _, left = result.stdout.splitlines()
    assert first == "15 row changes committed, 10 visible in the snapshots of shop"
    assert p50.split()[0] == "p50"
    assert 25 < float(p50.split()[1]) < 300
    assert left.startswith("not visible yet: changes of the last 2")


def test_only_recent_commits_count_where_that_is_asked_for(config: Path, commits: Path) -> None:
    result = CliRunner().invoke(cli, ["freshness", str(commits), "--last", "25", "--config", str(config)])
    assert result.stdout.startswith("5 row changes committed, 0 visible")
    assert "-" in result.stdout.splitlines()[1]


def test_a_subscription_that_is_not_there_is_refused(config: Path, commits: Path) -> None:
    arguments = ["freshness", str(commits), "--subscription", "other", "--config", str(config)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "there is no subscription other; there are shop" in result.stderr
