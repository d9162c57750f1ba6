"""Canal of a server with minimal images: changes that lack a column of their table's key, in any order of windows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.flows.test_any_order import assert_equal
from tests.tiers import chosen

pytestmark = pytest.mark.spark

TYPES = {"id": "int(11)", "note": "varchar(20)", "count": "int(11)"}
PAIRS = {"a": "int(11)", "b": "int(11)", "v": "varchar(20)"}
SETTINGS: dict[str, Any] = {"format": "canal-json", "partitions": 1, "window": {"end": border(3)}, "history": ["*"]}


def _topic(given: Iterable[tuple[int, str, dict[str, Any]]]) -> list[Message]:
    """Messages of some windows: each is told by its window, its table and its fields."""
    messages = []
    for number, (window, table, fields) in enumerate(given):
        at = border(window) + timedelta(seconds=10 + number)
        body = {
            "id": number, "database": "bank", "table": table, "isDdl": False, "type": "INSERT", "sql": "", "sqlType": {},
            "old": None, "es": int(at.timestamp()) * 1000, "ts": int(at.timestamp()) * 1000, "gtid": "", "data": None,
            "mysqlType": None, "pkNames": None,
        } | fields  # fmt: skip
        messages.append(Message(0, number, at, json.dumps(body).encode(), number))
    return messages


def whole(kind: str, *rows: dict[str, str], old: list[dict[str, str]] | None = None, key: str = "id") -> dict[str, Any]:
    """A change with whole rows."""
    types = {name: {**TYPES, **PAIRS}[name] for name in rows[0]}
    keys = [name for name in key if name in types] if key != "id" else ["id"] if "id" in types else None
    return {"type": kind, "data": list(rows), "old": old, "mysqlType": types, "pkNames": keys}


def part(row: dict[str, str], old: dict[str, str], *keys: str) -> dict[str, Any]:
    """An UPDATE with changed columns alone."""
    types = {name: {**TYPES, **PAIRS}[name] for name in row}
    return {"type": "UPDATE", "data": [row], "old": [old], "mysqlType": types, "pkNames": [*keys] or None}


def statement(sql: str) -> dict[str, Any]:
    return {"type": "ALTER", "isDdl": True, "sql": sql}


GIVEN = [
    (0, "orders", whole("INSERT", {"id": "1", "note": "x", "count": "1"}, {"id": "2", "note": "y", "count": "2"})),
    (0, "pairs", whole("INSERT", {"a": "1", "b": "1", "v": "x"}, {"a": "2", "b": "2", "v": "y"}, key="ab")),
    (0, "shed", whole("INSERT", {"id": "1", "note": "x", "count": "1"}, {"id": "2", "note": "y", "count": "2"})),
    (1, "orders", part({"note": "lost"}, {"note": "x"})),
    (1, "orders", whole("UPDATE", {"id": "2", "note": "z", "count": "2"}, old=[{"note": "y"}])),
    (1, "pairs", part({"a": "3"}, {"a": "1"}, "a")),
    (1, "shed", statement("ALTER TABLE bank.shed DROP PRIMARY KEY, DROP COLUMN id")),
    (1, "shed", whole("UPDATE", {"note": "new", "count": "1"}, old=[{"note": "x"}])),
    (2, "orders", whole("DELETE", {"id": "1", "note": "x", "count": "1"})),
    (2, "pairs", whole("UPDATE", {"a": "2", "b": "2", "v": "z"}, old=[{"v": "y"}], key="ab")),
    (2, "shed", whole("DELETE", {"note": "y", "count": "2"})),
]


def shown(harness: Harness, table: str) -> list[tuple[Any, ...]]:
    rows = harness.rows("snapshot", "bank", table)
    return sorted(tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows)


@pytest.mark.more
@pytest.mark.parametrize("order", chosen([*permutations(range(3))][::-1], 1))
def test_a_change_that_lacks_a_part_of_its_key_is_in_quarantine(
    bench: Bench, tmp_path: Path, order: tuple[int, ...]
) -> None:
    capture = write_capture(tmp_path / "capture", _topic(GIVEN))
    harness = bench.open(capture, **SETTINGS)
    for number in order:
        harness.all(number)
    harness.settle()
    assert shown(harness, "orders") == [(2, "z", 2)]
    assert shown(harness, "pairs") == [(1, 1, "x"), (2, 2, "z")]
    assert shown(harness, "shed") == [("new", 1)]
    found = [(row["stage"], row["reason"], row["first_offset"]) for row in harness.rows("quarantine")]
    assert sorted(found) == [("tables", "ragged_row", 3), ("tables", "ragged_row", 5)]
    levels = {row.window.start: row.completeness for row in harness.pipeline.ledger.cuts()}
    assert [levels[border(number)] for number in range(3)] == [
        Completeness.OBSERVED, Completeness.INCOMPLETE, Completeness.OBSERVED,
    ]  # fmt: skip
    at_once = bench.open(capture, **SETTINGS)
    at_once.all(0, 1, 2)
    at_once.settle()
    assert_equal(harness, at_once)


@pytest.mark.more
def test_a_table_of_changed_columns_alone_waits_for_its_key(bench: Bench, tmp_path: Path) -> None:
    """As long as no event tells the key, the table has none; behind the first one the change is in quarantine."""
    given = [
        (0, "orders", part({"note": "a"}, {"note": "x"})),
        (1, "orders", whole("INSERT", {"id": "1", "note": "x", "count": "1"})),
        (2, "orders", part({"note": "b"}, {"note": "x"})),
    ]
    harness = bench.open(write_capture(tmp_path / "capture", _topic(given)), **SETTINGS)
    harness.all(0)
    assert shown(harness, "orders") == [("a",)]
    harness.all(1)
    harness.all(2)
    harness.settle()
    (row,) = harness.rows("snapshot", "bank", "orders")
    assert (row["id"], row["note"], row["count"]) == (1, "x", 1)
    assert sorted(row["first_offset"] for row in harness.rows("quarantine")) == [0, 2]
