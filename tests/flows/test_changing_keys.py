"""A table whose primary key goes, comes or changes: rows are found by the key of the moment, in any order of windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.model.added_columns import AUDIT
from dts_assets.model.positions import SourcePosition
from tests.flows.expected_history import Keys, assert_histories_hold
from tests.flows.expected_soft import assert_soft_snapshots_hold
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, item, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, Row, Table
from tests.tiers import times

WINDOWS = 4
EVENTS = 12
KEYS = ((), ("id",), ("id", "n"), ("n",))
SQL = "ALTER TABLE items DROP PRIMARY KEY, ADD PRIMARY KEY ({})"


def keyed(key: Sequence[str]) -> Table:
    return Table("items", [replace(one, is_key=one.name in key) for one in items().columns])


@dataclass
class Life:
    """The source of one table whose key changes now and then; ``rows`` are those that it has."""

    random: Random
    lacking: bool
    source: Source = field(default_factory=lambda: short_source(items()))
    rows: list[dict[str, Any]] = field(default_factory=list)
    key: tuple[str, ...] = ("id",)
    told: list[tuple[SourcePosition, tuple[str, ...]]] = field(default_factory=list)
    seconds: int = 1

    def __post_init__(self) -> None:
        self.source._apply = lambda *_: None  # type: ignore[method-assign]  # its rows are found by one key for all times

    def of_key(self, row: Row, key: Sequence[str]) -> tuple[Any, ...]:
        return tuple(row[name] for name in key)

    def fits(self, rows: Sequence[Row], key: Sequence[str]) -> bool:
        """Whether rows may have this key: no two are equal, none is NULL."""
        values = [self.of_key(row, key) for row in rows]
        return not key or (len(set(values)) == len(values) and not any(None in one for one in values))

    def at(self, window: int) -> Any:
        self.seconds += 1
        return border(window) + self.seconds * SECOND

    def new_row(self) -> dict[str, Any]:
        number, note = self.random.choice((0, 1, None)), self.random.choice(("a", "b", None))
        return dict(item(self.random.randrange(6), number, note))

    def change(self, window: int) -> None:
        chosen = self.random.random()
        if chosen < 0.15:
            self.key_changes(self.random.choice(KEYS), window)
        elif chosen < 0.18:
            self.rows.clear()
            self.source.transaction(self.at(window), Ddl("TRUNCATE TABLE items"))
        elif chosen < 0.55 or not self.rows:
            new = self.new_row()
            if self.fits([*self.rows, new], self.key):
                self.send(None, new, window)
        else:
            old = self.random.choice(self.rows)
            new = {**old, **{name: self.new_row()[name] for name in self.random.sample(("id", "n", "note"), 1)}}
            left = list(self.rows)
            left.remove(old)
            if self.random.random() < 0.35:
                self.send(old, None, window)
            elif self.fits([*left, new], self.key):
                self.send(old, new, window)

    def key_changes(self, key: tuple[str, ...], window: int) -> None:
        if not self.fits(self.rows, key):
            return
        self.key = key
        if self.random.random() < 0.7:  # a statement may be lost
            self.source.transaction(self.at(window), Ddl(SQL.format(", ".join(key))))

    def send(self, old: dict[str, Any] | None, new: dict[str, Any] | None, window: int) -> None:
        if old is not None:
            self.rows.remove(old)
        if new is not None:
            self.rows.append(new)
        before, after = old, new
        if self.lacking and self.key:  # a server that sends keys and changed columns alone
            if old is not None:
                before = {name: value if name in self.key else ABSENT for name, value in old.items()}
            if old is not None and new is not None:
                after = {
                    name: value if name in self.key or value != old[name] else ABSENT for name, value in new.items()
                }
        self.source.transaction(self.at(window), Dml(keyed(self.key), [(before, after)]))
        position = SourcePosition(0, *self.source.changes[-1].position)
        if not self.told or self.told[-1][1] != self.key:
            self.told.append((position, self.key))

    def live(self) -> Life:
        for window in range(WINDOWS):
            self.seconds = 1
            for _ in range(EVENTS):
                self.change(window)
            self.source.checkpoint(border(window) + 300 * SECOND)
        return self


def rows_of(harness: Harness) -> Counter[tuple[Any, ...]]:
    found = harness.rows("snapshot", DATABASE, "items")
    return Counter((row["id"], row["n"], row["note"]) for row in found)


def rebuild(harness: Harness) -> None:
    rebuild_tables(
        harness.pipeline,
        [table_id("items")],
        RebuildFrom.CHANGELOG,
        spark=lambda: harness.session,
        progress=harness.lines.append,
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("seed", range(times(3, 25)))
def test_rows_are_found_by_the_key_of_the_moment(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lacking: bool, shared: bool
) -> None:
    """Any order of windows, windows made again, and a rebuild end with the rows that the source has."""
    if shared:
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
        monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 5)
    random = Random(seed)
    life = Life(random, lacking).live()
    asked: dict[str, Any] = {"history": ["*"]}
    soft = bool(random.getrandbits(1))
    if soft:
        asked |= {"deletes": "soft", "audit_columns": list(AUDIT)}
    harness = open_short(
        bench_in_process(tmp_path, "keys"), tmp_path / "capture", life.source.messages, windows=WINDOWS, **asked
    )
    harness.raw()
    harness.entries()
    order = [*range(WINDOWS), *random.choices(range(WINDOWS), k=2)]
    random.shuffle(order)
    groups = [order[:2], *([one] for one in order[2:])]
    for some in groups:
        harness.tables(*sorted(set(some)))
    harness.settle()

    def holds() -> None:
        keys: Keys = life.told
        if soft:
            assert_soft_snapshots_hold(harness.pipeline, keys=keys)
            live = [row for row in harness.rows("snapshot", DATABASE, "items") if row["_deleted_at"] is None]
            found = Counter((row["id"], row["n"], row["note"]) for row in live)
        else:
            found = rows_of(harness)
        assert found == Counter((row["id"], row["n"], row["note"]) for row in life.rows)
        assert_histories_hold(harness.pipeline, keys=keys)

    holds()
    again = random.randrange(WINDOWS)
    harness.tables(again)
    holds()
    rebuild(harness)
    holds()


def test_rows_stand_apart_where_the_column_of_the_key_is_gone(tmp_path: Path) -> None:
    """Events no longer carry ``id``, which was the key: all of them would be one row, whose key is NULL."""
    source = short_source(items())
    source._apply = lambda *_: None  # type: ignore[method-assign]
    source.transaction(border(0) + SECOND, Dml(source.tables["items"], [(None, item(1)), (None, item(2))]))
    source.checkpoint(border(0) + 300 * SECOND)
    left = Table("items", [one for one in items().columns if one.name != "id"])
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items DROP COLUMN id"))
    rows: list[Row] = [{"n": number, "note": "new"} for number in (7, 7, 8)]
    source.transaction(border(1) + 2 * SECOND, Dml(left, [(None, row) for row in rows]))
    source.transaction(border(1) + 3 * SECOND, Dml(left, [(rows[0], None), (rows[2], None)]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "keys"), tmp_path / "capture", source.messages, windows=2)
    harness.settle()
    expected = Counter([(1, 0, None), (2, 0, None), (None, 7, "new")])
    assert rows_of(harness) == expected
    rebuild(harness)
    assert rows_of(harness) == expected
