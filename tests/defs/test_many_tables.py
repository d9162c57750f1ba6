"""The graph of a thousand tables: groups, owners, kinds and tags by which people find an asset."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from dts_assets.defs.assemble import assemble
from dts_assets.model.tables import TableId
from dts_assets.settings import load_settings
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry
from tests.commands import HOUSE

TABLES, DATABASES = 1000, 4
CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {capture}, complete: true}}}}
    partitions: 2
    window: {{every: 1h, start: 2026-01-05T00:00Z, end: 2026-01-05T08:00Z}}
    tables: {{include: ["*"]}}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dg.RepositoryDefinition:
    config = tmp_path_factory.mktemp("many") / "pipeline.yaml"
    config.write_text(CONFIGURATION.format(capture=HOUSE / "examples" / "shop"))
    settings = load_settings(config)
    registry = settings.subscriptions["shop"].registry_path
    registry.parent.mkdir(parents=True, exist_ok=True)
    columns = (RegisteredColumn("id", "bigint", "bigint", True), RegisteredColumn("note", "text", "string", False))
    tables = [TableId(f"shop_{number % DATABASES:02}", "", f"table_{number:04}") for number in range(TABLES)]
    merge_registry(registry, [RegisteredTable(table, columns) for table in tables])
    return assemble(settings, Path(config)).get_repository_def()


def test_every_asset_of_many_tables_can_be_found(repository: dg.RepositoryDefinition) -> None:
    nodes = [node for node in repository.asset_graph.asset_nodes if node.key.path[1] in ("changelog", "snapshot")]
    assert len(nodes) == 2 * TABLES
    for node in nodes:
        assert node.group_name == f"shop_{node.key.path[1]}"
        assert node.owners == ["team:data-engineering"]
        assert node.kinds >= {"iceberg", "pyspark"}
        assert node.tags["subscription"] == "shop"
        assert node.tags["database"] == node.key.path[2]
        assert node.description
    of_database = dg.AssetSelection.tag("database", "shop_01") & dg.AssetSelection.groups("shop_snapshot")
    found = of_database.resolve(repository.asset_graph)
    assert len(found) == TABLES // DATABASES
    assert {key.path[2] for key in found} == {"shop_01"}
    by_key = dg.AssetSelection.key_substring("table_0007").resolve(repository.asset_graph)
    assert {tuple(key.path) for key in by_key} == {
        ("shop", layer, "shop_03", "table_0007") for layer in ("changelog", "snapshot")
    }


def test_many_tables_are_one_step_of_one_job(repository: dg.RepositoryDefinition) -> None:
    """A step would be a process, and a Java, for each table."""
    assert [node.name for node in repository.get_job("shop_tables").nodes] == ["shop_make_tables"]
