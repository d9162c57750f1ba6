"""Columns that become another type: one field per name holds every value there ever was, in whatever order windows come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.known_tables import known_tables
from tests.flows.harness import Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Dml, Message, Source, write_capture
from tests.flows.source_tables import (
    BIGINT,
    BLOB,
    DATE,
    DOUBLE,
    INSTANT,
    INT,
    MONEY,
    TEXT,
    UNSIGNED,
    WALL_CLOCK,
    Field,
    Kind,
    Table,
)  # fmt: skip
from tests.flows.test_live import pieces
from tests.tiers import chosen, times


def lives(*columns: list[tuple[Kind, Any]]) -> tuple[Source, list[Message]]:
    """A table whose columns have another type in each window: a row comes, and the row of the window before is changed."""
    windows = len(columns[0])
    table = Table("items", [Field("id", INT, True), *(Field(f"c{n}", one[0][0]) for n, one in enumerate(columns))])
    source = short_source(table)
    for window in range(windows):
        for number, life in enumerate(columns):
            table.columns[1 + number] = Field(f"c{number}", life[window][0])
        row = {"id": window, **{f"c{number}": life[window][1] for number, life in enumerate(columns)}}
        source.transaction(border(window) + SECOND, Dml(table, [(None, row)]))
        changed = {**row, "id": window + 100}
        source.transaction(border(window) + 2 * SECOND, Dml(table, [(row, changed)]))
        source.checkpoint(border(window) + 5 * SECOND)
    return source, source.messages


def changes(harness: Harness) -> dict[int, tuple[Any, ...]]:
    """The new values of every change, by its id."""
    rows = harness.rows("changelog", DATABASE, "items")
    return {row["after"]["id"]: tuple(v for k, v in sorted(row["after"].items()) if k != "id") for row in rows}


def hashes(harness: Harness) -> dict[tuple[datetime, int], int]:
    return {
        (row.window_start, row.kafka_partition): row.row_hash
        for row in harness.pipeline.ledger.window_tables()
        if row.changes
    }


def found(harness: Harness) -> tuple[Any, ...]:
    types = {column.name: column.type for column in known_tables(harness.pipeline)[table_id("items")]}
    snapshot = sorted(harness.rows("snapshot", DATABASE, "items"), key=lambda row: int(row["id"]))
    invalid = sum(row.invalid_values for row in harness.pipeline.ledger.window_tables())
    return types, changes(harness), hashes(harness), snapshot, invalid


LIFE = (
    [(INT, 7), (TEXT, "seven"), (BIGINT, 1 << 40), (DATE, date(2026, 1, 5))],
    [(MONEY, Decimal("1.50")), (MONEY, None), (TEXT, "0.00000001"), (WALL_CLOCK, datetime(2026, 1, 5, 10))],
    [(DOUBLE, 0.1), (UNSIGNED, Decimal((1 << 64) - 1)), (INT, -1), (INT, 0)],
    [(INT, 1), (BIGINT, 1 << 40), (INT, 2), (BIGINT, 3)],
    [(TEXT, "tea"), (BLOB, b"\xff\x00"), (INT, 5), (TEXT, None)],
)


def orders() -> Iterator[Any]:
    some = list(permutations(range(4)))
    Random(3).shuffle(some)
    for number, order in enumerate(some):
        yield pytest.param(order, marks=() if number < 1 else pytest.mark.long)


@pytest.mark.more
@pytest.mark.parametrize("order", list(orders()))
def test_the_types_of_a_column_do_not_depend_on_the_order_of_windows(order: tuple[int, ...], tmp_path: Path) -> None:
    _, messages = lives(*LIFE)
    whole = open_short(bench_in_process(tmp_path / "a", "whole"), tmp_path / "capture", messages, windows=4)
    whole.all()
    other = open_short(bench_in_process(tmp_path / "b", "other"), tmp_path / "capture2", messages, windows=4)
    for window in order:
        other.all(window)
    other.settle()
    types, shown, _, snapshot, invalid = found(whole)
    assert found(other) == found(whole)
    assert types == {"id": "int", "c0": "string", "c1": "string", "c2": "string", "c3": "bigint", "c4": "binary"}
    assert [shown[100 + number][0] for number in range(4)] == ["7", "seven", str(1 << 40), "2026-01-05"]
    assert [shown[100 + number][1] for number in range(4)] == ["1.50", None, "0.00000001", "2026-01-05 10:00:00"]
    assert [shown[100 + number][2] for number in range(4)] == ["0.1", str((1 << 64) - 1), "-1", "0"]
    assert [shown[100 + number][4] for number in range(4)] == [b"tea", b"\xff\x00", b"5", None]
    assert [row["id"] for row in snapshot] == [100, 101, 102, 103]
    assert invalid == 0
    assert not other.settle()


SPELLED: tuple[tuple[str, Kind, Any], ...] = (
    ("word", INT, 7), ("Word", INT, 8), ("WORD", TEXT, "nine"), ("word", BLOB, b"\xff"), ("Word", BLOB, b"ten"),
)  # fmt: skip
"""A column by windows: its name changes in case only, and behind that its type."""


@pytest.mark.more
@pytest.mark.parametrize("order", chosen([(0, 1, 2, 3, 4), (1, 0, 3, 2, 4), (4, 3, 2, 1, 0), (0, 2, 1, 4, 3)], 1))
def test_a_column_is_respelled_and_becomes_another_type_later(order: tuple[int, ...], tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True), Field("word", INT)])
    source = short_source(table)
    for window, (name, kind, value) in enumerate(SPELLED):
        table.columns[1] = Field(name, kind)
        old, new = ({"id": number, name: value} for number in (window, window + 100))
        source.transaction(border(window) + SECOND, Dml(table, [(None, old), (old, new)]))
        source.checkpoint(border(window) + 5 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "spelled"),
        tmp_path / "capture",
        source.messages,
        windows=len(SPELLED),
        history=["*"],
    )
    for window in order:
        harness.all(window)
        assert not harness.pipeline.ledger.paused_tables()
    harness.settle()
    assert {column.name: column.type for column in known_tables(harness.pipeline)[table_id("items")]} == {
        "id": "int", "Word": "binary",
    }  # fmt: skip
    expected = {100: (b"7",), 101: (b"8",), 102: (b"nine",), 103: (b"\xff",), 104: (b"ten",)}
    assert {number: values for number, values in changes(harness).items() if number >= 100} == expected
    for layer in ("snapshot", "history"):
        shown = {row["id"]: row["Word"] for row in harness.rows(layer, DATABASE, "items")}
        assert {number: (value,) for number, value in shown.items() if number >= 100} == expected, layer


@pytest.mark.more
def test_rows_are_found_by_a_key_whose_type_changed(tmp_path: Path) -> None:
    """Keys become texts: rows of the number's time are updated, deleted and found again by windows that are made again."""
    table = Table("items", [Field("id", INT, True), Field("n", INT), Field("note", TEXT)])
    source = short_source(table)
    rows = [{"id": n, "n": n, "note": "old"} for n in range(6)]
    source.transaction(border(0) + SECOND, Dml(table, [(None, row) for row in rows]))
    source.transaction(border(0) + 2 * SECOND, Dml(table, [(rows[5], None)]))
    source.checkpoint(border(0) + 5 * SECOND)
    table.columns[0] = Field("id", TEXT, True)
    texts = [{**row, "id": str(row["id"])} for row in rows]
    source.rows["items"] = {(row["id"],): row for row in texts[:5]}
    source.transaction(border(1) + SECOND, Dml(table, [(texts[0], {**texts[0], "note": "new"})]))
    inserted = {"id": "x", "n": 9, "note": "new"}
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(texts[1], None)]), Dml(table, [(None, inserted)]))
    source.checkpoint(border(1) + 5 * SECOND)
    table.columns[1] = Field("n", TEXT)
    source.rows["items"]["2",] = {**texts[2], "n": "2"}
    source.transaction(border(2) + SECOND, Dml(table, [({**texts[2], "n": "2"}, {**texts[2], "n": "two"})]))
    source.checkpoint(border(2) + 5 * SECOND)
    expected = {
        "0": ("0", "new"), "2": ("two", "old"), "3": ("3", "old"), "4": ("4", "old"), "x": ("9", "new"),
    }  # fmt: skip
    made = {}
    ways = (("whole", None), ("again", (0, 1, 0, 2, 1, 0)), ("forwards", (0, 1, 2)), ("back", (2, 1, 0)))
    for name, order in chosen(ways, 2):
        bench = bench_in_process(tmp_path / name, name)
        harness = open_short(bench, tmp_path / f"capture {name}", source.messages, windows=3, history=["*"])
        for window in order or ():
            harness.all(window)
        if order is None:
            harness.all()
        harness.settle()
        shown = {row["id"]: (row["n"], row["note"]) for row in harness.rows("snapshot", DATABASE, "items")}
        assert shown == expected, name
        made[name] = harness.everything(without=("run",)), hashes(harness)
    layers = [name for name in made["whole"][0] if "items" in name]
    assert len(layers) == 3
    others = [name for name in made if name != "whole"]
    assert "again" in others
    for name in others:
        assert made[name][1] == made["whole"][1]
        for layer in layers:
            assert made[name][0][layer] == made["whole"][0][layer], (name, layer)


