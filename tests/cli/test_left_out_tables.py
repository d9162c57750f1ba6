"""Tables that the settings leave out later stay in the lake, are named, lose old versions and can be removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from tests.cli.test_maintain import CONFIGURATION
from tests.flows.harness import Harness
from tests.flows.lake_tables import tables_of
from tests.flows.short import items, three_windows
from tests.flows.source import write_capture

TWO = ("shop", "changelog", "bank", "two")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake whose table ``bank.two`` is left out since, as a machine sees it that has no registry file."""
    write_capture(tmp_path / "capture", three_windows(items("one"), items("two")).messages)
    configured = tmp_path / "pipeline.yaml"
    configured.write_text(CONFIGURATION.replace("expire_after: 1s", "expire_after: 0s"))
    harness = Harness(opened(tmp_path), this_process())
    for number in range(3):
        harness.all(number)
    configured.write_text(
        configured.read_text().replace("    partitions:", "    tables: {exclude: [bank.two]}\n    partitions:")
    )
    return tmp_path


def opened(folder: Path) -> Pipeline:
    return open_pipeline(load_settings(folder / "pipeline.yaml"), "shop")


def said(folder: Path, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [*arguments, "--config", str(folder / "pipeline.yaml")], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done.output


def in_no_list(folder: Path) -> set[tuple[str, ...]]:
    """The tables in the catalog that no list of maintenance has."""
    pipeline = opened(folder)
    return {*tables_of(pipeline.lake.catalog, ("shop",))} - {*maintained_paths(pipeline)}


@pytest.mark.more
@pytest.mark.parametrize("lost", [False, True], ids=["", "registry lost"])
def test_a_table_that_is_left_out_later_is_in_every_list_until_it_is_removed(lost: bool, folder: Path) -> None:
    if lost:
        opened(folder).settings.registry_path.unlink()
    assert in_no_list(folder) == set()
    (line,) = [one for one in said(folder, "tables").splitlines() if "bank.two" in one]
    assert "left out by the settings" in line
    sizes = json.loads(said(folder, "size", "shop", "--json"))["tables"]
    (size,) = [one for one in sizes if one["path"] == ".".join(TWO)]
    assert size["older_versions"] > 0
    said(folder, "maintain", "shop", "--only", "expiry")
    table = opened(folder).lake.catalog.load_table(TWO)
    assert len(table.metadata.snapshots) < size["older_versions"] + 1
    assert "changelog.bank.two" in said(folder, "size", "shop", "--table", "bank.two")
    assert "left out by the settings" in said(folder, "tables", "pause", "bank.two", "--reason", "r", code=2)
    assert "left out by the settings" in said(folder, "tables", "rebuild", "bank.two", code=2)
    said(folder, "tables", "remove", "bank.two")
    assert not opened(folder).lake.catalog.table_exists(TWO)
    assert in_no_list(folder) == set()
