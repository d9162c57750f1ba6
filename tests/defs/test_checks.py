"""Checks made from reports: changes of schemas, columns in another form, and tables that are not proven any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from dts_assets.defs.checks import schema_result
from dts_assets.defs.metadata import changelog_metadata, history_metadata, snapshot_metadata
from dts_assets.flows.reports import LayerOutcome, TableFacts, TableReport, WindowReport
from dts_assets.model.positions import SourcePosition
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


ORDERS = TableId("shopdb", "", "orders")


def table(*, news: Mapping[datetime, tuple[SchemaNews, ...]] | None = None, **facts: Any) -> TableReport:
    layers = {"changelog": LayerOutcome(), "snapshot": LayerOutcome()}
    return TableReport(ORDERS, (), layers, news=news or {}, facts=TableFacts(**facts))


def shown(result: dg.AssetCheckResult) -> dict[str, Any]:
    return {name: value.value for name, value in result.metadata.items() if isinstance(value, dg.MetadataValue)}


def test_a_table_whose_columns_have_one_type_passes() -> None:
    found = schema_result(table(), WINDOW)
    assert found.passed
    assert shown(found) == dict.fromkeys(
        ("columns", "changes", "not_proven", "unknown_values", "unfitting_updates"), 0
    ), "no list of nothing: there is an event for each table with changes"


def test_columns_with_values_in_another_form_are_named_in_their_window() -> None:
    number = ConvertedColumn("n", "string", ("int(11)", "date"))
    found = schema_result(table(converted={START: (PRICE, number)}), WINDOW)
    assert (found.passed, found.severity.value, shown(found)["columns"]) == (False, "WARN", 2)
    assert shown(found)["converted_list"].splitlines() == [f"- {PRICE}", f"- {number}"]
    assert "price is decimal(10,4) in events" in shown(found)["converted_list"]
    assert schema_result(table(converted={START: (PRICE, number)}), LATER).passed


def test_a_result_names_a_hundred_columns_at_most() -> None:
    many = tuple(ConvertedColumn(f"c{number}", "string", ("int(11)",)) for number in range(150))
    found = schema_result(table(converted={START: many}), WINDOW)
    assert shown(found)["columns"] == 150
    assert shown(found)["converted_list"].count("int(11) in events") == 100


def test_a_change_of_a_schema_is_listed_in_its_window_and_passes() -> None:
    found = schema_result(table(news={START: (ADDED,)}), WINDOW)
    assert found.passed
    assert shown(found)["change_list"] == "- 0:4:700: column c int(11) added first"
    assert [shown(found)[name] for name in ("changes", "not_proven")] == [1, 0]
    assert shown(schema_result(table(news={START: (ADDED,)}), LATER))["changes"] == 0


def test_a_table_that_is_not_proven_is_an_error_also_beside_a_warning_until_it_is_proven() -> None:
    doubts = {START: "0:4:900: a partition", LATER.row.window.start: "0:4:900: a partition"}
    for converted in ((), (PRICE,)):
        one = table(news={START: (ADDED, LOST)}, converted={START: converted}, doubts=doubts)
        found = schema_result(one, WINDOW)
        assert (found.passed, found.severity.value) == (False, "ERROR")
        assert shown(found)["changes"] == 2
        assert shown(found)["not_proven_list"] == (
            "- 0:4:900: rows changed by no event: a partition (not proven: a partition went)"
        )
        later = schema_result(one, LATER)
        assert (later.passed, later.severity.value) == (False, "ERROR")
        assert shown(later)["not_proven_list"] == "- not proven since 0:4:900: a partition"
    warned = schema_result(table(converted={LATER.row.window.start: (PRICE,)}, doubts={START: "x"}), LATER)
    assert (warned.passed, warned.severity.value) == (False, "WARN")


def test_a_statement_that_found_no_row_fails_nothing() -> None:
    found = schema_result(table(news={START: (LOST,)}), WINDOW)
    assert (found.passed, shown(found)["changes"], shown(found)["not_proven"]) == (True, 1, 0)


def test_metadata_of_a_window_list_its_changes_and_have_none_where_there_are_none() -> None:
    made = changelog_metadata(table(news={START: (ADDED,) * 120}), WINDOW)
    assert made["schema_changes"] == 120
    assert made["schema_change_list"].value.splitlines()[0] == "- 0:4:700: column c int(11) added first"
    assert made["schema_change_list"].value.splitlines()[100:] == ["- and 20 more"]
    assert (
        not {"schema_changes", "schema_change_list"} & changelog_metadata(table(news={START: (ADDED,)}), LATER).keys()
    )


def test_values_that_nobody_knows_are_counted_by_column_and_warn_in_the_window_of_their_statement() -> None:
    one = table(unknown_values={START: {"total": 1200, "a": 1}})
    found = schema_result(one, WINDOW)
    assert (found.passed, found.severity.value) == (False, "WARN")
    assert shown(found)["unknown_values"] == 1201
    assert shown(found)["unknown_list"].splitlines() == [
        "- `a`: 1 value of a standing row is not known (servers convert it differently, or nothing tells it)",
        "- `total`: 1,200 values of standing rows are not known "
        "(servers convert them differently, or nothing tells them)",
    ]
    assert schema_result(one, LATER).passed


def test_values_that_nobody_knows_do_not_hide_an_error() -> None:
    found = schema_result(table(doubts={START: "0:4:900: x"}, unknown_values={START: {"total": 2}}), WINDOW)
    assert (found.passed, found.severity.value) == (False, "ERROR")
    assert [shown(found)[name] for name in ("not_proven", "unknown_values")] == [1, 2]


def test_a_result_names_a_hundred_columns_with_such_values() -> None:
    found = schema_result(table(unknown_values={START: {f"c{number:03}": 1 for number in range(150)}}), WINDOW)
    lines = shown(found)["unknown_list"].splitlines()
    assert (len(lines), lines[-1]) == (101, "- and 50 more")


def test_updates_that_do_not_fit_their_document_warn() -> None:
    rest = "that the stored document does not have; a full load or a later replace heals it"
    for count, said in ((1, f"1 update names a path {rest}"), (1200, f"1,200 updates name paths {rest}")):
        found = schema_result(table(misfits={START: count}), WINDOW)
        assert (found.passed, found.severity.value, shown(found)["unfitting_updates"]) == (False, "WARN", count)
        assert shown(found)["unfitting_list"] == f"- {said}"
    assert schema_result(table(misfits={START: 3}), LATER).passed


def test_a_materialization_of_a_snapshot_says_how_many_values_nobody_knows() -> None:
    snapshot = LayerOutcome(unknown_values={"total": 12, "a": 1})
    one = TableReport(ORDERS, (), {"snapshot": snapshot, "history": LayerOutcome()})
    assert snapshot_metadata(one, WINDOW)["unknown_values"] == 13
    assert "unknown_values" not in history_metadata(one, WINDOW)
