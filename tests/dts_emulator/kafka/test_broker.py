"""The private broker: what it lets in, what it keeps, and that it ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from dts_emulator.errors import BrokerUnavailable
from dts_emulator.kafka import broker_files
from dts_emulator.kafka.broker_files import free_ports, write_settings
from dts_emulator.kafka.private_broker import Broker, private_broker

pytestmark = pytest.mark.kafka


def a_topic(broker: Broker, partitions: int, **config: str) -> str:
    name = f"topic-{uuid4().hex}"
    broker.create_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
    return name


def send(config: dict[str, str], topic: str, *values: bytes, partition: int = 0, timestamp: int = 0) -> None:
    producer = Producer({**config, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def stored(broker: Broker, topic: str, partition: int = 0) -> tuple[int, int]:
    consumer = Consumer({**broker.client_config(), "group.id": "tests", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30, cached=False)
    finally:
        consumer.close()


def refusal(config: dict[str, str]) -> int | None:
    """The code of the first refusal that a client with this configuration is told; None if it gets an answer instead.

    A connection that closes before its client has read why (_TRANSPORT) is no refusal: the client connects again.
    """
    errors: list[KafkaError] = []
    consumer = Consumer({**config, "group.id": "tests", "log_level": 0, "error_cb": errors.append})

    def refusals() -> list[int]:
        passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
        return [int(error.code()) for error in errors if error.code() not in passing]

    try:
        deadline = time.monotonic() + 60
        while not refusals() and time.monotonic() < deadline:
            try:
                consumer.list_topics(timeout=1)
            except KafkaException:
                consumer.poll(0)
                continue
            return None
    finally:
        consumer.close()
    return refusals()[0]


@pytest.mark.more(after=1)
@pytest.mark.parametrize("partitions", [1, 4, 8])
def test_topics_have_the_partitions_they_were_made_with(kafka_broker: Broker, partitions: int) -> None:
    topic = a_topic(kafka_broker, partitions)
    send(kafka_broker.client_config(), topic, b"last", partition=partitions - 1)
    assert stored(kafka_broker, topic, partitions - 1) == (0, 1)
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        stored(kafka_broker, topic, partitions)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_only_the_right_password_is_let_in(kafka_broker: Broker, listener: str, mechanism: str) -> None:
    right = kafka_broker.client_config(listener, mechanism=mechanism)
    assert refusal(right) is None
    assert refusal(right | {"sasl.password": "another"}) == KafkaError._AUTHENTICATION
    assert refusal(right | {"sasl.username": "nobody"}) == KafkaError._AUTHENTICATION


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_an_encrypted_listener_is_trusted_for_its_certificate_alone(kafka_broker: Broker, listener: str) -> None:
    right = kafka_broker.client_config(listener)
    assert refusal(right) is None
    del right["ssl.ca.location"]
    assert refusal(right) == KafkaError._SSL


def test_messages_are_deleted_for_their_age_where_the_topic_says_so_alone(kafka_broker: Broker) -> None:
    keeping, forgetting = a_topic(kafka_broker, 1), a_topic(kafka_broker, 1, retention_ms="1000")
    now, year = time.time_ns() // 1_000_000, 365 * 86_400_000
    for topic in (keeping, forgetting):
        send(kafka_broker.client_config(), topic, b"old", timestamp=now - 20 * year)
    send(kafka_broker.client_config(), keeping, b"to come", timestamp=now + year)
    deadline = time.monotonic() + 60
    while stored(kafka_broker, forgetting) != (1, 1) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert stored(kafka_broker, forgetting) == (1, 1)
    assert stored(kafka_broker, keeping) == (0, 2)


def test_deleted_records_are_gone(kafka_broker: Broker) -> None:
    topic = a_topic(kafka_broker, 1)
    send(kafka_broker.client_config(), topic, b"1", b"2", b"3")
    kafka_broker.delete_records(topic, {0: 2})
    assert stored(kafka_broker, topic) == (2, 3)


@pytest.mark.long
def test_a_broker_that_stops_or_is_killed_comes_back_with_its_data(tmp_path: Path) -> None:
    users = {"anna": 'a "quoted\\ wörd;', "bert": "plain"}
    with private_broker(tmp_path / "kafka", users=users) as broker:
        topic = a_topic(broker, 1)
        send(broker.client_config("SASL_SSL"), topic, b"1")
        addresses = (broker.plain, broker.sasl_plain, broker.sasl_ssl, broker.ssl)
        broker.stop()
        assert broker.pid is None
        broker.start()
        send(broker.client_config("SASL_PLAINTEXT", mechanism="PLAIN"), topic, b"2")
        broker.kill()
        broker.start()
        assert (broker.plain, broker.sasl_plain, broker.sasl_ssl, broker.ssl) == addresses
        assert stored(broker, topic) == (0, 2)
        command = Path(f"/proc/{broker.pid}/cmdline").read_bytes().decode()
        assert not any(password in command for password in users.values())
        assert not any(password in repr(broker) for password in users.values())
    with private_broker(tmp_path / "kafka", users=users) as again:
        assert stored(again, topic) == (0, 2)
        assert (
            refusal(again.client_config("SASL_PLAINTEXT") | {"sasl.username": "bert", "sasl.password": "plain"}) is None
        )


@pytest.mark.more
def test_a_broker_dies_with_the_process_that_started_it() -> None:
    code = (
        "import time; from dts_emulator.kafka.private_broker import private_broker\n"
        "with private_broker() as broker: print(broker.pid, broker.folder, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, _, folder = parent.stdout.readline().strip().partition(" ")
        assert (Path(folder) / "server.properties").stat().st_mode & 0o077 == 0
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/root").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}/root").exists()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(broker_files, "JARS", tmp_path / "nothing")
        with pytest.raises(BrokerUnavailable, match="make setup"), private_broker():
            pass
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="JAVA_HOME"), private_broker():
        pass


def test_a_setting_that_kafka_refuses_is_told_in_its_own_words() -> None:
    with (
        pytest.raises(BrokerUnavailable, match=r"num\.io\.threads"),
        private_broker(settings={"num.io.threads": "none"}),
    ):
        pass


def test_values_of_settings_are_escaped_for_java(tmp_path: Path) -> None:
    (tmp_path / "store-password").write_text("secret")
    path = write_settings(tmp_path, free_ports(), {"u": 'a"b\\é😀'}, {})
    (line,) = [line for line in path.read_text().splitlines() if "sasl_ssl.plain" in line]
    assert line.endswith(r'user_u="a\u005c"b\u005c\u005c\u00e9\ud83d\ude00";')
