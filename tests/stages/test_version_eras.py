"""Histories over statements that change rows by no event, against a model in Python that goes through all of it one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.change_columns import CHANGE_COLUMNS, NO_TIME, RowShape, microsecond, truncations_of
from dts_assets.stages.history_statements import ColumnFill
from dts_assets.stages.row_versions import versions_of
from dts_assets.stages.value_paths import ValuePath, ValueStep
from dts_assets.stages.version_eras import VersionEra, as_arrival, versions_over_eras
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from tests.stages.merging import ALL, batch, parts_of, shared
from tests.stages.minimal_worlds import MOVES, Minimal
from tests.stages.test_row_versions import Told, clocked, held, truncate
from tests.stages.versioning import SHAPE
from tests.stages.worlds import DOINGS, START, Change, Row, World
from tests.tiers import times

NAME, AMOUNT = 2, 3
SEVEN = ColumnAdded(TableId("d", "", "t"), SchemaColumn("amount", "int(11)"), None, Fill.VALUE, "7")
DEFAULT = ColumnFill(AMOUNT, None, ((SourcePosition(0, 0, 0), ValuePath(None, (ValueStep(SEVEN, None),), 1)),))
COPY = ColumnFill(NAME, AMOUNT, ((SourcePosition(0, 0, 0), ValuePath("amount")),))


@dataclass
class Life:
    """A table that goes by two names in turn, and what became of it.

    ``mine`` are the changes under the name of the history. Each rename to it has all changes before it.
    """

    world: World
    chance: random.Random
    mine: list[Change] = field(default_factory=list)
    eras: list[VersionEra] = field(default_factory=list)
    came: dict[int, list[Change]] = field(default_factory=dict)
    told: list[tuple[str, VersionEra, list[Row]] | Change] = field(default_factory=list)

    def lived(self, doings: Sequence[Callable[[Any], None]], parts: int) -> Life:
        here = True
        for number in range(parts):
            before = len(self.world.changes)
            self.world.live(self.chance.randint(0, 6), doings)
            new = clocked(self.world.changes[before:], self.chance)
            self.world.changes[before:] = new
            if here:
                self.mine += new
                self.told += new
            if number + 1 < parts:
                here = self._statement(here)
        return self

    def _statement(self, here: bool) -> bool:
        self.world.position += 10
        place = SourcePosition(0, self.world.file, self.world.position)
        time = microsecond(
            START + timedelta(seconds=place.file * 1000 + place.position + self.chance.choice([0, -700, 900]))
        )
        rows = [self.world.row(number) for number in sorted(self.world.rows)]
        if here:
            self._add("leave", VersionEra(place, time, True), rows)
        else:
            number = len(self.eras)
            self.came[number] = list(self.world.changes)
            cuts = truncations_of([batch(self.came[number]).select(CHANGE_COLUMNS)], ALL)
            if apart := self.chance.random() < 0.5:  # as two statements at one position
                self.eras.append(VersionEra(place, time, True))
            self._add("arrive", VersionEra(place, time, not apart, number, truncations=cuts), rows)
        return not here

    def fill(self, *fills: ColumnFill) -> None:
        """A statement fills columns of all rows, without an event; the table does not move any more."""
        self.world.position += 10
        place = SourcePosition(0, self.world.file, self.world.position)
        self._add("fill", VersionEra(place, NO_TIME, fills=fills), [])
        for number, shown in self.world.rows.items():
            self.world.rows[number] = replace(shown, row=filled(shown.row, fills))

    def _add(self, what: str, era: VersionEra, rows: list[Row]) -> None:
        self.eras.append(era)
        self.told.append((what, era, rows))


def filled(row: Row, fills: Sequence[ColumnFill]) -> Row:
    """A row behind a statement that fills columns, all at once."""
    world, number, name, amount = row
    new = 7 if DEFAULT in fills else amount
    return (world, number, (None if amount is None else str(amount)) if COPY in fills else name, new)


def as_time(time: int) -> datetime:
    return START + timedelta(microseconds=time - microsecond(START))


def model(life: Life) -> Counter[Any]:
    """Every version of the life under the history's name."""
    open_: dict[tuple[int, int], Any] = {}
    latest: dict[tuple[int, int], datetime] = {}
    found = Counter[Any]()

    def end(key: tuple[int, int], time: datetime, place: SourcePosition) -> None:
        if key in open_:
            values, begin, _, began, _, op = open_.pop(key)
            latest[key] = max(begin, time)
            found[values, begin, latest[key], began, place, op] += 1

    def begin(values: Row, time: datetime, place: SourcePosition, op: str) -> None:
        key = values[:2]
        end(key, time, place)
        latest[key] = max(time, latest.get(key, time))
        open_[key] = (values, latest[key], None, place, None, op)

    for one in life.told:
        if isinstance(one, Change):
            if one.op == "truncate":
                for key in list(open_):
                    end(key, one.event_time, one.position)
                continue
            if one.before is not None:
                end(one.before[:2], one.event_time, one.position)
            if one.after is not None:
                begin(one.after, one.event_time, one.position, one.op)
            continue
        what, era, rows = one
        if what == "fill":
            open_ = {key: (filled(value[0], era.fills), *value[1:]) for key, value in open_.items()}
            continue
        for key in list(open_):
            end(key, as_time(era.time), era.position)
        for row in rows if what == "arrive" else ():
            begin(row, as_time(era.time), era.position, "rename")
    return found + Counter(open_.values())


