"""A topic of a real broker: what is read, where it ends, and what the broker says of times."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_INVALID, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from dts_assets.errors.sources import MessagesGoneError, UnreachableBrokerError, UnsupportedByBrokerError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources import kafka_answers, kafka_client
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.sources.kafka_client import Client, Dated, client_of
from dts_assets.sources.kafka_reader import BATCH_BYTES
from dts_assets.sources.kafka_source import KafkaSource
from dts_emulator.kafka.private_broker import Broker
from tests.sources.kafka_topics import (
    SECOND,
    START,
    Sent,
    at,
    numbered,
    offsets,
    place,
    put,
    rows,
    send,
    source,
)

pytestmark = pytest.mark.kafka
FAR = START + timedelta(days=9999)
ROOT = Path(__file__).parents[2]
_names = itertools.count()


@pytest.fixture
def topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> str:
    """A new topic; ``partitions`` as an indirect parameter, else one."""
    name = f"read-{next(_names)}"
    kafka_broker.create_topic(name, getattr(request, "param", 1))
    return name


@pytest.fixture(params=["named", "refused", "misunderstood"])
def greatest_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Brokers from 3.0 on name the greatest message time; older ones do not know the question."""
    if request.param != "named":
        answered = Client.offsets

        def of_an_old_broker(self: Client, questions: Sequence[Mapping[int, OffsetSpec]]) -> list[dict[int, Dated]]:
            if all(spec is not kafka_client.GREATEST_TIME for question in questions for spec in question.values()):
                return answered(self, questions)
            if request.param == "refused":
                raise UnsupportedByBrokerError(self.place.servers, "answer")
            return answered(self, [dict.fromkeys(question, OffsetSpec.for_timestamp(0)) for question in questions])

        monkeypatch.setattr(Client, "offsets", of_an_old_broker)
    return str(request.param)


