"""``dts-assets verify files``, and what other commands say of a damaged file: its name, once, and no stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from tests.cli.test_maintain import CONFIGURATION, called
from tests.flows.damaged import flip
from tests.flows.harness import Harness
from tests.flows.short import items, three_windows
from tests.flows.source import write_capture
from tests.flows.test_damaged_files import file_of, fresh


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    write_capture(tmp_path / "capture", three_windows(items("one"), items("two")).messages)
    (tmp_path / "pipeline.yaml").write_text(CONFIGURATION)
    made = Harness(open_pipeline(load_settings(tmp_path / "pipeline.yaml"), "shop"), this_process())
    made.all(0, 1, 2)
    return made


def test_damaged_files_are_listed_with_what_restores_them(tmp_path: Path, harness: Harness) -> None:
    whole = called(tmp_path, "verify", "files")
    assert (whole.exit_code, "shop: " in whole.stdout, "none is damaged" in whole.stdout) == (0, True, True)
    snapshot, entries = (file_of(harness, path, "rows") for path in (("snapshot", "bank", "one"), ("entries",)))
    flip(snapshot)
    entries.unlink()
    fresh(harness)
    done = called(tmp_path, "verify", "files", "shop")
    assert done.exit_code == 3, done.output
    assert done.stdout.count(str(snapshot)) == done.stdout.count(str(entries)) == 1
    assert "`dts-assets tables rebuild bank.one --subscription shop`" in done.stdout
    assert "it is missing. To materialize shop/entries of its window again makes them again" in done.stdout
    assert "Its partition is p0" in done.stdout
    assert "2 are damaged" in done.stdout
    (line,) = called(tmp_path, "verify", "files", "--json").stdout.splitlines()
    assert len(json.loads(line)["damaged"]) == 2


@pytest.mark.more
@pytest.mark.parametrize("command", [("size", "shop", "--no-orphans"), ("keys", "shop")])
def test_other_tables_are_shown_beside_a_damaged_one(
    tmp_path: Path, harness: Harness, command: tuple[str, ...]
) -> None:
    file = file_of(harness, ("snapshot", "bank", "one"), "rows" if command[0] == "keys" else "manifest list")
    flip(file)
    fresh(harness)
    done = called(tmp_path, *command, *(("--by-table",) if command[0] == "size" else ()))
    assert done.exit_code == 11, done.output
    assert done.stderr.count(str(file)) == 1
    assert "bank.two" in done.stdout


@pytest.mark.more
def test_a_kind_is_no_name_of_a_subscription(tmp_path: Path, harness: Harness) -> None:
    done = called(tmp_path, "verify", "shop")
    assert done.exit_code == 2, "it is verify source shop, whose place is not configured"
    assert "shop has no source database to compare with" in done.output
    assert called(tmp_path, "verify", "files", "shopp").exit_code == 2
