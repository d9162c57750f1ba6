"""Tables without a primary key whose changes send a UNIQUE column alone, where other features meet them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.find_work import find_work
from dts_assets.flows.moments import tables_at
from dts_assets.model.problems import Completeness
from dts_assets.planning.source_moments import AtWindow
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table
from tests.tiers import chosen, times

Kept = dict[tuple[str, int], tuple[Any, Any]]
"""The rows of all shards by table and ``id``: ``note`` and ``n``."""

SHARDS = [
    Table(f"t_{number}", [Field("note", TEXT), Field("id", INT), Field("n", INT)], ("shop", f"t_{number}"))
    for number in range(2)
]


def always(_: Any) -> bool:
    return True


@dataclass
class Life:
    """Random changes, and what is known of the rows that pass a filter on ``id`` at the end of each window."""

    random: Random
    tables: list[Table]
    passes: Callable[[Any], bool] = always
    rows: Kept = field(default_factory=dict)
    known: Kept = field(default_factory=dict)
    ends: list[Kept] = field(default_factory=list)
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        self.source = short_source(*self.tables)
        for window in range(3):
            at = border(window)
            for _ in range(16):
                at += 3 * SECOND
                self._step(at)
            self.source.checkpoint(border(window) + 580 * SECOND)
            self.ends.append(copy.deepcopy(self.known))

    def _step(self, at: Any) -> None:
        random, table = self.random, self.random.choice(self.tables)
        ids = [id_ for name, id_ in self.rows if name == table.name]
        kind = random.choice(["insert", "insert", "update", "update", "move", "delete", "empty"])
        note, n = random.choice(["a", "b", None]), random.choice([1, 2, None])
        if kind == "empty" and random.random() < 0.2:
            self.source.transaction(at, Ddl(f"TRUNCATE TABLE {'.'.join(table.sent_as or ())}"))
            self.source.bags[table.name].clear()
            for kept in (self.rows, self.known):
                for key in [key for key in kept if key[0] == table.name]:
                    del kept[key]
        elif kind == "insert" or not ids:
            free = [id_ for id_ in range(12) if id_ not in ids]
            self._change(at, table, None, {"note": note, "id": random.choice(free), "n": n})
        elif kind == "delete":
            self._change(at, table, random.choice(ids), None)
        else:
            new: dict[str, Any] = {"note": note if random.random() < 0.5 else ABSENT, "id": ABSENT, "n": ABSENT}
            if new["note"] is ABSENT or random.random() < 0.3:
                new["n"] = n
            id_ = random.choice(ids)
            other = id_ + random.randrange(7, 12)  # so that no row comes into the filter
            if kind == "move" and other not in ids:
                new["id"] = other
            self._change(at, table, id_, new)

    def _change(self, at: Any, table: Table, id_: int | None, new: Row | None) -> None:
        old = None if id_ is None else {"note": ABSENT, "id": id_, "n": ABSENT}
        if old is not None:
            self.source.bags[table.name].append(old)  # the emulated source takes rows away whole
        self.source.transaction(at, Dml(table, [(old, new)]))
        gone = (None, None) if id_ is None else self.rows.pop((table.name, id_))
        if id_ is not None:
            self.known.pop((table.name, id_), None)
        if new is None:
            return
        now = new["id"] if new["id"] is not ABSENT else id_
        assert isinstance(now, int)
        key = table.name, now
        note, n = (one if new[name] is ABSENT else new[name] for name, one in zip(("note", "n"), gone, strict=True))
        self.rows[key] = note, n
        if self.passes(key[1]):
            self.known[key] = note, n


def table_of(tables: list[Table]) -> tuple[str, str]:
    return ("shop", "t") if len(tables) > 1 else ("shop", tables[0].name)


def shown(rows: list[dict[str, Any]], tables: list[Table]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row.get("_source_table", tables[0].name), row["id"], row["note"], row["n"])
        for row in rows
        if row.get("_deleted_at") is None and row.get("_valid_to") is None
    )


def expected(kept: Kept) -> Counter[tuple[Any, ...]]:
    return Counter((name, id_, note, n) for (name, id_), (note, n) in kept.items())


MEETINGS: Mapping[str, Mapping[str, Any]] = {
    "a row filter, and a history": {"rows": {"shop.t_0": "id < 18"}, "history": ["*"]},
    "shards and their truncations": {"merge": {"shop.t": ["shop.t_*"]}, "history": ["*"]},
    "deleted rows that stay": {"deletes": "soft", "history": ["*"]},
    "a layout": {"layout": {"*": {"partition": ["bucket(3, note)"], "sort": ["n"]}}},
    "another name": {"rename": {"shop.t_0": "shop.t"}},
    "a merged table with a filter": {"merge": {"shop.t": ["shop.t_*"]}, "rows": {"shop.t": "id < 18"}},
    "shards whose deleted rows stay": {"merge": {"shop.t": ["shop.t_*"]}, "deletes": "soft"},
}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", chosen(sorted(MEETINGS), 4))
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_the_rows_are_the_sources_in_any_order(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, settings = Random(f"{name} {seed}"), dict(MEETINGS[name])
    tables = SHARDS if "merge" in settings else SHARDS[:1]
    life = Life(random, tables, (lambda id_: id_ < 18) if "rows" in settings else always)
    if random.random() < 0.5:
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
        monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 3)
    monkeypatch.setattr(snapshot_jobs, "_MOST_SMALL", random.choice([1, 8]))
    harness = open_short(bench_in_process(tmp_path, "met"), tmp_path / "capture", life.source.messages, **settings)
    harness.raw()
    harness.entries()
    where = ("shop", "t") if "rename" in settings else table_of(tables)
    made: set[int] = set()
    for number in random.sample([0, 1, 2, random.randrange(3)], 4):
        harness.tables(number)
        made.add(number)
        if reached := next((n for n in range(3) if n not in made), 3):
            assert shown(harness.rows("snapshot", *where), tables) == expected(life.ends[reached - 1])
    harness.settle()
    assert find_work(harness.pipeline).nothing
    assert_settled(harness, life, where, settings)
    for number, kept in enumerate(life.ends):
        at = AtWindow(harness.pipeline.grid.at(number).start)
        (table,) = tables_at(harness.pipeline, at, tmp_path / f"moment {number}").tables.values()
        assert shown(table.scan().to_arrow().to_pylist(), tables) == expected(kept)


def assert_settled(harness: Harness, life: Life, where: tuple[str, str], settings: Mapping[str, Any]) -> None:
    """Nothing was ambiguous, and the versions of a history that are open are the rows."""
    assert not harness.pipeline.ledger.quarantine()
    assert all(row.completeness is Completeness.PROVEN for row in harness.pipeline.ledger.cuts())
    if "history" in settings:
        assert shown(harness.rows("history", *where), life.tables) == expected(life.ends[-1])
