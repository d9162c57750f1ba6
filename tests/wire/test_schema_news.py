"""News of statements: what people are told of a change, and when a table is not proven behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_history import NO_DATABASE, SourceStatement
from dts_assets.wire.ddl.schema_news import applied_text, statement_news
from dts_assets.wire.ddl.table_schemas import TableSchema
from dts_assets.wire.ddl.told_schemas import ToldColumn

KNOWN: Mapping[TableId, TableSchema] = {
    TableId("shop", "", name): TableSchema(
        (ToldColumn("id", "int(11)", nullable=False), ToldColumn("n", "varchar(9)")), ("id",)
    )
    for name in ("orders", "items")
}
FILL = "the statement does not say which value rows have that were there"


def said(sql: str, *, is_first_state: bool = False) -> SourceStatement:
    return SourceStatement(
        SourcePosition(0, 4, 700), "shop", sql, datetime(2026, 1, 5, tzinfo=UTC), is_first_state=is_first_state
    )


def news(sql: str) -> list[tuple[str, str, str | None]]:
    return [(table.table, one.text, one.doubt) for table, one in statement_news(said(sql), KNOWN)[0]]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE orders ADD c INT", [("orders", "column c int(11) added after n", None)]),
        ("ALTER TABLE orders ADD c INT NOT NULL DEFAULT 4711", [("orders", "column c int(11) added after n", None)]),
        ("ALTER TABLE orders DROP n", [("orders", "column n dropped", None)]),
        ("ALTER TABLE orders MODIFY n VARCHAR(99)", [("orders", "column n is varchar(99), was varchar(9)", None)]),
        ("ALTER TABLE orders ADD c DATETIME DEFAULT NOW()", [("orders", "column c datetime added after n", FILL)]),
        ("ALTER TABLE orders ADD c TIMESTAMP DEFAULT NOW()", [("orders", "column c timestamp added after n", None)]),
        ("ALTER TABLE orders ADD c TIMESTAMP(3) DEFAULT NOW(3)", [("orders", "column c timestamp(3) added after n", FILL)]),
        ("ALTER TABLE orders ADD c CHAR(36) DEFAULT (UUID())", [("orders", "column c char(36) added after n", FILL)]),
        ("RENAME TABLE orders TO old", [(name, "table shop.orders renamed to shop.old", None) for name in ("orders", "old")]),
        ("DROP TABLE orders, items", [("orders", "table dropped", None), ("items", "table dropped", None)]),
        ("DROP DATABASE shop", [(name, "database shop dropped", None) for name in ("orders", "items")]),
        ("ALTER TABLE orders TRUNCATE PARTITION p0",
         [("orders", "rows changed by no event: truncate partition", "truncate partition")]),
        ("CREATE TABLE more (id INT)", [("more", "table created with 1 column", None)]),
        ("ALTER TABLE items FROBNICATE", [("items", "a statement that is not understood", "an action that is not known")]),
        ("FROBNICATE orders", [("orders", "a statement that is not understood", "not a statement that is known")]),
        ("ALTER TABLE orders ADD n INT", [("orders", "add column shop.orders.n int", None)]),
        ("ALTER TABLE orders RENAME COLUMN id TO n", [("orders", "rename column shop.orders.id to n", None)]),
        ("ALTER TABLE orders ADD n DATETIME DEFAULT NOW()", [("orders", "add column shop.orders.n datetime", FILL)]),
        ("CREATE TABLE more LIKE strange", [("more", "create shop.more", None)]),
    ],
)  # fmt: skip
def test_a_statement_has_news_for_its_tables(sql: str, expected: list[tuple[str, str, str | None]]) -> None:
    assert news(sql) == expected


@pytest.mark.parametrize(
    "sql",
    ["TRUNCATE orders", "CREATE INDEX i ON orders (n)", "ALTER TABLE orders ADD INDEX (n)", "CREATE DATABASE more",
     "FROBNICATE x", "GRANT SELECT ON orders TO reader", "", "ALTER TABLE orders ENGINE = InnoDB", "CREATE VIEW v AS SELECT 1",
     "ANALYZE TABLE orders", "OPTIMIZE TABLE orders", "CREATE TRIGGER x BEFORE INSERT ON orders FOR EACH ROW SET NEW.n = 'a'",
     "CREATE PROCEDURE p() BEGIN DROP TABLE orders; END", "ALTER TABLE orders ADD PARTITION (PARTITION p9 VALUES LESS THAN (9))",
     "ALTER TABLE orders COMMENT = 'x'", "LOCK TABLES orders WRITE", "FLUSH TABLES orders", "SET @a = 'orders'",
     "DROP VIEW orders_v", "DROP TRIGGER x", "CREATE USER orders",
     "ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (n) REFERENCES items (n)"],
)  # fmt: skip
def test_a_statement_without_news(sql: str) -> None:
    assert news(sql) == []


def test_a_rename_without_a_database_is_named_where_it_may_mean_a_table_of_another() -> None:
    elsewhere = replace(said("RENAME TABLE orders TO b.moved"), database="b")
    found, tables = statement_news(elsewhere, KNOWN)
    doubted = {table: one.doubt for table, one in found if one.doubt is not None}
    assert doubted == {TableId("shop", "", "orders"): NO_DATABASE}
    assert tables == KNOWN
    assert applied_text(elsewhere.sql, "b") == "yes", "what the text alone says does not depend on the order of windows"


def test_a_definition_before_a_full_load_is_no_news() -> None:
    assert statement_news(said("CREATE TABLE orders (id INT)", is_first_state=True), KNOWN) == ([], KNOWN)


def test_values_and_line_ends_stand_in_no_line() -> None:
    found, _ = statement_news(said("ALTER TABLE orders ADD `a\nb` INT DEFAULT 4711"), KNOWN)
    (one,) = [str(one) for _, one in found]
    assert one == "0:4:700: column a b int(11) added after n"


def test_the_next_statement_is_judged_by_what_one_has_made() -> None:
    _, tables = statement_news(said("ALTER TABLE orders ADD c INT"), KNOWN)
    found, _ = statement_news(said("ALTER TABLE orders CHANGE c d BIGINT"), tables)
    assert [one.text for _, one in found] == ["column c renamed to d", "column d is bigint(20), was int(11)"]
