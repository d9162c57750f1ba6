"""The places of shapes: counts tell their lineages, whatever numbers the files of a server have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dts_assets.model.columns import ColumnShape
from dts_assets.model.key_periods import KeyPeriod, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import told_places

START = datetime(2026, 1, 5, tzinfo=UTC)
ORDERS = TableId("shop", "", "orders")


def row(file: int, position: int, *names: str, kind: str = "int", table: TableId = ORDERS) -> TableShapeRow:
    columns = tuple(ColumnShape(name, kind, name == "id") for name in names)
    return TableShapeRow(0, START, table, columns, ServerPosition(file, position), "")


def period(first: SourcePosition, last: SourcePosition, *names: str, shard: tuple[str, ...] = ()) -> KeyPeriod:
    return KeyPeriod(first, last, (list_digest(names), *shard))


def counts(*lists: KeyPeriod) -> list[WindowTable]:
    count = WindowTable(
        0, START, ORDERS, 9, 9, 0, 0, row_hash=0, absent_rows=0, invalid_values=0, lists=lists,
        first_position=lists[0].first, last_position=lists[-1].last,
    )  # fmt: skip
    return [count]


def in_order(rows: list[TableShapeRow], told: list[WindowTable], *, last: bool = False) -> list[str]:
    found = told_places(rows, told)
    some = sorted(found, key=lambda one: one[0].end) if last else found
    return [" ".join(column.name for column in one.columns) for _, one in some]


FIRST, LATER = SourcePosition(0, 9, 50), SourcePosition(1, 1, 4)


def test_a_server_that_took_over_stands_behind_the_one_before() -> None:
    rows = [row(1, 4, "id", "n"), row(9, 50, "id")]
    assert in_order(rows, counts(period(FIRST, FIRST, "id"), period(LATER, LATER, "id", "n"))) == ["id", "id n"]
    assert in_order(rows, []) == ["id n", "id"], "without counts nobody knows that a server took over"


def test_types_that_change_alone_stand_at_their_first_events() -> None:
    """Their list of columns is one, over both servers."""
    wide = row(1, 4, "id", kind="bigint")
    found = told_places([wide, row(9, 50, "id")], counts(period(FIRST, LATER, "id")))
    assert [(place.first, one.columns[0].original_type) for place, one in found] == [(FIRST, "int"), (LATER, "bigint")]
    assert max(found, key=lambda one: one[0].end)[1] == wide


def test_a_shape_that_comes_again_has_two_places() -> None:
    rows = [row(9, 50, "id"), row(9, 60, "id", "n")]
    at = [SourcePosition(0, 9, place) for place in (50, 60, 70)]
    told = counts(period(at[0], at[0], "id"), period(at[1], at[1], "id", "n"), period(at[2], at[2], "id"))
    assert in_order(rows, told) == ["id", "id n", "id"]
    assert in_order(rows, told, last=True)[-1] == "id"


def test_a_shape_without_a_kept_change_stands_before_those_of_a_later_lineage() -> None:
    """It was sent before, from a file with a higher number."""
    rows = [row(9, 700, "id", "n"), row(1, 4, "id")]
    assert in_order(rows, counts(period(LATER, LATER, "id")), last=True) == ["id n", "id"]


def test_a_first_event_that_was_not_kept_leaves_the_place_to_the_next_one() -> None:
    (found,) = told_places([row(9, 3, "id")], counts(period(FIRST, LATER, "id")))
    assert (found[0].first, found[0].last) == (FIRST, LATER)


def test_each_shard_has_the_places_of_its_own_changes() -> None:
    shards = [replace(ORDERS, table=name) for name in ("s0", "s1")]
    rows = [row(9, 50, "id", table=one) for one in shards]
    mine = counts(period(FIRST, FIRST, "id", shard=("s0",)), period(LATER, LATER, "id", shard=("s1",)))
    found = told_places(rows, mine, lambda source: (ORDERS, (source.table,)))
    assert [(one.table.table, place.first) for place, one in found] == [("s0", FIRST), ("s1", LATER)]
    earlier = counts(period(FIRST, LATER, "id"))
    found = told_places(rows, earlier, lambda source: (ORDERS, (source.table,)))
    assert [(one.table.table, place.first, place.last) for place, one in found] == [
        ("s0", FIRST, LATER), ("s1", FIRST, LATER),
    ]  # fmt: skip
