"""Changes under former names: texts tell of all that count, and of no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.row_origins import moved_changes

NAME = TableId("shop", "", "orders_new")


def at(position: int) -> SourcePosition:
    return SourcePosition(0, 1, position)


def counted(first: int, *, kept: int = 1) -> WindowTable:
    return WindowTable(
        kafka_partition=0, window_start=datetime(2026, 1, 5, tzinfo=UTC), table=NAME, changes=kept, kept=kept, redelivered=0,
        quarantined=0, row_hash=first, absent_rows=0, invalid_values=0, first_position=at(first), last_position=at(first),
    )  # fmt: skip


def test_a_name_that_was_given_away_twice_counts_up_to_both_positions() -> None:
    early, later, behind = counted(10), counted(50), counted(90)
    both = [(NAME, at(20)), (NAME, at(60))]
    assert moved_changes(both, [early, later]) != moved_changes(both, [early, replace(later, row_hash=7)])
    assert moved_changes(both, [early, later]) != moved_changes(both, [replace(early, row_hash=7), later])
    assert moved_changes(both, [early, later, behind]) == moved_changes(both, [later, early])


def test_windows_without_a_change_do_not_count() -> None:
    assert moved_changes([(NAME, None)], [counted(10), counted(90, kept=0)]) == moved_changes(
        [(NAME, None)], [counted(10)]
    )
    assert moved_changes([(NAME, None)], [counted(10)]) != ()
    assert moved_changes([(TableId("shop", "", "other"), None)], [counted(10)]) == ()
