"""The statements of tables in Dagster: an asset of its own for each table that asks for it, made by the run of a window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dts_assets.defs.assemble import assemble
from dts_assets.defs.partitions import span_tags
from dts_assets.flows.layers import SQL
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.model.spans import Span
from dts_assets.settings import load_settings
from tests.flows.harness import table_id
from tests.flows.history import EVERY, border
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import DATABASE, write_capture

ONE, TWO = table_id("one"), table_id("two")
KEY = dg.AssetKey(["shop", "sql", DATABASE, "two"])


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three windows of two small tables, one of which asks for statements; flows run in this process."""
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.session", lambda _: this_process())
    write_capture(tmp_path / "capture", three_windows(items("one"), items("two")).messages)
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": "./capture", "complete": True}},
        "partitions": LANES,
        "window": {"every": f"{EVERY.seconds // 60}m", "start": border(0), "end": border(3)},
        "tables": {"include": [str(ONE), str(TWO)]},
        "sql": {"tables": ["*.two"], "dialect": "mysql"},
    }
    config = tmp_path / "pipeline.yaml"
    config.write_text(yaml.safe_dump({"lake": {"warehouse": "./lake"}, "subscriptions": {"shop": subscription}}))
    return config


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(config: Path, instance: dg.DagsterInstance, job: str, **how: Any) -> dg.ExecuteInProcessResult:
    definition = assemble(load_settings(config), config).resolve_job_def(f"shop_{job}")
    result = definition.execute_in_process(instance=instance, **how)
    assert result.success
    return result


def ingested(config: Path, instance: dg.DagsterInstance) -> Pipeline:
    pipeline = open_pipeline(load_settings(config), "shop")
    windows = tuple(pipeline.grid.at(number) for number in range(3))
    run(config, instance, "ingest", tags=span_tags(Span(tuple(range(LANES)), windows)))
    return pipeline


def test_a_table_that_asks_for_it_has_statements_in_the_graph(config: Path) -> None:
    graph = assemble(load_settings(config), config).resolve_asset_graph()
    found = [key for key in graph.get_all_asset_keys() if key.path[1] == "sql"]
    assert found == [KEY]
    node = graph.get(KEY)
    assert (node.group_name, node.parent_keys) == ("shop_sql", {dg.AssetKey(["shop", "changelog", DATABASE, "two"])})
    assert isinstance(node.partitions_def, dg.TimeWindowPartitionsDefinition)
    assert "statement of SQL" in (node.description or "")


@pytest.mark.more
def test_a_window_is_made_with_the_other_tables_and_tells_counts_and_no_values(
    config: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = ingested(config, instance)
    windows = [pipeline.grid.at(number) for number in range(3)]
    for window in windows[:2]:
        run(config, instance, "tables", partition_key=window.key)
    told = [one.asset_materialization for one in instance.fetch_materializations(KEY, limit=9).records]
    assert [one.partition for one in told if one] == [windows[1].key, windows[0].key]
    assert told[1] is not None
    assert (told[1].metadata["row_changes"].value, told[1].metadata["without_statement"].value) == (15, 0)
    assert told[1].metadata["dagster/row_count"].value == 15
    schema: Any = told[1].metadata["dagster/column_schema"].value
    assert [(one.name, one.type) for one in schema.columns] == list(SQL.columns(()))
    assert "INSERT" not in str(told)
    assert [row["window_start"] for row in rows(pipeline)].count(windows[0].start) == 15
    assert pipeline.lake.table(pipeline.table_path("sql", ONE)) is None


@pytest.mark.more
def test_the_statements_of_a_window_are_made_alone_and_again(config: Path, instance: dg.DagsterInstance) -> None:
    pipeline = ingested(config, instance)
    window = pipeline.grid.at(0)
    run(config, instance, "tables", partition_key=window.key)
    before = sorted(map(repr, rows(pipeline)))
    result = run(config, instance, "tables", partition_key=window.key, asset_selection=[KEY])
    assert [one.asset_key for one in result.get_asset_materialization_events()] == [KEY]
    assert sorted(map(repr, rows(pipeline))) == before


def rows(pipeline: Pipeline) -> list[dict[str, Any]]:
    found = pipeline.lake.scan(pipeline.table_path("sql", TWO))
    return [] if found is None else found.to_pylist()
