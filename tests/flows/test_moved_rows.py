"""Rows whose keys change on a server with minimal row images: what is not sent follows the row, in any order of windows."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.model.removals import NotRemoved
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, DATE, INT, TEXT, Field, Row, Table
from tests.tiers import chosen

NAMES = ("id", "day", "n", "note")
DAYS = ("0000-00-00", "2021-02-30", "2021-05-17")
"""Days of a key, of which two do not fit."""

Contents = dict[tuple[Any, Any], tuple[Any, Any]]


@pytest.fixture(params=["whole", "shared out"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Changes are one task for a table, or are shared out over many."""
    if request.param == "shared out":
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
        monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 3)
    return bench_in_process(tmp_path, "moved")


def places() -> Table:
    return Table("places", [Field("id", INT, True), Field("day", DATE, True), Field("n", INT), Field("note", TEXT)])


class Life:
    """A table that lives in a source, and sends of its updates what a server with minimal images sends."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.source: Source = short_source(places())
        self.at = border(0)

    @property
    def rows(self) -> dict[Any, Row]:
        return self.source.rows["places"]

    def send(self, *pairs: tuple[Row | None, Row | None]) -> None:
        self.at += 5 * SECOND
        self.source.transaction(self.at, Dml(self.source.tables["places"], list(pairs)))

    def insert(self) -> None:
        key = self.free()
        self.send(
            (None, {"id": key[0], "day": key[1], "n": self.number(), "note": self.chance.choice([None, "a", "b"])})
        )

    def delete(self) -> None:
        if self.rows:
            row = self.rows[self.chance.choice(sorted(self.rows))]
            self.send((self.sent(id=row["id"], day=row["day"]), None))

    def change(self) -> None:
        if self.rows:
            key = self.chance.choice(sorted(self.rows))
            self.update(key, key)

    def move(self) -> None:
        if self.rows:
            self.update(self.chance.choice(sorted(self.rows)), self.free())

    def chain(self) -> None:
        if self.rows:
            key = self.chance.choice(sorted(self.rows))
            for _ in range(3):
                key = self.update(key, self.free())

    def swap(self) -> None:
        if len(self.rows) > 1:
            one, other = self.chance.sample(sorted(self.rows), 2)
            for key, target in ((one, (99, DAYS[2])), (other, one), ((99, DAYS[2]), other)):
                self.update(key, target)

    def update(self, key: Any, target: Any) -> Any:
        new = {name: value for name, value, old in zip(NAMES, target, key, strict=False) if value != old}
        for name, value in (("n", self.number()), ("note", self.chance.choice([None, "c", "d"]))):
            if self.chance.random() < 0.3:
                new[name] = value
        if new:
            self.send((self.sent(id=key[0], day=key[1]), self.sent(**new)))
        return target

    def truncate(self) -> None:
        self.at += 5 * SECOND
        self.source.transaction(self.at, Ddl("TRUNCATE TABLE places"))
        self.rows.clear()

    def number(self) -> object:
        return self.chance.choice([None, 1, 2, "many"])

    def sent(self, **values: object) -> Row:
        return dict.fromkeys(NAMES, ABSENT) | values

    def free(self) -> tuple[int, str]:
        few, more = (
            [(n, day) for n in some for day in DAYS if (n, day) not in self.rows] for some in (range(4), range(4, 8))
        )
        return self.chance.choice(few or more)

    def window(self, number: int, steps: int, *, truncated: bool = False) -> Contents:
        """Live through a window, and return what the table holds at its end."""
        self.at = border(number) + SECOND
        if truncated:
            self.chain()
            self.truncate()
        doings = (self.insert, self.insert, self.change, self.delete, self.move, self.move, self.chain, self.swap)
        for _ in range(steps):
            self.chance.choice(doings)()
        self.source.checkpoint(border(number) + 500 * SECOND)
        return {key: (row["n"], row["note"]) for key, row in copy.deepcopy(self.rows).items()}


def found(harness: Harness) -> Contents:
    """The snapshot by the source's own key; each value is what the source would show of it."""
    rows: Contents = {}
    for row in harness.rows("snapshot", DATABASE, "places"):
        texts = dict(row["_invalid"] or ())
        shown = {name: texts.get(name, row[name]) for name in NAMES}
        key = (shown["id"], str(shown["day"]))
        assert key not in rows, "a key stands there twice"
        rows[key] = (shown["n"], shown["note"])
    return rows


ORDERS = [(1, (0, 2, 1)), (3, (0, 1, 2, 1)), (1, (2, 1, 0)), (4, (1, 0, 2, 0))]


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("seed", "order"), chosen(ORDERS + [(seed, ORDERS[seed % 4][1]) for seed in range(10, 30)], 2))
def test_what_was_not_sent_follows_the_row(seed: int, order: tuple[int, ...], bench: Bench, tmp_path: Path) -> None:
    life = Life(seed)
    ends = [life.window(number, 14) for number in range(3)]
    harness = open_short(bench, tmp_path / "capture", life.source.messages)
    harness.raw()
    harness.entries()
    made: set[int] = set()
    for number in order:
        harness.tables(number)
        made.add(number)
        reached = next((n for n in range(3) if n not in made), 3)
        if reached:
            assert found(harness) == ends[reached - 1]
    assert sum(row.partial_moves for row in harness.pipeline.ledger.window_tables()) > 3


@pytest.mark.more
def test_what_was_not_sent_follows_rows_between_truncations(bench: Bench, tmp_path: Path) -> None:
    life = Life(7)
    ends = [life.window(number, 9, truncated=number == 1) for number in range(3)]
    harness = open_short(bench, tmp_path / "capture", life.source.messages)
    harness.raw()
    harness.entries()
    for number in (0, 2, 1, 0):
        harness.tables(number)
    assert found(harness) == ends[-1]


def test_an_update_that_tells_half_a_key_is_counted_and_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    source = short_source(places())
    row = {"id": 1, "day": "2021-05-17", "n": 1, "note": "a"}
    source.transaction(border(0) + SECOND, Dml(source.tables["places"], [(None, row)]))
    half = {"id": 1, "day": ABSENT, "n": ABSENT, "note": ABSENT}
    told = {"id": ABSENT, "day": ABSENT, "n": 7, "note": ABSENT}
    source.rows["places"] = {(1, ABSENT): row}  # no real server finds a row by half a key
    source.transaction(border(0) + 9 * SECOND, Dml(source.tables["places"], [(half, told)]))
    source.checkpoint(border(0) + 500 * SECOND)
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=1)
    harness.raw(0)
    harness.entries(0)
    (report,) = harness.tables(0).tables
    assert found(harness) == {(1, "2021-05-17"): (1, "a")}
    assert report.layers["snapshot"].not_removed == NotRemoved(ambiguous=1)
