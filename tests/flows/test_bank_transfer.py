"""Money moves between two tables in several Kafka partitions; what the bank holds in all never changes.

A snapshot that applies all that has arrived shows money that has left one account and not come to the other: the naive way fails
here for sure. At the cut the sum is right after every window.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from tests.flows.harness import Bench, Harness
from tests.flows.history import END, EVERY, START, WINDOWS, border
from tests.flows.source import DATABASE, Dml, Source, write_capture
from tests.flows.source_tables import INT, Field, Row, Table

pytestmark = pytest.mark.spark

ACCOUNTS, EACH = 12, 1000
LAGS = (0.2, 6.0, 17.0)


def purse(name: str) -> Table:
    return Table(name, [Field("id", INT, True), Field("balance", INT)])


def bank_of_transfers(seed: int) -> Source:
    """Transfers every second or two, each one transaction: one row of each table, mostly in two Kafka partitions."""
    random = Random(seed)
    source = Source([purse("current"), purse("savings")], START, lags=LAGS, random=random)
    opening = [
        Dml(source.tables[name], [(None, {"id": number, "balance": EACH}) for number in range(ACCOUNTS)])
        for name in ("current", "savings")
    ]
    source.transaction(START + timedelta(seconds=1), *opening)
    at, tick = START + timedelta(seconds=20), START + timedelta(seconds=10)
    while at < END - timedelta(seconds=30):
        while tick < at:
            source.checkpoint(tick)
            tick += timedelta(seconds=10)
        amount = random.randint(1, 50)
        source.transaction(
            at, _changed(source, "current", random, -amount), _changed(source, "savings", random, amount)
        )
        at += timedelta(seconds=random.uniform(4, 12))
    for number in range(1, WINDOWS):  # one transfer right at each border, so that its halves arrive on both sides of it
        assert any(abs((change.arrived - border(number)).total_seconds()) < max(LAGS) for change in source.changes)
    return source


def _changed(source: Source, name: str, random: Random, amount: int) -> Dml:
    row: Row = source.rows[name][random.randrange(ACCOUNTS),]
    return Dml(source.tables[name], [(row, {**row, "balance": row["balance"] + amount})])


def total(harness: Harness) -> int:
    return sum(row["balance"] for name in ("current", "savings") for row in harness.rows("snapshot", DATABASE, name))


def after_each_window(harness: Harness) -> list[int]:
    found = []
    for number in range(WINDOWS):
        harness.all(number)
        found.append(total(harness))
    return found


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "capture", bank_of_transfers(3).messages)


WINDOW = {"every": EVERY, "start": START, "end": END}
RIGHT = 2 * ACCOUNTS * EACH


def test_the_sum_is_right_at_every_cut(bench: Bench, capture: Path) -> None:
    assert after_each_window(bench.open(capture, window=WINDOW)) == [RIGHT] * WINDOWS


@pytest.mark.long
def test_the_sum_is_wrong_where_all_that_has_arrived_is_shown(bench: Bench, capture: Path) -> None:
    naive = after_each_window(bench.open(capture, window=WINDOW, consistency="window"))
    assert naive[-1] == RIGHT  # all has arrived
    assert sum(one != RIGHT for one in naive) >= 2, "the naive way tears transfers"
