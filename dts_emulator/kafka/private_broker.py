"""A private Kafka: one real broker with its own folder, ports and users, for one block.

    with private_broker() as broker:
        broker.create_topic("topic-subs", 4)
        consumer = Consumer(broker.client_config("SASL_SSL") | {"group.id": "mine"})

It listens on the loopback interface four times: PLAINTEXT, SSL, and SASL_PLAINTEXT and SASL_SSL with the mechanisms
SCRAM-SHA-512 and PLAIN. It is for tests and demonstrations: everything has one copy, no message is deleted for its age unless
a topic's own ``retention.ms`` says so, and message times may lie anywhere.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dts_emulator.errors import BrokerUnavailable
from dts_emulator.kafka.broker_files import (
    CERTIFICATE,
    MECHANISMS,
    Ports,
    class_path,
    end_certificate,
    free_ports,
    java_program,
    make_certificate,
    write_settings,
)
from dts_emulator.machine.ports import HOST, listens
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

USER = "dts"
"""The user that a broker has if none are named."""

_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_ANSWER_SECONDS = 30.0
_USER_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ITERATIONS = 4096
"""Of SCRAM: the fewest that Kafka takes."""

_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options for a machine that others share: one thread for the garbage, the quicker of Java's compilers."""
_HEAP = ("-Xms512m", "-Xmx512m")


