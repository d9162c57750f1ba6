"""Checks made from reports: which columns of which snapshots outgrew their types."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dts_assets.defs.checks import schema_result
from dts_assets.flows.reports import LayerOutcome, TableReport, TablesReport
from dts_assets.model.tables import TableId
from dts_assets.planning.outgrown_types import OutgrownColumn

PRICE = OutgrownColumn("price", ("decimal(10,4)",), 7)


def report(**outgrown: tuple[OutgrownColumn, ...]) -> TablesReport:
    tables = [
        TableReport(
            TableId("shopdb", "", name), (), {"changelog": LayerOutcome(), "snapshot": LayerOutcome(outgrown=columns)}
        )
        for name, columns in outgrown.items()
    ]
    bag = TableReport(TableId("shopdb", "", "bag"), (), {"changelog": LayerOutcome()})
    return TablesReport((), (*tables, bag), 1.0)


def shown(result: dg.AssetCheckResult) -> dict[str, Any]:
    return {name: value.value for name, value in result.metadata.items() if isinstance(value, dg.MetadataValue)}


def test_snapshots_that_hold_what_their_tables_became_pass() -> None:
    found = schema_result(report(items=(), orders=()))
    assert found.passed
    assert shown(found)["columns"] == 0


def test_tables_and_columns_that_outgrew_their_types_are_named() -> None:
    found = schema_result(report(items=(PRICE, OutgrownColumn("n", ("text",), 0)), orders=(), more=(PRICE,)))
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert [shown(found)[name] for name in ("tables", "columns", "values")] == [2, 3, 14]
    listed = shown(found)["outgrown_list"]
    assert all(f"**shopdb.{name}**: price became decimal(10,4)" in listed for name in ("items", "more"))
    assert "**shopdb.items**: n became text" in listed


def test_a_result_names_a_hundred_columns_at_most() -> None:
    many = tuple(OutgrownColumn(f"c{number}", ("text",), 1) for number in range(150))
    found = schema_result(report(items=many))
    assert shown(found)["columns"] == 150
    assert shown(found)["outgrown_list"].count("became text") == 100
