"""Policies on schema changes as they are written, and what they ask of snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.model.tables import TableId
from tests.settings.test_rules import mistakes_of, settings_of


def table(name: str, database: str = "shopdb") -> TableId:
    return TableId(database, "", name)


def test_the_first_glob_that_matches_counts(tmp_path: Path) -> None:
    shop = settings_of(tmp_path, 'schema_changes: {"shopdb.sessions": stop, "shopdb.carts": freeze, "shopdb.*": keep}')
    policies = {name: shop.schema_policy(table(name)) for name in ("orders", "sessions", "carts")}
    assert policies == {"orders": "keep", "sessions": "stop", "carts": "freeze"}
    assert shop.schema_policy(table("people", "hr")) == "follow"
    assert shop.snapshot_columns(table("carts")) == ("_new_columns",)
    assert shop.snapshot_columns(table("orders")) == ()
    assert shop.snapshot_requests == ("stop shopdb.sessions", "freeze shopdb.carts", "keep shopdb.*")


@pytest.mark.parametrize("word", ["follow", "stop"])
def test_a_policy_that_leaves_columns_alone_asks_for_nothing(word: str, tmp_path: Path) -> None:
    shop = settings_of(tmp_path, f"schema_changes: {word}")
    assert shop.snapshot_requests == ()
    assert shop.schema_policy(table("orders")) == word


MERGE = 'merge: {"shop.orders": ["shop_*.orders_*"]}'


@pytest.mark.parametrize("glob", ["shop.orders", "shop_*.orders_*"])
def test_a_merged_table_has_no_policy_of_its_own(glob: str, tmp_path: Path) -> None:
    says = "the merged table shop.orders always follows the statements of its shards; remove the line, or write follow instead of"
    (found,) = mistakes_of(tmp_path, f'{MERGE}\n    schema_changes: {{"{glob}": stop}}')
    assert says in found


@pytest.mark.parametrize("line", ["keep", '{"shop.orders": follow, "*": freeze}', '{"shop.*": stop}'])
def test_policies_of_many_tables_pass_over_merged_ones(line: str, tmp_path: Path) -> None:
    shop = settings_of(tmp_path, f"{MERGE}\n    schema_changes: {line}")
    assert shop.schema_policy(table("orders", "shop")) == "follow"
    assert shop.schema_policy(table("carts", "shop")) != "follow"


def test_without_a_word_snapshots_follow(tmp_path: Path) -> None:
    assert settings_of(tmp_path).schema_policy(table("orders")) == "follow"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("schema_changes: folow", '"folow" says nothing of schema changes; write follow, keep, freeze or stop'),
        ("schema_changes: {shopdb: keep}", "names no tables"),
        ("schema_changes: {a.b: keeep}", '"keeep" is none of its values'),
        ("schema_changes: [keep]", "a mapping is wanted here"),
    ],
)
def test_a_mistake_is_named(line: str, says: str, tmp_path: Path) -> None:
    assert any(says in one for one in mistakes_of(tmp_path, line))
