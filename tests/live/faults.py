"""What is done to a live pipeline while it runs. Each fault is over when its function returns, and named with what was done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

from benchmarks.processor_time import living
from dts_assets.cli.live_stack import CODE, DAEMON, EMULATOR, LiveStack

Fault = Callable[[LiveStack, Random], str]


def stop_broker(stack: LiveStack, random: Random) -> str:
    """The broker is stopped in order, and comes back."""
    seconds = random.uniform(2, 8)
    stack.broker.stop()
    time.sleep(seconds)
    stack.broker.start()
    return f"the broker was away for {seconds:.0f} s"


def crash_broker(stack: LiveStack, random: Random) -> str:
    """The broker is killed, and comes back."""
    seconds = random.uniform(0, 3)
    stack.broker.kill()
    time.sleep(seconds)
    stack.broker.start()
    return f"the broker was killed and away for {seconds:.0f} s"


def crash_emulator(stack: LiveStack, random: Random) -> str:
    """The emulator is killed, and goes on from its last checkpoint: what came since is delivered again under new offsets."""
    stack.supervisor.kill(EMULATOR)
    time.sleep(random.uniform(0, 2))
    stack.supervisor.start(stack.children[EMULATOR])
    return "the emulator was killed and started again"


def crash_daemon(stack: LiveStack, random: Random) -> str:
    """Dagster's daemon is killed at any moment, mostly not in a tick, and started again."""
    stack.supervisor.kill(DAEMON)
    time.sleep(random.uniform(0, 2))
    stack.supervisor.start(stack.children[DAEMON])
    return "the daemon was killed and started again"


def crash_run(stack: LiveStack, random: Random) -> str:
    """A run that is at work, if there is one within ten seconds, is killed at any moment of it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        workers = run_workers(stack)
        if workers:
            time.sleep(random.uniform(0, 2))
            victim = random.choice(workers)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                return "a run was killed"
        time.sleep(0.2)
    return "there was no run to kill"


def run_workers(stack: LiveStack) -> list[int]:
    """The processes that runs of Dagster are executed in: the children of its code server that are no helpers."""
    processes = living()
    servers = {
        number
        for number, process in processes.items()
        if process.parent == stack.supervisor.pid(CODE) and "api grpc" in process.command
    }
    return [
        number
        for number, process in processes.items()
        if process.parent in servers and "tracker" not in process.command
    ]


FAULTS: Mapping[str, Fault] = {
    "stop_broker": stop_broker,
    "crash_broker": crash_broker,
    "crash_emulator": crash_emulator,
    "crash_daemon": crash_daemon,
    "crash_run": crash_run,
}
"""All of them by name."""
