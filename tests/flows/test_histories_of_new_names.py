"""Histories of tables that have a new name by a statement, and no event under it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short
from tests.flows.source import Ddl
from tests.flows.source_tables import INT
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
