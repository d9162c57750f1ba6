"""Statements that a lake learns after rows were judged without them, or loses for a while: rules and row filters hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short
from tests.flows.source import Ddl
from tests.flows.test_moved_rules import HASH, MARK, Life, emails, mail, opened, people, sealed
from tests.flows.test_renamed_filters import Sold, rows_of, sold

FILTER = {"bank.items": "region = 'eu'"}


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "late")


@pytest.mark.more
@pytest.mark.parametrize("moves", [True, False])
def test_rows_pass_a_rule_while_its_statement_moves_to_an_earlier_window(
    bench_of: Bench, tmp_path: Path, moves: bool
) -> None:
    """One Kafka partition has the RENAME at the end of a window, the other one in the next, which is made first."""
    life = Life(people("old"), people("customers"))
    life.put("old", 1, 2)
    life.window(0)
    life.put("old", 3)
    life.source.transaction(border(2) - 0.25 * SECOND, Ddl("RENAME TABLE bank.old TO bank.customers"))
    life.at = border(2) + 10 * SECOND
    life.put("customers", 4)
    life.window(2)
    harness = opened(bench_of, tmp_path, life, {"bank.customers.email": HASH}, windows=3)
    if moves:
        harness.all(0)
        harness.all(2)
        harness.raw(1)
        harness.entries(1)
        harness.tables(2)
        assert not harness.rows("ddl")
        harness.tables(1)
    harness.settle()
    assert emails(harness) == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert not [row for row in harness.rows("changelog", "bank", "old") if MARK in repr(row["after"])]


def judged(bench: Bench, folder: Path, source: Sold, *, before: int, windows: int = 3) -> Harness:
    """A lake with some windows, and a copy of all rows of now."""
    harness = open_short(bench, folder / "capture", source.source.messages, windows=windows, rows=FILTER)
    harness.all(*range(before))
    at = source.source.committed
    copy_rows(harness, source.table, [Read(at, at, tuple(source.source.rows["items"].values()))])
    return harness


@pytest.mark.more
@pytest.mark.parametrize("before", [1, 3])
def test_a_copy_that_was_judged_ahead_of_a_statement_is_named(bench_of: Bench, tmp_path: Path, before: int) -> None:
    """The copy has another column by the filter's name, which the stored statements do not tell yet."""
    source = sold()
    harness = judged(bench_of, tmp_path, source, before=before)
    harness.settle()
    paused = harness.pipeline.ledger.paused_tables()
    if before == 3:
        assert not paused
        expected = [row["id"] for row in source.source.rows["items"].values() if row["area"] == "eu"]
        assert [row["id"] for row in rows_of(harness)] == sorted(expected)
        return
    (row,) = paused
    assert (
        "its copy has passed another row filter than the configuration and the statements before it give" in row.reason
    )
    assert "dts-assets resync" in row.reason
