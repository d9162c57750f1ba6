"""Of Oracle two statements are read, to their last word; names are as Oracle keeps them."""

from __future__ import annotations

import pytest

from dts_assets.wire.ddl.oracle_statements import oracle_effects


@pytest.mark.parametrize(
    ("sql", "effect"),
    [
        ("TRUNCATE TABLE emp", "truncate HR.EMP"), ("truncate table App.emp;", "truncate APP.EMP"),
        ('DROP TABLE "HR"."Emp" CASCADE CONSTRAINTS PURGE', "drop HR.Emp"), ("drop table emp purge", "drop HR.EMP"),
        ("drop table emp cascade constraints", "drop HR.EMP"), ("drop table if exists emp", "drop HR.EMP"),
        ('drop table"x"', "drop HR.x"), ("TRUNCATE TABLE emp REUSE STORAGE", "truncate HR.EMP"),
        ("TRUNCATE TABLE emp PURGE MATERIALIZED VIEW LOG DROP ALL STORAGE", "truncate HR.EMP"),
        ("drop /* a */ table -- b\\n emp", "drop HR.EMP"), ("DROP TABLE if", "drop HR.IF"),
        ("/*+ x */ TRUNCATE TABLE émp$1", "truncate HR.`ÉMP$1`"),
    ],
)  # fmt: skip
def test_statements_that_take_all_rows_of_a_table(sql: str, effect: str) -> None:
    found = oracle_effects(sql.replace("\\n", "\n"), "HR")
    assert (found.parsed, (found.effect or "").replace("`", "")) == (True, effect.replace("`", ""))


@pytest.mark.parametrize(
    "sql",
    ["TRUNCATE TABLE emp CASCADE", "drop table emp@link", "drop table a, b", 'DROP TABLE emp AS "BIN$x$0"', "DROPTABLE emp",
     "truncate table t; drop table u", "CREATE TABLE x (a int)", "DROP VIEW v", "TRUNCATE CLUSTER c", "drop table emp restrict",
     "drop table emp cascadeconstraints", "TRUNCATE TABLE", "", "drop table 'emp'", "drop table emp purge cascade constraints",
     "ALTER TABLE emp TRUNCATE PARTITION p", 'drop table "emp', "FLASHBACK TABLE emp TO BEFORE DROP"],
)  # fmt: skip
def test_any_other_statement_is_not_read(sql: str) -> None:
    assert not oracle_effects(sql, "HR").parsed


def test_a_name_without_a_schema_needs_one_and_texts_of_any_length_are_read_once() -> None:
    assert not oracle_effects("drop table emp", "").parsed
    assert oracle_effects("drop table hr.emp", "").effect == "drop HR.EMP"
    assert not oracle_effects("drop table " + "/* */" * 100_000 + "emp x", "HR").parsed
    assert not oracle_effects("drop table " + " " * (1 << 20) + "emp", "HR").parsed
