"""``dts-assets faults``: what it says, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_emulator.faults.injection import PLAN_FILE

SHOP = Path(__file__).parents[3] / "examples" / "shop"


@pytest.mark.more
def test_it_writes_a_capture_with_a_plan_and_says_what_was_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(
        cli, ["faults", str(SHOP), str(out), "--seed", "7", "--kinds", "drop,flip", "--count", "4"]
    )
    assert (result.exit_code, result.stderr) == (0, "")
    plan = [json.loads(line) for line in (out / PLAN_FILE).read_text().splitlines()]
    assert sorted(fault["kind"] for fault in plan) == ["drop", "drop", "flip", "flip"]
    for fault in plan:
        (line,) = [line for line in result.stdout.splitlines() if f" {fault['first_offset']} " in line]
        assert f"p{fault['partition']:02d}" in line
        assert fault["found_by"] in line
    assert list(out.glob("*.parquet"))


def test_a_kind_that_is_none_and_a_folder_that_is_no_capture_are_refused_in_a_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["faults", str(SHOP), str(tmp_path / "out"), "--kinds", "drop,melt"])
    assert result.exit_code == 2
    assert "melt is no kind of fault" in result.stderr
    (tmp_path / "in").mkdir()
    result = CliRunner().invoke(cli, ["faults", str(tmp_path / "in"), str(tmp_path / "out")])
    assert (result.exit_code, "no Parquet file" in result.stderr) == (1, True)
    assert "Traceback" not in result.stderr


@pytest.mark.more
def test_a_second_call_overwrites_nothing(tmp_path: Path) -> None:
    command = ["faults", str(SHOP), str(tmp_path / "out"), "--kinds", "drop", "--count", "1"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    again = CliRunner().invoke(cli, [*command, "--seed", "8"])
    assert (again.exit_code, again.stderr.count("\n")) == (1, 1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
