"""The names of a filter's columns: through renames, swaps, tables that are made anew, and tools that swap tables."""

from __future__ import annotations

from random import Random

import pytest

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.filter_names import filter_names
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
