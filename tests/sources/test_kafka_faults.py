"""A broker that is away, refuses, or is not what the settings say: each a clear error within seconds, and none with a secret."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dts_assets.errors.sources import (
    BrokerCertificateError,
    BrokerDeniedError,
    BrokerError,
    BrokerLoginError,
    BrokerMechanismError,
    GroupInUseError,
    PartitionCountError,
    UnknownTopicError,
    UnreachableBrokerError,
)
from dts_assets.model.offsets import OffsetRange
from dts_assets.sources import kafka_answers
from dts_assets.sources.kafka_errors import REFUSED_SECONDS
from dts_assets.sources.kafka_group import GroupOffsets
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_source import KafkaSource
from dts_emulator.kafka.private_broker import Broker, private_broker
from tests.sources.kafka_topics import Sent, numbered, offsets, place, send, source
from tests.tiers import chosen, in_time

pytestmark = pytest.mark.kafka
SECRET = "hunter2-and-more"
_names = itertools.count()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker that allows the user ``dts`` everything and others what they are given; tests stop and start it."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:dts",
        "log.cleaner.backoff.ms": "100",
    }
    with private_broker(users={"dts": SECRET, "account": SECRET}, settings=settings) as broker:
        yield broker


@pytest.fixture
def topic(guarded: Broker) -> str:
    name = f"faults-{next(_names)}"
    guarded.create_topic(name, 2)
    return name


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that nobody answers end sooner."""
    monkeypatch.setattr(kafka_answers, "ANSWER_SECONDS", 2.0)


def asked(wanted: KafkaPlace) -> tuple[BrokerError, float]:
    """The error of asking a place for its watermarks, and after how long it came."""
    began = time.monotonic()
    with pytest.raises(BrokerError) as caught:
        KafkaSource(wanted).watermarks()
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    for text in (str(again), repr(caught.value), repr(wanted), str(caught.value.__cause__)):
        assert SECRET not in text
        assert "not-the-password" not in text
    return caught.value, time.monotonic() - began


WRONG = [
    ("SASL_SSL", "SCRAM-SHA-512", {"sasl_password": "not-the-password"}),
    ("SASL_PLAINTEXT", "PLAIN", {"sasl_username": "nobody"}),
    ("SASL_SSL", "PLAIN", {"sasl_password": "not-the-password"}),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512", {"sasl_username": "nobody"}),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512", {"sasl_password": "not-the-password"}),
    ("SASL_SSL", "PLAIN", {"sasl_username": "nobody"}),
    ("SASL_PLAINTEXT", "PLAIN", {"sasl_password": "not-the-password"}),
    ("SASL_SSL", "SCRAM-SHA-512", {"sasl_username": "nobody"}),
]