def test_statements_have_values_as_their_window_had_them(tmp_path: Path) -> None:
    instant = datetime(2026, 1, 5, 10, tzinfo=UTC)
    _, messages = lives(
        [(INT, 7), (TEXT, "seven")], [(INSTANT, instant), (TEXT, "later")], [(MONEY, Decimal("1.5")), (INT, 2)]
    )
    harness = open_short(
        bench_in_process(tmp_path, "sql"), tmp_path / "capture", messages, windows=2, sql={"tables": ["*"]}
    )
    for window in (0, 1, 0):
        harness.all(window)
    found = [
        row["statement"] for row in harness.rows("sql", DATABASE, "items") if row["statement"].startswith("INSERT")
    ]
    assert sorted(found) == [
        "INSERT INTO `bank`.`items` (`id`, `c0`, `c1`, `c2`) VALUES (0, 7, '2026-01-05 10:00:00', 1.50)",
        "INSERT INTO `bank`.`items` (`id`, `c0`, `c1`, `c2`) VALUES (1, 'seven', 'later', 2)",
    ]


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_a_column_becomes_another_type_in_an_open_window(seed: int, tmp_path: Path) -> None:
    """Readings of open windows append to files that are written anew between them, and compactions make few of many."""
    _, messages = lives(*LIFE)
    last = max(messages, key=lambda one: one.time)
    ends = [replace(one, offset=one.offset + 1, time=border(4) + SECOND, value=None) for one in _lasts(messages)]
    whole = open_short(bench_in_process(tmp_path / "a", "whole"), tmp_path / "capture", messages, windows=4)
    whole.all()
    bench = bench_in_process(tmp_path / "b", "live")
    live = open_short(bench, tmp_path / "growing", [], complete=False, window={"live": True, "end": None})
    for number, piece in enumerate(pieces([*messages, *ends], Random(seed), times(4, 12))):
        write_capture(tmp_path / "growing", piece, name=f"piece{number:02d}")
        refresh(live)
    settle_open(live, rounds=9)
    assert last.time < border(4)
    types, shown, _, snapshot, invalid = found(whole)
    assert found(live)[:2] == (types, shown)
    assert [{k: v for k, v in row.items() if k[0] != "_"} for row in found(live)[3]] == [
        {k: v for k, v in row.items() if k[0] != "_"} for row in snapshot
    ]
    assert found(live)[4] == invalid
    assert summed_hashes(live) == summed_hashes(whole)


