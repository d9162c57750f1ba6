"""The names of a filter's columns: through renames, swaps, tables that are made anew, and tools that swap tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from dts_assets.model.tables import TableId
from dts_assets.settings.row_filters import filter_of
from dts_assets.wire.ddl.filter_names import filter_names, filters_by_position
from tests.wire.recorded_schemas import said

TABLE = TableId("shop", "", "orders")


def names(column: str, *statements: str) -> list[tuple[int | None, str]]:
    """The names of a column from position to position, of statements at 10, 20 and so on, whatever their order."""
    told = [said(10 * place, sql) for place, sql in enumerate(statements, 1)]
    found = filter_names(told, TABLE, [column])
    assert found == filter_names(Random(1).sample([*told, *told], 2 * len(told)), TABLE, [column])
    return [(None if one.since is None else one.since.position, one.name_of(column)) for one in found]


ONE, TWO, SWAP = (f"ALTER TABLE orders {one}" for one in (
    "RENAME COLUMN a TO b", "CHANGE b c INT", "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
))  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "column", "expected"),
    [
        ([ONE], "a", [(None, "a"), (10, "b")]),
        ([ONE], "A", [(None, "A"), (10, "b")]),
        ([ONE], "b", [(None, "a"), (10, "b")]),
        ([ONE], "x", []),
        (["ALTER TABLE other RENAME COLUMN a TO b", "ALTER TABLE orders ADD b INT, DROP a"], "a", []),
        (["ALTER TABLE orders CHANGE a A INT"], "a", []),
        ([ONE, TWO], "a", [(None, "a"), (10, "b"), (20, "c")]),
        ([ONE, TWO], "b", [(None, "a"), (10, "b"), (20, "c")]),
        ([ONE, TWO], "c", [(None, "a"), (10, "b"), (20, "c")]),
        ([SWAP], "a", [(None, "a"), (10, "b")]),
        ([SWAP, SWAP], "b", [(None, "b"), (10, "a"), (20, "b")]),
        ([ONE, "ALTER TABLE orders ADD a INT", "ALTER TABLE orders RENAME COLUMN a TO z"], "a", [(None, "a"), (10, "b")]),
        ([ONE, "DROP TABLE orders", "CREATE TABLE orders (a INT)"], "a", [(None, "a"), (10, "b"), (30, "a")]),
        (["RENAME TABLE orders TO old", "ALTER TABLE old RENAME COLUMN a TO b"], "a", [(None, "a"), (20, "b")]),
        (["RENAME TABLE orders TO old, new TO orders", "ALTER TABLE old RENAME COLUMN a TO b"], "a", []),
        (
            ["CREATE TABLE _orders_gho LIKE orders", "ALTER TABLE _orders_gho CHANGE a b INT",
             "RENAME TABLE orders TO _orders_del, _orders_gho TO orders", "ALTER TABLE orders RENAME COLUMN b TO c"],
            "a",
            [(None, "a"), (30, "b"), (40, "c")],
        ),
    ],
)  # fmt: skip
def test_a_column_is_followed_from_name_to_name(
    statements: list[str], column: str, expected: list[tuple[int | None, str]]
) -> None:
    assert names(column, *statements) == expected


START = datetime(2026, 1, 5, tzinfo=UTC)
NEXT = START + timedelta(hours=1)


def filters(
    *parts: tuple[datetime | None, str], said_in: dict[int, tuple[datetime, str]]
) -> list[tuple[int | None, str, bool]]:
    """The filters from position to position, of statements in windows by position; each tests its column for NULL."""
    statements = [replace(said(at, sql), window_start=start) for at, (start, sql) in said_in.items()]
    found = filters_by_position(statements, TABLE, [(until, filter_of(f"{name} IS NULL")) for until, name in parts])
    return [(None if one.since is None else one.since.position, one.rows.column, one.follows) for one in found]  # type: ignore[union-attr]


def test_a_filter_is_in_force_until_a_statement_of_its_window_drops_its_column() -> None:
    drop = {20: (NEXT, "ALTER TABLE orders DROP a, ADD a INT")}
    assert filters((NEXT, "a"), (None, "b"), said_in=drop) == [(None, "a", False), (20, "b", True)]
    assert filters((NEXT, "a"), (None, "a"), said_in=drop) == [(None, "a", False), (20, "a", True)]
    assert filters((START, "a"), (None, "b"), said_in=drop) == [(None, "a", False)], "another window drops it"
    assert filters((NEXT, "b"), (None, "a"), said_in=drop) == [(None, "b", False)], "another column is dropped"
    assert filters((None, "a"), said_in=drop) == []


def test_names_and_filters_follow_one_another() -> None:
    life = {
        10: (START, "ALTER TABLE orders RENAME COLUMN a TO b"),
        20: (NEXT, "ALTER TABLE orders DROP b, RENAME COLUMN c TO d"),
        30: (NEXT, "ALTER TABLE orders RENAME COLUMN d TO e"),
    }
    expected = [(None, "a", False), (10, "b", False), (20, "d", True), (30, "e", True)]
    assert filters((NEXT, "a"), (None, "c"), said_in=life) == expected
    assert filters((NEXT, "b"), (None, "e"), said_in=life) == expected
    later = {**life, 40: (NEXT + timedelta(hours=1), "ALTER TABLE orders DROP e")}
    three = filters((NEXT, "a"), (NEXT + timedelta(hours=1), "c"), (None, "x"), said_in=later)
    assert three == [*expected, (40, "x", True)]


GHOST = "RENAME TABLE orders TO _orders_del, _orders_gho TO orders"


def test_a_filter_is_in_force_until_a_copy_without_its_column_takes_the_name() -> None:
    """The copy is altered in any window; the window of the swap counts, and a copy that is made anew has lost nothing."""
    life = {
        10: (START, "CREATE TABLE _orders_gho LIKE orders"),
        20: (START, "ALTER TABLE _orders_gho DROP a"),
        30: (NEXT, GHOST),
    }
    assert filters((NEXT, "a"), (None, "b"), said_in=life) == [(None, "a", False), (30, "b", True)]
    assert filters((START, "a"), (None, "b"), said_in=life) == [(None, "a", False)]
    again = {**life, 25: (START, "CREATE TABLE _orders_gho LIKE orders")}
    assert filters((NEXT, "a"), (None, "b"), said_in=again) == [(None, "a", False)]
    other = {
        10: (START, "ALTER TABLE orders RENAME COLUMN a TO z"),
        20: (START, "ALTER TABLE _orders_gho DROP z"),
        30: (NEXT, GHOST),
    }
    assert filters((NEXT, "a"), (None, "b"), said_in=other) == [(None, "a", False), (10, "z", False), (30, "b", True)]
    named = {**life, 25: (START, "RENAME TABLE _orders_gho TO x"), 30: (NEXT, "RENAME TABLE orders TO y, x TO orders")}
    assert filters((NEXT, "a"), (None, "b"), said_in=named) == [(None, "a", False), (30, "b", True)]
