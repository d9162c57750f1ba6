"""The rules that a copy has passed, compared with those of now: each is applied once, and what cannot be applied is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dts_assets.model.column_rules import ColumnRule, RuleKind, RuleOf, table_rules
from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.copied_tables import CopiedTable, CopyKind, CopyState
from dts_assets.model.row_filters import RowFilter
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import RulesLeft, filter_digest, passed_now, rule_digest, rules_left
from dts_assets.settings.row_filters import filter_of

COLUMNS = (Column("id", "int", True), Column("Email", "string", False, ("email", "Email")), Column("n", "int", False))
HASH = ColumnRule(RuleKind.HASH, key=b"a key that nobody guesses")
OTHER = replace(HASH, key=b"another key that nobody guesses")
DROP, MASK = ColumnRule(RuleKind.DROP), ColumnRule(RuleKind.MASK, text="***")
SMALL, LARGE = filter_of("n < 5"), filter_of("n < 50")


def rule_of(rule: ColumnRule | None) -> RuleOf:
    return lambda name: rule if name.lower() == "email" else None


def copied(rule: ColumnRule | None, rows: RowFilter | None = None) -> CopiedTable:
    """A copy that was written under a rule and a filter, when the source spelled the column as it did first."""
    shapes = (ColumnShape("id", "int(11)", True), ColumnShape("email", "text", False), ColumnShape("n", "int", False))
    passed = passed_now(COLUMNS, ["id", "email", "n"], rule_of(rule))
    table, at = TableId("shopdb", "", "customers"), datetime(2026, 1, 5, tzinfo=UTC)
    return CopiedTable(
        "c", table, CopyKind.BOOTSTRAP, CopyState.COPIED, "a test", shapes, (), at,
        passed=passed, passed_filter=filter_digest(rows),
    )  # fmt: skip


def left(
    before: ColumnRule | None, now: ColumnRule | None, was: RowFilter | None = None, rows: RowFilter | None = None
) -> RulesLeft:
    rules = table_rules(COLUMNS, rule_of(now), rows)
    return rules_left(rules, COLUMNS, rule_of(now), rows, copied(before, was))


def test_rules_that_were_passed_are_not_left() -> None:
    assert not left(HASH, HASH, SMALL, SMALL).any
    assert not left(None, None).any
    found = left(HASH, HASH, None, SMALL).rules
    assert found is not None
    assert (found.columns, found.rows) == ({}, SMALL)
    assert [one.type for one in found.decoded] == ["int", "string", "int"]


def test_rules_that_came_later_are_left() -> None:
    found = left(None, HASH, SMALL, SMALL).rules
    assert found is not None
    assert (found.columns, found.rows) == ({"Email": HASH}, None)


@pytest.mark.parametrize(("before", "now"), [(HASH, OTHER), (HASH, None), (MASK, HASH), (DROP, HASH), (DROP, None)])
def test_another_rule_than_now_cannot_be_applied(before: ColumnRule, now: ColumnRule | None) -> None:
    assert left(before, now).clash == "its copy has passed another rule on email than the configuration has now"


def test_a_column_that_is_dropped_now_needs_no_value() -> None:
    found = left(HASH, DROP)
    assert found.clash is None
    assert found.rules is not None
    assert [one.name for one in found.rules.decoded] == ["id", "n"]


@pytest.mark.parametrize(("was", "now"), [(SMALL, LARGE), (SMALL, None)])
def test_another_filter_than_now_cannot_be_applied(was: RowFilter, now: RowFilter | None) -> None:
    assert "another row filter" in (left(None, None, was, now).clash or "")


def test_a_filter_that_came_later_needs_the_values_of_its_columns() -> None:
    assert "which its row filter looks at" in (left(HASH, HASH, None, filter_of("email LIKE 'a%'")).clash or "")


def test_digests_tell_no_secret() -> None:
    assert rule_digest(HASH) != rule_digest(OTHER)
    assert rule_digest(HASH) == rule_digest(replace(HASH))
    assert len({rule_digest(one) for one in (HASH, OTHER, DROP, MASK)}) == 4
    assert "***" not in rule_digest(MASK)
    assert filter_digest(None) is None
    assert filter_digest(SMALL) == filter_digest(filter_of("n < 5"))