class TestConnecting:
    @pytest.mark.more
    @pytest.mark.parametrize(("listener", "mechanism", "change"), chosen(WRONG, 2))
    def test_a_wrong_user_or_password(
        self, guarded: Broker, topic: str, listener: str, mechanism: str, change: dict[str, str]
    ) -> None:
        wanted = place(guarded, topic, partitions=2, listener=listener, sasl_mechanism=mechanism, **change)
        for _ in range(2):  # the second time on a new connection, as quickly as the first
            error, seconds = asked(wanted)
            assert type(error) is BrokerLoginError
            assert mechanism in str(error)
            assert in_time(seconds, 5)
        assert not error.retriable

    @pytest.mark.more
    def test_a_mechanism_that_the_broker_does_not_take(self, guarded: Broker, topic: str) -> None:
        wanted = place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256")
        error, seconds = asked(wanted)
        assert type(error) is BrokerMechanismError
        assert "SCRAM-SHA-256; it takes" in str(error)
        assert sorted(error.offered) == ["PLAIN", "SCRAM-SHA-512"]
        assert in_time(seconds, 5)

    def test_a_login_where_none_is_taken(self, guarded: Broker, topic: str) -> None:
        wanted = replace(place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT"), servers=guarded.plain)
        error, _ = asked(wanted)
        assert type(error) is BrokerMechanismError
        assert "this port takes no login" in str(error)

    @pytest.mark.parametrize("listener", chosen(["SASL_SSL", "SSL"], 1))
    def test_a_certificate_that_is_not_trusted(self, guarded: Broker, topic: str, listener: str) -> None:
        wanted = place(guarded, topic, partitions=2, listener=listener)
        config = tuple(pair for pair in wanted.config if pair[0] != "ssl.ca.location")
        error, seconds = asked(replace(wanted, config=config))
        assert type(error) is BrokerCertificateError
        assert "certificate verify failed" in str(error)
        assert in_time(seconds, 5)

    def test_a_topic_that_does_not_exist(self, guarded: Broker, topic: str) -> None:
        error, seconds = asked(place(guarded, topic, "nowhere", partitions=2))
        assert type(error) is UnknownTopicError
        assert "no topic nowhere" in str(error)
        assert in_time(seconds, 3)

    @pytest.mark.parametrize("configured", [1, 4])
    def test_another_number_of_partitions(self, guarded: Broker, topic: str, configured: int) -> None:
        error, _ = asked(place(guarded, topic, partitions=configured))
        assert isinstance(error, PartitionCountError)
        assert (error.configured, error.found) == (configured, 2)
        assert f"partitions: {configured}, but topic {topic}" in str(error)

    def test_several_topics_with_another_number_of_partitions_together(self, guarded: Broker, topic: str) -> None:
        guarded.create_topic(f"{topic}-more", 1)
        error, _ = asked(place(guarded, topic, f"{topic}-more", partitions=2))
        assert f"{topic} (2), {topic}-more (1) together" in str(error)

    @pytest.mark.more
    def test_nobody_there(self) -> None:
        error, seconds = asked(KafkaPlace("127.0.0.1:9", ("shop",), 1))
        assert type(error) is UnreachableBrokerError
        assert "Connection refused" in str(error)
        assert error.retriable
        assert in_time(seconds, 6)

    @pytest.mark.usefixtures("quick")
    def test_a_name_that_no_host_has(self) -> None:
        error, _ = asked(KafkaPlace("no-such-host.invalid:9092", ("shop",), 1))
        assert type(error) is UnreachableBrokerError
        assert "resolve" in str(error)

    @pytest.mark.usefixtures("quick")
    @pytest.mark.parametrize("listener", chosen(["SSL", "SASL_PLAINTEXT"], 1))
    def test_a_bare_client_on_a_port_that_wants_more_gets_a_hint(
        self, guarded: Broker, topic: str, listener: str
    ) -> None:
        error, _ = asked(KafkaPlace(guarded.address(listener), (topic,), 2))
        assert type(error) is UnreachableBrokerError
        assert "A client without security.protocol" in str(error)

    @pytest.mark.usefixtures("quick")
    def test_encryption_on_a_port_without(self, guarded: Broker, topic: str) -> None:
        error, _ = asked(replace(place(guarded, topic, partitions=2, listener="SSL"), servers=guarded.plain))
        assert type(error) is UnreachableBrokerError
        # The client library guesses the port, or says only that the connection was closed, as it happens.
        assert "a port without encryption, a PLAINTEXT listener" in str(error)
        assert "A client without" not in str(error)


@pytest.mark.more
class TestOutages:
    def test_a_broker_that_is_away_for_a_while_is_waited_for(self, guarded: Broker, topic: str) -> None:
        values = 400
        send(guarded, topic, [Sent(value=b"x" * 250_000) for _ in range(values)])
        reading = source(guarded, topic, 2, patience=90).read(0, OffsetRange(0, values))
        read = next(reading)["offset"].to_pylist()
        guarded.kill()
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(lambda: [offset for batch in reading for offset in batch["offset"].to_pylist()])
            time.sleep(2.5)  # the broker is asked in vain meanwhile
            assert not rest.done()
            guarded.start()
            read += rest.result(60)
        assert read == list(range(values))

    @pytest.mark.usefixtures("quick")
    def test_one_that_stays_away_is_an_error_that_can_be_tried_again(self, guarded: Broker, topic: str) -> None:
        send(guarded, topic, numbered(10))
        found = source(guarded, topic, 2, patience=3)
        assert offsets(found, 0, 0, 10) == list(range(10))
        guarded.stop()
        try:
            began = time.monotonic()
            with pytest.raises(UnreachableBrokerError) as caught:
                offsets(found, 0, 0, 10)
            assert in_time(time.monotonic() - began, 9)
            assert caught.value.retriable
            assert "can be run again" in str(caught.value)
            error, seconds = asked(found.place)
            assert type(error) is UnreachableBrokerError
            assert in_time(seconds, 4)
        finally:
            guarded.start()
        deadline = time.monotonic() + 30
        while True:
            try:
                assert offsets(found, 0, 0, 10) == list(range(10))
                break
            except UnreachableBrokerError:
                assert time.monotonic() < deadline

    @pytest.mark.long
    def test_a_topic_deleted_under_the_reader(self, guarded: Broker, topic: str) -> None:
        send(guarded, topic, [Sent(value=b"x" * 500_000) for _ in range(150)])
        reading = source(guarded, topic, 2, patience=20).read(0, OffsetRange(0, 150))
        next(reading)
        admin = AdminClient(dict(guarded.client_config()))
        admin.delete_topics([topic])[topic].result(10)
        with pytest.raises(BrokerError) as caught:
            list(reading)
        assert not isinstance(caught.value, UnreachableBrokerError)


@pytest.mark.more
class TestRestarts:
    """A broker that starts again may know its users and its rules a moment later than it listens."""

    def test_a_broker_that_restarts_gives_no_error_that_lasts(self, guarded: Broker, topic: str) -> None:
        send(guarded, topic, numbered(10))
        wanted = place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT")
        assert KafkaSource(wanted).watermarks()[0].high == 10
        guarded.kill()
        met: list[BrokerError] = []

        def answered() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    assert KafkaSource(wanted).watermarks()[0].high == 10
                    return
                except BrokerError as error:
                    met.append(error)

        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(answered)
            guarded.start()  # by this thread, with which the broker would end
            asking.result(90)
        assert met
        assert [str(error) for error in met if not error.retriable] == []

    @pytest.mark.parametrize("away", [0.6, 5.0])
    def test_a_login_that_is_refused_for_a_moment_is_asked_again(
        self, guarded: Broker, topic: str, away: float
    ) -> None:
        """The broker forgets the user and gets it back, as one does whose users are loaded late."""
        user = f"late-{topic}"
        admin = AdminClient(dict(guarded.client_config()))
        wanted = place(
            guarded, topic, partitions=2, listener="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", sasl_username=user
        )
        allow(admin, user, topic)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(later, away, lambda: keep_user(admin, user))
            if away < REFUSED_SECONDS:
                assert KafkaSource(wanted).watermarks()[0].high == 0
            else:
                error, seconds = asked(wanted)
                assert type(error) is BrokerLoginError
                assert in_time(seconds, away)
            made.result()
        assert KafkaSource(wanted).watermarks()[0].high == 0

    def test_a_permission_that_comes_a_moment_later_is_waited_for(self, guarded: Broker, topic: str) -> None:
        wanted = place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT", sasl_username="account")
        admin = AdminClient(dict(guarded.client_config()))
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(later, 0.5, lambda: allow(admin, "account", topic))
            assert KafkaSource(wanted).watermarks()[0].high == 0
            made.result()

    def test_a_permission_that_is_away_while_a_range_is_read_is_waited_for(self, guarded: Broker, topic: str) -> None:
        values = 200
        send(guarded, topic, [Sent(value=b"x" * 250_000) for _ in range(values)])
        admin = AdminClient(dict(guarded.client_config()))
        allow(admin, "account", topic)
        found = KafkaSource(place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT", sasl_username="account"))
        reading = found.read(0, OffsetRange(0, values))
        read = next(reading)["offset"].to_pylist()
        for answer in admin.delete_acls([of_topic("account", topic, filtering=True)]).values():
            answer.result(10)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(later, 3.0, lambda: allow(admin, "account", topic))
            read += [offset for batch in reading for offset in batch["offset"].to_pylist()]
            made.result()
        assert read == list(range(values))


def later(seconds: float, act: Callable[[], None]) -> None:
    time.sleep(seconds)
    act()


def of_topic(user: str, topic: str, *, filtering: bool = False) -> Any:
    kind: Any = AclBindingFilter if filtering else AclBinding
    return kind(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip


def allow(admin: AdminClient, user: str, topic: str) -> None:
    """Let a user read a topic."""
    for answer in admin.create_acls([of_topic(user, topic)]).values():
        answer.result(10)


def keep_user(admin: AdminClient, user: str) -> None:
    """Give the broker a user with the password of all."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for answer in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, info, SECRET.encode())]
    ).values():
        answer.result(10)


@pytest.mark.more
def test_offsets_that_compaction_took_away_end_a_range(guarded: Broker) -> None:
    name = f"compacted-{next(_names)}"
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "100",
        "max.compaction.lag.ms": "100",
    }
    guarded.create_topic(name, 1, config)
    found = source(guarded, name)
    deadline = time.monotonic() + 40
    count = 0
    while True:
        send(guarded, name, [Sent(seconds=count + number, key=b"same", value=b"v") for number in range(20)])
        count += 20
        if len(left := offsets(found, 0, 0, count)) < count:
            break
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.5)
    hole = next(offset for offset in range(count) if offset not in left)
    for end in (hole + 1, count):  # more may be compacted meanwhile, nothing comes back
        assert set(offsets(found, 0, 0, end)) <= {offset for offset in left if offset < end}


class TestTheGroup:
    def test_offsets_are_set_and_read_without_joining(self, guarded: Broker, topic: str) -> None:
        group = GroupOffsets(replace(place(guarded, topic, partitions=2), group_id=f"group-{topic}"))
        assert group.committed() == {0: None, 1: None}
        group.commit({1: 7})
        group.commit({})
        assert group.committed() == {0: None, 1: 7}
        group.commit({0: 3, 1: 8})
        assert group.committed() == {0: 3, 1: 8}

    def test_without_a_group_there_is_nothing_to_ask(self, guarded: Broker, topic: str) -> None:
        with pytest.raises(BrokerError, match="no group_id is configured"):
            GroupOffsets(place(guarded, topic, partitions=2)).committed()

    def test_a_group_that_somebody_has_joined_is_left_alone(self, guarded: Broker, topic: str) -> None:
        name = f"group-{topic}"
        settings: dict[str, Any] = {**guarded.client_config(), "group.id": name, "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        try:
            deadline = time.monotonic() + 30
            while not consumer.assignment():
                consumer.poll(0.1)
                assert time.monotonic() < deadline
            with pytest.raises(GroupInUseError, match=name):
                GroupOffsets(replace(place(guarded, topic, partitions=2), group_id=name)).commit({0: 1})
        finally:
            consumer.close()


class TestAnAccountOfOneGroup:
    """As the vendor gives it: it may read one topic, in one group."""

    @pytest.fixture
    def account(self, guarded: Broker, topic: str) -> KafkaPlace:
        group = f"consumer-grp-{topic}"
        allowed = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, "User:account", "*", AclOperation.READ, AclPermissionType.ALLOW
            )
            for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.GROUP, group))
        ]
        admin = AdminClient(dict(guarded.client_config()))  # gone too early, it would take its answers along
        for answer in admin.create_acls(allowed).values():
            answer.result(10)
        send(guarded, topic, numbered(10))
        wanted = place(guarded, topic, partitions=2, listener="SASL_PLAINTEXT", sasl_username="account")
        return replace(wanted, group_id=group)

    def test_it_can_do_all_that_is_needed(self, account: KafkaPlace) -> None:
        found = KafkaSource(account)
        assert found.watermarks()[0].high == 10
        assert offsets(found, 0, 2, 9) == list(range(2, 9))
        group = GroupOffsets(account)
        group.commit({0: 9})
        assert group.committed() == {0: 9, 1: None}

    @pytest.mark.parametrize("group_id", [None, "another"])
    def test_reading_needs_no_group(self, account: KafkaPlace, group_id: str | None) -> None:
        found = KafkaSource(replace(account, group_id=group_id))
        assert offsets(found, 0, 0, 10) == list(range(10))

    @pytest.mark.more
    def test_another_group_is_refused_by_name_within_seconds(self, account: KafkaPlace) -> None:
        group, began = GroupOffsets(replace(account, group_id="another")), time.monotonic()
        with pytest.raises(BrokerDeniedError, match="use consumer group another"):
            group.committed()
        with pytest.raises(BrokerDeniedError, match="use consumer group another"):
            group.commit({0: 1})
        assert in_time(time.monotonic() - began, 5)

    @pytest.mark.more
    def test_another_topic_is_refused_by_name(self, guarded: Broker, account: KafkaPlace) -> None:
        name = f"secret-{next(_names)}"
        guarded.create_topic(name, 1)
        error, _ = asked(replace(account, topics=(name,), partitions=1))
        assert type(error) is BrokerDeniedError
        assert f"read topic {name}" in str(error)
