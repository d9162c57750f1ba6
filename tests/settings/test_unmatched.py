"""Rules, filters and globs that match nothing are named, with what may be meant."""

from __future__ import annotations

from pathlib import Path

from dts_assets.model.tables import TableId
from dts_assets.settings.unmatched import unmatched
from tests.settings.test_rules import settings_of

CUSTOMERS, ORDERS, OTHER = (TableId("shopdb", "", name) for name in ("customers", "orders", "Orders"))
TABLES = {CUSTOMERS: {"id", "email", "a.b"}, ORDERS: {"id", "note"}, OTHER: {"id"}}


def said(tmp_path: Path, *lines: str, described: tuple[TableId, ...] = tuple(TABLES)) -> list[str]:
    return list(map(str, unmatched(settings_of(tmp_path, *lines), dict(TABLES), described)))


def test_rules_on_columns_are_compared_without_case(tmp_path: Path) -> None:
    rules = ("shopdb.customer.email", "shopdb.Customers.EMAIL", "shopdb.customers.emial", "*.nothing", "shopdb.*.`a.b`")
    assert said(tmp_path, "columns:", *(f'  "{one}": drop' for one in rules)) == [
        "columns: shopdb.customer.email matches nothing; did you mean shopdb.customers.email?",
        "columns: shopdb.customers.emial matches nothing; did you mean shopdb.customers.email?",
        "columns: *.nothing matches nothing",
    ]


def test_case_counts_in_all_other_settings(tmp_path: Path) -> None:
    lines = (
        'rows: {"shopdb.CUSTOMERS": "id > 1", "shopdb.Orders": "id > 1"}',
        'history: ["ShopDB.*", "*"]',
        'sql: {tables: ["shopdb.order"]}',
        "types: {shopdb.orders.note: string, shopdb.orders.not: string}",
        'tables: {include: ["shopdb.*"], exclude: ["shopdb.log"]}',
        'deletes: {"shopdb.custmers": soft}',
    )
    assert said(tmp_path, *lines) == [
        "types: shopdb.orders.not matches nothing; did you mean shopdb.orders.note?",
        "rows: shopdb.CUSTOMERS matches nothing; did you mean shopdb.customers?",
        "history: ShopDB.* matches nothing; did you mean shopdb.*?",
        "deletes: shopdb.custmers matches nothing; did you mean shopdb.customers?",
        "sql.tables: shopdb.order matches nothing; did you mean shopdb.Orders?",
        "tables.exclude: shopdb.log matches nothing",
    ]
    assert said(tmp_path, *lines, described=())[-1].startswith("sql.tables")


def test_a_rule_on_the_table_of_a_helper_matches_and_so_may_one_of_which_statements_alone_tell(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "columns:", '  "shopdb.customers.email": drop')
    helper = TableId("shopdb", "", "_customers_gho")
    assert unmatched(settings, {helper: {"email"}}, ()) == ()
    assert unmatched(settings, {CUSTOMERS: None}, ()) == ()
    assert unmatched(settings, {helper: {"id"}}, ()) != ()
    assert unmatched(settings, {}, ()) == ()
