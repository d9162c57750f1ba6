"""Changes of a PostgreSQL's columns, which no task tells by statements, and the windows of a recording in any order."""

from __future__ import annotations

from random import Random

from tests.dts_emulator.postgresql.followed_postgresql import Followed, faults
from tests.flows.harness import Harness

MADE = ("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
TOLD_BY_ROWS: dict[str, tuple[str, ...]] = {
    "a column comes": ("ALTER TABLE t ADD c int", "INSERT INTO t VALUES (3, 3, 3)"),
    "a column widens": ("ALTER TABLE t ALTER n TYPE bigint", "INSERT INTO t VALUES (3, 5000000000)"),
    "a column goes": ("ALTER TABLE t DROP n", "INSERT INTO t VALUES (3)", "UPDATE t SET id = 5 WHERE id = 1"),
}
NOT_TOLD: dict[str, tuple[str, ...]] = {
    "a default fills rows": ("ALTER TABLE t ADD c int DEFAULT 5", "UPDATE t SET n = 9 WHERE id = 2"),
    "a column gets another name": ("ALTER TABLE t RENAME n TO m", "INSERT INTO t VALUES (3, 3)"),
}


def run_apart(followed: Followed, statements: tuple[str, ...]) -> None:
    """Run statements on the table, and read the log behind each."""
    for statement in (*MADE, *statements):
        followed.run(statement)
        followed.read()


def assert_not_proven(harness: Harness, followed: Followed, *, is_told: bool) -> None:
    """The snapshot's columns are not proven; it is the table only where rows tell all."""
    harness.raw()
    harness.entries()
    (found,) = harness.tables().tables
    assert "events tell other columns, and no statement says why" in found.layers["snapshot"].doubt
    assert bool(faults(harness, followed)) == (not is_told), "rows that no event tells are as they were"


def change_twins(followed: Followed) -> None:
    """Change a table whose columns' names differ in case only."""
    followed.run('CREATE TABLE twins ("Id" int PRIMARY KEY, id int, "ID" text)', "INSERT INTO twins VALUES (1, 2, 'a')")
    followed.run("UPDATE twins SET id = 5", "DELETE FROM twins", "INSERT INTO twins VALUES (3, 4, 'b'), (4, 4, 'b')")
    followed.read()


def make_in_any_order(harness: Harness, followed: Followed, random: Random) -> None:
    """Make all windows in a random order, one of them twice, and then what is left to do."""
    windows = list(range((len(followed.transactions) + 59) // 60))
    random.shuffle(windows)
    for number in (*windows, windows[0]):
        harness.all(number)
    harness.settle()
