"""Histories to which statements bring values of types that no event under their name has told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import (
    BIGINT,
    BLOB,
    DATE,
    DOUBLE,
    INSTANT,
    INT,
    MONEY,
    TEXT,
    WALL_CLOCK,
    Field,
    Kind,
    Row,
    Table,
)

SWAP = "RENAME TABLE bank.one TO bank.aside, bank.two TO bank.one, bank.aside TO bank.two"
VALUES: Mapping[str, tuple[Kind, Any, str]] = {
    "int": (INT, 7, "7"),
    "bigint": (BIGINT, 9007199254740993, "9007199254740993"),
    "money": (MONEY, Decimal("1.50"), "1.50"),
    "double": (DOUBLE, 0.1, "0.1"),
    "text": (TEXT, "007", "007"),
    "blob": (BLOB, b"\xff\x00", "0xff00"),
    "date": (DATE, date(2026, 1, 5), "2026-01-05"),
    "clock": (WALL_CLOCK, datetime(2026, 1, 5, 10), "2026-01-05 10:00:00"),
    "instant": (INSTANT, datetime(2026, 1, 5, 10, tzinfo=UTC), "2026-01-05 10:00:00+00:00"),
}
"""Kinds with a value, and its text."""
HOLDING = {("bigint", "int"), ("double", "int")}
"""Types of a column, and types whose values stand in it as they are."""


class Life:
    """Two tables in three windows; a statement stands in the second one."""

    def __init__(
        self, one: Mapping[str, str], two: Mapping[str, str], *, key: Mapping[str, Kind] | None = None
    ) -> None:
        keys = key or {"one": INT, "two": INT}
        self.kinds = {"one": dict(one), "two": dict(two)}
        self.source: Source = short_source(
            *(
                Table(
                    name,
                    [Field("id", keys[name], True), *(Field(column, VALUES[kind][0]) for column, kind in some.items())],
                )
                for name, some in self.kinds.items()
            )
        )
        self.window, self.said = 0, 1

    def put(self, name: str, number: int, *, key: Any = None) -> None:
        """Insert a row with the value of each column's kind."""
        row: dict[str, Any] = {"id": number if key is None else key}
        row |= {column: VALUES[kind][1] for column, kind in self.kinds[name].items()}
        self.source.transaction(border(self.window) + number * SECOND, Dml(self.source.tables[name], [(None, row)]))

    def say(self, sql: str) -> None:
        self.source.transaction(border(self.window) + self.said * SECOND / 10, Ddl(sql))
        self.said += 1

    def close(self) -> None:
        self.source.checkpoint(border(self.window) + 9 * SECOND)
        self.window += 1

    def get(self, name: str, kinds: Mapping[str, str]) -> None:
        """Give a table other columns."""
        self.kinds[name] = dict(kinds)
        columns = self.source.tables[name].columns
        columns[1:] = [Field(column, VALUES[kind][0]) for column, kind in kinds.items()]
        self.source.rows[name].clear()

    def swap(self) -> None:
        """Let the two tables change their names."""
        self.say(SWAP)
        one, two = (self.source.tables[name] for name in ("one", "two"))
        one.columns, two.columns = two.columns, one.columns
        self.kinds = {"one": self.kinds["two"], "two": self.kinds["one"]}
        for rows in self.source.rows.values():
            rows.clear()


def opened(life: Life, folder: Path) -> Harness:
    bench = bench_in_process(folder, folder.name)
    return open_short(bench, folder / "capture", life.source.messages, windows=3, history=["*"])


def histories(harness: Harness) -> dict[str, list[str]]:
    found = {name: rows for name, rows in harness.everything(without=("run",)).items() if name.startswith("history")}
    assert found
    return found


def shown(row: Row) -> dict[str, Any]:
    """The values of a row; one that does not fit its column is a pair with its text."""
    texts = dict(row["_invalid"] or ())
    return {name: ("text", texts[name]) if name in texts else value for name, value in row.items() if name[0] != "_"}


def version(harness: Harness, name: str, op: str = "rename") -> dict[str, Any]:
    (found,) = [row for row in harness.rows("history", "bank", name) if row["_op"] == op and row["_valid_to"] is None]
    return shown(found)


def equals_at_once(life: Life, harness: Harness, folder: Path) -> bool:
    whole = opened(life, folder)
    whole.all()
    whole.settle()
    return histories(harness) == histories(whole)


def joined(one: str, other: str) -> Any:
    """The value of the second kind in a column of both."""
    value, text = VALUES[other][1:]
    if {one, other} == {"int", "bigint"} or other == "blob":
        return value
    return text.encode() if one == "blob" else text


def of_one(one: str, other: str) -> Any:
    """The value of the second kind in a column of the first one."""
    value, text = VALUES[other][1:]
    if one in ("text", "blob") and other != "blob":
        return joined(one, other)
    return value if (one, other) in HOLDING else ("text", text)


@pytest.mark.more
def test_values_that_come_with_a_name_stand_in_the_type_that_holds_them(tmp_path: Path) -> None:
    """Every pair of types: two tables that have both change their names, and no event tells it for a window."""
    pairs = {f"c{number}": pair for number, pair in enumerate(permutations(VALUES, 2))}
    life = Life({name: one for name, (one, _) in pairs.items()}, {name: other for name, (_, other) in pairs.items()})
    life.put("one", 1)
    life.put("two", 2)
    life.close()
    life.swap()
    life.close()
    life.put("one", 3)
    life.put("two", 4)
    life.close()
    harness = opened(life, tmp_path / "steps")
    for window in range(3):
        harness.all(window)
        if window:
            assert version(harness, "one") == {"id": 2, **{name: joined(*pair) for name, pair in pairs.items()}}
            assert version(harness, "two") == {"id": 1, **{name: joined(*pair[::-1]) for name, pair in pairs.items()}}
    harness.settle()
    assert equals_at_once(life, harness, tmp_path / "whole")


