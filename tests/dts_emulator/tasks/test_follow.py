"""The task that follows a live server: what it puts into a real topic, judged by a recording of the same binlog."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.kafka.private_broker import Broker
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.follower import jumping
from dts_emulator.tasks.recording import record

pytestmark = [pytest.mark.database, pytest.mark.kafka]

PARTITIONS = 4
MARKS = (pb.CHECKPOINT, pb.HEARTBEAT)


@dataclass(frozen=True)
class Sent:
    """A message as the topic has it; ``timestamp`` in milliseconds."""

    number: int | None
    timestamp: int
    value: bytes


@dataclass(frozen=True)
class Place:
    """Where a task writes to, and where it keeps its progress."""

    broker: Broker
    topic: str
    checkpoint: Path

    def read(self) -> list[list[Sent]]:
        """All messages by partition."""
        consumer = Consumer({**self.broker.client_config(), "group.id": "tests", "log_level": 0})
        try:
            return [list(self._read(consumer, number)) for number in range(PARTITIONS)]
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, partition: int) -> Iterator[Sent]:
        _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=30, cached=False)
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        offset = 0
        while offset < end:
            for message in consumer.consume(1000, timeout=1):
                assert message.error() is None
                offset = (message.offset() or 0) + 1
                number = dict(message.headers() or []).get("ps")
                yield Sent(None if number is None else int(number), message.timestamp()[1], message.value() or b"")

    def count(self) -> int:
        return sum(map(len, self.read()))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a few seconds of work in its binlog, tables that were altered and added on the way."""
    with private_server() as running:
        work(running, "--rate", "1500", "--seconds", "1", "--tables", "8", "--ddl")
        with running.connect(database="busy") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE large (id INT PRIMARY KEY, body LONGTEXT)")
            cursor.execute("INSERT INTO large VALUES (1, REPEAT('0123456789', 150000))")
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("ALTER TABLE large ADD COLUMN later INT DEFAULT 5, RENAME COLUMN body TO text")
            cursor.execute("UPDATE large SET later = 6")
            cursor.execute("UPDATE orders_00 SET changes = -1")
        yield running


def work(server: Server, *arguments: str) -> None:
    command = (sys.executable, "-m", "dts_emulator.workload", "--socket", str(server.socket), *arguments)
    subprocess.run(command, check=True, timeout=60)


@pytest.fixture
def place(kafka_broker: Broker, tmp_path: Path) -> Place:
    topic = f"follow-{uuid4().hex}"
    kafka_broker.create_topic(topic, PARTITIONS)
    return Place(kafka_broker, topic, tmp_path / "task.json")


def command(server: Server, place: Place, *arguments: str) -> list[str]:
    return [
        sys.executable, "-W", "error", "-m", "dts_emulator.tasks", "--socket", str(server.socket),
        "--bootstrap-servers", place.broker.plain, "--topic", place.topic, "--partitions", str(PARTITIONS),
        "--checkpoint", str(place.checkpoint), *arguments,
    ]  # fmt: skip


