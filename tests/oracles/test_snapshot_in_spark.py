"""Changes to current rows, on Spark, against a model in Python.

One DataFrame holds the histories of many small worlds, told apart by a part of the key, so that Spark runs few jobs.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from tests.stages.worlds import (
    COLUMNS,
    DOINGS,
    HOUR,
    KEYS,
    START,
    Change,
    Row,
    World,
    at,
    expected_of,
    frame,
    row,
    shown,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_the_last_operation_on_every_key_is_what_the_database_holds(spark: SparkSession) -> None:
    from tests.oracles.snapshot_in_spark import key_operations, latest

    worlds = [World(number, random.Random(number)).live(14, DOINGS) for number in range(80)]
    changes = [change for world in worlds for change in world.changes]
    assert {change.op for change in changes} == {"insert", "update", "delete"}
    assert max(change.kafka_partition for change in changes) == 2
    operations = key_operations(frame(spark, changes), COLUMNS)
    expected = expected_of(worlds)
    assert 0.2 < sum(row is None for row in expected.values()) / len(expected) < 0.8
    assert shown(latest(operations)) == expected


MOVED = "moved with columns that were not sent"

ORDER: dict[str, tuple[list[Change], str | None]] = {
    "by number, never as text": (
        [Change("insert", None, row(0, "old"), at(9, 900)), Change("update", row(0), row(0, "new"), at(10, 4))], "new",
    ),
    "by lineage before file": (
        [Change("insert", None, row(0, "new"), at(1, 4, 1)), Change("insert", None, row(0, "old"), at(999, 4, 0))], "new",
    ),
    "by position, never by arrival": (
        [Change("insert", None, row(0, "new"), at(1, 9), kafka_offset=1, window=0),
         Change("insert", None, row(0, "old"), at(1, 5), kafka_offset=9, window=3)], "new",
    ),
    "by row number within a piece": (
        [Change("update", row(0), row(0, "old"), at(1, 5), row_number=9),
         Change("update", row(0), row(0, "new"), at(1, 5), row_number=10)], "new",
    ),
    "left and taken again over two pieces of one event": (
        [Change("update", row(0), row(0, number=2), at(1, 5), row_number=7, kafka_partition=0),
         Change("update", row(0, number=3), row(0, "new"), at(1, 5), row_number=0, kafka_partition=1)], "new",
    ),
    "taken and left again in one piece": (
        [Change("update", row(0, number=3), row(0, "old"), at(1, 5), row_number=0),
         Change("update", row(0, "old"), row(0, number=2), at(1, 5), row_number=1)], None,
    ),
    MOVED: (
        [Change("insert", None, row(0, "kept", 2), at(1, 1)),
         Change("update", row(0, number=2), row(0), at(1, 2), absent=("name", "amount"))], "kept",
    ),
    "a deleted row stays deleted by an older change that arrives later": (
        [Change("delete", row(0), None, at(1, 9), kafka_offset=1), Change("update", row(0), row(0, "old"), at(1, 5),
         kafka_offset=9)], None,
    ),
    "a full-load row takes its key": ([Change("read", None, row(0, "new"), at(0, 0))], "new"),
    "an update without its old image takes its key": ([Change("update", None, row(0, "new"), at(1, 1))], "new"),
    "the same change twice": (
        [Change("insert", None, row(0, "new"), at(1, 1), kafka_offset=1), Change("insert", None, row(0, "new"), at(1, 1),
         kafka_offset=2)], "new",
    ),
}  # fmt: skip


def test_which_operation_is_the_last(spark: SparkSession) -> None:
    from tests.oracles.absent_columns import folded
    from tests.oracles.snapshot_in_spark import key_operations, latest

    def in_world(number: int, change: Change) -> Change:
        def moved(image: Row | None) -> Row | None:
            return None if image is None else (number, *image[1:])

        return replace(change, before=moved(change.before), after=moved(change.after))

    changes = [in_world(number, one) for number, (cases, _) in enumerate(ORDER.values()) for one in cases]
    operations = key_operations(frame(spark, changes), COLUMNS)
    expected = {name: last for name, (_, last) in ORDER.items()}

    def names(result: DataFrame) -> dict[str, str | None]:
        rows = shown(result)
        found = {name: rows[number, 1] for number, name in enumerate(ORDER)}
        return {name: None if one is None else one.row[2] for name, one in found.items()}

    whole = {name: last for name, last in expected.items() if name != MOVED}
    assert names(latest(operations)) == whole | {MOVED: None}
    assert names(folded(operations, COLUMNS)) == whole | {MOVED: None}
    assert names(folded(operations, COLUMNS, follow_moves=True)) == expected


FRONTIERS = [
    EMPTY_FRONTIER,
    Frontier(START + 2 * HOUR, None, at(1, 20)),
    Frontier(START + 2 * HOUR, START + HOUR, at(1, 20)),
    Frontier(START + 2 * HOUR, START + 2 * HOUR, None),
    Frontier(START + 3 * HOUR, START, at(2, 1)),
    Frontier(START + 9 * HOUR, None, at(0, 9, 1)),
    Frontier(START, None, None),
]


def test_conditions_on_rows_say_what_the_model_says(spark: SparkSession) -> None:
    from tests.oracles.snapshot_in_spark import at_or_before, held, in_windows

    positions = [at(1, 19), at(1, 20), at(1, 21), at(2, 1), at(10, 0), at(0, 5, 1), at(1, 0, 1)]
    changes = [
        Change("insert", None, row(0), one, kafka_offset=10 * window + number, window=window)
        for window in range(4)
        for number, one in enumerate(positions)
    ]
    # None of the windows, one, neighbours, windows with another one between them, and with one of no changes between them.
    chosen: list[tuple[list[int], set[int]]] = [
        ([], {0, 1, 2, 3}), ([2], {0, 1, 2, 3}), ([1, 2], {0, 1, 2, 3}), ([0, 2], {0, 1, 2, 3}), ([0, 2, 3], {0, 2, 3}),
    ]  # fmt: skip
    conditions = [held(reached) for reached in FRONTIERS] + [at_or_before(one) for one in positions]
    conditions += [
        in_windows([START + one * HOUR for one in windows], {START + one * HOUR for one in known})
        for windows, known in chosen
    ]
    answers = frame(spark, changes).select("kafka_offset", *[c.alias(f"c{n}") for n, c in enumerate(conditions)])
    found = {answer[0]: list(answer[1:]) for answer in answers.collect()}
    assert found == {
        change.kafka_offset: [reached.holds(START + change.window * HOUR, change.position) for reached in FRONTIERS]
        + [change.position <= limit for limit in positions]
        + [change.window in windows or (change.window == 1 and 1 not in known) for windows, known in chosen]
        for change in changes
    }


def test_a_changelog_state_older_than_a_column_gets_it_as_null(spark: SparkSession) -> None:
    from tests.oracles.snapshot_in_spark import key_operations, latest, merge_source, with_images_of

    changes = [
        Change("insert", None, row(0, "a"), at(1, 1)),
        Change("delete", row(0, number=2), None, at(1, 2)),
        Change("update", row(0, "a", 3), row(0, "b", 3), at(1, 3), absent=KEYS),
    ]
    grown = (
        *COLUMNS[:2],
        Column("added", "decimal(10,2)", False),
        COLUMNS[2],
        Column("_op", "bigint", False),
        COLUMNS[3],
    )
    now = with_images_of(frame(spark, changes), grown)
    assert now.schema["before"].dataType == now.schema["after"].dataType
    assert now.schema["after"].dataType.fieldNames() == [column.name for column in grown]  # type: ignore[attr-defined]
    names = ["world", "id.no", "added", "name", "_source__op", "amount"]
    source = merge_source(latest(key_operations(now, grown)), grown, names=names)
    assert dict(source.dtypes)["added"] == "decimal(10,2)"
    rows = {one["__key_1"]: one.asDict() for one in source.collect()}
    assert rows[1] == {
        "__key_0": 0, "__key_1": 1, "__takes": True, "world": 0, "id.no": 1, "added": None, "name": "a",
        "_source__op": None, "amount": None, "_event_time": rows[1]["_event_time"], "_kafka_partition": 0,
        "_kafka_offset": 0, "__unfit": None, "_invalid": None,
    }  # fmt: skip
    assert (rows[2]["__takes"], rows[2]["id.no"]) == (False, None)
    assert (rows[3]["world"], rows[3]["id.no"], rows[3]["name"]) == (0, 3, "b"), (
        "a key that was not sent is the old one"
    )


def test_images_that_have_every_column_are_left_alone(spark: SparkSession) -> None:
    from tests.oracles.snapshot_in_spark import with_images_of

    changes = frame(spark, [Change("insert", None, row(0), at(1, 1))])
    assert with_images_of(changes, COLUMNS) is changes
