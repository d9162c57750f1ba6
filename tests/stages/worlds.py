"""Tables in source databases that live and write down their changes, and what a changelog and a snapshot say of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

COLUMNS = (
    Column("world", "int", True),
    Column("id.no", "int", True),
    Column("name", "string", False),
    Column("amount", "int", False),
)
"""A composite key, and a name with a dot in it."""

KEYS = ("world", "id.no")
IMAGE = "struct<world:int,`id.no`:int,name:string,amount:int>"
SCHEMA = (
    f"op string, before {IMAGE}, after {IMAGE}, absent array<string>, invalid map<string,string>, event_time timestamp, "
    "source_position struct<lineage:int,file:bigint,position:bigint>, row_number int, kafka_partition int, "
    "kafka_offset bigint, window_start timestamp"
)

Row = tuple[int, int, str | None, int | None]
Key = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """A changelog row; images are whole, ``absent`` names the columns of ``after`` that were not sent, ``unsent`` of ``before``.

    ``invalid`` has the texts of values that do not fit, such as ``("after.name", "0xFF")``.
    """

    op: str
    before: Row | None
    after: Row | None
    position: SourcePosition
    row_number: int = 0
    kafka_partition: int = 0
    kafka_offset: int = 0
    window: int = 0
    absent: tuple[str, ...] = ()
    invalid: tuple[tuple[str, str], ...] = ()
    unsent: tuple[str, ...] = ()

    def as_row(self) -> tuple[Any, ...]:
        at = self.position
        return (
            self.op, self.before, self._sent(), [f"after.{name}" for name in self.absent], dict(self.invalid), self.event_time,
            (at.lineage, at.file, at.position), self.row_number, self.kafka_partition, self.kafka_offset,
            START + self.window * HOUR,
        )  # fmt: skip

    @property
    def event_time(self) -> datetime:
        return START + timedelta(seconds=self.position.file * 1000 + self.position.position)

    def _sent(self) -> tuple[Any, ...] | None:
        if self.after is None:
            return None
        pairs = zip(COLUMNS, self.after, strict=True)
        return tuple(None if column.name in self.absent else value for column, value in pairs)


@dataclass(frozen=True)
class Shown:
    """A live row of a snapshot with what it shows of its last change."""

    row: Row
    event_time: datetime
    kafka_partition: int
    kafka_offset: int


@dataclass
class World:
    """A table in the source database that writes down its changes as a binlog does: the rows of one event share a position."""

    number: int
    chance: random.Random
    rows: dict[int, Shown] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    file: int = 9
    position: int = 4

    def event(self, rows: Iterable[tuple[Row | None, Row | None]], absent: tuple[str, ...] = ()) -> None:
        """One rows event of (before, after) pairs, carried out in order and cut over Kafka partitions, as by key."""
        self.position += self.chance.randint(1, 50)
        if self.chance.random() < 0.2:
            self.file, self.position = self.file + 1, 4  # from 9 to 10: text would go back
        at = SourcePosition(0, self.file, self.position)
        counted: dict[int, int] = {}
        offset = len(self.changes) + 1000
        for before, after in rows:
            key = after if before is None else before
            assert key is not None
            partition = key[1] % 3 if self.pieces else 0
            number = counted[partition] = counted.get(partition, -1) + 1
            op = "insert" if before is None else "delete" if after is None else "update"
            change = Change(op, before, after, at, number, partition, offset, absent=absent if after else ())
            if before is not None:
                self.rows.pop(before[1])
            if after is not None:
                self.rows[after[1]] = Shown(after, change.event_time, partition, offset)
            self.changes.append(change)

    pieces: bool = True

    def fresh(self, number: int) -> Row:
        return (self.number, number, self.chance.choice([None, "a", "b", ""]), self.chance.choice([None, 0, 1, 2]))

    def row(self, number: int) -> Row:
        return self.rows[number].row

    # What applications do

    def insert(self) -> None:
        free = [number for number in range(8) if number not in self.rows]
        chosen = self.chance.sample(free, min(len(free), self.chance.randint(1, 3)))
        self.event([(None, self.fresh(number)) for number in chosen])

    def update(self) -> None:
        self.event([(self.row(number), self.fresh(number)) for number in self._some()])

    def delete(self) -> None:
        self.event([(self.row(number), None) for number in self._some()])

    def move(self) -> None:
        free = [number for number in range(8) if number not in self.rows]
        if self.rows and free:
            number, target = self.chance.choice(sorted(self.rows)), self.chance.choice(free)
            self.event([(self.row(number), self.fresh(target))])

    def shift(self) -> None:
        """UPDATE t SET id = id + 1 ORDER BY id DESC: every key but the lowest is left and taken again in one event."""
        self.event([(self.row(n), (self.number, n + 1, *self.row(n)[2:])) for n in sorted(self.rows, reverse=True)])
        if 8 in self.rows:
            self.event([(self.row(8), None)])

    def swap(self) -> None:
        """Two rows change places by way of a key that nobody has, in three events."""
        if len(self.rows) >= 2:
            one, other = self.chance.sample(sorted(self.rows), 2)
            for number, target in ((one, 99), (other, one), (99, other)):
                self.event([(self.row(number), (self.number, target, *self.row(number)[2:]))])

    def reinsert(self) -> None:
        """REPLACE: the row is deleted and inserted at once, in two events."""
        for number in self._some():
            self.event([(self.row(number), None)])
            self.event([(None, self.fresh(number))])

    def _some(self) -> list[int]:
        return self.chance.sample(sorted(self.rows), min(len(self.rows), self.chance.randint(1, 3)))

    def live(self, steps: int, doings: Sequence[Callable[[World], None]]) -> World:
        for _ in range(steps):
            self.chance.choice(doings)(self)
        return self


DOINGS = (World.insert, World.insert, World.update, World.delete, World.move, World.shift, World.swap, World.reinsert)


def frame(spark: SparkSession, changes: Iterable[Change]) -> DataFrame:
    """The changes as a changelog, in no order."""
    rows = [change.as_row() for change in changes]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA)


def shown(result: DataFrame) -> dict[Key, Shown | None]:
    """What a result says of every key; None where the row is gone."""
    found: dict[Key, Shown | None] = {}
    for row in result.collect():
        *key_values, unfit = row["key"]
        key = (key_values[0], key_values[1])
        assert unfit is None
        assert key not in found, "a key stands there twice"
        found[key] = None
        if row["takes"]:
            at = row["_event_time"].astimezone(UTC)
            found[key] = Shown(tuple(row["row"]), at, row["_kafka_partition"], row["_kafka_offset"])
    return found


def expected_of(worlds: Iterable[World]) -> dict[Key, Shown | None]:
    expected: dict[Key, Shown | None] = {}
    for world in worlds:
        for change in world.changes:
            for image in (change.before, change.after):
                if image is not None:
                    expected[image[0], image[1]] = world.rows.get(image[1])
    return expected


def at(file: int, position: int, lineage: int = 0) -> SourcePosition:
    return SourcePosition(lineage, file, position)


def row(world: int, name: str | None = None, number: int = 1) -> Row:
    return (world, number, name, None)
