"""Parts of the Kafka source that need no broker: times that were read, reports of the library, settings of clients."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import KafkaError

from dts_assets.errors.sources import (
    BrokerCertificateError,
    BrokerDeniedError,
    BrokerError,
    BrokerLoginError,
    BrokerMechanismError,
    UnknownTopicError,
    UnreachableBrokerError,
    UnsupportedByBrokerError,
)
from dts_assets.model.offsets import OffsetRange
from dts_assets.sources import kafka_answers, kafka_times
from dts_assets.sources.kafka_answers import PassingError, answer_of, told
from dts_assets.sources.kafka_errors import ConnectionErrors
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_times import MessageTimes, Stamps

LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "SASL_PLAINTEXT"}


class TestMessageTimes:
    @pytest.mark.parametrize("seed", range(20))
    def test_whatever_was_asked_before_the_answer_is_that_of_the_messages(
        self, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kafka_times, "_TRIMMED", 5)
        chance = random.Random(seed)
        messages = {offset: chance.randrange(20) for offset in range(100) if chance.random() < 0.7}
        times = MessageTimes()

        def read(offsets: OffsetRange) -> Stamps:
            found = [(offset, time) for offset, time in messages.items() if offsets.start <= offset < offsets.end]
            for first in range(0, len(found), 7):
                yield found[first : first + 7]

        for _ in range(30):
            asked = OffsetRange(*sorted((chance.randrange(100), chance.randrange(101))))
            earliest, latest = chance.randrange(20), chance.randrange(25)
            times.cover(asked, read)
            expected = [
                offset
                for offset, time in messages.items()
                if asked.start <= offset < asked.end and earliest <= time <= latest
            ]
            assert times.dated(asked, earliest, latest).tolist() == expected

    def test_what_is_known_is_not_read_again(self) -> None:
        times, read = MessageTimes(), []

        def stamps(offsets: OffsetRange) -> Stamps:
            read.append(offsets)
            yield [(offset, offset) for offset in range(offsets.start, offsets.end)]

        for end in (10, 10, 12, 11):
            times.cover(OffsetRange(4, end), stamps)
        assert read == [OffsetRange(4, 10), OffsetRange(10, 12)]


class TestTroubles:
    def troubles(self, *errors: tuple[int, str], **config: str) -> ConnectionErrors:
        heard = ConnectionErrors("host:9092", config or LOGIN)
        for code, text in errors:
            heard.note(KafkaError(code, text))
        return heard

    def test_a_login_refused_once_may_be_a_broker_that_goes_down(self) -> None:
        refused = (KafkaError._AUTHENTICATION, "Authentication failed: invalid credentials")
        assert self.troubles(refused).verdict(0) is None
        assert isinstance(self.troubles(refused, refused).verdict(0), BrokerLoginError)
        assert self.troubles(refused, refused).verdict(float("inf")) is None

    def test_mechanisms_that_are_offered_are_named(self) -> None:
        text = "handshake failed: Unsupported SASL mechanism: broker's supported mechanisms: PLAIN,SCRAM-SHA-256 (after 3ms)"
        found = self.troubles((KafkaError._AUTHENTICATION, text), (KafkaError._AUTHENTICATION, text)).verdict(0)
        assert isinstance(found, BrokerMechanismError)
        assert found.offered == ("PLAIN", "SCRAM-SHA-256")

    def test_a_certificate_is_told_by_its_reason_alone(self) -> None:
        text = (
            "sasl_ssl://host:9092/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: "
            "broker certificate could not be verified, verify that ssl.ca.location is right (after 34ms in state X)"
        )
        found = self.troubles((KafkaError._SSL, text)).verdict(0)
        assert isinstance(found, BrokerCertificateError)
        assert found.what == "certificate verify failed: broker certificate could not be verified"

    def test_the_reason_of_silence_is_the_last_that_says_something(self) -> None:
        refused = (
            KafkaError._TRANSPORT,
            "host:9092/bootstrap: Connect to ipv4#1.2.3.4:9092 failed: Connection refused (after 0ms)",
        )
        down = (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
        found = self.troubles(refused, down).unreachable(5, 0)
        assert (found.what, found.bare) == ("Connect to ipv4#1.2.3.4:9092 failed: Connection refused", False)
        assert self.troubles(down).unreachable(5, 0).what == "no answer"
        assert self.troubles(down, **{"client.id": "x"}).unreachable(5, 0).bare


class TestAnswers:
    PASSING = KafkaError(KafkaError._TRANSPORT, "Connection refused")

    def test_a_question_is_repeated_while_its_obstacle_may_pass(self) -> None:
        heard, obstacles = ConnectionErrors("host:9092", {}), [self.PASSING, self.PASSING]
        first = []

        def ask(began: float) -> str:
            first.append(began)
            if obstacles:
                raise PassingError(obstacles.pop())
            return "answer"

        assert answer_of(ask, heard) == "answer"
        assert len(first) == 3
        assert len(set(first)) == 1

    def test_no_answer_in_time_is_an_error_with_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kafka_answers, "ANSWER_SECONDS", 1.0)

        def ask(_: float) -> str:
            raise PassingError(self.PASSING)

        with pytest.raises(UnreachableBrokerError, match=r"within 1 s \(Connection refused\)"):
            answer_of(ask, ConnectionErrors("host:9092", {}))

    def test_a_fault_of_the_connection_is_the_error_where_one_was_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kafka_answers, "ANSWER_SECONDS", 3.0)
        heard = ConnectionErrors("host:9092", LOGIN)

        def ask(_: float) -> str:
            for _ in range(2):
                heard.note(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
            raise PassingError(self.PASSING)

        with pytest.raises(BrokerLoginError):
            answer_of(ask, heard)

    @pytest.mark.parametrize(
        ("code", "error", "refused_for", "at_once"),
        [
            (KafkaError.UNSUPPORTED_VERSION, UnsupportedByBrokerError, 0.3, True),
            (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerDeniedError, 0.0, True),
            (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerDeniedError, 0.3, False),
            (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicError, 0.3, False),
        ],
    )
    def test_an_error_that_stays_is_raised_at_once_unless_a_broker_that_starts_may_give_it(
        self, code: int, error: type[BrokerError], refused_for: float, at_once: bool
    ) -> None:
        asked = []

        def ask(began: float) -> str:
            asked.append(began)
            raise told(KafkaError(code), "host:9092", "read topic shop", "shop")

        with pytest.raises(error):
            answer_of(ask, ConnectionErrors("host:9092", {}), refused_for=refused_for)
        assert (len(asked) == 1) == at_once


class TestSettings:
    def test_defaults_give_way_and_what_reading_rests_on_does_not(self) -> None:
        config = (("fetch.queue.backoff.ms", "7"), ("auto.offset.reset", "earliest"), ("sasl.password", "hunter2"))
        place = KafkaPlace("host:9092", ("shop",), 1, "mine", config)
        assert place.settings["fetch.queue.backoff.ms"] == "7"
        assert place.reader_settings["auto.offset.reset"] == "error"
        assert place.reader_settings["isolation.level"] == "read_committed"
        assert (place.reader_settings["group.id"], place.settings.get("group.id")) == ("mine", None)
        assert "hunter2" not in repr(place)

    def test_debugging_is_not_silenced(self) -> None:
        assert KafkaPlace("a", ("b",), 1).settings["log_level"] == "0"
        assert "log_level" not in KafkaPlace("a", ("b",), 1, None, (("debug", "security"),)).settings
