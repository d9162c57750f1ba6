"""Two lakes never share a registry: configurations in one folder, a lake made anew, a folder that is read-only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dts_assets.defs.table_assets import graph_tables
from dts_assets.flows.known_tables import known_tables, register_shapes
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.columns import ColumnShape
from dts_assets.model.tables import TableId
from dts_assets.settings import Subscription, load_settings
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry
from dts_assets.wire.format import TableShape

ORDERS, PHANTOM, SHIPPED = (TableId("shopdb", "", name) for name in ("orders", "phantom", "shipped"))

CONFIGURATION = """\
lake: {{warehouse: {lake}}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: ./capture, complete: false}}}}
    partitions: 1
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
"""


def configured(folder: Path, name: str, lake: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(CONFIGURATION.format(lake=lake))
    return file


def subscription(config: Path) -> Subscription:
    return load_settings(config).subscriptions["shop"]


def shown(config: Path) -> set[TableId]:
    return {asset.table for asset in graph_tables(subscription(config))}


def found(config: Path, *tables: TableId) -> None:
    """What a run of entries does when it has found tables."""
    pipeline = open_pipeline(load_settings(config), "shop")
    pipeline.check_shape()  # makes the lake
    column = ColumnShape("id", "int(11)", True)
    register_shapes(pipeline, [TableShape(table, (column,)) for table in tables])


def known(config: Path) -> set[TableId]:
    return set(known_tables(open_pipeline(load_settings(config), "shop")))


def ship(config: Path, *tables: TableId) -> None:
    columns = (RegisteredColumn("id", "int(11)", "int", True),)
    path = subscription(config).shipped_registry_path
    merge_registry(path, [RegisteredTable(table, columns) for table in tables])


def test_tables_of_one_lake_are_not_those_of_another_in_the_same_folder(tmp_path: Path) -> None:
    good, damaged = (configured(tmp_path, f"{name}.yaml", f"./{name}") for name in ("good", "damaged"))
    found(good, ORDERS)
    found(damaged, ORDERS, PHANTOM)
    assert (shown(good), known(good)) == ({ORDERS}, {ORDERS})
    assert shown(damaged) == known(damaged) == {ORDERS, PHANTOM}


def test_two_configurations_of_one_lake_share_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one, other = (configured(tmp_path, name, lake) for name, lake in (("a.yaml", "./lake"), ("b.yaml", "./link/lake/")))
    found(one, ORDERS)
    assert shown(other) == known(other) == {ORDERS}


def test_before_anything_is_found_the_shipped_tables_are_shown_and_then_never_again(tmp_path: Path) -> None:
    config = configured(tmp_path, "pipeline.yaml", "./lake")
    ship(config, SHIPPED)
    assert (shown(config), known(config)) == ({SHIPPED}, set())
    before = subscription(config).shipped_registry_path.read_bytes()
    found(config, ORDERS)
    assert shown(config) == known(config) == {ORDERS}
    assert subscription(config).shipped_registry_path.read_bytes() == before


def test_a_lake_that_was_removed_and_made_anew_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    config = configured(tmp_path, "pipeline.yaml", "./lake")
    found(config, ORDERS, PHANTOM)
    (tmp_path / "lake").rename(tmp_path / "gone")
    assert known(config) == set()
    found(config, ORDERS)
    assert shown(config) == known(config) == {ORDERS}


def test_a_read_only_folder_leaves_the_registry_to_the_home_of_dagster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path / "fixed", "pipeline.yaml", "../lake")
    ship(config, SHIPPED)
    may = os.access

    def access(path: Path, mode: int) -> bool:  # the tests may run as root, who may write anywhere
        return may(path, mode) and not (mode & os.W_OK and Path(path).is_relative_to(config.parent))

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    assert shown(config) == {SHIPPED}
    before = sorted(config.parent.rglob("*"))
    found(config, ORDERS)
    assert shown(config) == known(config) == {ORDERS}
    assert sorted(config.parent.rglob("*")) == before
    assert subscription(config).registry_path.is_relative_to(tmp_path / "home")
    monkeypatch.delenv("DAGSTER_HOME")
    assert subscription(config).registry_path.is_relative_to(config.parent), "there is no other place"


@pytest.mark.parametrize(
    ("catalog", "warehouse", "same"),
    [
        ("{type: rest, uri: 'http://a'}", "s3://bucket/lake", True),
        ("{type: rest, uri: 'http://a', token: other}", "s3://bucket/lake/", True),
        ("{type: rest, uri: 'http://b'}", "s3://bucket/lake", False),
        ("{type: rest, uri: 'http://a', warehouse: sales}", "s3://bucket/lake", False),
        ("{type: rest, uri: 'http://a'}", "s3://bucket/other", False),
        ("{type: sqlite, uri: ./c.db}", "s3://bucket/lake", False),
    ],
)
def test_a_lake_is_known_by_its_catalog_and_its_warehouse(
    tmp_path: Path, catalog: str, warehouse: str, same: bool
) -> None:
    keys = [
        subscription(configured(tmp_path, "pipeline.yaml", f"{place}, catalog: {kind}")).lake_key
        for place, kind in (("s3://bucket/lake", "{type: rest, uri: 'http://a'}"), (warehouse, catalog))
    ]
    assert (keys[0] == keys[1]) is same
