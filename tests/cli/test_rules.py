"""The commands ``rules check`` and ``rules apply`` on lakes that have plain values."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from dts_assets.cli.closing import close
from dts_assets.cli.main import cli
from dts_assets.errors.settings import UnmatchedRulesError
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from tests.flows.harness import Harness
from tests.flows.history import START, border
from tests.flows.plain_values import plain_values
from tests.flows.short import LANES
from tests.flows.source import write_capture
from tests.flows.test_moved_rules import KEY, MARK, mail, renamed, sealed

CONFIGURATION = f"""
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: ./capture}}
    partitions: {LANES}
    window: {{every: 10m, start: "{START:%Y-%m-%dT%H:%MZ}", end: "{border(3):%Y-%m-%dT%H:%MZ}"}}
    history: ["*"]
"""
RULES = """    columns:
      "bank.customers.email": {hash: {key: "${PII_KEY}"}}
      "bank.customers.n": {mask: "x"}
"""


def called(folder: Path, *arguments: str) -> Result:
    options = ["--config", str(folder / "pipeline.yaml")]
    return CliRunner().invoke(cli, [*arguments, *options], env={"COLUMNS": "200", "PII_KEY": KEY})


def opened(folder: Path, text: str) -> Harness:
    (folder / "pipeline.yaml").write_text(text)
    settings = load_settings(folder / "pipeline.yaml", environment={"PII_KEY": KEY})
    return Harness(open_pipeline(settings, "shop"), this_process())


@pytest.mark.more
def test_plain_values_of_a_rule_that_comes_later_are_found_and_replaced_without_an_entry(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", renamed().source.messages)
    before = opened(tmp_path, CONFIGURATION)
    before.all(0, 1, 2)
    before.settle()
    assert called(tmp_path, "rules", "check", "shop").exit_code == 0  # without a rule nothing is plain
    opened(tmp_path, CONFIGURATION + RULES)
    found = called(tmp_path, "rules", "check", "shop", "--json")
    assert found.exit_code == 3, found.output
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert {(one["table"], one["layer"], one["column"]) for one in told} >= {
        ("bank.customers", "snapshot", "email"), ("bank.customers", "history", "email"), ("bank.staging", "changelog", "email"),
    }  # fmt: skip
    done = called(tmp_path, "rules", "apply", "shop", "bank.customers", "bank.staging")
    assert done.exit_code == 3, done.output  # numbers cannot become texts in place
    assert "its column n is stored as" in done.output
    (tmp_path / "pipeline.yaml").write_text((CONFIGURATION + RULES).rpartition('\n      "bank.customers.n')[0] + "\n")
    done = called(tmp_path, "rules", "apply", "shop")
    assert done.exit_code == 0, done.output
    assert "no plain value" in done.output
    assert plain_values(tmp_path / "lake", [MARK]) == {}
    rows = before.rows("snapshot", "bank", "customers")
    assert {row["id"]: row["email"] for row in rows} == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert called(tmp_path, "rules", "check", "shop").exit_code == 0


def test_a_table_that_is_not_known_is_refused(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", ())
    opened(tmp_path, CONFIGURATION)
    done = called(tmp_path, "rules", "check", "shop", "bank.nothing")
    assert done.exit_code == 2
    assert "there is no table bank.nothing" in done.output


def test_a_strict_rule_that_matches_nothing_stops_the_tables_before_a_value_is_stored(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", renamed().source.messages)
    strict = '    strict_rules: true\n    columns: {"bank.customer.email": drop}\n'
    harness = opened(tmp_path, CONFIGURATION + strict)
    harness.raw(0, 1, 2)
    harness.entries(0, 1, 2)
    with pytest.raises(UnmatchedRulesError, match=r"columns: bank.customer.email matches nothing; did you mean"):
        harness.tables(0, 1, 2)
    assert not [one for one in plain_values(tmp_path / "lake", [MARK]) if "changelog" in one or "snapshot" in one]
    mended = opened(tmp_path, CONFIGURATION + strict.replace("customer.", "customers."))
    mended.tables(0, 1, 2)
    assert plain_values(tmp_path / "lake", [MARK]) == {}


@pytest.mark.more
def test_a_run_ends_with_the_settings_that_match_nothing(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", renamed().source.messages)
    more = '    columns: {"bank.customer.email": drop}\n    deletes: {"Bank.*": soft}\n'
    harness = opened(tmp_path, CONFIGURATION + more)
    harness.all(0, 1, 2)
    assert [one for one in harness.lines if one.startswith("settings: columns: bank.customer.email matches nothing")]
    said = io.StringIO()
    closing = close(harness.pipeline, Console(file=said, width=200), tmp_path / "pipeline.yaml")
    assert not closing.failures
    assert "columns: bank.customer.email matches nothing; did you mean bank.customers.email?" in said.getvalue()
    assert "deletes: Bank.* matches nothing; did you mean bank.*?" in said.getvalue()
