"""The check that snapshots have one row for each key: no other job executes it, and it fails naming the tables."""

from __future__ import annotations

import dagster as dg
import pytest

from dts_assets.defs.row_keys import ONE_ROW_PER_KEY, keys_result
from dts_assets.flows import row_keys
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.model.failures import Failure
from dts_assets.model.tables import TableId
from tests.defs.projects import Project

ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")
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
def test_it_fails_and_names_the_tables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_keys, "find_repeated_keys", lambda _: OneByOne({ORDERS: 2, ITEMS: 0}))
    definitions = project.register({ORDERS: COLUMNS}).definitions()
    result = definitions.resolve_job_def("shop_keys").execute_in_process(raise_on_error=False)
    (judged,) = result.get_asset_check_evaluations()
    assert (judged.check_name, judged.passed) == (ONE_ROW_PER_KEY, False)
    assert judged.metadata["tables"].value == str(ORDERS)
    assert judged.metadata["repeated_keys"].value == 2


def test_it_passes_where_no_key_is_repeated() -> None:
    result = keys_result(OneByOne({ORDERS: 0}))
    assert result.passed
    assert result.metadata["snapshots"] == dg.IntMetadataValue(1)


def test_it_fails_with_the_sentence_of_a_table_that_cannot_be_read() -> None:
    result = keys_result(OneByOne({ORDERS: 0}, {ITEMS: Failure("The table items is odd.", 11)}))
    assert not result.passed
    assert result.metadata["not_looked_at"] == dg.MarkdownMetadataValue("- The table items is odd.")
