"""A table whose primary key goes, comes or changes: rows are found by the key of the moment, in any order of windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.snapshot_merges import results_of
from dts_assets.model.added_columns import AUDIT
from dts_assets.model.positions import SourcePosition
from dts_assets.planning import row_removals
from tests.flows.drs_task import DrsTask
from tests.flows.expected_history import Keys, assert_histories_hold
from tests.flows.expected_soft import assert_soft_snapshots_hold
from tests.flows.harness import Harness, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, item, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source, write_capture
from tests.flows.source_tables import ABSENT, Row, Table
from tests.tiers import chosen, times

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
        if self.lacking and self.key:  # a server that sends the old key and changed columns alone
            if old is not None:
                before = {name: value if name in self.key else ABSENT for name, value in old.items()}
            if old is not None and new is not None:
                sent = self.key if self.random.getrandbits(1) else ()  # a source between may add the new key
                after = {name: value if name in sent or value != old[name] else ABSENT for name, value in new.items()}
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


def shown(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    return Counter((row["id"], row["n"], row["note"]) for row in rows)


def rows_of(harness: Harness) -> Counter[tuple[Any, ...]]:
    return shown(harness.rows("snapshot", DATABASE, "items"))


def rebuild(harness: Harness, table: str = "items") -> None:
    rebuild_tables(
        harness.pipeline,
        [table_id("items")],
        RebuildFrom.CHANGELOG,
        spark=lambda: harness.session,
        progress=harness.lines.append,
    )


@pytest.mark.more
@pytest.mark.parametrize(("lacking", "shared"), chosen([(True, True), (False, False), (True, False), (False, True)], 2))
@pytest.mark.parametrize("seed", range(times(1, 10)))
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
    assert_holds(harness, life, soft=soft)
    again = random.randrange(WINDOWS)
    harness.tables(again)
    assert_holds(harness, life, soft=soft)
    rebuild(harness)
    assert_holds(harness, life, soft=soft)


def assert_holds(harness: Harness, life: Life, *, soft: bool = False) -> None:
    """The snapshot has the rows of the source, and all layers those that the changelog gives."""
    keys: Keys = life.told
    rows = harness.rows("snapshot", DATABASE, "items")
    if soft:
        assert_soft_snapshots_hold(harness.pipeline, keys=keys)
        rows = [row for row in rows if row["_deleted_at"] is None]
    assert shown(rows) == shown(life.rows)
    if harness.pipeline.settings.history:
        assert_histories_hold(harness.pipeline, keys=keys)


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

    def found() -> Counter[tuple[Any, ...]]:
        rows = harness.rows("snapshot", DATABASE, "items")
        return Counter(tuple((name, row[name]) for name in row if not name.startswith("_")) for row in rows)

    expected = Counter([(("n", n), ("note", note)) for n, note in ((0, None), (0, None), (7, "new"))])
    assert found() == expected
    rebuild(harness)
    assert found() == expected


@pytest.mark.more
@pytest.mark.parametrize("seed", chosen([1, 0, *range(2, 20)], 1))
def test_refreshes_of_an_open_window_find_rows_by_the_key_of_the_moment(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages come bit by bit, rows leave files by delete files, and the table is partitioned."""
    monkeypatch.setattr(row_removals, "DELETE_FILE_BYTES", 0)
    monkeypatch.setattr(row_removals, "DELETED_ROW_BYTES", 0)
    random = Random(seed)
    life = Life(random, lacking=bool(seed % 2)).live()
    asked: dict[str, Any] = {"layout": {"*": {"partition": ["n"]}}} if random.getrandbits(1) else {}
    capture = tmp_path / "capture"
    harness = open_short(
        bench_in_process(tmp_path, "keys"), capture, [], complete=False, window={"live": True, "end": None}, **asked
    )
    left = sorted(life.source.messages, key=lambda one: (one.time, one.partition, one.offset))
    while left:
        count = random.randint(5, 25)
        write_capture(capture, left[:count], name=f"left{len(left)}")
        left = left[count:]
        settle_open(harness, rounds=8)
    assert_holds(harness, life)
    rebuild(harness)
    assert_holds(harness, life)


