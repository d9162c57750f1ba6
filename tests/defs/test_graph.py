"""The graph that Dagster shows: keys, groups, kinds, dependencies, checks, partitions, jobs and sensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from dts_assets.defs.metadata import KEY_TAG
from dts_assets.defs.table_assets import graph_tables
from dts_assets.model.tables import TableId
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.store.columns import ENTRIES, RAW_ENVELOPES, changelog_columns, history_columns, snapshot_columns
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.asset_graph import AssetNode

    from tests.defs.projects import Project

ORDERS = TableId("shopdb", "", "orders")
AUDIT = TableId("shopdb", "", "audit")
ODD = TableId("shop.db", "", "a/b|c [订单]")
COLUMNS = [("id", "int", True), ("note", "string", False), ("_event_time", "timestamp", False)]

PLAIN: dict[str, Any] = {
    "format": "dts-protobuf",
    "source": {"capture": "./shop"},
    "partitions": 1,
    "window": {"every": "1h", "start": "2026-01-05T00:00Z"},
}


@pytest.fixture
def shop(project: Project) -> Project:
    """A table with a key, one without, and one under a name that nothing can carry as it is."""
    tables = {ORDERS: COLUMNS, AUDIT: [("line", "string", False)], ODD: [("键", "bigint", True)]}
    return project.configure(include=["*"]).register(tables)


def key(*parts: str) -> dg.AssetKey:
    return dg.AssetKey(["shop", *parts])


def node(project: Project, *parts: str) -> AssetNode:
    return project.graph().get(key(*parts))


GRAPH: dict[tuple[str, ...], tuple[str, set[str], list[tuple[str, ...]]]] = {
    ("topic",): ("source", {"kafka"}, []),
    ("raw_envelopes",): ("raw", {"pyspark", "iceberg"}, [("topic",)]),
    ("entries",): ("entries", {"pyspark", "iceberg", "protobuf"}, [("raw_envelopes",)]),
    ("changelog", "shopdb", "orders"): ("changelog", {"pyspark", "iceberg"}, [("entries",)]),
    ("changelog", "shopdb", "audit"): ("changelog", {"pyspark", "iceberg"}, [("entries",)]),
    ("changelog", "shop%2Edb", "a%2Fb%7Cc %5B订单%5D"): ("changelog", {"pyspark", "iceberg"}, [("entries",)]),
    ("snapshot", "shopdb", "orders"): ("snapshot", {"pyspark", "iceberg"}, [("changelog", "shopdb", "orders")]),
    ("snapshot", "shopdb", "audit"): ("snapshot", {"pyspark", "iceberg"}, [("changelog", "shopdb", "audit")]),
    ("snapshot", "shop%2Edb", "a%2Fb%7Cc %5B订单%5D"): (
        "snapshot", {"pyspark", "iceberg"}, [("changelog", "shop%2Edb", "a%2Fb%7Cc %5B订单%5D")],
    ),
}  # fmt: skip


def test_the_whole_graph(shop: Project) -> None:
    graph = shop.graph()
    found = {
        tuple(one.path[1:]): (graph.get(one).group_name, graph.get(one).kinds, graph.get(one).parent_keys)
        for one in graph.get_all_asset_keys()
    }
    expected = {
        parts: (f"shop_{group}", kinds, {key(*up) for up in deps}) for parts, (group, kinds, deps) in GRAPH.items()
    }
    assert found == {**expected, ("maintenance",): ("shop_source", set(), set())}
    assert node(shop, "maintenance").is_external


def test_two_subscriptions_share_no_group(shop: Project) -> None:
    text = shop.config.read_text()
    other = text.partition("subscriptions:\n")[2].replace("  shop:", "  bank:")
    shop.config.write_text(f"{text}{other}")
    groups: dict[str, set[str]] = {}
    for one in shop.graph().get_all_asset_keys():
        groups.setdefault(one.path[0], set()).add(str(shop.graph().get(one).group_name))
    assert groups.keys() == {"shop", "bank"}
    assert groups["shop"].isdisjoint(groups["bank"])


def test_every_asset_has_an_owner_a_description_and_its_lake_table(shop: Project) -> None:
    graph = shop.graph()
    for one in graph.get_all_asset_keys():
        asset = graph.get(one)
        assert asset.owners == ["team:data-engineering"]
        assert asset.description
        if one not in (key("topic"), key("maintenance")):  # both are watched, and no tables
            assert asset.metadata["dagster/table_name"] == ".".join(["lake", *one.path])
            assert asset.code_version
            assert asset.tags["subscription"] == "shop"


def test_the_topic_is_watched_and_not_made(shop: Project) -> None:
    topic = node(shop, "topic")
    assert topic.is_external
    assert topic.metadata["kafka_partitions"] == 2
    assert all(node(shop, *parts).is_materializable for parts in GRAPH if parts != ("topic",))


def test_partitions_are_cells_where_kafka_orders_and_windows_elsewhere(shop: Project) -> None:
    for parts in GRAPH:
        partitions = node(shop, *parts).partitions_def
        if parts == ("topic",):
            assert partitions is None
        elif parts in (("raw_envelopes",), ("entries",)):
            assert isinstance(partitions, dg.MultiPartitionsDefinition)
            assert [dimension.name for dimension in partitions.partitions_defs] == ["kafka_partition", "window"]
        else:
            assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)


def test_a_table_that_asks_for_it_has_a_history_in_the_graph(shop: Project) -> None:
    shop.configure(include=["*"], history=["shopdb.o*"])
    histories = {
        one.path[-1]: shop.graph().get(one) for one in shop.graph().get_all_asset_keys() if one.path[1] == "history"
    }
    assert set(histories) == {"orders"}
    orders = histories["orders"]
    assert (orders.group_name, orders.parent_keys) == ("shop_history", {key("changelog", "shopdb", "orders")})
    columns = next(asset.columns for asset in graph_tables(shop.subscription) if asset.table == ORDERS)
    schema: Any = orders.metadata["dagster/column_schema"]
    assert [(column.name, column.type) for column in schema.columns] == list(history_columns(columns))
    definitions = shop.definitions()
    assert orders.key in definitions.resolve_job_def("shop_tables").asset_layer.executable_asset_keys


def test_any_rectangle_is_one_run(shop: Project) -> None:
    policies = {node(shop, *parts).backfill_policy for parts in GRAPH if parts != ("topic",)}
    assert policies == {dg.BackfillPolicy.single_run()}


def test_checks_of_windows_stand_once_and_those_of_a_table_at_its_snapshot(shop: Project) -> None:
    found = {(tuple(one.asset_key.path[1:]), one.name) for one in shop.graph().asset_check_keys}
    tables = {(parts, name) for parts, name in found if parts not in (("entries",), ("topic",))}
    assert found - tables == {
        (("entries",), "completeness"), (("entries",), "balance"), (("topic",), "time_to_loss"),
    }  # fmt: skip
    changelogs = {(parts, name) for parts, name in tables if parts[0] == "changelog"}
    assert len({parts for parts, _ in changelogs}) == 1
    assert {name for _, name in changelogs} == {"completeness", "balance"}
    snapshots = {parts for parts in GRAPH if parts[0] == "snapshot"}
    assert len(snapshots) > 1
    assert tables - changelogs == {
        (parts, name) for parts in snapshots for name in ("schema", "paused_tables", "one_row_per_key")
    }


def test_the_tables_job_plans_no_check_about_one_table(shop: Project) -> None:
    graph = shop.definitions().resolve_job_def("shop_tables").asset_layer.asset_graph
    assert {key.name for key in graph.asset_check_keys} == {"completeness", "balance"}


def test_declared_columns_are_those_of_the_lake(shop: Project) -> None:
    def declared(*parts: str) -> list[tuple[str, str]]:
        schema: Any = node(shop, *parts).metadata["dagster/column_schema"]
        return [(column.name, column.type) for column in schema.columns]

    of_orders = next(asset.columns for asset in graph_tables(shop.subscription) if asset.table == ORDERS)
    assert declared("raw_envelopes") == list(RAW_ENVELOPES)
    assert declared("entries") == list(ENTRIES)
    assert declared("changelog", "shopdb", "orders") == list(changelog_columns(of_orders))
    assert declared("snapshot", "shopdb", "orders") == list(snapshot_columns(of_orders))
    assert ("_source__event_time", "timestamp") in declared("snapshot", "shopdb", "orders")


def test_columns_are_shown_as_rules_let_them_be(shop: Project) -> None:
    columns = {"*.note": "drop", "shopdb.orders.id": {"hash": {"key": "a key that nobody guesses"}}}
    rules = Subscription.model_validate({"columns": columns, **PLAIN}).columns
    ruled = shop.subscription.model_copy(update={"columns": rules})
    shown = {asset.table: [(one.name, one.type) for one in asset.columns] for asset in graph_tables(ruled)}
    assert shown[ORDERS] == [("id", "string"), ("_event_time", "timestamp")]
    assert shown[AUDIT] == [("line", "string")]


def test_key_columns_are_marked_in_snapshots(shop: Project) -> None:
    schema = node(shop, "snapshot", "shopdb", "orders").metadata["dagster/column_schema"]
    marked = {column.name for column in schema.columns if KEY_TAG in column.tags}
    assert marked == {"id"}


def test_two_jobs_hold_all_assets_between_them(shop: Project) -> None:
    definitions = shop.definitions()
    held = {
        name: definitions.resolve_job_def(name).asset_layer.executable_asset_keys
        for name in ("shop_ingest", "shop_tables")
    }
    assert held["shop_ingest"] == {key("raw_envelopes"), key("entries")}
    assert held["shop_tables"] == {key(*parts) for parts in GRAPH if parts[0] in ("changelog", "snapshot")}


def test_sensors_are_there_and_stopped(shop: Project) -> None:
    sensors = {one.name: one for one in shop.definitions().sensors or ()}
    assert set(sensors) == {"shop_follow_source", "shop_follow_ledger", "shop_watch_topic"}
    assert {one.default_status for one in sensors.values() if isinstance(one, dg.SensorDefinition)} == {
        dg.DefaultSensorStatus.STOPPED
    }


def test_all_tables_are_one_step_that_takes_turns(shop: Project) -> None:
    step = shop.graph().get(key("changelog", "shopdb", "orders")).assets_def
    assert step.op.name == "shop_make_tables"
    assert key("snapshot", "shopdb", "orders") in step.keys
    assert step.can_subset
    assert step.op.pool == "shop_tables"


def test_definitions_are_valid_as_dagster_sees_it(shop: Project) -> None:
    dg.Definitions.validate_loadable(shop.definitions())


# Which tables the graph shows


def shown(project: Project) -> list[tuple[str, TableId]]:
    return [(asset.layer.name, asset.table) for asset in graph_tables(project.subscription)]


def test_a_table_without_a_key_is_in_all_layers(shop: Project) -> None:
    assert [layer for layer, table in shown(shop) if table == AUDIT] == ["changelog", "snapshot"]


def test_before_any_data_the_graph_has_the_tables_that_are_named_exactly(project: Project) -> None:
    named = project.configure(include=["shopdb.orders", "shopdb.items", "crm.*", "db.public.t"], exclude=["*.items"])
    layers = ("changelog", "snapshot")
    assert shown(named) == [(layer, table) for table in (TableId("db", "public", "t"), ORDERS) for layer in layers]
    schemas = [node(named, "changelog", *parts).metadata for parts in (("shopdb", "orders"), ("db", "public", "t"))]
    assert not any("dagster/column_schema" in metadata for metadata in schemas)
    dg.Definitions.validate_loadable(named.definitions())


def test_what_data_says_of_a_named_table_wins(project: Project) -> None:
    named = project.configure(include=["shopdb.orders"]).register({ORDERS: COLUMNS})
    assert shown(named) == [("changelog", ORDERS), ("snapshot", ORDERS)]


def test_a_registered_table_that_is_excluded_now_is_not_shown(project: Project) -> None:
    project.register({ORDERS: COLUMNS, AUDIT: COLUMNS, ODD: COLUMNS})
    assert {table for _, table in shown(project.configure(exclude=["shopdb.audit"]))} == {ORDERS}


def test_renamed_and_merged_tables_are_one_asset_each_under_the_name_in_the_lake(tmp_path: Path) -> None:
    """Also before any data; a table whose sources are all excluded or routed elsewhere now is not shown."""
    subscription = Subscription.model_validate(
        {
            **PLAIN, NAME_KEY: "shop", FOLDER_KEY: tmp_path, "history": ["shop_*.orders_*"],
            "tables": {"include": ["shop_1.orders_1", "shop_2.orders_1", "crm.clients", "*"], "exclude": ["crm.gone"]},
            "rename": {"crm.*": "sales.*"}, "merge": {"shop.orders": ["shop_*.orders_*"]},
        }
    )  # fmt: skip
    merged = [("changelog", "shop", "orders"), ("snapshot", "shop", "orders"), ("history", "shop", "orders")]
    named = [*merged, ("changelog", "sales", "clients"), ("snapshot", "sales", "clients")]
    assert {tuple(one.key.path[1:]) for one in graph_tables(subscription)} == set(named)
    column = RegisteredColumn("id", "int", "int", is_key=True)
    shards = tuple(TableId(f"shop_{number}", "", "orders_1") for number in range(3))
    tables = [
        RegisteredTable(TableId("shop", "", "orders"), (column,), sources=shards),
        RegisteredTable(TableId("sales", "", "gone"), (column,), sources=(TableId("crm", "", "gone"),)),
        RegisteredTable(TableId("crm", "", "clients"), (column,)),
        RegisteredTable(TableId("bank", "", "plain"), (column,)),
    ]
    merge_registry(subscription.registry_path, tables)
    plain = [("changelog", "bank", "plain"), ("snapshot", "bank", "plain")]
    assert {tuple(one.key.path[1:]) for one in graph_tables(subscription)} == {*named, *plain}


def test_outputs_have_neutral_names_that_never_repeat(shop: Project) -> None:
    names = [asset.output for asset in graph_tables(shop.subscription)]
    assert names == [f"t{number}" for number in range(6)]


def test_without_any_table_the_graph_ends_with_entries(project: Project) -> None:
    definitions = project.definitions()
    assert {tuple(one.path[1:]) for one in definitions.resolve_asset_graph().get_all_asset_keys()} == {
        ("topic",), ("raw_envelopes",), ("entries",), ("maintenance",),
    }  # fmt: skip
    assert {one.name for one in definitions.sensors or ()} == {"shop_follow_source", "shop_watch_topic"}
    dg.Definitions.validate_loadable(definitions)


def test_two_subscriptions_share_nothing_but_resources(project: Project) -> None:
    text = project.config.read_text()
    block = text[text.index("  shop:") :]
    project.config.write_text(text + block.replace("  shop:", "  bank:"))
    definitions = project.definitions()
    keys = definitions.resolve_asset_graph().get_all_asset_keys()
    assert {one.path[0] for one in keys} == {"shop", "bank"}
    assert set(definitions.resources or {}) == {"pipelines", "spark"}
    dg.Definitions.validate_loadable(definitions)
