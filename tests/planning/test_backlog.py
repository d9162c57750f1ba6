"""The backlog: whatever runs do and wherever they end, a table that lacks changes is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from dts_assets.model.emptied_tables import EmptiedTable
from dts_assets.model.ledger_rows import BacklogTable
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.planning.backlog import backlog_of, concerned_tables, entered, layers_asked_for, taken_out
from tests.ledger_rows import ingest_row
from tests.planning.test_appends import WINDOW
from tests.tiers import times

ONE, TWO, THREE = (TableId("shopdb", "", name) for name in ("one", "two", "three"))
LAYERS = ("changelog", "snapshot")
ALL = frozenset({ONE, TWO, THREE})
CELL = replace(ingest_row(Cell(0, WINDOW), OffsetRange(0, 9)), emptying=0)


def kept_with(*rows: BacklogTable, done: frozenset[TableId] = ALL) -> list[BacklogTable]:
    """The backlog after a run that looked at all tables, with rows that come meanwhile."""
    return taken_out(rows, seen=(), run="r0", done=done, layers=LAYERS, all_tables=ALL)


def test_before_the_first_run_that_looks_at_all_tables_any_table_may_lack_changes() -> None:
    assert backlog_of([], LAYERS) is None
    assert backlog_of([BacklogTable(ONE, "r1")], LAYERS) is None
    assert backlog_of(kept_with(), LAYERS) == frozenset()
    assert backlog_of(kept_with(done=frozenset({ONE})), LAYERS) == frozenset({TWO, THREE})


def test_any_table_may_lack_changes_of_a_layer_that_is_new() -> None:
    assert backlog_of(kept_with(), (*LAYERS, "history")) is None
    assert backlog_of(kept_with(), ("snapshot", "changelog")) == frozenset()


def test_a_run_has_work_for_tables_that_are_described_or_counted_or_in_the_backlog() -> None:
    assert concerned_tables(frozenset({ONE}), [CELL], described=[TWO], counted=[THREE], tables=ALL) == ALL
    assert concerned_tables(frozenset(), [CELL], described=[], counted=[], tables=ALL) == frozenset()
    assert concerned_tables(None, [CELL], described=[TWO], counted=[], tables=ALL) is None


@pytest.mark.parametrize("emptying", [1, None])
def test_a_statement_that_empties_tables_without_names_concerns_all(emptying: int | None) -> None:
    cells = [CELL, replace(CELL, emptying=emptying)]
    assert concerned_tables(frozenset(), cells, described=[], counted=[], tables=ALL) is None


@pytest.mark.parametrize(
    ("emptied", "concerned"),
    [
        ([EmptiedTable("shopdb", "", "one"), EmptiedTable("shopdb", "", "unknown")], {ONE}),
        ([EmptiedTable("other", "", "two")], set()),
        ([EmptiedTable("shopdb", "", "")], ALL),
        ([EmptiedTable("other", "", "")], set()),
    ],
)
def test_a_statement_concerns_the_known_tables_that_it_empties(
    emptied: list[EmptiedTable], concerned: set[TableId]
) -> None:
    cells = [CELL, replace(CELL, emptying=1, emptied=tuple(emptied))]
    assert concerned_tables(frozenset(), cells, described=[], counted=[], tables=sorted(ALL)) == frozenset(concerned)


def test_rows_of_a_run_that_came_since_stay() -> None:
    rows = [*kept_with(), BacklogTable(ONE, "r1"), BacklogTable(ONE, "r2"), BacklogTable(TWO, "old")]
    found = taken_out(rows, seen=[BacklogTable(TWO, "old")], run="r1", done=ALL, layers=LAYERS)
    assert backlog_of(found, LAYERS) == frozenset({ONE})
    assert BacklogTable(ONE, "r2") in found


def test_a_table_that_waits_stands_there_once() -> None:
    rows = entered([*kept_with(), BacklogTable(ONE, "r1")], [ONE, TWO], "r2")
    found = taken_out(rows, seen=[BacklogTable(ONE, "r1")], run="r2", done={TWO}, layers=LAYERS)
    assert [row for row in found if row.table in ALL] == [BacklogTable(ONE, "r2")]


@dataclass
class Lake:
    """Changelogs and snapshots as numbers: a snapshot lacks changes if its number is less."""

    rows: list[BacklogTable] = field(default_factory=list)
    changelogs: dict[TableId, int] = field(default_factory=lambda: dict.fromkeys(ALL, 1))
    snapshots: dict[TableId, int] = field(default_factory=lambda: dict.fromkeys(ALL, 0))
    turn: str = ""

    def run(self, name: str, chance: Random) -> Iterator[None]:
        """A run in steps, at each of which it may end or another may overtake it."""
        self.turn = name
        seen = tuple(self.rows)
        concerned = concerned_tables(
            backlog_of(seen, LAYERS), [], described=_some(chance), counted=_some(chance), tables=ALL
        )
        tables = ALL if concerned is None else concerned
        yield
        self.rows = entered(self.rows, tables, name)
        yield
        for table in sorted(tables):
            if self.turn != name:
                return
            self.changelogs[table] += chance.randint(0, 1)
            yield
        done = set()
        for table in sorted(tables):
            if self.turn != name:
                return
            if chance.random() < 0.8:  # else changes wait for a later frontier, or the table fails
                self.snapshots[table] = self.changelogs[table]
                done.add(table)
            yield
        self.rows = taken_out(
            self.rows, seen=seen, run=name, done=done, layers=LAYERS, all_tables=ALL if concerned is None else ()
        )


def _some(chance: Random) -> list[TableId]:
    return [table for table in sorted(ALL) if chance.random() < 0.3]


@pytest.mark.parametrize("seed", range(times(100, 3000)))
def test_a_table_that_lacks_changes_is_in_the_backlog_whatever_happens(seed: int) -> None:
    chance, lake = Random(seed), Lake()
    runs: list[Iterator[None]] = []
    for number in range(30):
        runs.append(lake.run(f"r{number}", chance))
        for _ in range(chance.randint(1, 12)):
            run = chance.choice(runs[-2:])
            next(run, None)
        if chance.random() < 0.5:
            runs.clear()  # killed
            known = backlog_of(lake.rows, LAYERS)
            lacking = {table for table in ALL if lake.snapshots[table] < lake.changelogs[table]}
            assert known is None or lacking <= known, number
    for run in runs[-1:]:
        list(run)
    for number in range(3):
        list(lake.run(f"end{number}", Random(1)))
    known = backlog_of(lake.rows, LAYERS)
    assert known is not None
    assert len([row for row in lake.rows if row.table in ALL]) == len(known), "a table stands there once"


def test_other_layers_are_asked_for_until_a_run_has_looked_at_all_tables() -> None:
    assert layers_asked_for([BacklogTable(ONE, "r1")], ("snapshot", "history a.b")) == ""
    rows = kept_with(done=frozenset({ONE}))
    assert layers_asked_for(rows, LAYERS) == ""
    asked = {layers_asked_for(rows, layers) for layers in ((*LAYERS, "history a.b"), ("changelog", "snapshot soft *"))}
    assert len(asked) == 2
    assert all(text.startswith("layers:") for text in asked)
