"""The comparison with a fresh lake leaves out two known differences, of tables that a rule reached later alone."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.tables import TableId
from tests.flows.harness import table_id
from tests.flows.history import START
from tests.stateful.verdict import EMPTIED, everything

PERSONS, OTHERS = table_id("persons"), table_id("others")


def lake(row_hash: int, row: str, *, run: str = "") -> Any:
    """A lake with a row of each table, and with their counts."""
    counts = [
        WindowTable(0, START, table, 1, 1, 0, 0, row_hash=row_hash, absent_rows=0, invalid_values=0,
                    first_position=None, last_position=None, run=run)
        for table in (PERSONS, OTHERS)
    ]  # fmt: skip
    found = {f"history.{'.'.join(table.path)}": [row] for table in (PERSONS, OTHERS)}
    ledger = SimpleNamespace(window_tables=lambda: counts)
    return SimpleNamespace(everything=lambda *, without: dict(found), pipeline=SimpleNamespace(ledger=ledger))


def differing(passed: set[TableId]) -> dict[str, Counter[str]]:
    """The rows that only the first of two lakes has, which has read windows before a statement brought rows under a rule."""
    mine = everything(lake(7, f"{{{EMPTIED}phone: '***'}}", run="one"), passed, is_soft=True)
    fresh = everything(lake(8, "{phone: '***'}", run="two"), passed, is_soft=True)
    return {name: more for name in mine if (more := mine[name] - fresh[name])}


def test_tables_that_a_rule_reached_later_may_differ_in_what_is_known_alone() -> None:
    assert set(differing(set())) == {"history.bank.persons", "history.bank.others", "window_tables"}
    left = differing({PERSONS})
    assert set(left) == {"history.bank.others", "window_tables"}
    assert ["others" in text for text in left["window_tables"].elements()] == [True]
    assert not differing({PERSONS, OTHERS})
    equal = lake(7, "{passport: 'a value'}"), lake(7, "{}")
    assert len({str(everything(one, {PERSONS, OTHERS}, is_soft=True)) for one in equal}) == 2


def test_lakes_of_other_runs_are_equal() -> None:
    one, other = (everything(lake(7, "{}", run=run), set(), is_soft=True) for run in ("one", "two"))
    assert one == other
