"""A layer made up for tests goes through every asset: it is registered, and nothing else knows of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from dts_assets.defs import layers
from dts_assets.defs.assemble import assemble
from dts_assets.defs.partitions import span_tags
from dts_assets.flows.layers import CHANGELOG, EVERYTHING, SNAPSHOT, Selection
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.columns import Column
from dts_assets.model.spans import Span
from dts_assets.settings import load_settings
from tests.defs.tally import TALLY_ASSETS
from tests.flows.harness import table_id
from tests.flows.history import EVERY, border
from tests.flows.short import LANES, three_windows
from tests.flows.source import DATABASE, write_capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation
    from tests.defs.projects import Project

NAME = "layered"
ITEMS = table_id("items")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LAYERS", (*layers.LAYERS, TALLY_ASSETS))


@pytest.fixture
def config(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three windows of one small table, in the lake of the tests' session."""
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.session", lambda _: spark)
    write_capture(tmp_path / "capture", three_windows().messages)
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": "./capture", "complete": True}},
        "partitions": LANES,
        "window": {"every": f"{EVERY.seconds // 60}m", "start": border(0), "end": border(3)},
        "tables": {"include": [f"{DATABASE}.*"]},
    }
    config = tmp_path / "pipeline.yaml"
    config.write_text(
        yaml.safe_dump({"lake": {"warehouse": spark_lake.warehouse}, "subscriptions": {NAME: subscription}})
    )
    return config


def run(config: Path, instance: dg.DagsterInstance, job: str, **how: Any) -> dg.ExecuteInProcessResult:
    definition = assemble(load_settings(config), config).resolve_job_def(f"{NAME}_{job}")
    result = definition.execute_in_process(instance=instance, **how)
    assert result.success
    return result


def rows(pipeline: Pipeline, layer: str) -> list[dict[str, Any]]:
    found = pipeline.lake.scan(pipeline.table_path(layer, ITEMS))
    return [] if found is None else found.to_pylist()


@pytest.mark.more
@pytest.mark.spark
def test_a_window_of_it_is_materialized_with_its_metadata_and_its_check(config: Path) -> None:
    pipeline = open_pipeline(load_settings(config), NAME)
    windows = tuple(pipeline.grid.at(number) for number in range(3))
    key = TALLY_ASSETS.key(NAME, ITEMS)
    with dg.DagsterInstance.ephemeral() as instance:
        run(config, instance, "ingest", tags=span_tags(Span(tuple(range(LANES)), windows)))
        result = run(config, instance, "tables", partition_key=windows[0].key)
        (event,) = instance.fetch_materializations(key, limit=9).records
        evaluations = {
            one.check_name: (one.asset_key, one.partition, one.passed) for one in result.get_asset_check_evaluations()
        }
        alone = run(config, instance, "tables", partition_key=windows[0].key, asset_selection=[key])
        assert [one.asset_key for one in alone.get_asset_materialization_events()] == [key]
    changelog, tally = (rows(pipeline, layer) for layer in ("changelog", "tally"))
    expected = Counter(row["op"] for row in changelog)
    assert expected
    assert {row["op"]: row["changes"] for row in tally} == expected
    assert {row["window_start"] for row in tally} == {windows[0].start}
    told = event.asset_materialization
    assert told is not None
    assert told.partition == windows[0].key
    assert told.metadata["row_changes"].value == expected.total()
    assert told.metadata["dagster/row_count"].value == len(expected)
    schema: Any = told.metadata["dagster/column_schema"].value
    assert [column.name for column in schema.columns] == ["window_start", "op", "changes"]
    assert evaluations["tallied"] == (key, windows[0].key, True)
    assert {"completeness", "balance"} < evaluations.keys()


def test_it_stands_in_the_graph_beside_the_others(project: Project) -> None:
    audit = table_id("audit")
    project.configure(include=["*"]).register({ITEMS: [("id", "int", True)], audit: [("line", "string", False)]})
    graph = project.graph()
    for table in (ITEMS, audit):
        node = graph.get(TALLY_ASSETS.key("shop", table))
        assert node.group_name == "shop_tally"
        assert node.parent_keys == {dg.AssetKey(["shop", "changelog", *table.path])}
        assert node.metadata["dagster/table_name"] == f"lake.shop.tally.{DATABASE}.{table.table}"
        assert node.owners
        assert node.code_version
    assert dg.AssetCheckKey(TALLY_ASSETS.key("shop", audit), "tallied") in graph.asset_check_keys


# What a layer says of itself


def test_rows_of_snapshots_are_told_apart_by_the_key_where_there_is_one() -> None:
    keyed, keyless = (Column("id", "int", True),), (Column("line", "string", False),)
    assert (CHANGELOG.key_columns(keyed), SNAPSHOT.key_columns(keyed)) == ((), ("id",))
    assert SNAPSHOT.key_columns(keyless) == ()


def test_a_selection_names_tables_of_some_layers_and_leaves_the_others_whole() -> None:
    audit = table_id("audit")
    some = Selection({"snapshot": {ITEMS}})
    assert not some.whole
    assert some.of(CHANGELOG) is None
    assert some.of(SNAPSHOT) == frozenset({ITEMS})
    assert (some.takes(SNAPSHOT, audit), some.takes(CHANGELOG, audit)) == (False, True)
    assert EVERYTHING.whole
    assert EVERYTHING.takes(SNAPSHOT, audit)


def test_each_layer_stands_behind_the_one_that_it_is_made_from() -> None:
    seen: list[str] = []
    for layer in (shown.stored for shown in layers.LAYERS):
        assert layer.made_from is None or layer.made_from.name in seen
        assert (layer.make is None) == (layer.made_from is None)
        seen.append(layer.name)
