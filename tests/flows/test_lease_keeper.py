"""Leases in a lake with a made-up clock: waiting, giving back, expiring, and a process that was stopped for too long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from dts_assets.errors import OvertakenError
from dts_assets.flows.lease_keeper import LeaseKeeper
from dts_assets.model.turns import Process
from dts_assets.planning.leases import EXPIRES_AFTER, KEPT_FOR, RENEWED_EVERY
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.ledger import Ledger
from dts_assets.store.processes import started_at, this_process


class Clock:
    """Seconds that go by when somebody sleeps."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.meanwhile: list[Callable[[], None]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for each in self.meanwhile:
            each()


@pytest.fixture
def ledger(lake_location: LakeLocation) -> Ledger:
    return Ledger(open_catalog(lake_location), "shop")


def keeper_of(ledger: Ledger, clock: Clock, pid: int, *, boot: str = "boot") -> LeaseKeeper:
    me = Process("db1", boot, "pid:[1]", pid, "7")
    return LeaseKeeper(ledger, "shop", me=me, started=lambda pid: "7", clock=clock, sleep=clock.sleep)


def versions(ledger: Ledger) -> int:
    return len(ledger._ensure("leases").metadata.snapshots)


def test_leases_are_kept_between_pieces_of_work_without_a_commit(ledger: Ledger) -> None:
    clock = Clock()
    one = keeper_of(ledger, clock, 1)
    with one.hold(["p00", "p01"], pytest.fail) as turn:
        names = dict(turn.names)
    assert versions(ledger) == 1
    for _ in range(5):
        clock.now += 3
        with one.hold(["p01"], pytest.fail) as turn:
            assert turn.names == {"p01": names["p01"]}
        one.tick()
    assert versions(ledger) == 1
    clock.now += RENEWED_EVERY
    one.tick()
    assert versions(ledger) == 2, "one commit renews both"
    clock.now += KEPT_FOR
    one.tick()
    assert [row.held for row in ledger.leases()[0]] == [False, False]


@pytest.mark.more
def test_who_waits_gets_the_lease_when_the_work_ends(ledger: Ledger) -> None:
    clock = Clock()
    one, two = keeper_of(ledger, clock, 1), keeper_of(ledger, clock, 2)
    lines: list[str] = []
    with one.hold(["p00"], pytest.fail) as first, one.hold(["p01"], pytest.fail):
        started = threading.Event()
        got: list[dict[str, str]] = []

        def second() -> None:
            started.set()
            with two.hold(["p00"], lines.append) as turn:
                got.append(dict(turn.names))

        thread = threading.Thread(target=second)
        clock.meanwhile.append(one.tick)  # it renews while it works
        thread.start()
        while clock.now < 3 * EXPIRES_AFTER:
            started.wait()
        assert not got, "a lease that is renewed is never taken"
        clock.meanwhile.clear()
    thread.join(30)
    assert got[0] != first.names
    (line,) = lines
    assert "p00" in line
    assert "process 1 on db1" in line


@pytest.mark.more
def test_a_lease_that_is_not_renewed_is_taken_and_its_holder_stops(ledger: Ledger) -> None:
    clock, others = Clock(1e6), Clock(5.0)  # clocks have nothing to do with each other
    one, two = keeper_of(ledger, clock, 1), keeper_of(ledger, others, 2, boot="another machine")
    with one.hold(["tables"], pytest.fail) as turn, two.hold(["tables"], lambda line: None) as second:
        assert others.now - 5.0 >= EXPIRES_AFTER
        turn.still()  # it does not know yet
        clock.now += EXPIRES_AFTER
        with pytest.raises(OvertakenError, match="Another run was faster"):
            turn.still()
        second.still()
    assert [row.name for row in ledger.leases()[0]] == [second.names["tables"]]


def test_a_holder_that_was_stopped_and_not_replaced_goes_on(ledger: Ledger) -> None:
    clock = Clock()
    one = keeper_of(ledger, clock, 1)
    with one.hold(["tables"], pytest.fail) as turn:
        clock.now += 10 * EXPIRES_AFTER
        turn.still()
    assert ledger.leases()[0][0].beat == 1


@pytest.mark.more
def test_a_killed_process_of_this_machine_is_replaced_at_once(lake_location: LakeLocation, ledger: Ledger) -> None:
    code = f"""
import os
from dts_assets.flows.lease_keeper import keeper
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
with keeper(Lake(LakeLocation({lake_location.warehouse!r})), "shop").hold(["tables"], print) as turn:
    print(dict(turn.names), flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == -9
    assert ledger.leases()[0][0].held
    clock = Clock()
    me = this_process()
    one = LeaseKeeper(ledger, "shop", me=me, started=started_at, clock=clock, sleep=clock.sleep)
    with one.hold(["tables"], pytest.fail):
        assert clock.now == 0.0
        assert ledger.leases()[0][0].token == 2


def test_this_process_is_found_and_one_that_has_ended_is_not() -> None:
    assert started_at(os.getpid()) == this_process().started
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    assert started_at(child.pid) is None


@pytest.mark.more
def test_a_fork_waits_for_the_thread_that_looks_after_leases() -> None:
    """A lock that the thread holds at that moment, as SQLite's, would be locked in the new process for ever."""
    code = """
import os, threading, time
from dts_assets.flows import lease_keeper

class Keeper:
    lock = threading.Lock()
    def tick(self):
        with self.lock:
            time.sleep(0.05)

lease_keeper.LOOK_EVERY = 0.001
lease_keeper._REGISTRY.keepers[()] = Keeper()
lease_keeper._REGISTRY.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if Keeper.lock.acquire(timeout=2) and not lease_keeper._REGISTRY.keepers else 1)
    assert os.waitpid(child, 0)[1] == 0, "stuck"
    time.sleep(0.02)
ticks, Keeper.tick = [], lambda self: ticks.append(self)
time.sleep(0.5)
assert ticks, "the thread of the parent goes on"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
