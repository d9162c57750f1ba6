"""Changes taken over into current rows in Arrow, against a model in Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.change_columns import Counted, RowShape
from dts_assets.stages.keys import Keys, differ, hash_keys
from tests.stages.merging import (
    ALL,
    CHANGES,
    IMAGE,
    NAMES,
    SHAPE,
    SNAPSHOT,
    UNFIT,
    again,
    batch,
    emptied_at,
    merged,
    shown,
    stored,
    touched_by,
)
from tests.stages.worlds import COLUMNS, DOINGS, HOUR, KEYS, START, Change, Key, Row, Shown, World, at, expected_of, row


def taken(
    batches: Sequence[pa.RecordBatch], before: Frontier = EMPTY_FRONTIER, after: Frontier = ALL, shape: RowShape = SHAPE
) -> pa.RecordBatch:
    nothing = pa.RecordBatch.from_pylist([], schema=shape.schema)
    return merged(nothing, batches, Counted(after, before), shape=shape)


def live(expected: dict[Key, Shown | None]) -> dict[Key, Shown]:
    return {key: value for key, value in expected.items() if value is not None}


@pytest.mark.more
def test_the_last_operation_on_every_key_is_what_the_database_holds() -> None:
    worlds = [World(number, random.Random(number)).live(14, DOINGS) for number in range(300)]
    changes = [change for world in worlds for change in world.changes]
    whole = batch(changes)
    found = taken([whole.slice(0, 100), whole.slice(100, 1), whole.slice(101)])
    expected = expected_of(worlds)
    assert shown(found) == live(expected)
    everybody = [pa.array([key[n] for key in expected], pa.int32()) for n in (0, 1)]
    assert touched_by([whole]).rows(everybody).all(), "keys that were left are among those that are touched"


@pytest.mark.parametrize("shares", [1, 3])
def test_rows_of_earlier_changes_and_what_comes_later_are_the_whole_history(shares: int) -> None:
    worlds = [World(number, random.Random(number)).live(8, DOINGS) for number in range(200)]
    rows = taken([batch(change for world in worlds for change in world.changes)])
    counts = [len(world.changes) for world in worlds]
    for world in worlds:
        world.live(5, DOINGS)
    later = [one for world, count in zip(worlds, counts, strict=True) for one in world.changes[count:]]
    gone = touched_by([batch(later)]).rows([rows.column("world"), rows.column("id.no")])
    assert 0 < gone.sum() < len(gone)
    found = merged(rows, [batch(later[number::2]) for number in range(2)], shares=shares)
    assert shown(found) == live(expected_of(worlds))


@pytest.mark.parametrize("shares", [1, 3])
def test_keys_that_are_computed_again_forget_what_stood(shares: int) -> None:
    """A window was replaced: rows of its old version are spoilt, and its keys are made again from all changes."""
    worlds = [World(number, random.Random(number)).live(8, DOINGS) for number in range(100)]
    early = [change for world in worlds for change in world.changes]
    standing = [one for world in worlds for one in world.rows.values()]
    counts = [len(world.changes) for world in worlds]
    for world in worlds:
        world.live(5, DOINGS)
    later = [replace(one, window=1) for world in worlds for one in world.changes[counts[world.number] :]]
    chance = random.Random(7)
    wrong = set(chance.sample(range(len(standing)), len(standing) // 5))
    spoilt = [
        Shown((*one.row[:2], "spoilt", 7), one.event_time, 9, 9) if number in wrong else one
        for number, one in enumerate(standing)
    ]
    replaced = [Change("insert", None, standing[number].row, at(1, 1)) for number in wrong]
    never = Change("insert", None, (5000, 1, "never", 1), at(1, 1))
    keys = again([batch([*replaced, never, *chance.sample(later, 20)])])
    spoilt.append(Shown((5000, 1, "never", 1), START, 0, 0))  # of the old version alone: nothing tells of it any more
    counted = Counted(ALL, Frontier(START, START, None), again=keys, newer=frozenset({START + HOUR}))
    found = merged(stored(spoilt), [batch(early), batch(later)], counted, shares=shares)
    assert shown(found) == live(expected_of(worlds))


def test_only_what_one_frontier_holds_and_the_other_does_not() -> None:
    changes = [
        Change("insert", None, row(number, f"{number}"), at(3, 10 * number), window=number // 3) for number in range(12)
    ]
    before = Frontier(START + HOUR, START, at(3, 40))  # the first window, and of the second what is at or before 40
    after = Frontier(START + 2 * HOUR, START + HOUR, at(3, 70))
    found = taken([batch(changes)], before, after)
    assert sorted(key[0] for key in shown(found)) == [5, 6, 7]
    for frontier in (before, after):
        held = taken([batch(changes)], EMPTY_FRONTIER, frontier)
        expected = {n for n in range(12) if frontier.holds(START + n // 3 * HOUR, at(3, 10 * n))}
        assert {key[0] for key in shown(held)} == expected
    later_lineage = Change("insert", None, row(99, "b"), at(1, 1, 1), window=2)
    assert not shown(taken([batch([later_lineage])], EMPTY_FRONTIER, after))


def test_no_changes_touch_nothing() -> None:
    for batches in ([], [batch([])], [batch([Change("insert", None, row(1), at(1, 1), window=200)])]):
        assert taken(batches).num_rows == 0
        assert not touched_by(batches).rows([pa.array([1], pa.int32()), pa.array([1], pa.int32())]).any()


def emptied(position: SourcePosition, partition: int = 0, window: int = 0) -> Change:
    return Change("truncate", None, None, position, 0, partition, window=window)


def test_a_truncation_is_no_row() -> None:
    found = taken([batch([Change("truncate", None, None, at(1, 1)), Change("insert", None, row(1), at(1, 2))])])
    assert sorted(shown(found)) == [(1, 1)]


def test_values_that_do_not_fit_are_shown_by_the_snapshots_names() -> None:
    old, new = ("before.name", "0xFE"), (("after.name", "0xFF"), ("after.amount", "many"), ("after.gone", "x"))
    changes = [
        Change("insert", None, row(1, "a"), at(1, 1)),
        Change("insert", None, row(2), at(1, 2), invalid=new),
        Change("update", row(3), row(3, "b"), at(1, 3), invalid=(old,)),
        Change("insert", None, row(4), at(1, 4), invalid=(old, *new)),
        Change("delete", row(4), None, at(1, 5), invalid=(old,)),
        Change("insert", None, row(5), at(1, 6), invalid=new[1:]),
    ]
    found = {one["world"]: one["_invalid"] for one in taken([batch(changes)]).to_pylist()}
    amount = ("_source_amount", "many")
    assert found == {1: None, 2: [("name", "0xFF"), amount], 3: None, 5: [amount]}


def test_a_null_in_a_key_is_a_key_like_any_other() -> None:
    nobody: Row = (None, 1, "a", 1)  # type: ignore[assignment]
    changes = [
        Change("insert", None, nobody, at(1, 1)),
        Change("update", nobody, (*nobody[:2], "b", 1), at(1, 2)),
        Change("insert", None, row(1), at(1, 3)),
    ]
    rows = taken([batch(changes)])
    assert sorted((one["world"], one["name"]) for one in rows.to_pylist() if one["world"] is None) == [(None, "b")]
    gone = Change("delete", (*nobody[:2], "b", 1), None, at(1, 4))
    assert [one["world"] for one in merged(rows, [batch([gone])]).to_pylist()] == [1]


TRUNCATIONS: dict[str, tuple[list[SourcePosition], list[int]]] = {
    "none": ([], [0, 1, 2, 3, 4]),
    "one between changes": ([at(9, 950)], [2, 3, 4]),
    "the last of several, whatever their order": ([at(10, 4), at(1, 1), at(9, 950)], [3, 4]),
    "by number, never as text": ([at(10, 3)], [2, 3, 4]),
    "by lineage before file": ([at(10, 99)], [4]),
    "one after all changes": ([at(3, 9, 1)], []),
    "the same one from two Kafka partitions": ([at(9, 950), at(9, 950)], [2, 3, 4]),
    "one behind the frontier": ([at(9, 950)], [2, 3, 4]),
}


@pytest.mark.parametrize(("positions", "kept"), TRUNCATIONS.values(), ids=TRUNCATIONS)
def test_only_what_is_later_than_the_last_truncation_counts(positions: list[SourcePosition], kept: list[int]) -> None:
    places = [at(9, 900), at(9, 950), at(10, 4), at(10, 5), at(1, 1, 1)]
    changes = [Change("insert", None, row(0, number=number), place) for number, place in enumerate(places)]
    unseen = emptied(at(9, 9, 9), window=200)
    whole = [batch([*changes, *(emptied(one, n % 2) for n, one in enumerate(positions))]), batch([unseen])]
    last = emptied_at(whole)
    assert last == max(positions, default=None)
    found = merged(stored([]), whole, Counted(ALL, emptied_at=last))
    assert sorted(key[1] for key in shown(found)) == kept


@pytest.mark.parametrize("fold_absent", [False, True])
def test_a_whole_snapshot_holds_what_the_database_holds_after_truncations(*, fold_absent: bool) -> None:
    """Tables are emptied in the middle of their lives, rows come back under their old keys, and some are emptied last."""

    def truncate(world: World) -> None:
        world.position += 1
        world.changes.append(emptied(SourcePosition(0, world.file, world.position), world.number % 3))
        world.rows.clear()

    empty = 0
    for number in range(60):
        world = World(number, random.Random(100 + number)).live(12, DOINGS)
        truncate(world)
        world.live(number % 3 * 4, DOINGS)
        empty += not world.rows
        whole = [batch(world.changes)]
        counted = Counted(ALL, emptied_at=emptied_at(whole))
        found = shown(merged(stored([]), whole, counted, fold_absent=fold_absent, shares=1 + number % 2))
        assert {key[1]: one for key, one in found.items()} == world.rows
    assert 0 < empty < 60


@pytest.mark.parametrize("fold_absent", [False, True])
@pytest.mark.parametrize("shares", [1, 3])
def test_rows_are_kept_apart_whose_keys_do_not_fit(shares: int, *, fold_absent: bool) -> None:
    """One such row is deleted after a truncation, another is changed by an event that does not send its key again."""

    def unfit(name: str | None = None) -> Row:
        return (0, None, name, None)  # type: ignore[return-value]

    def text(image: str, value: str) -> tuple[str, str]:
        return f"{image}.id.no", value

    inserted = [
        Change("insert", None, unfit(value), at(1, number), invalid=(text("after", value),))
        for number, value in enumerate(["x", "y", "x", "y", "z"])
    ]
    changed = [
        Change("delete", unfit("x"), None, at(1, 9), invalid=(text("before", "x"),)),
        Change("update", unfit("y"), unfit("new"), at(1, 9), absent=KEYS, invalid=(text("before", "y"),)),
        Change("update", unfit("z"), row(0, "z"), at(1, 9), invalid=(text("before", "z"),)),
    ]
    whole = [batch([*inserted[:2], emptied(at(1, 1)), *inserted[2:]])]
    counted = Counted(ALL, emptied_at=emptied_at(whole))
    first = merged(stored([]), whole, counted, shape=UNFIT, fold_absent=fold_absent, shares=shares)
    both = [
        merged(first, [batch(changed)], shape=UNFIT, fold_absent=fold_absent, shares=shares),
        merged(stored([]), [*whole, batch(changed)], counted, shape=UNFIT, fold_absent=fold_absent, shares=shares),
        merged(
            first, [*whole, batch(changed)],
            Counted(ALL, emptied_at=emptied_at(whole), again=again([batch(changed)], shape=UNFIT)),
            shape=UNFIT, fold_absent=fold_absent, shares=shares,
        ),
    ]  # fmt: skip
    for rows in both:
        assert {(one["id.no"], one["name"], str(dict(one["_invalid"] or ()))) for one in rows.to_pylist()} == {
            (None, "new", "{'id.no': 'y'}"), (1, "z", "{}")
        }  # fmt: skip


def test_a_file_older_than_a_column_or_its_type() -> None:
    """Such changes have no value of it; a narrower one becomes the snapshot's."""
    old = pa.struct([("world", pa.int16()), ("id.no", pa.int32()), ("name", pa.string())])
    changes = batch([Change("insert", None, row(1, "a"), at(1, 1))])
    images = [pa.array([None], old), pa.array([{"world": 1, "id.no": 1, "name": "a"}], old)]
    older = pa.RecordBatch.from_arrays([changes.column(0), *images, *changes.columns[3:]], names=CHANGES.names)
    newer = batch([Change("insert", None, (2, 1, "b", 5), at(1, 2))])
    assert {one.row for one in shown(taken([older, newer])).values()} == {(1, 1, "a", None), (2, 1, "b", 5)}


