"""The engine in Arrow and the one in Spark, which share nothing but the law, give the same rows of the same changes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from dts_assets.stages.change_columns import Counted
from tests.stages.merging import ALL, NAMES, UNFIT, batch, emptied_at, merged, stored
from tests.stages.minimal_worlds import MOVES, Minimal
from tests.stages.worlds import COLUMNS, Change, World, at, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]


def truncate(world: World) -> None:
    world.position += 1
    world.changes.append(Change("truncate", None, None, at(world.file, world.position), 0, world.number % 3))
    world.rows.clear()


def history(seed: int) -> list[Change]:
    """The changes of one table that sends no more than it has to, some of whose values and keys do not fit."""
    chance = random.Random(seed)
    world = Minimal(0, chance)
    for _ in range(3):
        world.live(15, MOVES)  # type: ignore[arg-type]
        if chance.random() < 0.3:
            truncate(world)
    world.live(15, MOVES)  # type: ignore[arg-type]
    world.insert()
    return [with_texts(one, chance) for one in world.changes]


def with_texts(change: Change, chance: random.Random) -> Change:
    """The change with texts of values that do not fit: of a value at times, of the key 3 always."""
    texts: list[tuple[str, str]] = []
    images = {"before": change.before, "after": change.after}
    for name, image in images.items():
        if image is not None and image[1] == 3:
            texts.append((f"{name}.id.no", "three"))
            images[name] = (image[0], None, *image[2:])  # type: ignore[assignment]
    if change.after is not None and "amount" not in change.absent and chance.random() < 0.2:
        texts.append(("after.amount", "many"))
    return Change(
        change.op, images["before"], images["after"], change.position, change.row_number, change.kafka_partition,
        change.kafka_offset, absent=change.absent, invalid=tuple(texts),
    )  # fmt: skip


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    made = [
        {**row, "_event_time": row["_event_time"].timestamp(), "_invalid": dict(row["_invalid"] or ())} for row in rows
    ]
    return sorted(str(sorted(row.items(), key=str)) for row in made)


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_make_the_same_rows(spark: SparkSession, seed: int) -> None:
    from tests.oracles.snapshot_in_spark import whole_snapshot

    changes = history(seed)
    theirs = whole_snapshot(
        frame(spark, changes), COLUMNS, names=list(NAMES), fold_absent=True, follow_moves=True
    ).collect()
    whole = [batch(changes[number::2]) for number in range(2)]
    counted = Counted(ALL, emptied_at=emptied_at(whole))
    for shares in (1, 5):
        ours = merged(stored([]), whole, counted, shape=UNFIT, fold_absent=True, shares=shares)
        assert in_order(ours.to_pylist()) == in_order([row.asDict() for row in theirs])
    assert theirs
