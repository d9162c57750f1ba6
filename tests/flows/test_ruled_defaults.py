"""Defaults of columns under a rule: rows that are there have them as the rule makes them, so that later changes find them."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table

KEY = "a key that nobody guesses"
DEFAULT = "anna 12"
SEALED = hmac.digest(KEY.encode(), DEFAULT.encode(), "sha256").hex()
TOKEN = f"anna tok_{hmac.digest(KEY.encode(), b'12', 'sha256').hex()[:32]}"
RULES: dict[str, tuple[Any, str]] = {
    "hash": ({"hash": {"key": KEY}}, SEALED),
    "mask": ({"mask": "***"}, "***"),
    "tokenize": ({"tokenize": {"key": KEY, "pattern": "[0-9]+"}}, TOKEN),
}


def line(text: str, **more: object) -> Row:
    return {"line": text, "n": 1, **more}


def added(*, is_key: bool) -> Source:
    """Two rows; a column with a default comes in the next window, and one row changes in the third."""
    source = short_source(Table("journal", [Field("line", TEXT, is_key), Field("n", INT)]))
    table = source.tables["journal"]
    source.transaction(border(0) + SECOND, Dml(table, [(None, line("a")), (None, line("b"))]))
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE journal ADD COLUMN mail varchar(80) DEFAULT '{DEFAULT}'"))
    table.columns.append(Field("mail", TEXT))
    for row in (*source.bags.get("journal", ()), *source.rows.get("journal", {}).values()):
        row["mail"] = DEFAULT
    change = line("a", mail=DEFAULT), line("a", mail=DEFAULT, n=2)
    source.transaction(border(2) + SECOND, Dml(table, [change]))
    for window in range(3):
        source.checkpoint(border(window) + 300 * SECOND)
    return source


def shown(harness: Harness, layer: str) -> list[tuple[object, ...]]:
    rows = harness.rows(layer, DATABASE, "journal")
    return sorted((row["line"], row["n"], row["mail"]) for row in rows if row.get("_valid_to") is None)


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("rule", "is_key", "order"),
    [
        *((name, False, (0, 1, 2)) for name in RULES),
        *(("hash", False, order) for order in permutations(range(3)) if order != (0, 1, 2)),
        ("hash", True, (0, 1, 2)),
    ],
)
def test_rows_that_are_there_have_the_default_by_the_rule(
    rule: str, is_key: bool, order: tuple[int, ...], tmp_path: Path
) -> None:
    settings, made = RULES[rule]
    harness = open_short(
        bench_in_process(tmp_path, "defaults"), tmp_path / "capture", added(is_key=is_key).messages,
        columns={"bank.journal.mail": settings}, history=["*"],
    )  # fmt: skip
    for number in order:
        harness.all(number)
    harness.settle()
    for layer in ("snapshot", "history"):
        assert shown(harness, layer) == [("a", 2, made), ("b", 1, made)], layer


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1)])
def test_inserts_that_leave_the_column_out_have_the_default_by_the_rule(order: Sequence[int], tmp_path: Path) -> None:
    source = short_source(Table("journal", [Field("line", TEXT, True), Field("n", INT)]))
    table = source.tables["journal"]
    source.transaction(border(0) + SECOND, Dml(table, [(None, line("a"))]))
    said = "ALTER TABLE journal ADD COLUMN mail varchar(80) DEFAULT 'anna''s \\\\ 12'"
    source.transaction(border(0) + 2 * SECOND, Ddl(said))
    table.columns.append(Field("mail", TEXT))
    for window in range(2):
        row = line("bc"[window], mail=ABSENT)
        source.transaction(border(window) + 3 * SECOND, Dml(table, [(None, row)]))
        source.checkpoint(border(window) + 300 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "defaults"), tmp_path / "capture", source.messages, windows=2,
        columns={"bank.journal.mail": RULES["tokenize"][0]},
    )  # fmt: skip
    for number in order:
        harness.all(number)
    harness.settle()
    made = TOKEN.replace("anna", "anna's \\")
    assert shown(harness, "snapshot") == [(name, 1, made) for name in "abc"]


@pytest.mark.more
def test_a_default_that_is_no_text_is_not_known_under_a_rule(tmp_path: Path) -> None:
    source = short_source(Table("journal", [Field("line", TEXT, True), Field("n", INT)]))
    table = source.tables["journal"]
    source.transaction(border(0) + SECOND, Dml(table, [(None, line("a"))]))
    source.transaction(border(0) + 2 * SECOND, Ddl("ALTER TABLE journal ADD COLUMN mail int DEFAULT 12"))
    table.columns.append(Field("mail", INT))
    source.rows["journal"]["a",] = line("a", mail=12)
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, line("b", mail=12))]))
    source.checkpoint(border(0) + 300 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "defaults"), tmp_path / "capture", source.messages, windows=1,
        columns={"bank.journal.mail": {"mask": "***"}},
    )  # fmt: skip
    harness.all()
    assert shown(harness, "snapshot") == [("a", 1, None), ("b", 1, "***")]
