"""Histories whose key is altered by a statement: later changes find the versions that are open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import BIGINT, INSTANT, INT, MONEY, TEXT, WALL_CLOCK, Field, Kind, Table
from tests.tiers import chosen

WINDOWS = 3


class Life:
    """A table in three windows whose key gets other types."""

    def __init__(self, key: Kind) -> None:
        self.table = Table("keyed", [Field("id", key, True), Field("n", INT)])
        self.source = short_source(self.table)
        self.at: datetime = border(0)

    def get(self, key: Kind, *others: Field) -> None:
        """Give the table other columns."""
        self.table.columns[:] = [Field("id", key, True), Field("n", INT), *others]

    def change(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        self.at += SECOND
        self.source.rows["keyed"] = {} if before is None else {self.table.key(before): before}
        self.source.transaction(self.at, Dml(self.table, [(before, after)]))

    def say(self, sql: str) -> None:
        self.at += SECOND
        self.source.transaction(self.at, Ddl(f"ALTER TABLE bank.keyed {sql}"))

    def close(self, number: int) -> None:
        self.source.checkpoint(border(number) + 300 * SECOND)
        self.at = border(number + 1)

    def opened(self, folder: Path) -> Harness:
        bench = bench_in_process(folder, folder.name)
        return open_short(bench, folder / "capture", self.source.messages, windows=WINDOWS, history=["*"])


def key_gets_another_type(folder: Path, order: Sequence[int]) -> Harness:
    life = Life(TEXT)
    life.change(None, {"id": "4", "n": 1})
    life.change({"id": "4", "n": 1}, {"id": "4", "n": 2})
    life.change(None, {"id": "007", "n": 7})
    life.change(None, {"id": "8", "n": 8})
    life.close(0)
    life.say("MODIFY id decimal(12,2) NOT NULL")
    life.get(MONEY)
    life.change({"id": Decimal("4.00"), "n": 2}, {"id": Decimal("100.00"), "n": 2})
    life.close(1)
    life.change({"id": Decimal("7.00"), "n": 7}, None)
    life.change({"id": Decimal("100.00"), "n": 2}, {"id": Decimal("100.00"), "n": 3})
    life.close(2)
    harness = life.opened(folder)
    for window in order:
        harness.all(window)
    harness.settle()
    return harness


def versions(harness: Harness) -> list[tuple[Any, ...]]:
    """Values, operation, and whether the version has ended."""
    rows = harness.rows("history", "bank", "keyed")
    found = [(row["id"], row["n"], row["_op"], row["_valid_to"] is not None) for row in rows]
    return sorted(found, key=repr)


@pytest.mark.parametrize("order", chosen([(0, 1, 2), (0, 2, 1), (0, 1, 2, 0)], 1))
def test_changes_find_open_versions_behind_a_statement_that_converts_the_key(
    order: Sequence[int], tmp_path: Path
) -> None:
    harness = key_gets_another_type(tmp_path, order)
    assert versions(harness) == [
        ("100.00", 2, "update", True),
        ("100.00", 3, "update", False),
        ("4", 1, "insert", True),
        ("4.00", 2, "update", True),
        ("7.00", 7, "insert", True),
        ("8.00", 8, "insert", False),
    ]
    assert [(row["id"], row["n"]) for row in harness.rows("snapshot", "bank", "keyed")] == [
        (Decimal("8.00"), 8),
        (Decimal("100.00"), 3),
    ]


@pytest.mark.more
def test_rows_whose_keys_are_not_known_stay_several_rows(tmp_path: Path) -> None:
    life, first = Life(WALL_CLOCK), datetime(2026, 1, 5, 10)
    life.change(None, {"id": first, "n": 1})
    life.change(None, {"id": first + SECOND, "n": 2})
    life.close(0)
    life.say("MODIFY id timestamp NOT NULL")
    life.get(INSTANT)
    life.close(1)
    life.change(None, {"id": datetime(2026, 1, 5, 18, tzinfo=UTC), "n": 3})
    life.close(2)
    harness = life.opened(tmp_path)
    harness.all()
    harness.settle()
    assert versions(harness) == [
        ("2026-01-05 10:00:00", 1, "insert", False),
        ("2026-01-05 10:00:01", 2, "insert", False),
        ("2026-01-05 18:00:00+00:00", 3, "insert", False),
    ]


def test_values_of_a_column_that_came_empty_stand_under_its_next_name(tmp_path: Path) -> None:
    life = Life(INT)
    life.change(None, {"id": 4, "n": 1})
    life.say("ADD x int")
    life.get(INT, Field("x", INT))
    life.change(None, {"id": 5, "n": 1, "x": 5})
    life.say("RENAME COLUMN x TO y")
    life.get(INT, Field("y", INT))
    life.change(None, {"id": 6, "n": 1, "y": 6})
    life.close(0)
    harness = life.opened(tmp_path)
    harness.all()
    found = {row["id"]: (row["x"], row["y"]) for row in harness.rows("history", "bank", "keyed")}
    assert found == {4: (None, None), 5: (5, 5), 6: (None, 6)}


def test_values_stand_under_the_next_name_of_a_name_that_no_event_told(tmp_path: Path) -> None:
    """A column without an event is none of the history, and two columns change places by way of such a name."""
    life = Life(INT)
    life.get(INT, Field("x", INT), Field("y", TEXT))
    life.change(None, {"id": 4, "n": 1, "x": 44, "y": "a"})
    life.change(None, {"id": 5, "n": 1, "x": 55, "y": "b"})
    life.say("CHANGE id ident bigint NOT NULL")
    life.say("ADD fresh int DEFAULT 7")
    life.say("RENAME COLUMN x TO spare")
    life.say("RENAME COLUMN y TO x")
    life.say("RENAME COLUMN spare TO other")
    life.say("RENAME COLUMN other TO y")
    life.say("RENAME COLUMN fresh TO z")
    life.say("CHANGE ident id bigint NOT NULL")
    life.get(BIGINT, Field("x", TEXT), Field("y", INT), Field("z", INT))
    life.close(0)
    life.change({"id": 5, "n": 1, "x": "b", "y": 55, "z": 7}, None)
    life.change(None, {"id": 6, "n": 1, "x": "c", "y": 66, "z": 6})
    life.close(1)
    harness = life.opened(tmp_path)
    harness.all()
    found = harness.rows("history", "bank", "keyed")
    assert {row["id"]: (row["x"], row["y"], row["z"], row["_valid_to"] is None) for row in found} == {
        4: ("a", "44", 7, True),
        5: ("b", "55", 7, False),
        6: ("c", "66", 6, True),
    }