@contextmanager
def following(server: Server, place: Place, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A task that runs; it has to end well at SIGTERM unless it has been killed before."""
    with subprocess.Popen(command(server, place, *arguments)) as task:
        try:
            yield task
            if task.poll() is None:
                task.send_signal(signal.SIGTERM)
            assert task.wait(30) in (0, -signal.SIGKILL)
        finally:
            task.kill()


def wait_for(condition: Callable[[], bool], task: subprocess.Popen[bytes], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert task.poll() is None, "the task has ended"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def has_all(server: Server, place: Place) -> Callable[[], bool]:
    """Whether the checkpoint file says that everything in the binlog is delivered."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone() or ("", 0)

    def condition() -> bool:
        if not place.checkpoint.exists():
            return False
        said = json.loads(place.checkpoint.read_text())
        return (said["file"], said["position"]) == (file, position)

    return condition


def entries(values: Sequence[bytes]) -> list[pb.Entry]:
    """The entries of one partition's messages, without the number that marks use up, too."""
    found, buffer = [], b""
    for value in values:
        envelope = pb.Envelope.FromString(value)
        buffer = envelope.data if envelope.index == 0 else buffer + envelope.data
        if envelope.index == envelope.total - 1:
            for entry in pb.Entries.FromString(buffer).items:
                entry.header.seqId = 0
                found.append(entry)
    return found


def changes(values: Sequence[bytes]) -> list[bytes]:
    """The entries without CHECKPOINTs and HEARTBEATs, as bytes."""
    return [
        entry.SerializeToString(deterministic=True)
        for entry in entries(values)
        if entry.header.messageType not in MARKS
    ]


def recorded(server: Server) -> list[list[bytes]]:
    """The same of a recording, by partition."""
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for message in record(server, DtsOptions(partitions=PARTITIONS)):
        values[message.partition].append(message.value)
    return [changes(partition) for partition in values]


@pytest.fixture(scope="module")
def expected(server: Server) -> list[list[bytes]]:
    return recorded(server)


def delivered(place: Place) -> list[list[bytes]]:
    """What is in the topic, by partition; numbers are without a gap whatever has happened."""
    messages = place.read()
    for partition in messages:
        assert [message.number for message in partition] == list(range(1, len(partition) + 1))
    return [changes([message.value for message in partition]) for partition in messages]


@pytest.mark.more
def test_the_topic_holds_what_a_recording_of_the_binlog_holds(
    server: Server, place: Place, expected: list[list[bytes]]
) -> None:
    """And CHECKPOINTs go on when nothing happens, at whole seconds, with the place that was reached."""
    begun = time.time()
    with following(server, place, "--checkpoint-seconds", "1", "--heartbeat-seconds", "2") as task:
        wait_for(has_all(server, place), task)
        time.sleep(2.5)
    assert delivered(place) == expected
    end = json.loads(place.checkpoint.read_text())["position"]
    for partition in place.read():
        times = [message.timestamp / 1000 for message in partition]
        assert times == sorted(times)
        assert begun - 1 < times[0] <= times[-1] < time.time() + 1
        marks = [entry for entry in entries([message.value for message in partition[-6:]])]
        checkpoints = [entry.header for entry in marks if entry.header.messageType == pb.CHECKPOINT]
        assert {header.position for header in checkpoints[-2:]} == {end}
        assert checkpoints[-1].timestamp - checkpoints[-2].timestamp == 1
        assert abs(checkpoints[-1].timestamp - times[-1]) < 2
        assert any(entry.header.messageType == pb.HEARTBEAT for entry in marks)


@pytest.mark.more
def test_a_killed_task_goes_on_from_its_checkpoint_and_sends_again_what_came_after(
    server: Server, place: Place, expected: list[list[bytes]]
) -> None:
    with following(server, place, "--rate", "300") as task:
        wait_for(place.checkpoint.exists, task)
        time.sleep(1)
        task.kill()
    left = Path(place.checkpoint.with_suffix(".history").read_text())
    assert left.exists()
    before = delivered(place)
    assert not has_all(server, place)()
    with following(server, place) as task:
        wait_for(has_all(server, place), task)
    assert not left.exists()
    assert [found.name for found in place.checkpoint.parent.iterdir()] == [place.checkpoint.name]
    repeated = 0
    for one, whole, wanted in zip(before, delivered(place), expected, strict=True):
        assert one == wanted[: len(one)] == whole[: len(one)]
        again = whole[len(one) :]
        assert again == wanted[len(wanted) - len(again) :]
        repeated += len(whole) - len(wanted)
    assert repeated > 0


@pytest.mark.long
def test_a_broker_that_is_away_for_a_while_costs_nothing(
    server: Server, place: Place, expected: list[list[bytes]]
) -> None:
    with following(server, place, "--rate", "500") as task:
        wait_for(lambda: place.count() > 200, task)
        place.broker.kill()
        time.sleep(1)
        place.broker.start()
        wait_for(has_all(server, place), task)
    assert delivered(place) == expected


@pytest.mark.long
def test_a_paused_task_sends_nothing_until_it_is_resumed(
    server: Server, place: Place, expected: list[list[bytes]]
) -> None:
    with following(server, place, "--rate", "500", "--checkpoint-seconds", "1") as task:
        wait_for(lambda: place.count() > 100, task)
        task.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        paused = place.count()
        time.sleep(1.5)
        assert place.count() == paused
        task.send_signal(signal.SIGUSR2)
        wait_for(lambda: place.count() > paused, task)
        wait_for(has_all(server, place), task)
    assert delivered(place) == expected


@pytest.mark.long
def test_message_times_jump_where_they_are_told_to(server: Server, place: Place, expected: list[list[bytes]]) -> None:
    with following(server, place, "--clock-jump", "600", "--clock-jump-every", "0.2", "--rate", "400") as task:
        wait_for(has_all(server, place), task)
    assert delivered(place) == expected
    times = [message.timestamp / 1000 for message in place.read()[0]]
    steps = [round((after - before) / 600) for before, after in pairwise(times)]
    assert set(steps) <= {-2, -1, 0, 1, 2}
    assert min(steps) < 0 < max(steps)


def told(value: bytes) -> dict[str, object]:
    """A message of DRS without the time at which it was sent."""
    return {name: found for name, found in json.loads(value).items() if name != "ts"}


@pytest.mark.long
def test_the_other_format_is_followed_too(server: Server, place: Place) -> None:
    with following(server, place, "--format", "drs-json-c", "--latency-ms", "200") as task:
        wait_for(has_all(server, place), task)

    wanted: list[list[dict[str, object]]] = [[] for _ in range(PARTITIONS)]
    for message in record(server, DrsOptions(partitions=PARTITIONS)):
        wanted[message.partition].append(told(message.value))
    assert [[told(message.value) for message in partition] for partition in place.read()] == wanted


@pytest.mark.long
def test_a_topic_for_each_table_is_made_and_holds_what_a_recording_says(server: Server, place: Place) -> None:
    prefix = uuid4().hex[:8]
    template = f"{prefix}.$database$.$tablename$"
    ours = ("--format", "drs-json-c", "--topic-policy", "1", "--topic-template", template, "--topic", "never-made")
    with following(server, place, *ours) as task:
        wait_for(has_all(server, place), task)
    wanted: dict[str | None, list[list[dict[str, object]]]] = {}
    for message in record(server, DrsOptions(partitions=PARTITIONS, topic_policy=1, topic_template=template)):
        lanes = wanted.setdefault(message.topic, [[] for _ in range(PARTITIONS)])
        lanes[message.partition].append(told(message.value))
    assert len(wanted) > 8
    for topic, lanes in wanted.items():
        assert topic is not None
        assert [[told(one.value) for one in lane] for lane in replace(place, topic=topic).read()] == lanes
    assert "never-made" not in AdminClient({**place.broker.client_config()}).list_topics(timeout=10).topics


@pytest.mark.more
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--topic", "nowhere"), "nowhere cannot be used"),
        (("--partitions", "8"), "has 4 partitions, not 8"),
        (("--config", "security.protocol=sasl_plaintext", "--config", "sasl.mechanism=PLAIN",
          "--config", "sasl.username=nobody", "--config", "sasl.password=secret-word"), "uthentication"),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_written_is_one_sentence(
    server: Server, place: Place, arguments: tuple[str, ...], said: str
) -> None:
    told = (*arguments, "--bootstrap-servers", place.broker.sasl_plain) if "uthentication" in said else arguments
    done = subprocess.run(command(server, place, *told), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret-word" not in done.stderr


def test_jumps_come_by_turns() -> None:
    shift = jumping(5, 10)
    assert [shift(seconds * 1000) - seconds * 1000 for seconds in (0, 9, 10, 20, 30, 40)] == [0, 0, 5000, 0, -5000, 0]
