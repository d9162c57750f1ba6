"""The law: once nothing is stale all tables are equal, whatever the order, the rectangles and the repetitions."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from dts_assets.flows.find_work import find_work
from tests.flows.harness import Bench, Harness
from tests.flows.history import WINDOWS, History
from tests.tiers import times

pytestmark = pytest.mark.spark


def assert_equal(one: Harness, other: Harness) -> None:
    found, expected = one.everything(), other.everything()
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == expected[name], name


@pytest.mark.more
def test_windows_run_forwards_show_each_cut_and_end_alike(
    bench: Bench, bank: History, bank_capture: Path, rectangle: Harness
) -> None:
    harness = bench.open(bank_capture)
    for number, end in enumerate(bank.ends()):
        harness.all(number)
        shown = harness.snapshots(bank.source.tables)
        assert shown == bank.after(number)
        if end.cut is not None:  # no transaction is torn across tables and Kafka partitions
            assert shown == bank.at(end.cut)
    assert shown == bank.final()
    assert find_work(harness.pipeline).nothing
    assert_equal(harness, rectangle)


@pytest.mark.long
def test_windows_run_backwards_and_then_twice_end_alike(bench: Bench, bank_capture: Path, rectangle: Harness) -> None:
    harness = bench.open(bank_capture)
    for number in reversed(range(WINDOWS)):
        harness.all(number)
    assert find_work(harness.pipeline).stale_entries  # sets were waiting for their heads
    harness.settle()
    assert_equal(harness, rectangle)
    harness.all()
    assert find_work(harness.pipeline).nothing
    assert_equal(harness, rectangle)


@pytest.mark.parametrize(
    "seed", [pytest.param(11, marks=pytest.mark.long), 12, pytest.param(13, marks=pytest.mark.long)]
)
def test_random_rectangles_end_alike(seed: int, bench: Bench, bank_capture: Path, rectangle: Harness) -> None:
    harness = bench.open(bank_capture)
    random = Random(seed)
    done = harness.work_at_random(random, times(6, 9))
    assert done >= 2
    harness.settle()
    assert_equal(harness, rectangle)
