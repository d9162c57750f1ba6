"""Histories of tables that have a new name by a statement, and no event under it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.followed_histories import FollowedHistory
from dts_assets.model.key_periods import KeyPeriod, KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.snapshot_plans import TableWindow
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import INT, Field, Table
from tests.flows.test_keys_of_histories import WINDOWS, Life
from tests.tiers import chosen


def lived() -> Life:
    """A row whose table gets another name, and one more in a later window."""
    life = Life(INT)
    life.change(None, {"id": 4, "n": 1})
    life.close(0)
    rename(life, "keyed", "other")
    life.close(1)
    rename(life, "other", "third")
    life.close(2)
    return life


def rename(life: Life, old: str, new: str) -> None:
    life.at += SECOND
    life.source.transaction(life.at, Ddl(f"RENAME TABLE bank.{old} TO bank.{new}"))


def versions(harness: Harness, table: str) -> list[tuple[Any, ...]]:
    rows = harness.rows("history", "bank", table)
    return [(row["id"], row["n"], row["_op"], row["_valid_to"] is not None) for row in rows]


@pytest.mark.parametrize("order", chosen([(0, 1, 2), (0, 2, 1), (1, 2, 0)], 1))
def test_rows_have_versions_under_a_name_that_no_event_has(order: Sequence[int], tmp_path: Path) -> None:
    harness = lived().opened(tmp_path)
    for window in order:
        harness.all(window)
    harness.settle()
    assert {name: versions(harness, name) for name in ("keyed", "other", "third")} == {
        "keyed": [(4, 1, "insert", True)],
        "other": [(4, 1, "rename", True)],
        "third": [(4, 1, "rename", False)],
    }


@pytest.mark.more
def test_a_history_that_is_asked_for_later_has_them_too(tmp_path: Path) -> None:
    source = lived().source
    before = open_short(bench_in_process(tmp_path, "later"), tmp_path / "capture", source.messages, windows=WINDOWS)
    before.all()
    after = bench_in_process(tmp_path, "later").open(
        tmp_path / "capture", partitions=2, window=before.pipeline.settings.window.model_dump(), history=["*"]
    )
    after.tables(2)
    assert versions(after, "third") == [(4, 1, "rename", False)]


def test_rows_that_came_have_their_key_as_long_as_no_change_tells_one() -> None:
    first, last = SourcePosition(0, 9, 10), SourcePosition(0, 9, 90)
    history = FollowedHistory("", keys=(KeyPeriod(first, last, ("n",)),))
    named = TableWindow(border(0), 0, first, first, statements=1)
    assert history.spans([named]) == (KeySpan(("n",)),)
    assert history.spans([named, TableWindow(border(1), 3, first.next, last)]) == ()  # these tell nothing of their key


@pytest.mark.parametrize("order", chosen([(1, 2, 0), (0, 1, 2)], 1))
def test_rows_are_found_by_the_key_that_they_had_under_their_former_name(order: Sequence[int], tmp_path: Path) -> None:
    """A table with another key had the name before, and no event has told of either of them there."""
    life = Life(INT)
    others = Table("others", [Field("id", INT), Field("n", INT, True)])
    life.change(None, {"id": 4, "n": 1})
    rename(life, "keyed", "other")
    life.close(0)
    life.source.rows["others"] = {}
    life.at += SECOND
    rows = [{"id": 1, "n": number} for number in range(3)]
    life.source.transaction(life.at, Dml(others, [(None, row) for row in rows]))
    rename(life, "other", "third")
    rename(life, "others", "other")
    life.close(1)
    life.close(2)
    harness = life.opened(tmp_path)
    for window in order:
        harness.all(window)
    harness.settle()
    assert sorted(versions(harness, "other")) == [
        (1, 0, "rename", False),
        (1, 1, "rename", False),
        (1, 2, "rename", False),
        (4, 1, "rename", True),
    ]


def test_changes_of_a_table_whose_name_begins_with_that_of_another_are_its_own(tmp_path: Path) -> None:
    life = Life(INT)
    longer = Table("keyed_new", [Field("id", INT, True), Field("n", INT)])

    def insert_new(number: int) -> None:
        life.source.rows.setdefault("keyed_new", {})
        life.at += SECOND
        life.source.transaction(life.at, Dml(longer, [(None, {"id": number, "n": number})]))

    life.change(None, {"id": 4, "n": 1})
    insert_new(5)
    rename(life, "keyed", "former")
    rename(life, "keyed_new", "keyed")
    life.at += SECOND
    life.source.transaction(life.at, Ddl("CREATE TABLE bank.keyed_new (id int PRIMARY KEY, n int)"))
    insert_new(6)
    life.close(0)
    life.change(None, {"id": 7, "n": 7})
    insert_new(8)
    life.close(1)
    life.close(2)
    harness = life.opened(tmp_path)
    harness.all()
    harness.settle()
    assert {row["id"] for row in harness.rows("snapshot", "bank", "keyed")} == {5, 7}
    assert sorted(versions(harness, "keyed")) == [
        (4, 1, "insert", True),
        (5, 5, "rename", False),
        (7, 7, "insert", False),
    ]
