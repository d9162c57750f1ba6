"""The lists of columns of a window, at the positions that its counts say."""

from __future__ import annotations

from dataclasses import replace

from dts_assets.model.columns import ColumnShape
from dts_assets.model.key_periods import KeyPeriod, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.told_schemas import told_shapes
from tests.wire.recorded_schemas import at
from tests.wire.test_schema_history import ORDERS, START, shape


def cell(**lists: tuple[int, int]) -> WindowTable:
    """The counts of a cell whose events listed columns, named by letters, between two positions."""
    periods = tuple(KeyPeriod(at(first), at(last), (list_digest(names),)) for names, (first, last) in lists.items())
    return WindowTable(
        kafka_partition=0, window_start=START, table=ORDERS, changes=9, kept=9, redelivered=0, quarantined=0, row_hash=0,
        absent_rows=0, invalid_values=0, keys=(KeyPeriod(at(1), at(9), ("a",)),), lists=periods, first_position=at(1),
        last_position=at(9),
    )  # fmt: skip


def seen(*shapes: tuple[ColumnShape, ...]) -> list[TableShapeRow]:
    return [TableShapeRow(0, START, ORDERS, one, at(0).at_server, "") for one in shapes]


def test_shapes_stand_where_the_counts_of_their_cell_say() -> None:
    a, ab = shape(("a", "int")), shape(("a", "int"), ("b", "int"))
    wide = shape(("a", "int"), ("b", "bigint"))
    found = told_shapes([cell(a=(1, 3), ab=(4, 9))], seen(ab, a))
    assert [(one.first, one.last, one.shapes) for one in found] == [(at(1), at(3), (a,)), (at(4), at(9), (ab,))]
    assert all(one.tells_keys and one.window_start == START for one in found)
    (_, both) = told_shapes([cell(a=(1, 3), ab=(4, 9))], seen(ab, a, wide))
    assert set(both.shapes) == {ab, wide}
    later = [*seen(ab), replace(seen(wide)[0], first_position=at(7).at_server)]
    (_, both) = told_shapes([cell(a=(1, 3), ab=(4, 9))], [*seen(a), *later])
    assert both.begins == ((at(4), (ab,)), (at(7), (wide,)))
    there_and_back = replace(cell(ab=(1, 3)), lists=(*cell(ab=(1, 3)).lists, *cell(a=(4, 4), ab=(5, 9)).lists))
    assert [(one.first, one.last, len(one.shapes)) for one in told_shapes([there_and_back], seen(a, ab))] == [
        (at(1), at(3), 1), (at(5), at(9), 1), (at(4), at(4), 1),
    ]  # fmt: skip
    assert [(one.first, one.last, len(one.shapes)) for one in told_shapes([there_and_back], seen(ab, wide))] == [
        (at(1), at(9), 2)
    ]  # fmt: skip


def test_a_shape_whose_first_event_was_not_kept_is_one_that_perhaps_no_kept_change_told() -> None:
    ab, wide = shape(("a", "int"), ("b", "int")), shape(("a", "int"), ("b", "bigint"))
    (first,) = [replace(one, first_position=at(4).at_server) for one in seen(ab)]
    for place, unsure in ((3, {wide}), (5, set()), (10, {wide})):
        rows = [first, replace(seen(wide)[0], first_position=at(place).at_server)]
        (found,) = told_shapes([cell(ab=(4, 9))], rows)
        assert found.unsure == unsure
    (found,) = told_shapes([cell(ab=(4, 9))], seen(ab, wide))
    assert not found.unsure, "one of them was kept"


def test_shapes_of_a_cell_without_lists_stand_somewhere_in_it_and_without_changes_nowhere() -> None:
    a, ab = shape(("a", "int")), shape(("a", "int"), ("b", "int"))
    (found,) = told_shapes([cell()], seen(ab, a))
    assert (found.first, found.last, set(found.shapes)) == (at(1), at(9), {a, ab})
    filtered = replace(cell(), first_position=None, last_position=None, keys=())
    assert told_shapes([filtered], seen(a)) == []
    assert told_shapes([cell(a=(1, 3))], []) == told_shapes([], seen(a)) == []
    assert not told_shapes([replace(cell(a=(1, 3)), keys=())], seen(a))[0].tells_keys


SHARDS = [TableId("d", "", f"s{number}") for number in range(2)]


def of_shards(*lists: tuple[int, int, tuple[str, ...]]) -> WindowTable:
    periods = tuple(
        KeyPeriod(at(first), at(last), (list_digest(names), *rest)) for first, last, (names, *rest) in lists
    )
    return replace(cell(), lists=periods)


def as_shard(source: TableId) -> tuple[TableId, tuple[str, ...]]:
    return ORDERS, (source.table,)


def test_shapes_of_shards_stand_where_their_own_changes_do() -> None:
    """A filter may have left out all changes of a shape, or of a shard."""
    a, ab = shape(("a", "int")), shape(("a", "int"), ("b", "int"))
    rows = [replace(row, table=shard) for shard in SHARDS for row in seen(a, ab)]
    counts = [of_shards((1, 3, ("a", "s0")), (2, 5, ("ab", "s1")), (4, 9, ("ab", "s0")))]
    found = told_shapes(counts, rows, as_shard)
    assert sorted((one.table.table, one.first, one.last, one.shapes, one.ends) for one in found) == [
        ("s0", at(1), at(3), (a,), True), ("s0", at(4), at(9), (ab,), True), ("s1", at(2), at(5), (ab,), True),
    ]  # fmt: skip
    assert told_shapes([of_shards((1, 3, ("a", "s7")))], rows, as_shard) == []


def test_counts_of_an_earlier_version_tell_lists_of_some_shard() -> None:
    """A shape stands at its first event, if a period holds that, and nobody knows at which shard's event it ends."""
    a, ab = shape(("a", "int")), shape(("a", "int"), ("b", "int"))
    rows = [replace(row, table=SHARDS[0], first_position=at(3).at_server) for row in seen(a, ab)]
    counts = [of_shards((1, 3, ("a",)), (4, 9, ("ab",)))]
    assert [(one.first, one.last, one.shapes, one.ends) for one in told_shapes(counts, rows, as_shard)] == [
        (at(3), at(3), (a,), False), (at(4), at(9), (ab,), False),
    ]  # fmt: skip