@pytest.mark.parametrize("call", [1, 2])
def test_a_step_that_fails_leaves_the_rows_that_stood_and_no_file(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = short_source(items())
    source._apply = lambda *_: None  # type: ignore[method-assign]
    source.transaction(border(0) + SECOND, Dml(keyed(("id",)), [(None, item(1)), (None, item(2))]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Dml(keyed(("id",)), [(item(1), item(1, 5))]))
    source.transaction(border(1) + 2 * SECOND, Dml(keyed(()), [(None, item(2)), (None, item(3))]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "keys"), tmp_path / "capture", source.messages, windows=2)
    harness.raw()
    harness.entries()
    harness.tables(0)
    before = rows_of(harness)
    path = harness.pipeline.table_path("snapshot", table_id("items"))
    data = Path(harness.pipeline.lake.target(path, "x").location.removeprefix("file://")) / "data"
    files = set(data.rglob("*.parquet"))
    calls, real = 0, results_of

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyError("payload of a row")
        return real(*arguments)

    monkeypatch.setattr("dts_assets.flows.snapshot_steps.results_of", failing)
    harness.tables(1)
    assert rows_of(harness) == before
    assert set(data.rglob("*.parquet")) == files
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert (paused.layer, "payload" in paused.reason) == ("snapshot", False)
    resume_tables(harness.pipeline, [table_id("items")])
    harness.settle()
    assert rows_of(harness) == Counter([(1, 5, None), (2, 0, None), (2, 0, None), (3, 0, None)])


@pytest.mark.more
def test_messages_of_json_tell_the_key_of_their_moment(tmp_path: Path) -> None:
    """Of two equal accounts without a key one goes; then the table gets a key, and a rebuild has the other one still."""
    task = DrsTask(1)
    at = border(0) + SECOND
    same: dict[str, str | None] = {"id": "1", "owner": "a", "balance": "1.00", "seen": "2026-01-05 08:00:00"}
    for number, (kind, rows, old, key) in enumerate((
        ("INSERT", [same, same], None, []), ("DELETE", [same], None, []), ("INSERT", [{**same, "id": "2"}], None, ["id"]),
        ("UPDATE", [{**same, "owner": "b"}], [same], ["id"]),
    )):  # fmt: skip
        task._send(kind, rows, old, at + number * SECOND)
        body = json.loads(task.messages[-1].value or b"")
        task.messages[-1] = replace(task.messages[-1], value=json.dumps({**body, "pkNames": key}).encode())
    harness = open_short(
        bench_in_process(tmp_path, "keys"), tmp_path / "capture", task.messages, windows=1,
        format="drs-json-c", source_time_zone="+08:00",
    )  # fmt: skip

    def owners() -> list[tuple[int, str]]:
        return sorted((row["id"], row["owner"]) for row in harness.rows("snapshot", DATABASE, "accounts"))

    harness.settle()
    assert owners() == [(1, "b"), (2, "a")]
    rebuild(harness, "accounts")
    assert owners() == [(1, "b"), (2, "a")]


def test_a_key_whose_name_is_respelled_stays_one(tmp_path: Path) -> None:
    source = short_source(items())
    source._apply = lambda *_: None  # type: ignore[method-assign]
    source.transaction(border(0) + SECOND, Dml(items(), [(None, item(1)), (None, item(2))]))
    respelled = Table("items", [replace(one, name=one.name.upper()) for one in items().columns])
    old, new = ({name.upper(): value for name, value in item(1, n).items()} for n in (0, 7))
    source.transaction(border(0) + 2 * SECOND, Dml(respelled, [(old, new)]))
    source.checkpoint(border(0) + 300 * SECOND)
    for pair in ((item(2), None), (None, item(3))):
        source.transaction(border(1) + SECOND, Dml(items(), [pair]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "keys"), tmp_path / "capture", source.messages, windows=2)
    harness.settle()

    def numbers() -> Counter[tuple[Any, ...]]:
        rows = [{name.lower(): one for name, one in row.items()} for row in harness.rows("snapshot", DATABASE, "items")]
        return shown(rows)

    assert numbers() == Counter([(1, 7, None), (3, 0, None)])
    rebuild(harness)
    assert numbers() == Counter([(1, 7, None), (3, 0, None)])
