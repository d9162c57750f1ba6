"""The check that snapshots have one row for each key: no other job executes it, and each is about its own table."""

from __future__ import annotations

import dagster as dg
import pytest

from dts_assets.defs.row_keys import ONE_ROW_PER_KEY, keys_result
from dts_assets.flows import row_keys
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.model.failures import Failure
from dts_assets.model.tables import TableId
from tests.defs.projects import Project

ORDERS, ITEMS, BROKEN = (TableId("shopdb", "", name) for name in ("orders", "items", "broken"))
COLUMNS = [("id", "bigint", True), ("note", "string", False)]


def test_only_its_own_job_executes_it(project: Project) -> None:
    definitions = project.register({ORDERS: COLUMNS}).definitions()
    checks = {
        name: {key.name for key in definitions.resolve_job_def(name).asset_layer.asset_graph.asset_check_keys}
        for name in ("shop_tables", "shop_keys")
    }
    assert checks["shop_keys"] == {ONE_ROW_PER_KEY}
    assert ONE_ROW_PER_KEY not in checks["shop_tables"]
    assert checks["shop_tables"]


@pytest.mark.more
def test_each_snapshot_has_its_own_and_a_table_that_stands_still_has_no_result(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[TableId]] = []

    def find(_: object, *, tables: dict[TableId, object]) -> OneByOne[TableId, int]:
        asked.append(set(tables))
        return OneByOne({ORDERS: 2, ITEMS: 0})

    monkeypatch.setattr(row_keys, "find_repeated_keys", find)
    monkeypatch.setattr(row_keys, "failed_tables", lambda _: frozenset({BROKEN}))
    definitions = project.register({ORDERS: COLUMNS, ITEMS: COLUMNS, BROKEN: COLUMNS}).definitions()
    job = definitions.resolve_job_def("shop_keys")
    result = job.execute_in_process(raise_on_error=False)
    assert result.success
    assert {one.asset_key.path[-1]: one.passed for one in result.get_asset_check_evaluations()} == {
        "orders": False,
        "items": True,
    }
    assert asked == [{ORDERS, ITEMS, BROKEN}]


def test_it_counts_the_keys_of_its_own_table() -> None:
    found = OneByOne({ORDERS: 0, ITEMS: 2}, {BROKEN: Failure("The table broken is odd.", 11)})
    results = {table: keys_result(key_of(table), table, found) for table in (ORDERS, ITEMS, BROKEN)}
    assert [one.passed for one in results.values()] == [True, False, False]
    assert results[ITEMS].metadata["repeated_keys"] == dg.IntMetadataValue(2)
    assert results[BROKEN].metadata["not_looked_at"] == dg.TextMetadataValue("The table broken is odd.")
    assert results[ORDERS].asset_key == dg.AssetKey(["shop", "snapshot", *ORDERS.path])


def key_of(table: TableId) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(dg.AssetKey(["shop", "snapshot", *table.path]), ONE_ROW_PER_KEY)
