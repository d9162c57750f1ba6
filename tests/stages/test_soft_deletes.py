"""Snapshots in which deleted rows stay, and columns on request, against models in Python that go through the changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.stages.change_columns import Counted, RowShape
from dts_assets.stages.row_folds import living_rows
from tests.stages.merging import ALL, NAMES, SNAPSHOT, again, batch, merged, parts_of, shown, stored
from tests.stages.minimal_worlds import Minimal
from tests.stages.test_bags import history as bag_history
from tests.stages.test_row_versions import KINDS, Told, truncate, worlds
from tests.stages.worlds import COLUMNS, HOUR, START, Change, Row, World, at, row
from tests.tiers import times

PLACE = pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])
SOFT_SNAPSHOT = SNAPSHOT.append(pa.field("_deleted_at", pa.timestamp("us", "UTC")))
AUDITED = SOFT_SNAPSHOT.append(pa.field("_op", pa.string())).append(pa.field("_position", PLACE))
ADDED = ("_deleted_at", "_op", "_position")
KEYLESS = tuple(Column(one.name, one.type, is_key=False) for one in COLUMNS)
SOFT = RowShape.of(COLUMNS, NAMES, SOFT_SNAPSHOT, unfit=False, added=("_deleted_at",))
SOFT_BAG = RowShape.of(KEYLESS, NAMES, AUDITED, unfit=False, added=ADDED)
NOTHING = pa.RecordBatch.from_pylist([], schema=SOFT_SNAPSHOT)
NO_BAG = pa.RecordBatch.from_pylist([], schema=AUDITED)

Held = tuple[Row, datetime, int, int, datetime | None]


@dataclass
class Standing:
    """A row of a model: its values, the change that it shows, and when it was deleted."""

    row: Row
    last: Change
    deleted_at: datetime | None = None

    @property
    def held(self) -> Held:
        last = self.last
        return self.row, last.event_time, last.kafka_partition, last.kafka_offset, self.deleted_at


def model(changes: Sequence[Change]) -> Counter[Held]:
    """The rows of a table with a key, from changes in their order."""
    rows: dict[tuple[int, int], Standing] = {}
    for change in changes:
        if change.op == "truncate":
            for one in rows.values():
                one.deleted_at = one.deleted_at or change.event_time
            continue
        if change.before is not None and (change.after is None or change.after[:2] != change.before[:2]):
            rows[change.before[:2]] = Standing(change.before, change, change.event_time)
        if change.after is not None:
            rows[change.after[:2]] = Standing(change.after, change)
    return Counter(one.held for one in rows.values())


def bag_model(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """The rows of a table without a key, with the operation and the position that they show."""
    live, gone = list[Standing](), list[Standing]()
    for change in changes:
        if change.op == "truncate":
            gone += [replace(one, deleted_at=change.event_time) for one in live]
            live.clear()
        if change.before is not None:
            equal = [one for one in live if one.row == change.before]
            if equal:
                live.remove(min(equal, key=_by_what_is_shown))
                gone += [Standing(change.before, change, change.event_time)] if change.after is None else []
        if change.after is not None:
            live.append(Standing(change.after, change))
    return Counter((*one.held, one.last.op, one.last.position.position) for one in (*live, *gone))


def _by_what_is_shown(one: Standing) -> tuple[object, ...]:
    return one.last.event_time, one.last.kafka_offset, one.last.op, one.last.position


def held(rows: pa.RecordBatch) -> Counter[Any]:
    """The rows of a snapshot as a model has them."""
    return Counter(
        (
            tuple(one[name] for name in NAMES), one["_event_time"], one["_kafka_partition"], one["_kafka_offset"],
            one["_deleted_at"], *([one["_op"], one["_position"]["position"]] if "_op" in one else []),
        )
        for one in rows.to_pylist()
    )  # fmt: skip


def without_old_values(changes: Sequence[Change], chance: random.Random) -> list[Change]:
    """The same changes from a server that sends little of old rows."""
    some = [(), ("name",), ("name", "amount")]
    return [replace(one, unsent=chance.choice(some)) if one.before is not None else one for one in changes]


@pytest.mark.more(after=1)
@KINDS
@pytest.mark.parametrize("shares", [1, 3])
def test_a_row_that_was_deleted_stays_with_its_time(
    kind: type[World], doings: Sequence[Callable[[Any], None]], shares: int
) -> None:
    for seed in range(times(3, 40)):
        chance, partial = random.Random(seed), kind is Minimal
        for world in worlds(100 * seed, kind, doings):
            changes = without_old_values(world.changes, chance) if partial else world.changes
            batches = [batch(changes[number::3]) for number in range(3)]
            found = merged(NOTHING, batches, shape=SOFT, fold_absent=partial, shares=shares)
            assert held(found) == model(world.changes)
            live = found.filter(found["_deleted_at"].is_null())
            hard = merged(stored([]), [batch(world.changes)], fold_absent=partial)
            assert shown(live.select(SNAPSHOT.names)) == shown(hard)


@KINDS
def test_a_snapshot_that_goes_on_is_one_that_was_made_at_once(
    kind: type[World], doings: Sequence[Callable[[Any], None]]
) -> None:
    for seed in range(times(4, 60)):
        chance, partial = random.Random(seed), kind is Minimal
        changes = [one for world in worlds(100 * seed, kind, doings) for one in world.changes]
        changes = sorted(changes, key=lambda one: one.position)
        changes = without_old_values(changes, chance) if partial else changes
        first, second = sorted(chance.sample(sorted({one.position for one in changes}), 2))
        found = NOTHING
        for part in (
            [one for one in changes if one.position <= first],
            [one for one in changes if first < one.position <= second],
            [one for one in changes if one.position > second],
        ):
            found = merged(found, [batch(part)], shape=SOFT, fold_absent=partial, shares=chance.choice([1, 3]))
        assert held(found) == held(merged(NOTHING, [batch(changes)], shape=SOFT, fold_absent=partial))


@KINDS
def test_keys_that_are_computed_again_lose_what_was_wrong(
    kind: type[World], doings: Sequence[Callable[[Any], None]]
) -> None:
    """A row that was deleted by mistake lives again, and one that was not is deleted."""
    for seed in range(times(4, 40)):
        chance, partial = random.Random(seed), kind is Minimal
        changes = [one for world in worlds(100 * seed, kind, doings) for one in world.changes]
        cut = sorted(one.position for one in changes)[len(changes) // 2]
        early = [replace(one, window=0) for one in changes if one.position <= cut]
        later = [replace(one, window=1) for one in changes if one.position > cut]
        wrong = chance.sample(early, 5)
        keys = again([batch(wrong)], whole=[batch(early), batch(later)])
        spoilt = [one for one in early if one not in wrong]
        before = merged(NOTHING, [batch(spoilt)], shape=SOFT, fold_absent=partial)
        counted = Counted(ALL, Frontier(START, START, None), again=keys, newer=frozenset({START + HOUR}))
        found = merged(before, [batch(early), batch(later)], counted, shape=SOFT, fold_absent=partial)
        assert held(found) == held(merged(NOTHING, [batch(changes)], shape=SOFT, fold_absent=partial))


@KINDS
def test_a_truncation_deletes_the_rows_that_live(kind: type[World], doings: Sequence[Callable[[Any], None]]) -> None:
    for seed in range(times(6, 100)):
        chance, partial = random.Random(seed), kind is Minimal
        (world, *_) = worlds(seed, kind, (*doings, truncate), steps=20)
        changes = without_old_values(world.changes, chance) if partial else world.changes
        found = merged(NOTHING, [batch(changes)], shape=SOFT, fold_absent=partial, shares=chance.choice([1, 3]))
        assert held(found) == model(world.changes)


@pytest.mark.parametrize("seed", range(times(20, 300)))
def test_a_bag_keeps_each_row_that_a_delete_found(seed: int) -> None:
    """At once, going on from any middle, with rows made again, and shared out; an update deletes none."""
    changes = [replace(one, row_number=0, position=at(1, n)) for n, one in enumerate(bag_history(seed, 40)[0])]
    if seed % 2:  # several changes of one second and one set, which audit columns tell apart
        fields = [{name: getattr(one, name) for name in Change.__dataclass_fields__} for one in changes]
        changes = [Told(**{**one, "kafka_offset": n // 5}, off=-(n % 5)) for n, one in enumerate(fields)]
    whole = merged(NO_BAG, [batch(changes)], shape=SOFT_BAG, fold_absent=True)
    assert held(whole) == bag_model(changes)
    cut = seed % 40
    first = merged(NO_BAG, [batch(changes[:cut])], shape=SOFT_BAG, fold_absent=True)
    for shares in (1, 3):
        later = merged(first, [batch(changes[cut:])], shape=SOFT_BAG, fold_absent=True, shares=shares)
        assert held(later) == held(whole)
    suspect = again([batch(changes[::4])], shape=SOFT_BAG)
    counted = Counted(ALL, Frontier(START, START, None), again=suspect, newer=frozenset({START + HOUR}))
    parts = [batch(changes[:cut]), batch([replace(one, window=1) for one in changes[cut:]])]
    assert held(merged(first, parts, counted, shape=SOFT_BAG, fold_absent=True)) == held(whole)


@pytest.mark.parametrize("seed", range(times(10, 100)))
def test_a_truncation_deletes_the_rows_of_a_bag(seed: int) -> None:
    chance = random.Random(seed)
    changes = [replace(one, row_number=0, position=at(1, 2 * n)) for n, one in enumerate(bag_history(seed, 40)[0])]
    for number in sorted(chance.sample(range(40), 2), reverse=True):
        place = at(1, 2 * number + 1)
        changes.insert(number + 1, Change("truncate", None, None, place, 0, 0, 0))
    found = merged(NO_BAG, [batch(changes)], shape=SOFT_BAG, fold_absent=True, shares=chance.choice([1, 3]))
    assert held(found) == bag_model(changes)


def made_of(*changes: Change, fold_absent: bool = True) -> list[tuple[str | None, bool]]:
    """The name of each row, and whether it was deleted; made at once, and change by change."""
    whole = merged(NOTHING, [batch(changes)], shape=SOFT, fold_absent=fold_absent)
    apart = NOTHING
    for change in changes:
        apart = merged(apart, [batch([change])], shape=SOFT, fold_absent=fold_absent)
    assert held(whole) == held(apart)
    return sorted((one["name"], one["_deleted_at"] is not None) for one in whole.to_pylist())


def test_a_delete_of_a_row_that_was_never_seen_leaves_what_it_says() -> None:
    assert made_of(Change("delete", row(0, "told"), None, at(1, 1))) == [("told", True)]


def test_an_insert_brings_a_deleted_row_to_life_and_takes_nothing_of_it() -> None:
    assert made_of(
        Change("insert", None, row(0, "old"), at(1, 1)),
        Change("delete", row(0, "old"), None, at(1, 2)),
        Change("insert", None, row(0), at(1, 3), absent=("name",)),
    ) == [(None, False)]


def test_a_partial_update_of_a_deleted_row_takes_nothing_of_it() -> None:
    """As in a snapshot without soft deletes, where the row is not there."""
    assert made_of(
        Change("insert", None, row(0, "old"), at(1, 1)),
        Change("delete", row(0, "old"), None, at(1, 2)),
        Change("update", row(0), row(0), at(1, 3), absent=("name",), unsent=("name",)),
    ) == [(None, False)]


def test_a_delete_that_sends_the_key_alone_keeps_the_values_of_the_row() -> None:
    assert made_of(
        Change("insert", None, row(0, "first"), at(1, 1)),
        Change("update", row(0, "first"), row(0, "second"), at(1, 2), unsent=("name", "amount")),
        Change("delete", row(0), None, at(1, 3), unsent=("name", "amount")),
    ) == [("second", True)]


def test_a_row_that_moves_is_deleted_under_its_old_key() -> None:
    assert made_of(
        Change("insert", None, row(0, "mine", 1), at(1, 1)),
        Change("update", row(0, "mine", 1), row(0, "moved", 2), at(1, 2), unsent=("name", "amount")),
    ) == [("mine", True), ("moved", False)]


def test_texts_of_values_that_do_not_fit_stay_with_a_deleted_row() -> None:
    change = Change("delete", row(0), None, at(1, 1), invalid=(("before.name", "0xFF"),))
    (found,) = merged(NOTHING, [batch([change])], shape=SOFT).to_pylist()
    assert found["_invalid"] == [("name", "0xFF")]


def test_audit_columns_show_the_last_change() -> None:
    shape = RowShape.of(COLUMNS, NAMES, AUDITED, unfit=False, added=("_op", "_position"))
    changes = [
        Change("insert", None, row(0, "a", 1), at(1, 1)), Change("insert", None, row(0, "b", 2), at(1, 2)),
        Change("update", row(0, "b", 2), row(0, "c", 2), at(1, 3)),
        Change("delete", row(0, "a", 1), None, at(1, 4)), Change("insert", None, row(0, "d", 1), at(1, 5)),
    ]  # fmt: skip
    (part,) = parts_of([batch(changes)], shape=shape)
    made = living_rows(part, shape).rows
    assert "_deleted_at" not in made.schema.names  # which the table has from a time when it was asked for
    assert sorted((one["name"], one["_op"], one["_position"]["position"]) for one in made.to_pylist()) == [
        ("c", "update", 3),
        ("d", "insert", 5),
    ]
