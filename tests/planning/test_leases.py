"""Leases with a made-up clock: who may take one, who waits, and what a stopped process finds when it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.ledger_rows import Lease
from dts_assets.model.turns import Process
from dts_assets.planning.leases import (
    EXPIRES_AFTER,
    RESERVED_FOR,
    Observed,
    given_back,
    holds,
    is_gone,
    may_take,
    renewed,
    taken,
    wanted,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ME, OTHER, THIRD = (str(Process("db1", "boot", "pid:[1]", pid, "77")) for pid in (1, 2, 3))
LEASE = taken({}, ["p00"], me=OTHER, name="ab", now=NOON)["p00"]


def nobody_is_gone(text: str) -> bool:
    return False


def everybody_is_gone(text: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("lease", "unchanged", "gone", "expected"),
    [
        (None, 0.0, nobody_is_gone, True),
        (LEASE, 0.0, nobody_is_gone, False),
        (LEASE, EXPIRES_AFTER - 0.1, nobody_is_gone, False),
        (LEASE, EXPIRES_AFTER, nobody_is_gone, True),
        (LEASE, 0.0, everybody_is_gone, True),
        (replace(LEASE, held=False), 0.0, nobody_is_gone, True),
        (replace(LEASE, held=False, wanted_by=ME), 0.0, nobody_is_gone, True),
        (replace(LEASE, held=False, wanted_by=THIRD), 0.0, nobody_is_gone, False),
        (replace(LEASE, held=False, wanted_by=THIRD), RESERVED_FOR, nobody_is_gone, True),
        (replace(LEASE, held=False, wanted_by=THIRD), 0.0, everybody_is_gone, True),
    ],
)
def test_who_may_take_a_lease(
    lease: Lease | None, unchanged: float, gone: Callable[[str], bool], expected: bool
) -> None:
    assert may_take(lease, me=ME, unchanged_for=unchanged, gone=gone) is expected


def test_tokens_grow_with_every_holder_and_names_are_new() -> None:
    leases = {"p00": LEASE}
    for number in range(2, 6):
        before = leases["p00"]
        leases = taken(leases, ["p00", "p01"], me=ME, name=f"n{number}", now=NOON)
        assert leases["p00"].token == before.token + 1
        assert not holds(leases["p00"], before.name)
    assert (leases["p00"].token, leases["p01"].token) == (5, 4)


def test_only_the_clock_of_the_observer_counts() -> None:
    """The holder's clock is a year ahead or behind: a lease that changes lives, one that does not is over."""
    for shift in (timedelta(days=-365), timedelta(days=365)):
        leases = taken({}, ["p00"], me=OTHER, name="ab", now=NOON + shift)
        observed = Observed()
        for now in range(0, 200, 20):
            observed.see(leases.values(), float(now))
            assert not may_take(
                leases["p00"], me=ME, unchanged_for=observed.unchanged_for("p00", float(now)), gone=nobody_is_gone
            )
            leases = renewed(leases, {"p00": leases["p00"].name})
        for now, over in ((200, False), (259, False), (260, True)):
            observed.see(leases.values(), float(now))
            unchanged = observed.unchanged_for("p00", float(now))
            assert may_take(leases["p00"], me=ME, unchanged_for=unchanged, gone=nobody_is_gone) is over


def test_a_waiting_process_is_no_sign_of_life_of_the_holder() -> None:
    observed = Observed()
    observed.see([LEASE], 0.0)
    observed.see([replace(LEASE, wanted_by=ME)], 30.0)
    assert observed.unchanged_for("p00", 60.0) == 60.0


def test_who_waits_first_is_next() -> None:
    leases = wanted({"p00": LEASE}, ["p00", "p07"], me=ME, gone=nobody_is_gone)
    assert leases["p00"].wanted_by == ME
    assert "p07" not in leases
    assert wanted(leases, ["p00"], me=THIRD, gone=nobody_is_gone) == leases
    assert wanted(leases, ["p00"], me=THIRD, gone=everybody_is_gone)["p00"].wanted_by == THIRD
    back = given_back(leases, {"p00": LEASE.name})
    assert not may_take(back["p00"], me=OTHER, unchanged_for=0.0, gone=nobody_is_gone), "its former holder waits, too"
    assert may_take(back["p00"], me=ME, unchanged_for=0.0, gone=nobody_is_gone)
    assert taken(back, ["p00"], me=ME, name="cd", now=NOON)["p00"].wanted_by is None


def test_a_name_that_was_replaced_neither_renews_nor_gives_back() -> None:
    leases = taken({"p00": LEASE}, ["p00"], me=ME, name="cd", now=NOON)
    assert renewed(leases, {"p00": LEASE.name}) == leases
    assert given_back(leases, {"p00": LEASE.name}) == leases


@pytest.mark.parametrize(
    ("process", "started", "expected"),
    [
        (Process("db1", "boot", "pid:[1]", 4711, "77"), "77", False),
        (Process("db1", "boot", "pid:[1]", 4711, "77"), None, True),
        (Process("db1", "boot", "pid:[1]", 4711, "77"), "78", True),  # the id was given again
        (Process("db1", "another boot", "pid:[1]", 4711, "77"), None, False),
        (Process("db1", "boot", "pid:[2]", 4711, "77"), None, False),  # another container
    ],
)
def test_a_process_is_gone_only_where_it_can_be_seen(process: Process, started: str | None, expected: bool) -> None:
    here = Process("db1", "boot", "pid:[1]", 1, "5")
    assert is_gone(str(process), here=here, started=lambda pid: started) is expected
    assert Process.of_text(str(process)) == process


def test_an_unknown_holder_is_never_gone() -> None:
    here = Process("db1", "boot", "pid:[1]", 1, "5")
    assert not is_gone("somebody", here=here, started=lambda pid: None)
