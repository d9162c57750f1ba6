"""Histories: every version of every row, against a model in Python that goes through the changes one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.change_columns import Counted
from tests.stages.merging import ALL, NAMES, again, batch
from tests.stages.minimal_worlds import MOVES, Minimal
from tests.stages.test_bags import history as bag_history
from tests.stages.versioning import BAG, NOTHING, SHAPE, advanced
from tests.stages.worlds import DOINGS, HOUR, START, Change, Row, World, at, row
from tests.tiers import times

Version = tuple[Row, datetime, datetime | None, SourcePosition, SourcePosition | None, str]


@dataclass(frozen=True)
class Told(Change):
    """A change whose event time is some seconds off."""

    off: int = 0

    @property
    def event_time(self) -> datetime:
        return super().event_time + timedelta(seconds=self.off)


def clocked(changes: Sequence[Change], chance: random.Random) -> list[Change]:
    """The same changes from a server whose clock goes back now and then; all rows of an event have one time."""
    found: list[Change] = []
    off, last = 0, None
    for one in changes:
        if one.position != last and chance.random() < 0.3:
            off = chance.choice([0, -700, 900, -3000])
        last = one.position
        fields = {name: getattr(one, name) for name in Change.__dataclass_fields__}
        found.append(Told(**fields, off=off))
    return found


def truncate(world: World) -> None:
    """TRUNCATE TABLE, in every Kafka partition."""
    world.position += 7
    place = SourcePosition(0, world.file, world.position)
    world.rows.clear()
    world.changes += [Change("truncate", None, None, place, 0, partition, 0) for partition in range(3)]


def model(changes: Sequence[Change]) -> Counter[Version]:
    """Every version, from changes in their order."""
    open_: dict[tuple[int, int], Version] = {}
    latest: dict[tuple[int, int], datetime] = {}
    found = Counter[Version]()

    def end(key: tuple[int, int], change: Change) -> None:
        if key in open_:
            values, begin, _, place, _, op = open_.pop(key)
            latest[key] = max(begin, change.event_time)
            found[values, begin, latest[key], place, change.position, op] += 1

    for change in changes:
        if change.op == "truncate":
            for key in list(open_):
                end(key, change)
            continue
        if change.before is not None:
            end(change.before[:2], change)
        if change.after is not None:
            key = change.after[:2]
            end(key, change)
            latest[key] = max(change.event_time, latest.get(key, change.event_time))
            open_[key] = (change.after, latest[key], None, change.position, None, change.op)
    return found + Counter(open_.values())


def bag_model(changes: Sequence[Change]) -> Counter[Version]:
    """Every version of a table without a key: of equal rows the first that began goes first."""
    open_: list[Version] = []
    found = Counter[Version]()
    for change in changes:
        if change.before is not None:
            old = next((one for one in open_ if one[0] == change.before), None)
            if old is not None:
                open_.remove(old)
                found[old[0], old[1], max(old[1], change.event_time), old[3], change.position, old[5]] += 1
        if change.after is not None:
            open_.append((change.after, change.event_time, None, change.position, None, change.op))
    return found + Counter(open_)


def place_of(told: dict[str, int] | None) -> SourcePosition | None:
    return None if told is None else SourcePosition(**told)


def held(rows: pa.RecordBatch) -> Counter[Any]:
    return Counter(
        (
            tuple(one[name] for name in NAMES), one["_valid_from"], one["_valid_to"], place_of(one["_valid_from_position"]),
            place_of(one["_valid_to_position"]), one["_op"],
        )
        for one in rows.to_pylist()
    )  # fmt: skip


def worlds(seed: int, kind: type[World], doings: Sequence[Callable[[Any], None]], steps: int = 12) -> list[World]:
    return [kind(number, random.Random(seed + number)).live(steps, doings) for number in range(12)]


KINDS = pytest.mark.parametrize(("kind", "doings"), [(World, DOINGS), (Minimal, MOVES)], ids=["whole", "minimal"])


@pytest.mark.more(after=1)
@KINDS
@pytest.mark.parametrize("shares", [1, 3])
def test_every_version_has_its_begin_and_its_end(
    kind: type[World], doings: Sequence[Callable[[Any], None]], shares: int
) -> None:
    for seed in range(times(3, 40)):
        for world in worlds(100 * seed, kind, doings):
            changes = clocked(world.changes, random.Random(seed))
            batches = [batch(changes[number::3]) for number in range(3)]
            found = advanced(NOTHING, batches, fold_absent=kind is Minimal, shares=shares)
            assert held(found) == model(changes)
            ends = [(one["_valid_from"], one["_valid_to"]) for one in found.to_pylist() if one["_valid_to"]]
            assert all(begin <= end for begin, end in ends)


@KINDS
def test_a_history_that_goes_on_is_one_that_was_made_at_once(
    kind: type[World], doings: Sequence[Callable[[Any], None]]
) -> None:
    """Cut anywhere between events, in two and in three; also where the clock goes back behind the cut."""
    for seed in range(times(4, 60)):
        chance = random.Random(seed)
        changes = [one for world in worlds(100 * seed, kind, doings) for one in world.changes]
        changes = clocked(sorted(changes, key=lambda one: one.position), chance)
        ends = sorted({one.position for one in changes})
        first, second = sorted(chance.sample(ends, 2))
        parts = [
            [one for one in changes if one.position <= first],
            [one for one in changes if first < one.position <= second],
            [one for one in changes if one.position > second],
        ]
        found = NOTHING
        for part in parts:
            found = advanced(found, [batch(part)], fold_absent=kind is Minimal, shares=chance.choice([1, 3]))
        assert held(found) == held(advanced(NOTHING, [batch(changes)], fold_absent=kind is Minimal))


@KINDS
def test_keys_that_are_computed_again_get_all_their_versions_anew(
    kind: type[World], doings: Sequence[Callable[[Any], None]]
) -> None:
    for seed in range(times(4, 40)):
        chance = random.Random(seed)
        made = worlds(100 * seed, kind, doings)
        changes = clocked([one for world in made for one in world.changes], chance)
        cut = sorted(one.position for one in changes)[len(changes) // 2]
        early = [replace(one, window=0) for one in changes if one.position <= cut]
        later = [replace(one, window=1) for one in changes if one.position > cut]
        wrong = chance.sample(early, 5)
        keys = again([batch(wrong)], whole=[batch(early), batch(later)])
        spoilt = [
            replace(one, after=(*one.after[:2], "spoilt", 7)) if one in wrong and one.after else one for one in early
        ]
        stored = advanced(NOTHING, [batch(spoilt)], fold_absent=kind is Minimal)
        counted = Counted(ALL, Frontier(START, START, None), again=keys, newer=frozenset({START + HOUR}))
        found = advanced(stored, [batch(early), batch(later)], counted, fold_absent=kind is Minimal)
        assert held(found) == held(advanced(NOTHING, [batch(changes)], fold_absent=kind is Minimal))


@KINDS
def test_a_truncation_ends_all_versions(kind: type[World], doings: Sequence[Callable[[Any], None]]) -> None:
    for seed in range(times(6, 100)):
        chance = random.Random(seed)
        (world, *_) = worlds(seed, kind, (*doings, truncate), steps=20)
        changes = clocked(world.changes, chance)
        found = advanced(NOTHING, [batch(changes)], fold_absent=kind is Minimal, shares=chance.choice([1, 3]))
        assert held(found) == model(changes)


@pytest.mark.parametrize("seed", range(times(20, 300)))
def test_a_bag_ends_the_version_of_an_equal_row_that_began_first(seed: int) -> None:
    changes = [replace(one, row_number=0, position=at(1, n)) for n, one in enumerate(bag_history(seed, 40)[0])]
    changes = clocked(changes, random.Random(seed))
    whole = advanced(NOTHING, [batch(changes)], shape=BAG)
    assert held(whole) == bag_model(changes)
    cut = seed % 40
    first = advanced(NOTHING, [batch(changes[:cut])], shape=BAG)
    assert held(advanced(first, [batch(changes[cut:])], shape=BAG, shares=1 + 2 * (seed % 2))) == held(whole)


def test_a_partial_change_behind_a_truncation_begins_with_nothing() -> None:
    """The row before the truncation is another one, though nothing but the truncation stands between them."""
    changes = [
        Change("insert", None, row(0, "old"), at(1, 1)),
        Change("truncate", None, None, at(1, 2)),
        Change("update", row(0), row(0), at(1, 3), absent=("name",)),
    ]
    found = advanced(NOTHING, [batch(changes)], fold_absent=True).to_pylist()
    assert sorted((one["name"] or "", one["_op"], one["_valid_to"] is None) for one in found) == [
        ("", "update", True),
        ("old", "insert", False),
    ]


def test_a_row_that_comes_back_before_it_went_begins_where_it_went() -> None:
    """The clock went back behind a delete: the ended version gives the next one its time, also in a later run."""
    changes = [
        Told("insert", None, row(0, "first"), at(1, 10)),
        Told("delete", row(0, "first"), None, at(1, 50)),
        Told("insert", None, row(0, "second"), at(1, 60), off=-40),
    ]
    whole = advanced(NOTHING, [batch(changes)])
    apart = advanced(advanced(NOTHING, [batch(changes[:2])]), [batch(changes[2:])])
    assert held(whole) == held(apart) == model(changes)
    assert len({one["_valid_from"] for one in whole.to_pylist()} & {one["_valid_to"] for one in whole.to_pylist()}) == 1


def test_a_change_without_a_time_has_that_of_its_window() -> None:
    changes = batch([Change("insert", None, row(0, "a"), at(1, 10), window=3)])
    place = changes.schema.get_field_index("event_time")
    timeless = changes.set_column(place, changes.schema.field(place), pa.nulls(1, changes.schema.field(place).type))
    (found,) = advanced(NOTHING, [timeless]).to_pylist()
    assert (found["_valid_from"], found["_valid_to"]) == (START + 3 * HOUR, None)


def test_nothing_makes_nothing() -> None:
    for shape in (SHAPE, BAG):
        assert advanced(NOTHING, [batch([])], shape=shape).num_rows == 0


def test_of_two_versions_of_one_event_the_open_one_is_the_last() -> None:
    """One event changes a row twice; both versions begin at one position, and the clock then goes back."""
    changes = [
        Told("insert", None, row(0, "first"), at(1, 10)),
        Told("update", row(0, "first"), row(0, "second"), at(1, 50), row_number=0),
        Told("update", row(0, "second"), row(0, "third"), at(1, 50), row_number=1),
        Told("update", row(0, "third"), row(0, "fourth"), at(1, 60), off=-40),
    ]
    whole = advanced(NOTHING, [batch(changes)])
    apart = advanced(advanced(NOTHING, [batch(changes[:3])]), [batch(changes[3:])])
    assert held(whole) == held(apart) == model(changes)


def test_a_truncation_ends_what_began_at_its_own_position() -> None:
    """As in a snapshot, which has no row of a change at the position of a truncation."""
    changes = [Change("insert", None, row(0, "a"), at(1, 10)), Change("truncate", None, None, at(1, 10))]
    (found,) = advanced(NOTHING, [batch(changes)]).to_pylist()
    assert found["_valid_to_position"] == found["_valid_from_position"]
