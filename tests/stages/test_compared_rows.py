"""Rows of the lake beside rows of a server: what is counted, and which rows are named."""

from __future__ import annotations

import pyarrow as pa

from dts_assets.model.differences import Differences, DifferingRow
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.compared_rows import compare_bags, compare_by_key, lake_rows, server_rows
from dts_assets.stages.compared_values import ComparedColumn

INVALID = pa.map_(pa.string(), pa.string())
COLUMNS = (
    ComparedColumn("id", pa.int64(), ServerColumn("id", "bigint", "bigint", is_key=True)),
    ComparedColumn("day", pa.date32(), ServerColumn("day", "date", "date")),
)


def rows(*given: tuple[str, str | None]) -> pa.Table:
    return pa.table({"id": [one for one, _ in given], "day": pa.array([day for _, day in given], pa.string())})


def test_of_rows_with_one_key_that_of_the_server_is_no_difference() -> None:
    """A key that was damaged to another row's: wherever it stands, its row is the one too many."""
    for lake in (rows(("7", "x"), ("7", "b")), rows(("7", "b"), ("7", "x"))):
        found = Differences()
        compare_by_key(lake, rows(("6", "a"), ("7", "b")), ["id"], found)
        assert (found.changed, found.only_lake, found.only_server, found.repeated) == (0, 0, 1, 1)
        assert found.rows == [
            DifferingRow({"id": "7"}, lake={"id": "7", "day": "x"}, is_repeated=True),
            DifferingRow({"id": "6"}, server={"id": "6", "day": "a"}),
        ]


def test_no_more_rows_are_named_than_there_is_room_for_and_all_are_counted() -> None:
    found = Differences(room=3)
    compare_by_key(
        rows(*[(str(one), "a") for one in range(9)]), rows(*[(str(one), "b") for one in range(4, 9)]), ["id"], found
    )
    assert (found.only_lake, found.changed, found.total, len(found.rows)) == (4, 5, 9, 3)
    compare_bags(rows(("1", "a"), ("1", "a")), rows(("1", "b")), found)
    assert (found.only_lake, found.only_server, len(found.rows)) == (6, 1, 3)


def test_values_that_did_not_fit_are_compared_by_their_text_and_shown_without_a_mark() -> None:
    invalid = pa.array([[("day", "0000-00-00")], [("day", "2026-02-31")], None], INVALID)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), pa.nulls(3, pa.date32()), invalid], names=["id", "day", "_invalid"]
    )
    lake = lake_rows(batch, COLUMNS)
    server = server_rows([("01", "0000-00-00"), ("2", "2026-03-03"), ("3", "2026-01-01")], COLUMNS)
    found = Differences()
    compare_by_key(lake, server, ["id"], found)
    assert found.unfit == {"day": 1}, "of row 2 nobody knows what the server would have"
    assert found.rows == [
        DifferingRow({"id": "3"}, ("day",), {"id": "3", "day": None}, {"id": "3", "day": "2026-01-01"})
    ]
    bags = Differences()
    compare_bags(lake.drop(["id"]), server.drop(["id"]).slice(0, 1), bags)
    assert bags.rows[0].lake == {"day": "2026-02-31"}


def test_a_key_of_the_lake_is_a_literal_that_says_nothing_else_to_a_server() -> None:
    number, day = COLUMNS
    data = ComparedColumn("raw", pa.binary(), ServerColumn("raw", "varbinary", "varbinary(9)"))
    assert (number.literal("-5"), data.literal("00FF")) == ("-5", "X'00FF'")
    assert day.literal("2026-01-01") == f"_utf8mb4 X'{b'2026-01-01'.hex()}'"
    assert number.literal("1 OR 1") == f"_utf8mb4 X'{b'1 OR 1'.hex()}'"


def test_rows_of_no_column_are_counted() -> None:
    found = Differences()
    compare_bags(lake_rows(pa.RecordBatch.from_pydict({"x": [1, 2, 3]}), ()), server_rows([("1",)], ()), found)
    assert (found.only_lake, found.only_server) == (2, 0)


def test_a_value_that_the_lake_does_not_know_is_counted_also_where_the_server_has_none() -> None:
    lake, server = rows(("1", None), ("2", None), ("3", "a")), rows(("1", "x"), ("2", None), ("3", "a"))
    for unfilled, count in (((), 1), (("day",), 2)):
        by_key, bag = Differences(), Differences()
        compare_by_key(lake, server, ["id"], by_key, unknown=("day",), unfilled=unfilled)
        compare_bags(lake, server, bag, unknown=("day",), unfilled=unfilled)
        assert by_key.nothing
        assert bag.nothing
        assert by_key.unknown == bag.unknown == {"day": count}
