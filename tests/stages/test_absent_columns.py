"""Absent columns follow rows, on Spark, against a model in Python: a table that lives and sends no more than it has to."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.stages.worlds import COLUMNS, KEYS, Change, Key, Row, Shown, World, at, frame, row, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NAMES = ["world", "id.no", "name", "_source_amount"]


class Minimal(World):
    """A table of a server with minimal row images, whose keys change too."""

    def partial(self, number: int, target: int) -> None:
        """Change some columns of a row, and its key if the target is another."""
        _, _, name, amount = self.row(number)
        _, _, new_name, new_amount = self.fresh(target)
        absent = self.chance.choice([(), ("name",), ("amount",), ("name", "amount")])
        after = (
            self.number,
            target,
            name if "name" in absent else new_name,
            amount if "amount" in absent else new_amount,
        )
        key = self.chance.choice([(), KEYS[:1], KEYS] if number == target else [(), KEYS[:1]])
        self.event([(self.row(number), after)], (*absent, *key))

    def update(self) -> None:
        for number in self._some():
            self.partial(number, number)

    def move(self) -> None:
        free = [number for number in range(8) if number not in self.rows]
        if self.rows and free:
            self.partial(self.chance.choice(sorted(self.rows)), self.chance.choice(free))

    def chain(self) -> None:
        for _ in range(self.chance.randint(2, 4)):
            self.move()

    def shift(self) -> None:
        """UPDATE t SET id = id + 1 ORDER BY id DESC, which sends nothing but the keys."""
        pairs = [(self.row(n), (self.number, n + 1, *self.row(n)[2:])) for n in sorted(self.rows, reverse=True)]
        self.event(pairs, ("name", "amount"))
        if 8 in self.rows:
            self.event([(self.row(8), None)])

    def swap(self) -> None:
        if len(self.rows) >= 2:
            one, other = self.chance.sample(sorted(self.rows), 2)
            for number, target in ((one, 99), (other, one), (99, other)):
                self.partial(number, target)

    def twice(self) -> None:
        """INSERT ... ON DUPLICATE KEY UPDATE: one event moves a row to a key and on to another one."""
        free = [number for number in range(8) if number not in self.rows]
        if self.rows and len(free) >= 2:
            old, (over, new) = self.row(self.chance.choice(sorted(self.rows))), self.chance.sample(free, 2)
            self.pieces = False
            moved = [(old[0], target, *old[2:]) for target in (over, new)]
            self.event([(old, moved[0]), (moved[0], moved[1])], ("name", "amount"))
            self.pieces = True


STAYS = (Minimal.insert, Minimal.update, Minimal.update, Minimal.delete, Minimal.reinsert)
MOVES = (*STAYS, Minimal.move, Minimal.chain, Minimal.shift, Minimal.swap, Minimal.twice)


def stored(spark: SparkSession, rows: list[Shown]) -> DataFrame:
    return spark.createDataFrame(
        [(*one.row, one.event_time, one.kafka_partition, one.kafka_offset, None) for one in rows],
        "world int, `id.no` int, name string, _source_amount int, _event_time timestamp, _kafka_partition int, "
        "_kafka_offset bigint, _invalid map<string,string>",
    )


@pytest.mark.parametrize("follow_moves", [pytest.param(False, marks=pytest.mark.long), True])
def test_an_absent_column_keeps_the_value_that_its_row_had(spark: SparkSession, *, follow_moves: bool) -> None:
    """The second half of every history, folded onto the rows of the first half, gives the rows at the end.

    Of some histories the first half is empty, so all that is told of a row is in one fold.
    """
    from dts_assets.stages.absent_columns import folded
    from dts_assets.stages.snapshot_in_spark import as_operations, key_operations

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


def moved(number: int, target: int, position: int, absent: tuple[str, ...] = ("name", "amount")) -> Change:
    return Change("update", row(0, number=number), row(0, number=target), at(1, position), absent=absent)


UNSEEN: dict[str, tuple[list[Change], dict[int, str | None]]] = {
    "a row that was never seen, twice moved": (
        [moved(1, 2, 1), moved(2, 3, 2), Change("update", row(0, "told", 3), row(0, "told", 3), at(1, 3))], {3: "told"},
    ),
    "told of between its moves": (
        [moved(1, 2, 1), Change("update", row(0, number=2), row(0, "told", 2), at(1, 2)), moved(2, 3, 3), moved(3, 4, 4)],
        {4: "told"},
    ),
    "an insert at a key that nobody left begins a row": (
        [Change("insert", None, row(0, "old", 1), at(1, 1)),
         Change("insert", None, row(0, None, 1), at(1, 2), absent=("name",)), moved(1, 2, 3)], {2: None},
    ),
    "moved onto a key that nobody left": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), Change("insert", None, row(0, "other", 2), at(1, 2)),
         moved(1, 2, 3)], {2: "mine"},
    ),
    "to a key that was there and was deleted": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), Change("insert", None, row(0, "other", 2), at(1, 2)),
         Change("delete", row(0, number=2), None, at(1, 3)), moved(1, 2, 4)], {2: "mine"},
    ),
    "the same moves twice": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2), moved(1, 2, 2), moved(2, 3, 3), moved(2, 3, 3)],
        {3: "mine"},
    ),
    "moved and deleted": ([Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2),
        Change("delete", row(0, number=2), None, at(1, 3))], {}),
    "there and back, with another row under its key meanwhile": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2),
         Change("insert", None, row(0, "guest", 1), at(1, 3)), moved(1, 3, 4), moved(2, 1, 5)], {1: "mine", 3: "guest"},
    ),
}  # fmt: skip


def in_world(number: int, change: Change) -> Change:
    def moved(image: Row | None) -> Row | None:
        return None if image is None else (number, *image[1:])

    return replace(change, before=moved(change.before), after=moved(change.after))


@pytest.mark.long
def test_rows_that_were_never_seen_and_odd_histories(spark: SparkSession) -> None:
    from dts_assets.stages.absent_columns import folded
    from dts_assets.stages.snapshot_in_spark import key_operations

    changes = [in_world(number, one) for number, (cases, _) in enumerate(UNSEEN.values()) for one in cases]
    found = shown(folded(key_operations(frame(spark, changes), COLUMNS), COLUMNS, follow_moves=True))
    alive: dict[str, dict[int, str | None]] = {name: {} for name in UNSEEN}
    for (world, number), one in found.items():
        if one is not None:
            alive[list(UNSEEN)[world]][number] = one.row[2]
    assert alive == {name: expected for name, (_, expected) in UNSEEN.items()}


def test_keys_are_linked_by_moves_that_lack_columns(spark: SparkSession) -> None:
    from dts_assets.stages.absent_columns import linked_keys
    from dts_assets.stages.snapshot_in_spark import key_operations, partial_moves

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