class TestWhatIsRead:
    def test_a_message_comes_back_as_it_was_sent(self, kafka_broker: Broker, topic: str) -> None:
        headers = (("ps", b"1"), ("ShardId", b"\x00\xff"), ("ps", None), ("", b""))
        sent = [
            Sent(value=b"\x00\xff", key=b"k", headers=headers, seconds=1.5),
            Sent(value=None, seconds=0.001),
            Sent(value=b"", key=b""),
        ]
        send(kafka_broker, topic, sent)
        found = rows(source(kafka_broker, topic), 0, 0, 3)
        assert found == [
            {
                "topic": topic, "partition": 0, "offset": number, "timestamp": at(one.seconds), "key": one.key,
                "value": one.value, "headers": [{"key": name, "value": value} for name, value in one.headers],
            }
            for number, one in enumerate(sent)
        ]  # fmt: skip

    @pytest.mark.parametrize("topic", [3], indirect=True)
    def test_any_range_gives_its_messages_and_no_others(self, kafka_broker: Broker, topic: str) -> None:
        send(kafka_broker, topic, [one for number in range(3) for one in numbered(200 * number, number)])
        found, chance = source(kafka_broker, topic, 3), random.Random(5)
        assert offsets(found, 0, 0, 0) == []
        for _ in range(30):
            number = chance.choice([1, 2])
            start, end = sorted((chance.randint(0, 200 * number), chance.randint(0, 200 * number)))
            read = rows(found, number, start, end)
            assert [row["value"] for row in read] == [b"%d" % value for value in range(start, end)]
            assert {row["partition"] for row in read} <= {number}

    def test_batches_are_a_few_megabytes_whatever_the_size_of_messages(self, kafka_broker: Broker, topic: str) -> None:
        sizes = [*[100] * 5000, *[500_000] * 60, *[100] * 5000, *[6_000_000] * 3]
        send(kafka_broker, topic, [Sent(value=random.Random(1).randbytes(size)) for size in sizes])
        batches = list(source(kafka_broker, topic).read(0, OffsetRange(0, len(sizes))))
        assert [len(value) for batch in batches for value in batch["value"].to_pylist()] == sizes
        assert max(batch.nbytes for batch in batches) < 3 * BATCH_BYTES
        assert 5 <= len(batches) <= 40

    def test_reading_may_stop_in_the_middle_and_begin_again(self, kafka_broker: Broker, topic: str) -> None:
        send(kafka_broker, topic, [Sent(value=b"x" * 200_000) for _ in range(100)])
        found = source(kafka_broker, topic)
        for _ in range(3):
            reading = found.read(0, OffsetRange(0, 100))
            assert next(reading)["offset"][0].as_py() == 0
        assert offsets(found, 0, 98, 100) == [98, 99]

    def test_messages_that_come_while_a_range_is_read_are_not_in_it(self, kafka_broker: Broker, topic: str) -> None:
        send(kafka_broker, topic, numbered(5))
        found = source(kafka_broker, topic)
        assert offsets(found, 0, 0, 5) == [0, 1, 2, 3, 4]
        send(kafka_broker, topic, numbered(5))
        assert offsets(found, 0, 3, 7) == [3, 4, 5, 6]

    def test_topics_are_numbered_in_the_order_listed(self, kafka_broker: Broker) -> None:
        first, second = f"read-{next(_names)}", f"read-{next(_names)}"
        kafka_broker.create_topic(first, 2)
        kafka_broker.create_topic(second, 1)
        send(kafka_broker, first, numbered(3, 1))
        send(kafka_broker, second, numbered(4))
        found = KafkaSource(place(kafka_broker, first, second, partitions=3))
        assert [mark.high for mark in found.watermarks().values()] == [0, 3, 4]
        assert {(row["topic"], row["partition"]) for row in rows(found, 2, 0, 4)} == {(second, 0)}
        assert {(row["topic"], row["partition"]) for row in rows(found, 1, 0, 3)} == {(first, 1)}
        assert found.offset_for_time(2, at(2), not_after=FAR) == 2

    @pytest.mark.more(after=1)
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
    @pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
    def test_every_way_to_connect_reads_the_same(
        self, kafka_broker: Broker, topic: str, listener: str, mechanism: str
    ) -> None:
        send(kafka_broker, topic, numbered(3))
        login = {"sasl_mechanism": mechanism} if listener.startswith("SASL") else {}
        found = KafkaSource(place(kafka_broker, topic, partitions=1, listener=listener, **login))
        assert found.watermarks()[0].high == 3
        assert offsets(found, 0, 0, 3) == [0, 1, 2]
        assert kafka_broker.password not in repr(found)

    @pytest.mark.more
    def test_a_process_that_was_forked_reads_for_itself(self, kafka_broker: Broker, topic: str) -> None:
        """In a program of its own: what else this process has, such as sockets of a JVM, does not outlive a fork."""
        send(kafka_broker, topic, numbered(50))
        done = subprocess.run(
            [sys.executable, "-m", "tests.sources.forking"], input=pickle.dumps(source(kafka_broker, topic)),
            capture_output=True, check=False, timeout=120, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout) == [[50, 50]] * 4

    def test_a_place_has_one_connection(self, kafka_broker: Broker, topic: str) -> None:
        assert client_of(source(kafka_broker, topic).place) is client_of(source(kafka_broker, topic).place)