def _lasts(messages: list[Message]) -> list[Message]:
    return list({one.partition: one for one in messages}.values())


def summed_hashes(harness: Harness) -> dict[datetime, int]:
    sums: dict[datetime, int] = {}
    for (start, _), one in hashes(harness).items():
        sums[start] = (sums.get(start, 0) + one) % (1 << 64)
    return sums


@pytest.mark.more
@pytest.mark.parametrize(
    ("key", "deletes"), chosen([(False, "hard"), (True, "soft"), (True, "hard"), (False, "soft")], 2)
)
def test_rows_of_every_kind_of_table_are_found_over_types(key: bool, deletes: str, tmp_path: Path) -> None:
    """A bag finds rows by all values, a soft delete keeps them: both see the values of an earlier type as the later one's."""
    table = Table("items", [Field("id", INT, key), Field("n", INT)])
    source = short_source(table)
    rows = [{"id": n, "n": n % 2} for n in range(6)]
    source.transaction(border(0) + SECOND, Dml(table, [(None, row) for row in rows]))
    source.transaction(border(0) + 2 * SECOND, Dml(table, [(rows[5], None)]))
    source.checkpoint(border(0) + 5 * SECOND)
    table.columns[1] = Field("n", TEXT)
    texts = [{**row, "n": str(row["n"])} for row in rows[:5]]
    if key:
        source.rows["items"] = {(row["id"],): row for row in texts}
    else:
        source.bags["items"] = list(texts)
    source.transaction(border(1) + SECOND, Dml(table, [(texts[0], {**texts[0], "n": "new"})]))
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(texts[1], None)]))
    source.checkpoint(border(1) + 5 * SECOND)
    made = []
    for name, order in chosen((("whole", ()), ("again", (0, 1, 0)), ("forwards", (0, 1))), 2):
        bench = bench_in_process(tmp_path / name, name)
        harness = open_short(bench, tmp_path / f"capture {name}", source.messages, windows=2, deletes=deletes)
        for window in order:
            harness.all(window)
        if not order:
            harness.all()
        harness.settle()
        snapshot = harness.rows("snapshot", DATABASE, "items")
        living = sorted((int(row["id"]), row["n"]) for row in snapshot if row.get("_deleted_at") is None)
        assert living == [(0, "new"), (2, "0"), (3, "1"), (4, "0")]
        assert len(snapshot) == (6 if deletes == "soft" else 4)
        made.append(sorted(repr(sorted(row.items())) for row in snapshot))
    assert len(made) > 1
    assert all(one == made[0] for one in made)
