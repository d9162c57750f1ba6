"""Changes taken over into current rows in Arrow: the same worlds, and the same rows, as the stage on Spark is held to."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.stages.snapshot_in_arrow import Keys, Taken, take_changes
from tests.stages.worlds import COLUMNS, DOINGS, HOUR, START, Change, Key, Row, Shown, World, at, expected_of, row

IMAGE = pa.struct([("world", pa.int32()), ("id.no", pa.int32()), ("name", pa.string()), ("amount", pa.int32())])
CHANGES = pa.schema(
    [
        ("op", pa.string()), ("before", IMAGE), ("after", IMAGE), ("event_time", pa.timestamp("us", "UTC")),
        ("source_position", pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])),
        ("row_number", pa.int32()), ("kafka_partition", pa.int32()), ("kafka_offset", pa.int64()),
        ("window_start", pa.timestamp("us", "UTC")), ("absent", pa.list_(pa.string())),
        ("invalid", pa.map_(pa.string(), pa.string())),
    ]
)  # fmt: skip
SNAPSHOT = pa.schema(
    [
        ("world", pa.int32()), ("id.no", pa.int32()), ("name", pa.string()), ("_source_amount", pa.int64()),
        ("_event_time", pa.timestamp("us", "UTC")), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64()),
        ("_invalid", pa.map_(pa.string(), pa.string())),
    ]
)  # fmt: skip
NAMES = SNAPSHOT.names[:4]
ALL = Frontier(START + 100 * HOUR, START + 100 * HOUR, None)


def image(values: Row | None) -> dict[str, object] | None:
    return None if values is None else dict(zip(IMAGE.names, values, strict=True))


def batch(changes: Iterable[Change]) -> pa.RecordBatch:
    rows: list[dict[str, object]] = [
        {
            "op": change.op, "before": image(change.before), "after": image(change.after), "event_time": change.event_time,
            "source_position": {
                "lineage": change.position.lineage, "file": change.position.file, "position": change.position.position,
            },
            "row_number": change.row_number, "kafka_partition": change.kafka_partition,
            "kafka_offset": change.kafka_offset, "window_start": START + change.window * HOUR, "absent": [],
            "invalid": list(change.invalid),
        }
        for change in changes
    ]  # fmt: skip
    random.Random(1).shuffle(rows)
    return pa.RecordBatch.from_pylist(rows, schema=CHANGES)


def taken(batches: Sequence[pa.RecordBatch], before: Frontier = EMPTY_FRONTIER, after: Frontier = ALL) -> Taken:
    found = take_changes(batches, COLUMNS, SNAPSHOT, names=NAMES, before=before, after=after)
    assert found is not None
    assert found.rows.schema.names == SNAPSHOT.names
    return found


def shown(rows: pa.RecordBatch) -> dict[Key, Shown]:
    made = {}
    for one in rows.to_pylist():
        values = tuple(one[name] for name in NAMES)
        assert values[:2] not in made, "a key stands there twice"
        made[values[:2]] = Shown(values, one["_event_time"], one["_kafka_partition"], one["_kafka_offset"])
    return made


def live(expected: dict[Key, Shown | None]) -> dict[Key, Shown]:
    return {key: value for key, value in expected.items() if value is not None}


def test_the_last_operation_on_every_key_is_what_the_database_holds() -> None:
    worlds = [World(number, random.Random(number)).live(14, DOINGS) for number in range(300)]
    changes = [change for world in worlds for change in world.changes]
    whole = batch(changes)
    found = taken([whole.slice(0, 100), whole.slice(100, 1), whole.slice(101)])
    expected = expected_of(worlds)
    assert shown(found.rows) == live(expected)
    everybody = [pa.array([key[n] for key in expected], pa.int32()) for n in (0, 1)]
    assert found.keys.among(everybody).all(), "keys that were left are among those that are touched"


def test_rows_of_earlier_changes_and_what_comes_later_are_the_whole_history() -> None:
    worlds = [World(number, random.Random(number)).live(8, DOINGS) for number in range(200)]
    rows = taken([batch(change for world in worlds for change in world.changes)]).rows
    counts = [len(world.changes) for world in worlds]
    for world in worlds:
        world.live(5, DOINGS)
    later = taken([batch(one for world, count in zip(worlds, counts, strict=True) for one in world.changes[count:])])
    gone = later.keys.among([rows.column("world"), rows.column("id.no")])
    assert 0 < gone.sum() < len(gone)
    kept = shown(rows.filter(pa.array(~gone)))
    assert not kept.keys() & shown(later.rows).keys()
    assert {**kept, **shown(later.rows)} == live(expected_of(worlds))


def test_only_what_one_frontier_holds_and_the_other_does_not() -> None:
    changes = [
        Change("insert", None, row(number, f"{number}"), at(3, 10 * number), window=number // 3) for number in range(12)
    ]
    before = Frontier(START + HOUR, START, at(3, 40))  # the first window, and of the second what is at or before 40
    after = Frontier(START + 2 * HOUR, START + HOUR, at(3, 70))
    found = taken([batch(changes)], before, after)
    assert sorted(key[0] for key in shown(found.rows)) == [5, 6, 7]
    for frontier in (before, after):
        held = taken([batch(changes)], EMPTY_FRONTIER, frontier)
        expected = {n for n in range(12) if frontier.holds(START + n // 3 * HOUR, at(3, 10 * n))}
        assert {key[0] for key in shown(held.rows)} == expected
    later_lineage = Change("insert", None, row(99, "b"), at(1, 1, 1), window=2)
    assert not shown(taken([batch([later_lineage])], EMPTY_FRONTIER, after).rows)


def test_no_changes_touch_nothing() -> None:
    for batches in ([], [batch([])], [batch([Change("insert", None, row(1), at(1, 1), window=200)])]):
        found = taken(batches)
        assert found.rows.num_rows == 0
        assert not found.keys.among([pa.array([1], pa.int32()), pa.array([1], pa.int32())]).any()


def test_a_truncation_is_no_row() -> None:
    found = taken([batch([Change("truncate", None, None, at(1, 1)), Change("insert", None, row(1), at(1, 2))])])
    assert sorted(shown(found.rows)) == [(1, 1)]


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
    found = {one["world"]: one["_invalid"] for one in taken([batch(changes)]).rows.to_pylist()}
    amount = ("_source_amount", "many")
    assert found == {1: None, 2: [("name", "0xFF"), amount], 3: None, 5: [amount]}


def test_a_null_in_a_key_is_told() -> None:
    changes = batch([Change("insert", None, (None, 1, "a", 1), at(1, 1))])  # type: ignore[arg-type]
    assert take_changes([changes], COLUMNS, SNAPSHOT, names=NAMES, before=EMPTY_FRONTIER, after=ALL) is None


def test_a_file_older_than_a_column_or_its_type() -> None:
    """Such changes have no value of it; a narrower one becomes the snapshot's."""
    old = pa.struct([("world", pa.int16()), ("id.no", pa.int32()), ("name", pa.string())])
    changes = batch([Change("insert", None, row(1, "a"), at(1, 1))])
    images = [pa.array([None], old), pa.array([{"world": 1, "id.no": 1, "name": "a"}], old)]
    older = pa.RecordBatch.from_arrays([changes.column(0), *images, *changes.columns[3:]], names=CHANGES.names)
    newer = batch([Change("insert", None, (2, 1, "b", 5), at(1, 2))])
    assert {one.row for one in shown(taken([older, newer]).rows).values()} == {(1, 1, "a", None), (2, 1, "b", 5)}


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
    columns = (*COLUMNS[:3], Column("amount", "bigint", False))
    found = take_changes(
        [batch([Change("insert", None, (1, 1, "a", 7), at(1, 1))])],
        columns, SNAPSHOT, names=NAMES, before=EMPTY_FRONTIER, after=ALL,
    )  # fmt: skip
    assert found is not None
    assert found.rows.column("_source_amount").to_pylist() == [7]


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
        found = take_changes(batches, given, snapshot, names=snapshot.names[:4], before=EMPTY_FRONTIER, after=ALL)
        assert found is not None
        shown_rows = sorted(found.rows.to_pylist(), key=lambda one: one["id.no"])
        assert [one["NAME"] for one in shown_rows] == ["tea", None]
        assert [dict(one["_invalid"]) for one in shown_rows] == [
            {"_source_amount": "many"}, {"NAME": "?", "_source_amount": "many"}
        ]  # fmt: skip
