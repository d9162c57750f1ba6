"""A fault of the soak counts only if it took effect, and the soak tells which ones never did."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from dts_emulator.live.live_stack import LiveStack
from tests.live import faults as live_faults
from tests.live.faults import Fault, crash_run, is_at_work, run_again, steps_back
from tests.live.soak import under_fire
from tests.tiers import in_time


def stack_of(**parts: Any) -> LiveStack:
    stack: Any = SimpleNamespace(wait_until=lambda *_, **__: False, **parts)
    checked: LiveStack = stack
    return checked


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_without_a_closed_window_nothing_is_asked_for_again() -> None:
    ledger = SimpleNamespace(raw_windows=lambda: [])
    assert run_again(stack_of(pipeline=SimpleNamespace(ledger=ledger)), Random(1)) is None


def test_without_a_run_none_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_faults, "run_workers", lambda _: [])
    monkeypatch.setattr(live_faults, "_RUN_SECONDS", 0.1)
    assert crash_run(stack_of(), Random(1)) is None


def test_a_run_that_was_killed_is_gone(monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> None:
    monkeypatch.setattr(live_faults, "run_workers", lambda _: [sleeper.pid])
    assert is_at_work(sleeper.pid)
    assert crash_run(stack_of(), Random(1)) == "a run was killed"
    assert not is_at_work(sleeper.pid)


def test_this_process_is_at_work_and_one_that_has_ended_is_not() -> None:
    assert is_at_work(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_at_work(process.pid), "it has ended, and nobody has waited for it"


def test_message_times_that_go_back_are_seen() -> None:
    assert steps_back([[1.0, 6.0, 7.0, 2.0], [1.0, 2.0]]) == [5.0]
    assert steps_back([[1.0, 2.0], []]) == []


def test_under_fire_ends_in_time_and_only_faults_that_took_effect_count() -> None:
    began, counted = time.monotonic(), Counter[str]()
    faults: dict[str, Fault] = {"works": lambda *_: "done", "cannot": lambda *_: None}
    done = under_fire(stack_of(), counted, Random(1), seconds=0.3, faults=faults, between=(0.0, 0.0))
    assert set(done) == {"done"}
    assert set(counted) == {"works"}
    assert in_time(time.monotonic() - began, 10)
