"""A format that no code of the house knows goes through every asset: its package is installed, and that is all."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dts_assets.defs.assemble import assemble
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.windows import Window
from dts_assets.settings import load_settings
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.made_up_format.place import MODULE, NAME, SITE_PACKAGES
from tests.wire.scenarios import DATA, Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCENARIO = Scenario(DATA / NAME / "puts_drops_and_a_statement")
CONFIG = f"""\
lake: {{warehouse: ./lake}}
subscriptions:
  toys:
    format: {NAME}
    schema: schema.json
    source: {{capture: ./capture}}
    partitions: 1
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
"""
SCHEMA = {"toys.things": {"id": "int key", "name": "text"}}


@pytest.mark.more
def test_it_goes_through_every_asset(
    bench: Bench, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    spark.sparkContext.addPyFile(str(MODULE))
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    bodies = SCENARIO.messages()["value"].to_pylist()
    sent = [
        Message(0, offset, border(0) + timedelta(seconds=offset), body, offset) for offset, body in enumerate(bodies)
    ]
    capture = write_capture(tmp_path / "capture", sent)
    open_toys = partial(
        bench.open, capture, name="toys", format=NAME, schema=str(schema), partitions=1, window={"end": border(1)}
    )
    harness = open_toys()
    harness.all(0)

    assert [row["value"] for row in harness.rows("raw_envelopes")] == bodies
    assert sorted(row["position"] for row in harness.rows("entries")) == [17, 18, 19, 21]
    assert [row["reason"] for row in harness.rows("quarantine")] == ["undecodable_entry"]
    changes = sorted(harness.rows("changelog", "toys", "things"), key=lambda row: row["source_position"]["position"])
    assert [(row["op"], row["before"], row["after"]) for row in changes] == [
        ("insert", None, {"id": 1, "name": "bolt"}),
        ("insert", None, {"id": 2, "name": "nut"}),
        ("delete", {"id": 1, "name": "bolt"}, None),
    ]
    assert [(row["id"], row["name"]) for row in harness.rows("snapshot", "toys", "things")] == [(2, "nut")]
    assert [row["sql"] for row in harness.rows("ddl")] == ["ALTER TABLE things COMMENT 'small ones'"]
    ledger = harness.pipeline.ledger
    assert [(row.counts.entries, row.counts.quarantined_entries) for row in ledger.windows()] == [(5, 1)]
    assert [row.window for row in ledger.cuts()] == [Window(border(0), border(1))]
    assert harness.settle() == 0

    schema.write_text(json.dumps({"toys.things": {"id": "int key", "name": "text"}, "toys.others": {"id": "int key"}}))
    assert harness.settle() == 0, "an opened pipeline keeps the schema that it has read"
    harness = open_toys()
    assert harness.settle() > 0, "another schema file makes stale what it decoded"
    assert [row["id"] for row in harness.rows("snapshot", "toys", "others")] == [3]


def test_a_schema_file_that_changes_in_the_middle_of_a_run_changes_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    schema, config = tmp_path / "schema.json", tmp_path / "pipeline.yaml"
    schema.write_text(json.dumps(SCHEMA))
    config.write_text(CONFIG)
    (tmp_path / "capture").mkdir()
    settings = load_settings(config)
    running = open_pipeline(settings, "toys")
    generation, task = running.decoding_settings(), running.format
    schema.write_text(json.dumps({**SCHEMA, "toys.others": {"id": "int key"}}))
    assert (running.decoding_settings(), running.format) == (generation, task)
    next_run = open_pipeline(settings, "toys")
    assert next_run.decoding_settings() != generation
    assert next_run.format != task


def test_its_kind_is_shown_and_its_schema_file_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    config = tmp_path / "pipeline.yaml"
    config.write_text(CONFIG)
    graph = assemble(load_settings(config), config).resolve_asset_graph()
    kinds = {one.path[-1]: graph.get(one).kinds for one in graph.get_all_asset_keys()}
    assert kinds["entries"] == {"pyspark", "iceberg", "toy"}