@pytest.mark.parametrize(
    "values",
    [
        ["a", "A", "a ", "", "é"], [b"", b"\0", b"a"], [Decimal("1.10"), Decimal("-1.10"), Decimal("0.00")],
        [date(2026, 1, 1), date(1000, 1, 1)], [datetime(2026, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
        [True, False], [1, -1, 1 << 60],
    ],
)  # fmt: skip
def test_keys_of_every_type_are_found_again(values: list[object]) -> None:
    column = pa.array(values)
    first = pa.array(range(len(values)))
    keys = Keys([first.take(pa.array([0, 1, 1, 0])), column.take(pa.array([0, 1, 1, 1]))])
    assert list(keys.codes) == [0, 2, 2, 1]
    pairs = [(a, b) for a in range(len(values)) for b in range(len(values))]
    numbers = [pa.array([pair[side] for pair in pairs]) for side in (0, 1)]
    found = keys.among([first.take(numbers[0]), column.take(numbers[1])])
    assert {pair for pair, is_there in zip(pairs, found, strict=True) if is_there} == {(0, 0), (0, 1), (1, 1)}
    assert not keys.among([pa.nulls(1, first.type), column.slice(0, 1)]).any()
    hashes = hash_keys([first.take(numbers[0]), column.take(numbers[1])])
    assert len(set(hashes)) == len(pairs), "equal hashes would do no harm, but should be rare"


def test_nulls_zeros_and_what_is_no_number_are_keys_that_are_found_again() -> None:
    nan = float("nan")
    column = pa.array([0.0, -0.0, nan, -nan, None, None, 1.5], pa.float64(), from_pandas=False)
    keys = Keys([column])
    assert list(keys.codes) == [keys.codes[0]] * 2 + [keys.codes[2]] * 2 + [keys.codes[4]] * 2 + [keys.codes[6]]
    assert len(set(keys.codes)) == 4
    assert list(keys.among([pa.array([-0.0, nan, None, 2.5], pa.float64(), from_pandas=False)])) == [
        True,
        True,
        True,
        False,
    ]
    assert not differ(column, column).any()
    assert list(differ(column, pa.array([-0.0, 0.0, nan, 1.0, None, 0.0, None], pa.float64(), from_pandas=False))) == [
        False, False, False, True, False, True, True
    ]  # fmt: skip
    narrow = pa.array([1.5, None, nan], pa.float32(), from_pandas=False)
    assert list(hash_keys([narrow])) == list(hash_keys([narrow.cast(pa.float64())]))
    assert list(hash_keys([pa.array([1, None], pa.int32())])) == list(hash_keys([pa.array([1, None], pa.int64())]))


def test_many_key_columns_do_not_overflow() -> None:
    chance = np.random.default_rng(1)
    columns = [pa.array(chance.integers(0, 50_000, 60_000)) for _ in range(6)]
    keys = Keys(columns)
    assert len(set(keys.codes)) == 60_000
    assert keys.among([column.slice(0, 500) for column in columns]).all()
    turned = [*(column.slice(0, 500) for column in columns[:5]), columns[5].slice(1, 500)]
    assert not keys.among(turned).any()


def test_columns_keep_their_own_names() -> None:
    """A source column that is called like one of the snapshot's own is kept under another name."""
    shape = RowShape((*COLUMNS[:3], Column("amount", "bigint", False)), NAMES, SNAPSHOT)
    found = taken([batch([Change("insert", None, (1, 1, "a", 7), at(1, 1))])], shape=shape)
    assert found.column("_source_amount").to_pylist() == [7]


def test_changes_of_before_a_column_was_respelled_are_read_by_its_former_name() -> None:
    change: dict[str, object] = {
        "op": "insert", "before": None, "absent": [], "row_number": 0, "kafka_partition": 0, "kafka_offset": 0,
        "event_time": START, "window_start": START,
    }  # fmt: skip
    place = {"lineage": 0, "file": 1}
    old = pa.schema([pa.field("before", IMAGE), pa.field("after", IMAGE)])
    respelled = pa.struct([pa.field("NAME" if one.name == "name" else one.name, one.type) for one in IMAGE])
    new = pa.schema([pa.field("before", respelled), pa.field("after", respelled)])
    batches = []
    for number, (kind, name) in enumerate(((old, "name"), (new, "NAME"))):
        values = {"world": 0, "id.no": number, name: None if number else "tea", "amount": None}
        row = {
            **change, "after": values, "source_position": {**place, "position": number},
            "invalid": [(f"after.{name}", "?"), ("after.amount", "many")] if number else [("after.amount", "many")],
        }  # fmt: skip
        schema = pa.schema([kind.field(one.name) if one.name in kind.names else one for one in CHANGES])
        batches.append(pa.RecordBatch.from_pylist([row], schema=schema))
    columns = [Column("NAME", one.type, False, ("name", "NAME")) if one.name == "name" else one for one in COLUMNS]
    snapshot = pa.schema([pa.field("NAME", one.type) if one.name == "name" else one for one in SNAPSHOT])
    for given in (columns, [Column(one.name, one.type, one.is_key, one.spellings[::-1]) for one in columns]):
        found = taken(batches, shape=RowShape(tuple(given), tuple(snapshot.names[:4]), snapshot))
        shown_rows = sorted(found.to_pylist(), key=lambda one: one["id.no"])
        assert [one["NAME"] for one in shown_rows] == ["tea", None]
        assert [dict(one["_invalid"]) for one in shown_rows] == [
            {"_source_amount": "many"}, {"NAME": "?", "_source_amount": "many"}
        ]  # fmt: skip
