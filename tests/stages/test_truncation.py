"""Snapshots of tables that are emptied by TRUNCATE and DROP TABLE, on Spark, against a model in Python."""

from __future__ import annotations

import random
from datetime import UTC
from typing import TYPE_CHECKING

import pytest

from dts_assets.model.positions import SourcePosition
from tests.stages.worlds import COLUMNS, DOINGS, KEYS, Change, Row, Shown, World, at, frame, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def emptied(position: SourcePosition, partition: int = 0) -> Change:
    return Change("truncate", None, None, position, 0, partition)


def test_truncations_touch_no_key(spark: SparkSession) -> None:
    from dts_assets.stages.snapshot_in_spark import key_operations

    changes = [Change("insert", None, row(0), at(1, 1)), emptied(at(1, 2)), Change("delete", row(0), None, at(1, 3))]
    assert sorted(one["at"]["position"] for one in key_operations(frame(spark, changes), COLUMNS).collect()) == [1, 3]


TRUNCATIONS: dict[str, tuple[list[SourcePosition], list[int]]] = {
    "none": ([], [0, 1, 2, 3, 4]),
    "one between changes": ([at(9, 950)], [2, 3, 4]),
    "the last of several, whatever their order": ([at(10, 4), at(1, 1), at(9, 950)], [3, 4]),
    "by number, never as text": ([at(10, 3)], [2, 3, 4]),
    "by lineage before file": ([at(10, 99)], [4]),
    "one after all changes": ([at(3, 9, 1)], []),
    "the same one from two Kafka partitions": ([at(9, 950), at(9, 950)], [2, 3, 4]),
}


@pytest.mark.parametrize(("positions", "kept"), TRUNCATIONS.values(), ids=TRUNCATIONS)
def test_only_what_is_later_than_the_last_truncation_counts(
    spark: SparkSession, positions: list[SourcePosition], kept: list[int]
) -> None:
    from dts_assets.stages.snapshot_in_spark import after_truncation

    places = [at(9, 900), at(9, 950), at(10, 4), at(10, 5), at(1, 1, 1)]
    changes = [Change("insert", None, row(0, number=number), place) for number, place in enumerate(places)]
    found = after_truncation(frame(spark, [*changes, *(emptied(one, n % 2) for n, one in enumerate(positions))]))
    assert found.columns == frame(spark, []).columns
    assert sorted(one["after"]["id.no"] for one in found.collect() if one["op"] != "truncate") == kept
    assert not any(one["op"] == "truncate" for one in found.collect())


@pytest.mark.parametrize("fold_absent", [False, True])
def test_a_whole_snapshot_holds_what_the_database_holds_after_truncations(
    spark: SparkSession, *, fold_absent: bool
) -> None:
    """Tables are emptied in the middle of their lives, rows come back under their old keys, and some are emptied last."""
    from dts_assets.stages.snapshot_in_spark import whole_snapshot

    def truncate(world: World) -> None:
        world.position += 1
        world.changes.append(emptied(SourcePosition(0, world.file, world.position), world.number % 3))
        world.rows.clear()

    names = ["world", "id.no", "name", "_source_amount"]
    empty = 0
    for number in range(6):
        world = World(number, random.Random(100 + number)).live(12, DOINGS)
        truncate(world)
        world.live(number % 3 * 4, DOINGS)
        empty += not world.rows
        rows = whole_snapshot(frame(spark, world.changes), COLUMNS, names=names, fold_absent=fold_absent)
        assert rows.columns == [*names, "_event_time", "_kafka_partition", "_kafka_offset", "_invalid"]
        found = {one["id.no"]: Shown(tuple(one[:4]), one[4].astimezone(UTC), one[5], one[6]) for one in rows.collect()}
        assert found == world.rows
    assert 0 < empty < 6


@pytest.mark.parametrize("fold_absent", [False, True])
def test_a_whole_snapshot_keeps_rows_apart_whose_keys_do_not_fit(spark: SparkSession, *, fold_absent: bool) -> None:
    """One such row is deleted after a truncation, another is changed by an event that does not send its key again."""
    from dts_assets.stages.snapshot_in_spark import whole_snapshot

    def unfit(name: str | None = None) -> Row:
        return (0, None, name, None)  # type: ignore[return-value]

    def text(image: str, value: str) -> tuple[str, str]:
        return f"{image}.id.no", value

    inserted = [
        Change("insert", None, unfit(value), at(1, number), invalid=(text("after", value),))
        for number, value in enumerate(["x", "y", "x", "y", "z"])
    ]
    gone = Change("delete", unfit("x"), None, at(1, 9), invalid=(text("before", "x"),))
    same = Change("update", unfit("y"), unfit("new"), at(1, 9), absent=KEYS, invalid=(text("before", "y"),))
    fits = Change("update", unfit("z"), row(0, "z"), at(1, 9), invalid=(text("before", "z"),))
    changes = [*inserted[:2], emptied(at(1, 1)), *inserted[2:], gone, same, fits]
    rows = whole_snapshot(
        frame(spark, changes), COLUMNS, names=[column.name for column in COLUMNS], fold_absent=fold_absent
    ).collect()
    assert {(one["id.no"], one["name"], str(one["_invalid"])) for one in rows} == {
        (None, "new", "{'id.no': 'y'}"), (1, "z", "None")
    }  # fmt: skip
