"""What is done to a live pipeline while it runs.

Each fault is over when its function returns. It returns a sentence once it has seen the fault take effect, and None where it
could do nothing: such a fault does not count. A fault that was done and took no effect is an AssertionError.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, TopicPartition

from benchmarks.processor_time import living
from dts_assets.model.spans import partition_key
from dts_emulator.live.live_stack import CODE, DAEMON, EMULATOR, SUBSCRIPTION, TOPIC, LiveStack
from dts_emulator.machine.ports import listens
from dts_emulator.machine.waiting import wait_until

Fault = Callable[[LiveStack, Random], str | None]

_EFFECT_SECONDS = 20.0
_RUN_SECONDS = 10.0
_JUMP_SECONDS = 90.0


def stop_broker(stack: LiveStack, random: Random) -> str:
    """The broker is stopped in order, and comes back."""
    seconds = random.uniform(2, 8)
    stack.broker.stop()
    _away(stack, seconds)
    return f"the broker was away for {seconds:.0f} s"


def crash_broker(stack: LiveStack, random: Random) -> str:
    """The broker is killed, and comes back."""
    seconds = random.uniform(0, 3)
    stack.broker.kill()
    _away(stack, seconds)
    return f"the broker was killed and away for {seconds:.0f} s"


def _away(stack: LiveStack, seconds: float) -> None:
    """Nobody answers where the broker was; then it comes back as another process."""
    port = stack.broker.ports.of["PLAINTEXT"]
    assert not listens(port), "the broker was ended and still answers"
    time.sleep(seconds)
    stack.broker.start()
    assert listens(port), "the broker was started and does not answer"


def _restart(stack: LiveStack, name: str, pause: float) -> None:
    """Kill a process of the pipeline and start it again."""
    before = stack.supervisor.pid(name)
    stack.supervisor.kill(name)
    assert not is_at_work(before), f"{name} was killed and is still at work"
    time.sleep(pause)
    stack.supervisor.start(stack.children[name])


def crash_emulator(stack: LiveStack, random: Random) -> str:
    """The emulator is killed, and goes on from its last checkpoint: what came since is delivered again under new offsets."""
    _restart(stack, EMULATOR, random.uniform(0, 2))
    return "the emulator was killed and started again"


def jump_clock(stack: LiveStack, random: Random) -> str:
    """The vendor's clock jumps ahead and back for a while: the emulator is stopped and started with such a clock, and back."""
    by = random.choice((5, 20, 70))
    usual, begin, began = stack.children[EMULATOR], topic_ends(stack), time.monotonic()
    stack.supervisor.stop(EMULATOR)
    jumps = ("--clock-jump", str(by), "--clock-jump-every", "3")
    stack.supervisor.start(replace(usual, command=(*usual.command, *jumps)))
    # It takes some seconds until a task that was started sends anything.
    jumped = wait_until(
        lambda: max(steps_back(message_times(stack, begin)), default=0.0) > by / 2, seconds=_JUMP_SECONDS, every=1
    )
    time.sleep(random.uniform(0, 5))
    stack.supervisor.stop(EMULATOR)
    stack.supervisor.start(usual)
    assert jumped, f"message times were to jump by {by} s and did not"
    return f"message times jumped by {by} s for {time.monotonic() - began:.0f} s"


def run_again(stack: LiveStack, random: Random) -> str | None:
    """The topic forgets what is stored of windows that have closed, and one of these is asked for again beside the other runs."""
    now = datetime.now(UTC)
    rows = [row for row in stack.pipeline.ledger.raw_windows() if row.closed_by != "open" and row.window.end < now]
    if not rows:
        return None
    ends = {row.kafka_partition: row.offsets.end for row in rows}  # of the last one: rows are in order
    stack.broker.delete_records(TOPIC, {partition: end for partition, end in ends.items() if end})
    first = topic_beginnings(stack)
    assert all(first[partition] >= end for partition, end in ends.items()), "the topic was to forget and did not"
    window = random.choice(sorted({row.window for row in rows})).key
    cells = (f"{partition_key(number)}|{window}" for number in (0, stack.options.partitions - 1))
    asked = (_launch(stack, f"{SUBSCRIPTION}_ingest", *cells), _launch(stack, f"{SUBSCRIPTION}_tables", window, window))
    assert set(asked) <= set(known_runs(stack)), "runs were asked for and are not there"
    return f"the topic forgot closed windows, and {window} was asked for again"


