"""The tables that rows reach by statements, in the order of the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dts_assets.model.column_rules import ColumnRule, RuleKind, RuleOf
from dts_assets.model.tables import TableId
from dts_assets.stages.reached_tables import Reached, reached_rule, reached_tables
from dts_assets.wire.ddl.reading import effects_of


def reached(*sqls: str) -> dict[str, set[str]]:
    """What the rows of each table reach: ``{"a": {"b", "c x=y"}}``, without the table itself under equal names of columns."""
    found = reached_tables([effects_of(sql, "d").effects for sql in sqls])
    return {table.table: set(map(shown, some)) for table, some in found.items()}


def shown(one: Reached) -> str:
    return " ".join([one.table.table, *(f"{old}={new}" for old, new in one.columns)])


def test_rows_reach_the_names_that_their_table_gets_later() -> None:
    assert reached("RENAME TABLE a TO b", "RENAME TABLE b TO c") == {"a": {"b", "c"}, "b": {"c"}}
    assert reached("RENAME TABLE b TO c", "RENAME TABLE a TO b") == {"a": {"b"}, "b": {"c"}}


def test_two_tables_that_swap_their_names_reach_each_other() -> None:
    assert reached("RENAME TABLE a TO x, b TO a, x TO b") == {"a": {"b", "x"}, "b": {"a"}, "x": {"b"}}


def test_rows_of_gh_ost_reach_the_table_and_its_rows_the_copy_that_is_dropped() -> None:
    swap = "RENAME TABLE t TO _t_del, _t_gho TO t"
    assert reached(swap, "DROP TABLE _t_del") == {"t": {"_t_del"}, "_t_gho": {"t"}}
    assert reached(swap, "DROP TABLE _t_del", "CREATE TABLE _t_gho (id int)", swap) == {
        "t": {"_t_del"},
        "_t_gho": {"t", "_t_del"},
    }


def test_rows_that_are_gone_reach_nothing() -> None:
    assert reached("TRUNCATE TABLE a", "RENAME TABLE a TO b") == {"a": {"b"}}  # those that came behind it
    assert reached("DROP TABLE a", "RENAME TABLE c TO a", "RENAME TABLE a TO b") == {"c": {"a", "b"}, "a": {"b"}}


def test_a_name_that_another_table_gets_leads_no_rows_of_before_on() -> None:
    for emptied in ("TRUNCATE TABLE a", "DROP TABLE a", "CREATE OR REPLACE TABLE a (id int)", "RENAME TABLE y TO a"):
        found = reached("RENAME TABLE x TO a", emptied, "RENAME TABLE a TO b")
        assert found["x"] == {"a"}, emptied


@pytest.mark.parametrize(
    ("kinds", "strictest"),
    [
        ("tokenize hash", RuleKind.HASH), ("hash mask tokenize", RuleKind.MASK), ("drop tokenize", RuleKind.TOKENIZE),
        ("drop", RuleKind.DROP),
    ],
)  # fmt: skip
def test_the_strictest_rule_of_the_tables_that_values_reach_counts(kinds: str, strictest: RuleKind) -> None:
    some = [ruled(TableId("d", "", kind), RuleKind(kind)) for kind in kinds.split()]
    for order in (some, some[::-1]):
        found = reached_rule(order, "email")
        assert found is not None
        assert found.kind is strictest
    assert reached_rule(some, "id") is None


def test_a_column_that_goes_before_has_no_rule_of_a_later_one() -> None:
    one, rule_of = ruled(TableId("d", "", "a"), RuleKind.DROP)
    assert reached_rule([(replace(one, columns=(("email", ""),)), rule_of)], "Email") is None
    assert reached_rule([(replace(one, columns=(("contact", "email"),)), rule_of)], "Contact") == ColumnRule(
        RuleKind.DROP
    )


def ruled(table: TableId, kind: RuleKind) -> tuple[Reached, RuleOf]:
    """A table with a rule on its column email."""
    return Reached(table), lambda name: ColumnRule(kind) if name.lower() == "email" else None


def test_columns_are_followed_with_their_tables() -> None:
    change = "ALTER TABLE a CHANGE contact Email varchar(9)"
    assert reached(change) == {"a": {"a contact=email"}}
    assert reached(change, "RENAME TABLE a TO b") == {"a": {"a contact=email", "b", "b contact=email"}}
    assert reached("RENAME TABLE a TO b", "ALTER TABLE b CHANGE x y int, CHANGE y x int") == {
        "a": {"b", "b x=y y=x"},
        "b": {"b x=y y=x"},
    }
    assert reached("ALTER TABLE a CHANGE x y int", "ALTER TABLE a CHANGE y z int") == {"a": {"a x=y", "a x=z", "a y=z"}}
    assert reached("ALTER TABLE a DROP COLUMN x", "RENAME TABLE a TO b") == {"a": {"a x=", "b", "b x="}}


def test_a_column_of_another_name_is_found_whatever_its_case() -> None:
    one = Reached(TableId("d", "", "a"), (("contact", "email"),))
    assert [one.name_of(name) for name in ("CONTACT", "Contact", "other")] == ["email", "email", "other"]