def made(
    life: Life, *, shares: int, fold_absent: bool, expired_before: int = NO_TIME, shape: RowShape = SHAPE
) -> Counter[Any]:
    own = [batch(life.mine[number::3]) for number in range(3)]
    parts = parts_of(own, shape=shape, hashed=True)
    for number, changes in life.came.items():
        parts += [as_arrival(one, number) for one in parts_of([batch(changes)], shape=shape, hashed=True)]
    cuts = truncations_of([one.select(CHANGE_COLUMNS) for one in own], ALL)
    found = Counter[Any]()
    for whole in shared(parts, parts, shares):
        found += held(
            versions_over_eras(
                whole, shape, life.eras, truncations=cuts, fold_absent=fold_absent, expired_before=expired_before
            ).rows
        )
    return found


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("kind", "doings"), [(World, DOINGS), (Minimal, MOVES)], ids=["whole", "minimal"])
@pytest.mark.parametrize("shares", [1, 3])
def test_names_come_and_go(kind: type[World], doings: Sequence[Callable[[Any], None]], shares: int) -> None:
    renamed = 0
    for seed in range(times(20, 300)):
        chance = random.Random(seed)
        life = Life(kind(1, chance), chance).lived((*doings, truncate), chance.randint(1, 5))
        found = made(life, shares=shares, fold_absent=kind is Minimal)
        assert found == model(life)
        renamed += sum(one[-1] == "rename" for one in found)
        limit = START + timedelta(seconds=9000 + chance.randint(0, 1500))
        left = made(life, shares=shares, fold_absent=kind is Minimal, expired_before=microsecond(limit))
        assert left == Counter({one: n for one, n in found.items() if one[2] is None or one[2] >= limit})
    assert renamed > 10


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("kind", "doings"), [(World, DOINGS), (Minimal, MOVES)], ids=["whole", "minimal"])
@pytest.mark.parametrize("shares", [1, 3])
def test_statements_fill_columns_of_open_versions(
    kind: type[World], doings: Sequence[Callable[[Any], None]], shares: int
) -> None:
    for seed in range(times(20, 300)):
        chance = random.Random(seed)
        life = Life(kind(1, chance), chance).lived((*doings, truncate), chance.choice([1, 3]))
        for _ in range(chance.randint(1, 3)):
            life.fill(*chance.choice([(DEFAULT,), (COPY,), (DEFAULT, COPY)]))
            before = len(life.world.changes)
            life.world.live(chance.randint(0, 6), doings)
            life.mine += life.world.changes[before:]
            life.told += life.world.changes[before:]
        assert made(life, shares=shares, fold_absent=kind is Minimal) == model(life)


def test_without_a_statement_it_is_one_era() -> None:
    for seed in range(times(5, 50)):
        chance = random.Random(seed)
        life = Life(World(1, chance), chance).lived((*DOINGS, truncate), 1)
        (whole,) = shared(parts := parts_of([batch(life.mine)], hashed=True, shape=SHAPE), parts, 1)
        cuts = truncations_of([batch(life.mine).select(CHANGE_COLUMNS)], ALL)
        plain = versions_of(whole, SHAPE, truncations=cuts).rows
        assert held(versions_over_eras(whole, SHAPE, (), truncations=cuts).rows) == held(plain)


def test_a_clock_that_goes_back_behind_a_rename_makes_no_version_overlap() -> None:
    """The row left at second 50 by the clock, and came back at second 20."""
    insert = Told("insert", None, (1, 1, "a", 1), SourcePosition(0, 9, 10))
    again = Told("insert", None, (1, 1, "b", 2), SourcePosition(0, 9, 60), off=-40)
    leave = VersionEra(SourcePosition(0, 9, 50), microsecond(insert.event_time) + 40_000_000, True)
    parts = parts_of([batch([insert, again])], hashed=True, shape=SHAPE)
    (whole,) = shared(parts, parts, 1)
    first, second = sorted(versions_over_eras(whole, SHAPE, [leave]).rows.to_pylist(), key=lambda one: one["name"])
    assert (first["name"], first["_valid_to"]) == ("a", second["_valid_from"])
    assert second["_valid_to"] is None
