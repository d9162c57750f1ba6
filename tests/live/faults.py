"""What is done to a live pipeline while it runs. Each fault is over when its function returns, and named with what was done."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from benchmarks.processor_time import living
from dts_assets.model.spans import partition_key
from dts_emulator.live.live_stack import CODE, DAEMON, EMULATOR, SUBSCRIPTION, TOPIC, LiveStack

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


def jump_clock(stack: LiveStack, random: Random) -> str:
    """The vendor's clock jumps ahead and back for a while: the emulator is stopped and started with such a clock, and back."""
    seconds, by = random.uniform(8, 15), random.choice((5, 20, 70))
    usual = stack.children[EMULATOR]
    stack.supervisor.stop(EMULATOR)
    jumps = ("--clock-jump", str(by), "--clock-jump-every", "3")
    stack.supervisor.start(replace(usual, command=(*usual.command, *jumps)))
    time.sleep(seconds)
    stack.supervisor.stop(EMULATOR)
    stack.supervisor.start(usual)
    return f"message times jumped by {by} s for {seconds:.0f} s"


def run_again(stack: LiveStack, random: Random) -> str:
    """The topic forgets what is stored of windows that have closed, and one of these is asked for again beside the other runs."""
    now = datetime.now(UTC)
    rows = [row for row in stack.pipeline.ledger.raw_windows() if row.closed_by != "open" and row.window.end < now]
    if not rows:
        return "there was no closed window to ask for again"
    ends = {row.kafka_partition: row.offsets.end for row in rows}  # of the last one: rows are in order
    stack.broker.delete_records(TOPIC, {partition: end for partition, end in ends.items() if end})
    window = random.choice(sorted({row.window for row in rows})).key
    cells = (f"{partition_key(number)}|{window}" for number in (0, stack.options.partitions - 1))
    _launch(stack, f"{SUBSCRIPTION}_ingest", *cells)
    _launch(stack, f"{SUBSCRIPTION}_tables", window, window)
    return f"the topic forgot closed windows, and {window} was asked for again"


def _launch(stack: LiveStack, job: str, first: str, last: str) -> None:
    """Ask Dagster for a run over a range of partitions, as the UI does."""
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    listed = ", ".join(f"{{key: {json.dumps(key)}, value: {json.dumps(value)}}}" for key, value in tags.items())
    place = f'repositoryLocationName: "dts_assets", repositoryName: "__repository__", jobName: "{job}"'
    said = stack.ask(
        f"mutation {{ launchRun(executionParams: {{selector: {{{place}}}, "
        f"executionMetadata: {{tags: [{listed}]}}}}) {{ __typename ... on PythonError {{ message }} }} }}"
    )
    assert said["launchRun"]["__typename"] == "LaunchRunSuccess", said


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
        if process.parent in servers and "resource_tracker" not in process.command
    ]


FAULTS: Mapping[str, Fault] = {
    "stop_broker": stop_broker,
    "crash_broker": crash_broker,
    "crash_emulator": crash_emulator,
    "jump_clock": jump_clock,
    "run_again": run_again,
    "crash_daemon": crash_daemon,
    "crash_run": crash_run,
}
"""All of them by name."""
