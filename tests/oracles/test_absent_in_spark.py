"""Absent columns follow rows, on Spark, against a model in Python: a table that lives and sends no more than it has to."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.stages.minimal_worlds import MOVES, STAYS, UNSEEN, Minimal, in_world, moved
from tests.stages.worlds import COLUMNS, Change, Key, Shown, at, frame, row, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

NAMES = ["world", "id.no", "name", "_source_amount"]


def stored(spark: SparkSession, rows: list[Shown]) -> DataFrame:
    return spark.createDataFrame(
        [(*one.row, one.event_time, one.kafka_partition, one.kafka_offset, None) for one in rows],
        "world int, `id.no` int, name string, _source_amount int, _event_time timestamp, _kafka_partition int, "
        "_kafka_offset bigint, _invalid map<string,string>",
    )


@pytest.mark.parametrize("follow_moves", [False, True])
def test_an_absent_column_keeps_the_value_that_its_row_had(spark: SparkSession, *, follow_moves: bool) -> None:
    """The second half of every history, folded onto the rows of the first half, gives the rows at the end.

    Of some histories the first half is empty, so all that is told of a row is in one fold.
    """
    from tests.oracles.absent_columns import folded
    from tests.oracles.snapshot_in_spark import as_operations, key_operations

    doings = MOVES if follow_moves else STAYS
    worlds = [Minimal(n, random.Random(n)) for n in range(60)]
    for world in worlds:
        world.live(world.number % 3 * 4, doings)  # type: ignore[arg-type]
    first = [one for world in worlds for one in world.rows.values()]
    counts = [len(world.changes) for world in worlds]
    for world in worlds:
        world.live(10, doings)  # type: ignore[arg-type]
    later = [change for world, count in zip(worlds, counts, strict=True) for change in world.changes[count:]]
    moved = [one for one in later if one.before and one.after and one.absent and one.before[:2] != one.after[:2]]
    assert (len(moved) > 100) == follow_moves
    expected: dict[Key, Shown | None] = {(one.row[0], one.row[1]): None for one in first}
    for one in later:
        expected |= {(image[0], image[1]): None for image in (one.before, one.after) if image is not None}
    for world in worlds:
        expected |= {(world.number, number): one for number, one in world.rows.items()}
    base = as_operations(stored(spark, first), COLUMNS, names=NAMES)
    operations = key_operations(frame(spark, later), COLUMNS).unionByName(base)
    assert shown(folded(operations, COLUMNS, follow_moves=follow_moves)) == expected


def test_rows_that_were_never_seen_and_odd_histories(spark: SparkSession) -> None:
    from tests.oracles.absent_columns import folded
    from tests.oracles.snapshot_in_spark import key_operations

    changes = [in_world(number, one) for number, (cases, _) in enumerate(UNSEEN.values()) for one in cases]
    found = shown(folded(key_operations(frame(spark, changes), COLUMNS), COLUMNS, follow_moves=True))
    alive: dict[str, dict[int, str | None]] = {name: {} for name in UNSEEN}
    for (world, number), one in found.items():
        if one is not None:
            alive[list(UNSEEN)[world]][number] = one.row[2]
    assert alive == {name: expected for name, (_, expected) in UNSEEN.items()}


def test_keys_are_linked_by_moves_that_lack_columns(spark: SparkSession) -> None:
    from tests.oracles.absent_columns import linked_keys
    from tests.oracles.snapshot_in_spark import key_operations, partial_moves

    changes = [
        moved(1, 2, 1), moved(2, 3, 2), moved(4, 5, 3), moved(6, 7, 4, absent=()), moved(9, 3, 5),
        Change("update", row(0, "a", 8), row(0, "b", 8), at(1, 6), absent=("amount",)),
    ]  # fmt: skip
    cases = [([3], {1, 2, 3, 9}), ([6, 8], {6, 8}), ([1, 5], {1, 2, 3, 4, 5, 9}), ([], set())]
    worlds = range(len(cases))
    moves = partial_moves(frame(spark, [in_world(world, one) for world in worlds for one in changes]), COLUMNS)
    asked = [(world, number) for world, (numbers, _) in enumerate(cases) for number in numbers]
    inserts = [Change("insert", None, row(world, number=number), at(1, 1)) for world, number in asked]
    keys = key_operations(frame(spark, inserts), COLUMNS).select("key")
    found = sorted((one["key"][0], one["key"][1]) for one in linked_keys(keys, moves).collect())
    assert found == [(world, number) for world in worlds for number in sorted(cases[world][1])]