def _launch(stack: LiveStack, job: str, first: str, last: str) -> str:
    """Ask Dagster for a run over a range of partitions, as the UI does; its id."""
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    listed = ", ".join(f"{{key: {json.dumps(key)}, value: {json.dumps(value)}}}" for key, value in tags.items())
    place = f'repositoryLocationName: "dts_assets", repositoryName: "__repository__", jobName: "{job}"'
    said = stack.ask(
        f"mutation {{ launchRun(executionParams: {{selector: {{{place}}}, "
        f"executionMetadata: {{tags: [{listed}]}}}}) {{ __typename ... on LaunchRunSuccess {{ run {{ runId }} }} "
        "... on PythonError { message } } }"
    )
    assert said["launchRun"]["__typename"] == "LaunchRunSuccess", said
    return str(said["launchRun"]["run"]["runId"])


def known_runs(stack: LiveStack) -> list[str]:
    """The ids of all runs that Dagster knows."""
    return [
        run["runId"]
        for run in stack.ask("{ runsOrError { ... on Runs { results { runId } } } }")["runsOrError"]["results"]
    ]


def crash_daemon(stack: LiveStack, random: Random) -> str:
    """Dagster's daemon is killed at any moment, mostly not in a tick, and started again."""
    _restart(stack, DAEMON, random.uniform(0, 2))
    return "the daemon was killed and started again"


def crash_run(stack: LiveStack, random: Random) -> str | None:
    """A run that is at work, if there is one within ten seconds, is killed at any moment of it."""

    def killed() -> bool:
        workers = run_workers(stack)
        if not workers:
            return False
        time.sleep(random.uniform(0, 2))
        victim = random.choice(workers)
        if not is_at_work(victim):
            return False  # it has ended by itself meanwhile
        os.kill(victim, signal.SIGKILL)
        gone = wait_until(lambda: not is_at_work(victim), seconds=_EFFECT_SECONDS)
        assert gone, "a run was killed and is still at work"
        return True

    return "a run was killed" if wait_until(killed, seconds=_RUN_SECONDS, every=0.2) else None


def is_at_work(number: int) -> bool:
    """Whether a process lives; one that has ended and that nobody has waited for does not."""
    try:
        facts = Path("/proc", str(number), "stat").read_text()
    except OSError:
        return False
    return facts.rpartition(")")[2].split()[0] != "Z"


def topic_ends(stack: LiveStack) -> dict[int, int]:
    """The offset of the next message of each Kafka partition."""
    with _consumer(stack) as consumer:
        return {place.partition: consumer.get_watermark_offsets(place, timeout=10)[1] for place in _places(stack)}


def topic_beginnings(stack: LiveStack) -> dict[int, int]:
    """The offset of the first message of each Kafka partition that is still there."""
    with _consumer(stack) as consumer:
        return {place.partition: consumer.get_watermark_offsets(place, timeout=10)[0] for place in _places(stack)}


def message_times(stack: LiveStack, begin: Mapping[int, int]) -> list[list[float]]:
    """The message times in seconds from offsets on, a list for each Kafka partition."""
    ends = topic_ends(stack)
    times: dict[int, list[float]] = {partition: [] for partition in ends}
    left = sum(ends[partition] - begin[partition] for partition in ends)
    with _consumer(stack) as consumer:
        consumer.assign([TopicPartition(TOPIC, partition, offset) for partition, offset in begin.items()])
        deadline = time.monotonic() + _EFFECT_SECONDS
        while left > 0 and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                if message.error() is None:
                    times[message.partition() or 0].append(message.timestamp()[1] / 1000)
                    left -= 1
    return list(times.values())


def steps_back(partitions: Sequence[Sequence[float]]) -> list[float]:
    """By how many seconds a message is older than the one before it, wherever it is."""
    return [before - after for times in partitions for before, after in pairwise(times) if before > after]


def _places(stack: LiveStack) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, partition) for partition in range(stack.options.partitions)]


@contextmanager
def _consumer(stack: LiveStack) -> Iterator[Consumer]:
    config = {**stack.broker.client_config(), "group.id": "soak", "enable.auto.commit": False}
    consumer = Consumer(config)
    try:
        yield consumer
    finally:
        consumer.close()


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