@contextmanager
def private_broker(
    folder: Path | None = None, *, users: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Run a broker for the length of the block; it ends too when this process is killed.

    ``folder`` keeps topics and users for the next time (the ports are others then); without one they go with the block.
    ``users`` are names with passwords, valid for both mechanisms; without any there is :data:`USER` with a password made here.
    ``settings`` are broker settings in Kafka's own names (``{"log.retention.check.interval.ms": "200"}``).

    Raises:
        BrokerUnavailable: Java or the jars of Kafka are not there, or the broker does not come up.
        ValueError: A user name has other characters than letters, digits, ``_`` and ``-``.
    """
    known = dict(users or {USER: secrets.token_urlsafe(12)})
    for name in known:
        if not _USER_NAME.fullmatch(name):
            raise ValueError(f"a broker's user is named by letters, digits, _ and -, not {name!r}")
    class_path()
    place = folder or Path(tempfile.mkdtemp(prefix="emulator-kafka-"))
    broker: Broker | None = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        ports = free_ports()
        _prepare(place, ports, known, settings or {})
        broker = Broker(place, ports, known)
        broker.start()
        broker._keep_users()
        yield broker
    finally:
        if broker is not None:
            broker.stop()
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


@dataclass(slots=True, eq=False)
class Broker:
    """A broker and how to reach it. Its representation shows no password."""

    folder: Path
    """The folder of its data, its log (``server.log``) and its certificate."""
    ports: Ports
    users: Mapping[str, str] = field(repr=False)
    """Passwords by name."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def plain(self) -> str:
        """The bootstrap address without password and encryption."""
        return self.address("PLAINTEXT")

    @property
    def sasl_plain(self) -> str:
        """The bootstrap address with a password, without encryption."""
        return self.address("SASL_PLAINTEXT")

    @property
    def sasl_ssl(self) -> str:
        """The bootstrap address with a password and encryption."""
        return self.address("SASL_SSL")

    @property
    def ssl(self) -> str:
        """The bootstrap address with encryption, without a password."""
        return self.address("SSL")

    @property
    def user(self) -> str:
        """The first of its users."""
        return next(iter(self.users))

    @property
    def password(self) -> str:
        """Of the first user."""
        return self.users[self.user]

    @property
    def ca_file(self) -> Path:
        """The certificate that clients of SSL and SASL_SSL have to trust, as PEM."""
        return self.folder / CERTIFICATE

    @property
    def pid(self) -> int | None:
        """The process that it runs in; None while it is stopped."""
        return None if self._process is None else self._process.pid

    def address(self, listener: str) -> str:
        """Return the bootstrap address of a listener, by the name of its protocol.

        Raises:
            KeyError: There is no such listener.
        """
        return f"{HOST}:{self.ports.of[listener]}"

    def client_config(self, listener: str = "PLAINTEXT", *, mechanism: str = MECHANISMS[0]) -> dict[str, str]:
        """Return the settings that a client needs to connect, in librdkafka's names.

        The first user's password is among them where the listener asks for one.
        """
        config = {"bootstrap.servers": self.address(listener), "security.protocol": listener.lower()}
        if listener.startswith("SASL"):
            config |= {"sasl.mechanism": mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if listener.endswith("SSL"):
            config["ssl.ca.location"] = str(self.ca_file)
        return config

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Make a topic; ``config`` is in Kafka's own names.

        Raises:
            KafkaException: The broker refuses it, as it does a topic that exists already.
        """
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self._admin()  # gone too early, it would take its answers along
        _wait(admin.create_topics([topic]))
        self._wait_until_led(admin, {name: partitions})

    def ensure_topic(self, name: str, partitions: int) -> None:
        """Make a topic if it is not there.

        Raises:
            KafkaException: The broker refuses it.
        """
        if name not in self._admin().list_topics(timeout=_ANSWER_SECONDS).topics:
            self.create_topic(name, partitions)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the messages before an offset, by partition, as retention does.

        Raises:
            KafkaException: The broker refuses it.
        """
        admin = self._admin()
        _wait(admin.delete_records([TopicPartition(topic, number, end) for number, end in before.items()]))

    def start(self) -> None:
        """Start the broker with the data and ports that it had; do nothing while it runs.

        Raises:
            BrokerUnavailable: It does not come up.
        """
        if self._process is not None:
            return
        log = self.folder / "server.log"
        log.unlink(missing_ok=True)
        command = (
            *_java(self.folder),
            *_HEAP,
            "-cp",
            class_path(),
            "kafka.Kafka",
            str(self.folder / "server.properties"),
        )
        self._process = start_server(command, log, on_death="KILL")
        self._wait_until_up(self._process, log)

    def stop(self) -> None:
        """Stop it in order; its data stay. Does nothing while it is stopped."""
        if self._process is not None:
            stop_server(self._process, seconds=_STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """End it as a crash would (SIGKILL); its data stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_up(self, process: subprocess.Popen[bytes], log: Path) -> None:
        port = self.ports.of["PLAINTEXT"]
        wait_until(lambda: process.poll() is not None or listens(port), seconds=_START_SECONDS)
        if process.poll() is not None or not listens(port):
            self.kill()
            raise BrokerUnavailable(_said("the private Kafka broker did not start", log.read_text(errors="replace")))
        admin = self._admin()
        topics = admin.list_topics(timeout=_ANSWER_SECONDS).topics.values()
        self._wait_until_led(admin, {str(topic.topic): len(topic.partitions) for topic in topics})

    def _wait_until_led(self, admin: AdminClient, topics: Mapping[str, int]) -> None:
        """Wait until the broker serves all partitions of the topics, which it does a moment after its start.

        Raises:
            BrokerUnavailable: It still does not serve all of them.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library has not typed it
        asked = {TopicPartition(name, number): latest for name, count in topics.items() for number in range(count)}

        def led() -> bool:
            found = admin.list_offsets(dict(asked)) if asked else {}
            for place, answer in found.items():
                if not answer.exception(_ANSWER_SECONDS):
                    del asked[place]
            return not asked

        if not wait_until(led, seconds=_ANSWER_SECONDS):
            raise BrokerUnavailable("the private Kafka broker does not serve its partitions")

    def _keep_users(self) -> None:
        """Give the users to the broker's SCRAM, and wait until it knows them.

        Raises:
            BrokerUnavailable: It does not take them over.
        """
        mechanism = ScramMechanism.SCRAM_SHA_512
        info = ScramCredentialInfo(mechanism, _ITERATIONS)
        admin = self._admin()
        _wait(
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(name, info, word.encode()) for name, word in self.users.items()]
            )
        )

        def known() -> bool:
            with contextlib.suppress(KafkaException):
                described: Any = admin.describe_user_scram_credentials(list(self.users))
                return all(found.result(_ANSWER_SECONDS).scram_credential_infos for found in described.values())
            return False

        if not wait_until(known, seconds=_ANSWER_SECONDS):
            raise BrokerUnavailable("the private Kafka broker did not take over its users")

    def _admin(self) -> AdminClient:
        return AdminClient({**self.client_config(), "log_level": 4})


def _wait(answers: Mapping[Any, Future[Any]]) -> None:
    """Raise the first error of some of an admin's answers, when all are there."""
    for answer in answers.values():
        answer.result(_ANSWER_SECONDS)


def _prepare(folder: Path, ports: Ports, users: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Write everything that has to lie in the folder before a broker starts.

    Certificate and storage are made side by side.
    """
    certificate = make_certificate(folder)
    write_settings(folder, ports, users, settings)
    try:
        _format(folder)
    finally:
        end_certificate(folder, certificate)


def _java(folder: Path) -> tuple[str, ...]:
    """Return Java with the options of both of Kafka's programs."""
    return (java_program(), *_QUICK, f"-Dlog4j2.configurationFile={folder / 'log4j2.yaml'}")


def _format(folder: Path) -> None:
    """Make the storage of a new folder; do nothing for one that has been used.

    Raises:
        BrokerUnavailable: Kafka's own tool has failed.
    """
    if (folder / "data" / "meta.properties").exists():
        return
    command = (
        *_java(folder), "-cp", class_path(), "kafka.tools.StorageTool", "format",
        "-t", _cluster_id(), "-c", str(folder / "server.properties"),
    )  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerUnavailable(
            _said("the storage of a private Kafka broker could not be made", done.stdout + done.stderr)
        )


def _cluster_id() -> str:
    """Return a random id in Kafka's spelling: 16 bytes as 22 characters.

    Its first character is no dash, which would begin an option.
    """
    while (name := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name


def _said(sentence: str, log: str) -> str:
    """Return the sentence with the first error that was logged, since the log goes away with the folder."""
    lines = log.splitlines()
    errors = [line for line in lines if "ERROR" in line or "Exception" in line] or lines[-1:]
    return f"{sentence}: {errors[0].strip()}" if errors else sentence