class TestAnswersWithoutAnOffset:
    """The library gives offset -1001 and no error for a partition whose broker it did not reach."""

    @pytest.mark.parametrize("lasts", [False, True])
    def test_the_question_is_put_again(
        self, kafka_broker: Broker, topic: str, lasts: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send(kafka_broker, topic, numbered(10))
        usual, times = AdminClient.list_offsets, itertools.count()

        def without_one(admin: AdminClient, asked: dict[TopicPartition, OffsetSpec], **settings: Any) -> Any:
            answers = dict(usual(admin, asked, **settings))
            if next(times) < 3 or lasts:
                answers[next(iter(answers))] = nothing = Future[Any]()
                nothing.set_result(SimpleNamespace(offset=OFFSET_INVALID, timestamp=-1))
            return answers

        monkeypatch.setattr(AdminClient, "list_offsets", without_one)
        monkeypatch.setattr(kafka_answers, "ANSWER_SECONDS", 2.0)
        found = source(kafka_broker, topic)
        if lasts:
            with pytest.raises(UnreachableBrokerError) as caught:
                found.watermarks()
            assert caught.value.retriable
        else:
            assert [mark.high for mark in found.watermarks().values()] == [10]
            assert next(times) > 3


class TestTransactions:
    def test_aborted_messages_are_not_seen_and_an_open_transaction_is_not_waited_for(
        self, kafka_broker: Broker, topic: str
    ) -> None:
        producer = _transactional(kafka_broker, "a")
        for values, end in (("ab", "commit"), ("cd", "abort"), ("ef", "commit"), ("gh", "abort")):
            producer.begin_transaction()
            put(producer, topic, [Sent(value=value.encode()) for value in values])
            producer.flush()
            producer.commit_transaction(20) if end == "commit" else producer.abort_transaction(20)
        found = source(kafka_broker, topic)
        high = 12  # a marker after each pair
        _wait_for_marker(found, high)
        assert [row["value"] for row in rows(found, 0, 0, high)] == [b"a", b"b", b"e", b"f"]
        assert offsets(found, 0, 8, high) == []
        assert offsets(found, 0, 2, 6) == []  # a marker, two aborted messages, a marker
        producer.begin_transaction()
        put(producer, topic, [Sent(value=b"open")])
        producer.flush()
        assert found.watermarks()[0].high == high
        producer.commit_transaction(20)
        _wait_for_marker(found, high + 2)
        assert [row["value"] for row in rows(found, 0, high, high + 2)] == [b"open"]


def _wait_for_marker(found: KafkaSource, high: int) -> None:
    """Wait until a partition ends at ``high``: the broker writes a transaction's marker after the producer was answered."""
    deadline = time.monotonic() + 30
    while found.watermarks()[0].high < high and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found.watermarks()[0].high == high


def _transactional(broker: Broker, name: str) -> Producer:
    settings: dict[str, Any] = {**broker.client_config(), "transactional.id": f"{name}-{next(_names)}", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(20)
    return producer


class TestMessagesThatAreGone:
    @pytest.mark.more(after=1)
    @pytest.mark.parametrize(
        ("start", "end", "told"),
        [
            (2, 9, "offsets [2, 5) were deleted"),
            (0, 3, "offsets [0, 3) were deleted"),
            (6, 20, "offsets [13, 20) are not there"),
            (15, 20, "offsets [15, 20) are not there"),
        ],
    )
    def test_reading_them_is_an_error_that_names_them(
        self, kafka_broker: Broker, start: int, end: int, told: str
    ) -> None:
        name = f"gone-{next(_names)}"
        kafka_broker.create_topic(name, 1)
        send(kafka_broker, name, numbered(13))
        kafka_broker.delete_records(name, {0: 5})
        found = source(kafka_broker, name)
        assert (found.watermarks()[0].low, found.watermarks()[0].earliest) == (5, at(5))
        with pytest.raises(MessagesGoneError) as caught:
            offsets(found, 0, start, end)
        assert (caught.value.low, caught.value.high) == (5, 13)
        assert told in str(caught.value)
        assert offsets(found, 0, 5, 13) == list(range(5, 13))

    def test_messages_deleted_under_the_reader_are_no_silent_gap(self, kafka_broker: Broker, topic: str) -> None:
        count = 200  # much more than a reader fetches ahead
        send(kafka_broker, topic, [Sent(value=random.Random(0).randbytes(500_000)) for _ in range(count)])
        reading = source(kafka_broker, topic).read(0, OffsetRange(0, count))
        read = next(reading)["offset"].to_pylist()
        kafka_broker.delete_records(topic, {0: count - 1})
        with pytest.raises(MessagesGoneError) as caught:
            read.extend(offset for batch in reading for offset in batch["offset"].to_pylist())
        assert read == list(range(len(read)))
        assert caught.value.start >= len(read)
        assert (caught.value.end, caught.value.low, caught.value.high) == (count, count - 1, count)


class TestTimes:
    @pytest.mark.more(after=1)
    def test_watermarks_have_the_first_and_the_greatest_time(self, kafka_broker: Broker, greatest_time: str) -> None:
        name = f"times-{next(_names)}"
        kafka_broker.create_topic(name, 4)
        times = (7, 100, 3, 5)
        send(kafka_broker, name, [Sent(seconds=one) for one in times])
        send(kafka_broker, name, numbered(3, 2))
        send(kafka_broker, name, [Sent(3, one) for one in (100, 3)])
        kafka_broker.delete_records(name, {2: 3, 3: 1})
        assert source(kafka_broker, name, 4).watermarks() == {
            0: Watermark(0, 4, at(7), at(100)),
            1: Watermark(0, 0, None, None),
            2: Watermark(3, 3, None, None),
            3: Watermark(1, 2, at(3), at(3)),  # the greatest of all is deleted
        }

    def test_the_first_message_at_or_after_an_instant_by_offset(self, kafka_broker: Broker, topic: str) -> None:
        send(kafka_broker, topic, [Sent(seconds=one) for one in (0, 10, 100, 20, 200)])
        found = source(kafka_broker, topic)
        microsecond = timedelta(microseconds=1)
        asked: dict[datetime, int | None] = {
            datetime(1970, 1, 1, tzinfo=UTC): 0,
            at(0): 0,
            at(0) + microsecond: 1,
            at(10): 1,
            at(10.001): 2,
            at(101): 4,
            at(200): 4,
            at(200.001): None,
        }
        questions = [(0, instant) for instant in asked]
        assert found.offsets_for_times(questions, not_after=FAR) == {(0, when): asked[when] for when in asked}
        assert {when: found.offset_for_time(0, when, not_after=FAR) for when in asked} == asked

    def test_messages_dated_beyond_the_limit_are_read_past(self, kafka_broker: Broker, topic: str) -> None:
        send(kafka_broker, topic, [Sent(seconds=one) for one in (0, 9000, 1, 2, 9001, 3)])
        found = source(kafka_broker, topic)
        assert found.offset_for_time(0, at(1), not_after=at(100)) == 2
        assert found.offset_for_time(0, at(4), not_after=at(100)) is None
        send(kafka_broker, topic, [Sent(seconds=one) for one in (9002, 5)])
        assert found.offset_for_time(0, at(4), not_after=at(100)) == 7
        assert found.offset_for_time(0, at(4), not_after=at(9000)) == 1  # later it is believed
        assert found.offset_for_time(0, at(101), not_after=at(100)) is None
        assert found.dated_after(0, OffsetRange(0, 8), at(100)) == (1, 4, 6)
        assert found.dated_after(0, OffsetRange(2, 6), at(100)) == (4,)
        assert found.dated_after(0, OffsetRange(2, 4), at(100)) == ()
        assert found.dated_after(0, OffsetRange(0, 8), at(9001)) == (6,)
        assert found.dated_after(0, OffsetRange(3, 3), at(0)) == ()

    @pytest.mark.more(after=1)
    @pytest.mark.parametrize("stamp", [253_402_300_800_000, (1 << 63) - 1], ids=["10000", "most"])
    def test_times_beyond_the_year_9999_are_its_last(
        self, kafka_broker: Broker, topic: str, greatest_time: str, stamp: int
    ) -> None:
        send(kafka_broker, topic, [Sent(stamp=stamp), Sent(seconds=1), Sent(stamp=stamp), Sent(seconds=2)])
        found, last = source(kafka_broker, topic), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
        assert found.watermarks() == {0: Watermark(0, 4, last, last)}
        assert [row["timestamp"] for row in rows(found, 0, 0, 4)] == [last, at(1), last, at(2)]
        assert found.offset_for_time(0, at(0), not_after=at(100)) == 1
        assert found.dated_after(0, OffsetRange(0, 4), at(100)) == (0, 2)

    def test_the_clock_is_the_walls(self, kafka_broker: Broker, topic: str) -> None:
        before = datetime.now(UTC)
        assert before <= source(kafka_broker, topic).now() <= datetime.now(UTC)

    def test_only_new_messages_are_read_to_read_past_a_clock(
        self, kafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send(kafka_broker, topic, [Sent(seconds=one) for one in (9000, 1, 2, 3)])
        found, read = source(kafka_broker, topic), []
        whole: Callable[..., Any] = KafkaSource._messages

        def watched(self: KafkaSource, client: Client, number: int, asked: OffsetRange) -> Any:
            read.append(asked)
            return whole(self, client, number, asked)

        monkeypatch.setattr(KafkaSource, "_messages", watched)
        for _ in range(3):
            assert found.offset_for_time(0, at(5), not_after=at(100)) is None
        send(kafka_broker, topic, [Sent(seconds=6)])
        assert found.offsets_for_times([(0, at(2)), (0, at(5))], not_after=at(100)) == {(0, at(2)): 2, (0, at(5)): 4}
        assert read == [OffsetRange(0, 4), OffsetRange(4, 5)]


@pytest.mark.more(after=1)
@pytest.mark.parametrize("topic", [2], indirect=True)
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_and_a_recording_of_it_answer_alike(
    kafka_broker: Broker, topic: str, tmp_path: Path, seed: int, greatest_time: str
) -> None:
    chance = random.Random(seed)
    sent = [
        Sent(chance.randrange(2), chance.choice([number, number, chance.randrange(60), 10_000 + number]))
        for number in range(60)
    ]
    send(kafka_broker, topic, sent)
    broker = source(kafka_broker, topic, 2)
    marks = broker.watermarks()
    batches = [
        batch for number, mark in marks.items() for batch in broker.read(number, OffsetRange(mark.low, mark.high))
    ]
    pq.write_table(pa.Table.from_batches(batches), tmp_path / "part.parquet")
    capture = CaptureSource(str(tmp_path), 2)
    assert capture.watermarks() == marks
    for limit in (at(-1), at(chance.randrange(60)), at(100), FAR):
        questions = [
            (chance.randrange(2), at(chance.randrange(-5, 70) + chance.choice([0, 0.0005]))) for _ in range(40)
        ]
        assert broker.offsets_for_times(questions, not_after=limit) == capture.offsets_for_times(
            questions, not_after=limit
        )
        for number in range(2):
            start, end = sorted(chance.randrange(40) for _ in range(2))
            part = OffsetRange(start, end)
            assert broker.dated_after(number, part, limit) == capture.dated_after(number, part, limit)


def test_many_boundaries_take_few_round_trips(kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"many-{next(_names)}"
    kafka_broker.create_topic(name, 4)
    send(kafka_broker, name, [one for number in range(4) for one in numbered(100, number)])
    found, asked = source(kafka_broker, name, 4), 0
    client = client_of(found.place)
    whole = client.ask

    def counted(*arguments: Any, **settings: Any) -> Any:
        nonlocal asked
        asked += 1
        return whole(*arguments, **settings)

    monkeypatch.setattr(client, "ask", counted)
    questions = [(number, START + second * SECOND) for second in range(100) for number in range(4)]
    assert found.offsets_for_times(questions, not_after=FAR) == {one: (one[1] - START) // SECOND for one in questions}
    assert asked <= 3
