"""Checks made from reports: which columns the lake holds in another form than events have them."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dts_assets.defs.checks import schema_result
from dts_assets.flows.reports import LayerOutcome, TableReport, TablesReport
from dts_assets.model.tables import TableId
from dts_assets.planning.column_types import ConvertedColumn

PRICE = ConvertedColumn("price", "string", ("decimal(10,4)",))


def report(**converted: tuple[ConvertedColumn, ...]) -> TablesReport:
    tables = [
        TableReport(TableId("shopdb", "", name), (), {"changelog": LayerOutcome()}, converted=columns)
        for name, columns in converted.items()
    ]
    return TablesReport((), tuple(tables), 1.0)


def shown(result: dg.AssetCheckResult) -> dict[str, Any]:
    return {name: value.value for name, value in result.metadata.items() if isinstance(value, dg.MetadataValue)}


def test_tables_whose_columns_have_one_type_pass() -> None:
    found = schema_result(report(items=(), orders=()))
    assert found.passed
    assert shown(found)["columns"] == 0


def test_tables_and_columns_with_values_in_another_form_are_named() -> None:
    number = ConvertedColumn("n", "string", ("int(11)", "date"))
    found = schema_result(report(items=(PRICE, number), orders=(), more=(PRICE,)))
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert [shown(found)[name] for name in ("tables", "columns")] == [2, 3]
    listed = shown(found)["converted_list"]
    assert all(f"**shopdb.{name}**: price is decimal(10,4) in events" in listed for name in ("items", "more"))
    assert "**shopdb.items**: n is int(11), date in events, and string in the lake" in listed


def test_a_result_names_a_hundred_columns_at_most() -> None:
    many = tuple(ConvertedColumn(f"c{number}", "string", ("int(11)",)) for number in range(150))
    found = schema_result(report(items=many))
    assert shown(found)["columns"] == 150
    assert shown(found)["converted_list"].count("int(11) in events") == 100
