"""``dts-assets run`` names snapshots that are not proven, and ends with 3 while there is one, also with nothing to do."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from dts_assets.cli import closing, dagster_runs, run
from dts_assets.cli.idle import AS_NAMED, UP_TO_DATE
from dts_assets.cli.main import cli
from dts_assets.cli.run import Outcome, run_all
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.model.tables import TableId
from tests.flows.history import END, START, border
from tests.flows.short import LANES, SECOND, insert, items, short_source
from tests.flows.source import Ddl, write_capture
from tests.shop_example import shop_config, shop_of

CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {folder}/capture, complete: true}}}}
    partitions: {lanes}
    window: {{every: 10m, start: "{start}", end: "{end}"}}
"""
STRANGE = "ALTER TABLE {} MODIFY n BIGINT FROBNICATE"


def run_command(config: Path) -> Result:
    home = {"DAGSTER_HOME": str(config.parent / "home"), "COLUMNS": "200"}
    return CliRunner().invoke(cli, ["run", "--config", str(config)], env=home)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A lake of this project in which one table of three is not proven, and one has met its statement without a row."""
    source = short_source(items("first"), items("strange"), items("void"))
    for name in ("first", "strange"):
        insert(source, border(0) + SECOND, range(3), table=name)
    for name in ("strange", "void"):
        source.transaction(border(0) + 10 * SECOND, Ddl(STRANGE.format(name)))
    for name in source.tables:
        insert(source, border(1) + SECOND, range(3, 6), table=name)
    source.checkpoint(border(1) + 60 * SECOND)
    write_capture(tmp_path / "capture", source.messages)
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        CONFIG.format(folder=tmp_path, lanes=LANES, start=START.isoformat(), end=END.isoformat()), encoding="utf-8"
    )
    (tmp_path / "home").mkdir()
    shop_of(path).settle()
    return path


@pytest.mark.more
def test_a_run_with_nothing_to_do_names_the_table_and_ends_with_3(config: Path) -> None:
    for _ in range(2):
        done = run_command(config)
        assert done.exit_code == 3, done.output
        (line,) = [one for one in done.output.splitlines() if "is not proven" in one]
        database = line.split(".")[0]
        assert line.startswith(f"{database}.strange: its snapshot is not proven since 0:")
        assert "an attribute that is not known" in line
        assert f"dts-assets resync shop {database}.strange" in line
        assert (UP_TO_DATE in done.output, AS_NAMED in done.output) == (False, True)


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("severity", "unproven", "code"),
    [("ERROR", False, 3), ("ERROR", True, 3), ("WARN", False, 0)],
)
def test_a_check_that_failed_as_an_error_ends_the_command_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, severity: str, unproven: bool, code: int
) -> None:
    table = TableId("shopdb", "", "coupons")
    key = dg.AssetKey(["shop", "snapshot", *table.path])
    found = dg.AssetCheckEvaluation(
        asset_key=key, check_name="schema", passed=False, severity=dg.AssetCheckSeverity[severity], metadata={},
        partition="2026-01-05-00:00",
    )  # fmt: skip

    def ran(settings: object, name: str, path: Path, dagster: dagster_runs.Dagster, *_: object) -> None:
        dagster.failed_checks.extend([found] if dagster_runs.is_error(found) else [])

    monkeypatch.setattr(run, "_run_subscription", ran)
    said = {table: "0:4:900: x"} if unproven else {}
    monkeypatch.setattr(closing, "unproven_tables", lambda _: OneByOne(said))
    config = shop_config(tmp_path, "coupons", hours=2)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    with (tmp_path / "out").open("w") as stream:
        outcome: Outcome = run_all(config, Console(file=stream, width=400))
    lines = (tmp_path / "out").read_text()
    assert outcome.exit_code == code
    assert ("the check schema of window 2026-01-05-00:00 failed" in lines) == (code == 3 and not unproven)
    assert ("its snapshot is not proven since 0:4:900: x" in lines) == unproven


@pytest.mark.more(after=1)
@pytest.mark.parametrize("command", [["keys"], ["size"], ["rules", "check"], ["maintain"]])
def test_a_command_without_a_subscription_names_those_of_the_configuration(tmp_path: Path, command: list[str]) -> None:
    config = shop_config(tmp_path, "coupons", hours=2)
    config.write_text(
        config.read_text() + config.read_text().partition("subscriptions:\n")[2].replace("shop:", "other:")
    )
    done = CliRunner().invoke(cli, [*command, "--config", str(config)])
    assert done.exit_code == 2
    assert "Missing argument 'SUBSCRIPTION'. The configuration has shop, other." in done.stderr
    assert CliRunner().invoke(cli, [*command, "--config", str(tmp_path / "gone.yaml")]).exit_code == 2
