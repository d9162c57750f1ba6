"""The commands ``size`` and ``maintain`` on a small lake: tables for people, JSON for programs, and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.flows import maintenance
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.model.maintenance import USUAL_STEPS
from dts_assets.settings.load import load_settings
from tests.flows.harness import Harness
from tests.flows.history import START, border
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture

CONFIGURATION = f"""
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: ./capture}}
    partitions: {LANES}
    window: {{every: 10m, start: "{START:%Y-%m-%dT%H:%MZ}", end: "{border(3):%Y-%m-%dT%H:%MZ}"}}
    maintenance: {{expire_after: 1s, keep_versions: 1}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("maintain")
    write_capture(made / "capture", three_windows(items()).messages)
    (made / "pipeline.yaml").write_text(CONFIGURATION)
    harness = Harness(open_pipeline(load_settings(made / "pipeline.yaml"), "shop"), this_process())
    for number in range(3):
        harness.all(number)
    return made


def called(folder: Path, *arguments: str) -> Result:
    options = ["--config", str(folder / "pipeline.yaml")]
    return CliRunner().invoke(cli, [*arguments, *options], env={"COLUMNS": "200"})


def sizes(folder: Path, *options: str) -> dict[str, Any]:
    done = called(folder, "size", "shop", "--json", *options)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def without_ages(found: dict[str, Any]) -> dict[str, Any]:
    """Return sizes without those of versions that are old enough to go, of which there are more with each second."""
    held = [found["total"], *found["tables"]]
    total, *tables = ({name: one[name] for name in one if name != "expiring_bytes"} for one in held)
    return {"total": total, "tables": tables}


@pytest.mark.more
def test_sizes_by_layer_and_by_table(folder: Path) -> None:
    done = called(folder, "size", "shop")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    for layer in ("raw_envelopes", "entries", "changelog", "snapshot", "ledger", "total"):
        assert [line for line in lines if f" {layer} " in line], layer
    assert "maintenance.expire_after: 1s" in done.stdout
    shown = called(folder, "size", "shop", "--by-table", "--raw", "1d", "--expire-after", "12h").stdout
    assert "changelog.bank.items" in shown
    assert "message_retention.raw: 1d" in shown
    assert "maintenance.expire_after: 12h" in shown
    one = called(folder, "size", "shop", "--table", "bank.items", "--no-orphans").stdout
    assert "snapshot.bank.items" in one
    assert "raw_envelopes" not in one
    assert "orphans_after" not in one


@pytest.mark.more
def test_sizes_as_json(folder: Path) -> None:
    found = sizes(folder)
    assert found["total"]["bytes"] == sum(one["bytes"] for one in found["tables"]) > 0
    assert found["total"]["all_bytes"] == sum(one["all_bytes"] for one in found["tables"])
    (snapshot,) = [one for one in found["tables"] if one["path"] == "shop.snapshot.bank.items"]
    assert (snapshot["layer"], snapshot["rows"] > 10) == ("snapshot", True)


def test_an_age_that_is_none_is_refused(folder: Path) -> None:
    done = called(folder, "size", "shop", "--raw", "soon")
    assert done.exit_code == 2
    assert "soon is no duration; write 30m, 12h or 14d" in done.stderr


def test_a_dry_run_then_all_steps(folder: Path) -> None:
    before = sizes(folder)
    dry = called(folder, "maintain", "shop", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "What maintenance would do" in dry.stdout
    assert without_ages(sizes(folder)) == without_ages(before)
    done = called(folder, "maintain", "shop")
    assert done.exit_code == 0, done.output
    assert [step for step in map(str, USUAL_STEPS) if f" {step} " not in done.stdout] == []
    assert " sorting " not in done.stdout
    after = sizes(folder)
    assert after["total"]["rows"] >= before["total"]["rows"] - 100
    (one, other) = (
        next(table["rows"] for table in some["tables"] if table["layer"] == "snapshot") for some in (before, after)
    )
    assert one == other
    only = called(folder, "maintain", "shop", "--only", "expiry", "--only", "sorting", "--json")
    assert [json.loads(line)["step"] for line in only.stdout.splitlines()] == ["sorting", "expiry"]


def test_a_step_that_fails_is_said_and_keeps_no_other_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a secret value")

    monkeypatch.setattr(maintenance, "find_orphans", broken)
    done = called(folder, "maintain", "shop", "--only", "orphans", "--only", "expiry", "--json")
    assert done.exit_code == 1
    expiry, orphans = map(json.loads, done.stdout.splitlines())
    assert (expiry["step"], expiry["failed"]) == ("expiry", [])
    (failed,) = orphans["failed"]
    assert re.fullmatch(r"shop\.\S+ and \d{2} tables more: KeyError at flows/maintenance\.py:\d+", failed)
    assert "a secret value" not in done.output
