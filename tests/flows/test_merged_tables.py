"""Shards that become one table: the oracle is the union of the shards' rows, each with its database and its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.tables import TableId
from tests.flows.harness import Bench, Harness
from tests.flows.history import WINDOWS, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table
from tests.tiers import chosen, times

MERGE = {"shop.orders": ["shop_*.orders_*"]}
ORDERS = TableId("shop", "", "orders")


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "merged")


def shard(database: int, number: int, *, keyed: bool = True) -> Table:
    """A shard by the numbers of its database and in it."""
    columns = [Field("id", INT, keyed), Field("n", INT), Field("note", TEXT)]
    return Table(f"orders_{number}@{database}", columns, (f"shop_{database:02}", f"orders_{number:04}"))


def shards_of(databases: int, each: int, *, keyed: bool = True) -> list[Table]:
    return [shard(database, number, keyed=keyed) for database in range(databases) for number in range(each)]


@dataclass
class Shards:
    """A life of shards at random, with the expected rows behind each window."""

    tables: list[Table]
    random: Random
    source: Source = field(init=False)
    after: list[list[tuple[Any, ...]]] = field(default_factory=list)
    at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.source = short_source(*self.tables)

    def live(self, windows: int, steps: int) -> None:
        for window in range(windows):
            self.at = border(window)
            for _ in range(steps):
                self.at += 3 * SECOND
                self._step()
            self.source.checkpoint(border(window) + 580 * SECOND)
            self.after.append(self.rows())

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of all shards, each with the shard's names in front."""
        return [
            (*(table.sent_as or ()), *(row.get(name) for name in ("id", "n", "note")))
            for table in self.tables
            for row in self._rows(table)
        ]

    def _rows(self, table: Table) -> Iterable[Row]:
        return self.source.rows[table.name].values() if table.keys else self.source.bags[table.name]

    def _step(self) -> None:
        random, source = self.random, self.source
        table = random.choice(self.tables)
        database, name = table.sent_as or ("", "")
        rows = list(self._rows(table))
        kind = random.choice(("insert", "insert", "insert", "update", "partial", "move", "delete", "empty"))
        if kind == "empty" and random.random() < 0.6:
            sql, gone = random.choice(
                [
                    (f"TRUNCATE TABLE {database}.{name}", [table]),
                    (f"DROP TABLE {database}.{name}", [table]),
                    (
                        f"DROP DATABASE {database}",
                        [one for one in self.tables if one.sent_as and one.sent_as[0] == database],
                    ),
                ]
            )
            source.transaction(self.at, Ddl(sql))
            for one in gone:
                (source.rows if one.keys else source.bags)[one.name].clear()
        elif kind == "insert" or not rows:
            free = [number for number in range(12) if not table.keys or (number,) not in source.rows[table.name]]
            some = random.sample(free, min(len(free), random.randint(1, 3)))
            made = [{"id": number, "n": random.randrange(5), "note": random.choice(("tea", None))} for number in some]
            if made:
                source.transaction(self.at, Dml(table, [(None, row) for row in made]))
        elif kind == "delete":
            source.transaction(self.at, Dml(table, [(random.choice(rows), None)]))
        elif kind == "partial" and table.keys:  # a server with minimal row images
            row = random.choice(rows)
            source.transaction(self.at, Dml(table, [(row, {**row, "n": random.randrange(5), "note": ABSENT})]))
        else:
            row = random.choice(rows)
            number = random.randrange(12, 20) if kind == "move" else row["id"]
            if not table.keys or number == row["id"] or (number,) not in source.rows[table.name]:
                source.transaction(self.at, Dml(table, [(row, {**row, "id": number, "n": random.randrange(5)})]))


def shown(harness: Harness) -> list[tuple[Any, ...]]:
    names = ("_source_database", "_source_table", "id", "n", "note")
    rows = harness.rows("snapshot", "shop", "orders")
    return [tuple(row[name] for name in names) for row in rows if row.get("_deleted_at") is None]


def ordered(rows: Iterable[Any]) -> list[str]:
    return sorted(map(repr, rows))


def assert_balanced(harness: Harness) -> None:
    counts = harness.rows("window_tables")
    assert {(row["database"], row["table"]) for row in counts} == {("shop", "orders")}
    assert all(
        row["changes"] == row["kept"] + row["filtered"] + row["redelivered"] + row["quarantined"] for row in counts
    )


@pytest.mark.more
@pytest.mark.parametrize("keyed", chosen([True, False], 1))
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_a_merged_table_is_the_union_of_its_shards_behind_each_window(
    seed: int, keyed: bool, bench_of: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    life = Shards(shards_of(2, 3, keyed=keyed), random)
    life.live(WINDOWS, 20)
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
    harness = open_short(bench_of, tmp_path / "capture", life.source.messages, windows=WINDOWS, merge=MERGE)
    for window in range(WINDOWS):
        harness.all(window)
        assert ordered(shown(harness)) == ordered(life.after[window])
    assert list(known_tables(harness.pipeline)) == [ORDERS]
    columns = {column.name: (column.type, column.is_key) for column in known_tables(harness.pipeline)[ORDERS]}
    assert columns["_source_database"] == columns["_source_table"] == ("string", keyed)
    assert_balanced(harness)
    harness.settle()  # a window with a statement about a shard that no event had told yet is made again
    assert ordered(shown(harness)) == ordered(life.after[-1])
    assert find_work(harness.pipeline).nothing
    again = open_short(bench_of, tmp_path / "again", life.source.messages, windows=WINDOWS, merge=MERGE)
    for window in random.choices(range(WINDOWS), k=times(3, 5)):
        again.all(window)
    again.settle()
    again.all(*sorted(random.sample(range(WINDOWS), 2)))
    again.settle()
    assert ordered(shown(again)) == ordered(life.after[-1])
    changes = ("changelog", "shop", "orders")
    assert ordered(again.rows(*changes)) == ordered(harness.rows(*changes))


def ordered_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in rows)


@pytest.mark.parametrize("keyed", chosen([False, True], 1))
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_histories_and_deleted_rows_are_those_of_the_shards_own_tables(
    seed: int, keyed: bool, bench_of: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that is emptied ends the versions of its own rows, and leaves its own deleted rows."""
    random = Random(100 + seed)
    life = Shards(shards_of(2, 2, keyed=keyed), random)
    life.live(WINDOWS, 20)
    settings: dict[str, Any] = {"history": ["*"], "deletes": "soft", "audit_columns": ["op", "position", "row_number"]}
    apart = open_short(bench_of, tmp_path / "apart", life.source.messages, windows=WINDOWS, **settings)
    apart.all()
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
    merged = open_short(bench_of, tmp_path / "merged", life.source.messages, windows=WINDOWS, merge=MERGE, **settings)
    for window in random.choices(range(WINDOWS), k=times(3, 5)):
        merged.all(window)
    merged.settle()
    for layer in ("snapshot", "history"):
        expected = [
            {**row, "_source_database": table.database, "_source_table": table.table}
            for table in known_tables(apart.pipeline)
            for row in apart.rows(layer, *table.path)
        ]
        assert ordered_rows(merged.rows(layer, "shop", "orders")) == ordered_rows(expected), layer
        assert len(expected) > 10
    assert any(row["_deleted_at"] is not None for row in merged.rows("snapshot", "shop", "orders"))
