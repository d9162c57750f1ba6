"""Findings about a source: one sentence for each, with its tables and what follows for their rows."""

from __future__ import annotations

import pytest

from dts_assets.model.source_settings import DeclaredTable, Follows, SourceSettings
from dts_assets.model.tables import TableId
from dts_assets.planning.source_findings import find_findings

RIGHT = {
    "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": "",
    "binlog_transaction_compression": "OFF", "log_bin_compress": "OFF",
}  # fmt: skip
ORDERS, LINES = TableId("shop", "", "orders"), TableId("shop", "", "lines")
PLAIN = DeclaredTable(ORDERS, "InnoDB", True, has_json=True)


def test_a_source_that_tells_everything_has_no_finding() -> None:
    assert find_findings(SourceSettings(RIGHT, (PLAIN,))) == ()
    assert find_findings(SourceSettings({"log_bin": "1"}, (PLAIN,))) == ()  # an old server lacks the other variables


@pytest.mark.parametrize(
    ("variable", "value", "follows"),
    [
        ("log_bin", "OFF", Follows.MISSING),
        ("binlog_format", "MIXED", Follows.MISSING),
        ("binlog_format", "STATEMENT", Follows.MISSING),
        ("binlog_transaction_compression", "ON", Follows.MISSING),
        ("log_bin_compress", "ON", Follows.MISSING),
        ("binlog_row_value_options", "PARTIAL_JSON", Follows.WRONG),
        ("binlog_row_image", "MINIMAL", Follows.UNPROVEN),
        ("binlog_row_image", "NOBLOB", Follows.UNPROVEN),
        ("binlog_row_image", "FULL_NODUP", Follows.UNPROVEN),
    ],
)
def test_each_setting_of_a_binlog_is_one_finding(variable: str, value: str, follows: Follows) -> None:
    (found,) = find_findings(SourceSettings({**RIGHT, variable: value}, (PLAIN,)))
    assert found.follows is follows
    assert variable in found.sentence
    assert found.is_wrong is (follows is not Follows.UNPROVEN)


def test_parts_of_json_concern_tables_that_have_json() -> None:
    told = {**RIGHT, "binlog_row_value_options": "PARTIAL_JSON"}
    assert find_findings(SourceSettings(told, (DeclaredTable(LINES, "InnoDB", True),))) == ()
    assert "shop.orders" in find_findings(SourceSettings(told, (PLAIN,)))[0].sentence


@pytest.mark.parametrize(
    ("table", "follows", "said"),
    [
        (DeclaredTable(LINES, "InnoDB", True, parents=(ORDERS,)), Follows.WRONG, "shop.lines (of shop.orders)"),
        (DeclaredTable(LINES, "InnoDB", True, is_versioned=True), Follows.WRONG, "a DELETE comes as an UPDATE"),
        (DeclaredTable(LINES, "MEMORY", True), Follows.WRONG, "A restart of the server empties shop.lines"),
        (DeclaredTable(LINES, "MRG_MyISAM", True), Follows.MISSING, "stand in other tables"),
        (DeclaredTable(LINES, "InnoDB", False), Follows.UNPROVEN, "shop.lines without a primary key"),
    ],
)
def test_each_kind_of_table_is_one_finding(table: DeclaredTable, follows: Follows, said: str) -> None:
    (found,) = find_findings(SourceSettings(RIGHT, (PLAIN, table)))
    assert (found.follows, said in found.sentence) == (follows, True)


def test_a_server_that_writes_what_foreign_keys_do_has_no_finding_of_them() -> None:
    child = DeclaredTable(LINES, "InnoDB", True, parents=(ORDERS,))
    assert find_findings(SourceSettings({**RIGHT, "innodb_native_foreign_keys": "OFF"}, (child,))) == ()
    assert find_findings(SourceSettings({**RIGHT, "innodb_native_foreign_keys": "ON"}, (child,)))


def test_a_table_that_the_account_does_not_see_is_named() -> None:
    (found,) = find_findings(SourceSettings(RIGHT, (PLAIN,)), [ORDERS, LINES])
    assert (found.is_wrong, "sees no table shop.lines: nobody has looked at it" in found.sentence) == (False, True)


def test_many_tables_are_one_sentence_and_the_worst_comes_first() -> None:
    many = tuple(DeclaredTable(TableId("shop", "", f"t{number:03}"), "InnoDB", False) for number in range(50))
    found = find_findings(SourceSettings({**RIGHT, "binlog_format": "MIXED"}, many))
    assert [one.follows for one in found] == [Follows.MISSING, Follows.UNPROVEN]
    assert "shop.t019 and 30 more without a primary key" in found[1].sentence
