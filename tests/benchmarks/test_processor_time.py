"""Processor time is found also of processes that have ended, and goes to the group that they belonged to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.processor_time import Process, living, seconds_by_group

TREE = {
    1: Process(0, 100.0, 1000.0, "init"),
    10: Process(1, 1.0, 2.0, "code-server start"),
    11: Process(10, 4.0, 8.0, "python -m dagster api grpc"),
    12: Process(11, 16.0, 32.0, "spawn_main"),
    13: Process(12, 64.0, 0.0, "sh"),
    20: Process(1, 0.5, 0.25, "mariadbd"),
}


def test_what_is_below_a_process_belongs_to_its_group_or_to_one_of_its_own() -> None:
    found = seconds_by_group(TREE, {"server": 10, "database": 20, "gone": 99}, {"api grpc": "workers"})
    assert found == {"server": 1.0 + 2.0 + 4.0, "workers": 8.0 + 16.0 + 32.0 + 64.0, "database": 0.75}


def test_a_root_below_a_root_is_counted_once() -> None:
    assert seconds_by_group(TREE, {"server": 10, "spawned": 12}, {}) == {
        "server": 1.0 + 2.0 + 4.0 + 8.0,
        "spawned": 16.0 + 32.0 + 64.0,
    }


def test_the_time_of_a_child_that_has_ended_is_found() -> None:
    def spent() -> float:
        return seconds_by_group(living(), {"us": os.getpid()}, {})["us"]

    before = spent()
    work = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert spent() - before == pytest.approx(0.35, abs=0.25)
    assert spent() - before >= 0.28


def test_a_child_that_lives_is_below_its_parent() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        process = living()[child.pid]
        while "sleep" not in process.command:  # it has no command for a moment while it becomes another program
            process = living()[child.pid]
        assert process.parent == os.getpid()
        child.kill()