@pytest.mark.more
@pytest.mark.parametrize("order", [(0, 1, 2, 1), (2, 0, 1)])
def test_rows_that_come_with_a_name_have_their_columns_and_keys(order: Sequence[int], tmp_path: Path) -> None:
    life = Life({"a": "int"}, {"b": "text"}, key={"one": INT, "two": TEXT})
    life.put("one", 1)
    life.put("two", 2, key="007")
    life.put("two", 3, key="7")
    life.close()
    life.swap()
    life.close()
    life.put("one", 4, key="x")
    life.close()
    harness = opened(life, tmp_path / "steps")
    for number, window in enumerate(order):
        harness.all(window)
        if number:
            came = [shown(row) for row in harness.rows("history", "bank", "one") if row["_op"] == "rename"]
            wanted = [{"id": "007", "a": None, "b": "007"}, {"id": "7", "a": None, "b": "007"}]
            assert sorted(came, key=repr) == (wanted if {0, 1} <= {*order[: number + 1]} else [])
    harness.settle()
    assert equals_at_once(life, harness, tmp_path / "whole")


@pytest.mark.more
def test_a_value_under_another_name_stands_exactly_or_as_its_text(tmp_path: Path) -> None:
    """Every pair of types: a column gets the name of another one, and no event tells it for a window."""
    pairs = {str(number): pair for number, pair in enumerate(permutations(VALUES, 2))}
    columns = {f"{letter}{number}": pair[place] for number, pair in pairs.items() for place, letter in enumerate("cd")}
    life = Life(columns, {})
    life.put("one", 1)
    life.close()
    changes = [f"DROP COLUMN c{number}, RENAME COLUMN d{number} TO c{number}" for number in pairs]
    life.say(f"ALTER TABLE bank.one {', '.join(changes)}")
    life.close()
    life.get("one", {f"c{number}": other for number, (_, other) in pairs.items()})
    life.put("one", 2)
    life.close()
    harness = opened(life, tmp_path / "steps")
    for window in range(3):
        harness.all(window)
        if window:
            (found,) = [shown(row) for row in harness.rows("history", "bank", "one") if row["id"] == 1]
            made = of_one if window == 1 else joined
            assert found == {
                "id": 1,
                **{f"c{number}": made(*pair) for number, pair in pairs.items()},
                **{f"d{number}": VALUES[other][1] for number, (_, other) in pairs.items()},
            }
    harness.settle()
    assert equals_at_once(life, harness, tmp_path / "whole")


@pytest.mark.more
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP COLUMN i, ADD COLUMN i varchar(80) DEFAULT '007'", {"i": ("text", "007")}),
        ("DROP COLUMN i, ADD COLUMN i bigint DEFAULT 7", {"i": 7}),
        ("DROP COLUMN d, ADD COLUMN d datetime DEFAULT '2026-01-05 00:00:00'", {"d": ("text", "2026-01-05 00:00:00")}),
        ("DROP COLUMN d, ADD COLUMN d date DEFAULT '0000-00-00'", {"d": ("text", "0000-00-00")}),
        ("DROP COLUMN i, RENAME COLUMN b TO i, DROP COLUMN c; DROP COLUMN x, RENAME COLUMN i TO x", {"x": b"\xff\x00"}),
    ],
)
def test_a_value_that_statements_give_a_column_is_not_another_one(
    sql: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    life = Life({"i": "int", "d": "date", "b": "blob", "c": "text", "x": "blob"}, {})
    life.put("one", 1)
    life.close()
    for one in sql.split("; "):
        life.say(f"ALTER TABLE bank.one {one}")
    life.close()
    life.close()
    harness = opened(life, tmp_path / "steps")
    harness.all()
    harness.settle()
    found = version(harness, "one", "insert")
    assert {name: found[name] for name in expected} == expected


@pytest.mark.more
def test_values_that_came_as_texts_are_values_once_events_tell_their_type(tmp_path: Path) -> None:
    """A type that a statement alone told, and that came with another table's name."""
    life = Life({"d": "date"}, {"d": "date"})
    for name in ("one", "two"):
        life.say(f"CREATE TABLE bank.{name} (id int(11) PRIMARY KEY, d date)")
    life.put("one", 1)
    life.put("two", 2)
    life.close()
    life.say("ALTER TABLE bank.two MODIFY d datetime(6)")
    life.get("two", {"d": "clock"})
    life.swap()
    life.close()
    life.put("one", 3)
    life.close()
    harness = opened(life, tmp_path / "steps")
    for window, expected in enumerate([None, ("text", "2026-01-05 00:00:00"), "2026-01-05 00:00:00"]):
        harness.all(window)
        assert expected is None or version(harness, "one") == {"id": 2, "d": expected}
    harness.settle()
    assert equals_at_once(life, harness, tmp_path / "whole")


@pytest.mark.more
def test_a_column_that_comes_behind_a_rename_has_no_value_of_the_one_that_went(tmp_path: Path) -> None:
    life = Life({"d": "date"}, {})
    life.put("one", 1)
    life.put("two", 9)
    life.close()
    life.say(SWAP)
    life.say("ALTER TABLE bank.two DROP COLUMN d, ADD COLUMN d datetime")
    life.get("two", {"d": "clock"})
    life.close()
    life.put("two", 2)
    life.close()
    harness = opened(life, tmp_path / "steps")
    for window in range(3):
        harness.all(window)
        assert window == 0 or version(harness, "two") == {"id": 1, "d": None}
    harness.settle()
    assert equals_at_once(life, harness, tmp_path / "whole")
