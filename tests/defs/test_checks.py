"""Checks made from reports: changes of schemas, columns in another form, and tables that are not proven any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from dts_assets.defs.checks import schema_result
from dts_assets.defs.metadata import changelog_metadata, history_metadata, snapshot_metadata
from dts_assets.flows.reports import LayerOutcome, TableReport, TablesReport, WindowReport
from dts_assets.model.positions import SourcePosition
from dts_assets.model.removals import NotRemoved
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.column_types import ConvertedColumn
from dts_assets.wire.ddl.schema_news import SchemaNews
from tests.ledger_rows import cut_row

START = datetime(2026, 1, 5, tzinfo=UTC)
WINDOW = WindowReport(cut_row(Window(START, START + timedelta(hours=1))), applied=True, changes=0)
LATER = WindowReport(cut_row(Window(START + timedelta(hours=1), START + timedelta(hours=2))), applied=True, changes=0)
ADDED = SchemaNews("column c int(11) added first", SourcePosition(0, 4, 700))
LOST = SchemaNews("rows changed by no event: a partition", SourcePosition(0, 4, 900), "a partition\nwent")
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
    found = schema_result(report(items=(), orders=()), WINDOW)
    assert found.passed
    assert shown(found)["columns"] == 0


def test_tables_and_columns_with_values_in_another_form_are_named() -> None:
    number = ConvertedColumn("n", "string", ("int(11)", "date"))
    found = schema_result(report(items=(PRICE, number), orders=(), more=(PRICE,)), WINDOW)
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert [shown(found)[name] for name in ("tables", "columns")] == [2, 3]
    listed = shown(found)["converted_list"]
    assert all(f"**shopdb.{name}**: price is decimal(10,4) in events" in listed for name in ("items", "more"))
    assert "**shopdb.items**: n is int(11), date in events, and string in the lake" in listed


def test_a_result_names_a_hundred_columns_at_most() -> None:
    many = tuple(ConvertedColumn(f"c{number}", "string", ("int(11)",)) for number in range(150))
    found = schema_result(report(items=many), WINDOW)
    assert shown(found)["columns"] == 150
    assert shown(found)["converted_list"].count("int(11) in events") == 100


def with_news(*news: SchemaNews, converted: tuple[ConvertedColumn, ...] = ()) -> TablesReport:
    orders = TableId("shopdb", "", "orders")
    table = TableReport(orders, (), {"changelog": LayerOutcome()}, converted=converted, news={START: news})
    return TablesReport((WINDOW, LATER), (table,), 1.0)


def test_a_change_of_a_schema_is_listed_in_its_window_and_passes() -> None:
    found = schema_result(with_news(ADDED), WINDOW)
    assert found.passed
    assert shown(found)["change_list"] == "- **shopdb.orders**: 0:4:700: column c int(11) added first"
    assert [shown(found)[name] for name in ("changes", "not_proven", "not_proven_list")] == [1, 0, "none"]
    assert shown(schema_result(with_news(ADDED), LATER))["changes"] == 0


def test_a_table_that_is_not_proven_is_an_error_also_beside_a_warning() -> None:
    for converted in ((), (PRICE,)):
        found = schema_result(with_news(ADDED, LOST, converted=converted), WINDOW)
        assert (found.passed, found.severity.value) == (False, "ERROR")
        assert shown(found)["changes"] == 2
        assert shown(found)["not_proven_list"] == (
            "- **shopdb.orders**: 0:4:900: rows changed by no event: a partition (not proven: a partition went)"
        )
    warned = schema_result(with_news(ADDED, LOST, converted=(PRICE,)), LATER)
    assert (warned.passed, warned.severity.value) == (False, "WARN")


def test_metadata_of_a_window_list_its_changes_and_have_none_where_there_are_none() -> None:
    (table,) = with_news(*[ADDED] * 120).tables
    made = changelog_metadata(table, WINDOW)
    assert made["schema_changes"] == 120
    assert made["schema_change_list"].value.splitlines()[0] == "- 0:4:700: column c int(11) added first"
    assert made["schema_change_list"].value.splitlines()[100:] == ["- and 20 more"]
    assert not {"schema_changes", "schema_change_list"} & changelog_metadata(table, LATER).keys()


def with_unknown(*, doubt: str = "", **counts: dict[str, int]) -> TablesReport:
    tables = [
        TableReport(
            TableId("shopdb", "", name),
            (),
            {"snapshot": LayerOutcome(doubt=doubt, unknown_values=one), "history": LayerOutcome()},
        )
        for name, one in counts.items()
    ]
    return TablesReport((WINDOW,), tuple(tables), 1.0)


def test_values_that_nobody_knows_are_counted_by_column_and_warn() -> None:
    found = schema_result(with_unknown(orders={"total": 1200, "a": 1}, items={}), WINDOW)
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert shown(found)["unknown_values"] == 1201
    assert shown(found)["unknown_list"].splitlines() == [
        "- **shopdb.orders**: `a`: 1 value of a standing row is not known (servers convert it differently, or nothing tells it)",
        "- **shopdb.orders**: `total`: 1,200 values of standing rows are not known "
        "(servers convert them differently, or nothing tells them)",
    ]
    passed = schema_result(with_unknown(orders={}, items={}), WINDOW)
    assert passed.passed
    assert [shown(passed)[name] for name in ("unknown_values", "unknown_list")] == [0, "none"]


def test_values_that_nobody_knows_do_not_hide_an_error() -> None:
    found = schema_result(with_unknown(doubt="0:4:900: x", orders={"total": 2}), WINDOW)
    assert (found.passed, found.severity.value) == (False, "ERROR")
    assert [shown(found)[name] for name in ("not_proven", "unknown_values")] == [1, 2]


def test_a_result_names_a_hundred_columns_with_such_values() -> None:
    found = schema_result(with_unknown(orders={f"c{number:03}": 1 for number in range(150)}), WINDOW)
    lines = shown(found)["unknown_list"].splitlines()
    assert (len(lines), lines[-1]) == (101, "- and 50 more")


def test_updates_that_do_not_fit_their_document_warn() -> None:
    tables = tuple(
        TableReport(TableId("shop", "", name), (), {"snapshot": LayerOutcome(not_removed=NotRemoved(misfits=count))})
        for name, count in {"orders": 1, "carts": 0, "visits": 1200}.items()
    )
    found = schema_result(TablesReport((WINDOW,), tables, 1.0), WINDOW)
    assert (found.passed, found.severity.value, shown(found)["unfitting_updates"]) == (False, "WARN", 1201)
    rest = "that the stored document does not have; a full load or a later replace heals it"
    assert shown(found)["unfitting_list"].splitlines() == [
        f"- **shop.orders**: 1 update names a path {rest}",
        f"- **shop.visits**: 1,200 updates name paths {rest}",
    ]
    assert schema_result(TablesReport((WINDOW,), tables[1:2], 1.0), WINDOW).passed


def test_a_materialization_of_a_snapshot_says_how_many_values_nobody_knows() -> None:
    (table,) = with_unknown(orders={"total": 12, "a": 1}).tables
    assert snapshot_metadata(table, WINDOW)["unknown_values"] == 13
    assert "unknown_values" not in history_metadata(table, WINDOW)
