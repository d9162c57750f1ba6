"""Translation of the Kafka client library's errors into errors for people."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping

from confluent_kafka import KafkaError

from dts_assets.errors.sources import (
    BrokerCertificateError,
    BrokerDeniedError,
    BrokerError,
    BrokerLoginError,
    BrokerMechanismError,
    GroupInUseError,
    UnknownTopicError,
    UnreachableBrokerError,
    UnsupportedByBrokerError,
)

PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._NOENT,  # no leader found: moved, or the topic is gone, which the next look at it says
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors that may be gone a moment later."""

OF_THE_CONNECTION = (BrokerCertificateError, BrokerLoginError, BrokerMechanismError, UnreachableBrokerError)
"""Errors after which a new connection is made."""

_OFFERED = re.compile(r"supported mechanisms: ?([\w,.-]*)")
_DETAILS = re.compile(r"\s*\((after|install) [^)]*\)|error:[0-9A-F]+:|^\S+://|^[^ ]*/bootstrap: ")
_TWICE = 2
"""A login must be refused this often: a broker that stops may end one in the middle."""

REFUSED_SECONDS = 1.5
"""Seconds for which a login or a permission must be refused.

A broker that starts may not know its users and rules yet.
"""


class ConnectionErrors:
    """The latest errors of a connection with their times; :meth:`note` is the library's callback for them."""

    def __init__(self, servers: str, config: Mapping[str, str]) -> None:
        self._servers = servers
        self._mechanism = config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI"
        self._protocol = config.get("security.protocol", "plaintext").lower()
        self._heard: deque[tuple[float, KafkaError]] = deque(maxlen=50)

    def note(self, error: KafkaError) -> None:
        """Keep an error that the library reports, or that may explain a later one."""
        self._heard.append((time.monotonic(), error))

    def verdict(self, since: float) -> BrokerError | None:
        """Return the fault of the connection since a monotonic time; None if there may be none."""
        heard = self._since(since)
        refused = [error for error in heard if error.code() == KafkaError._AUTHENTICATION]
        if len(refused) >= _TWICE and time.monotonic() - since >= REFUSED_SECONDS:
            offered = _OFFERED.search(refused[-1].str())
            if offered is not None:
                names = tuple(name for name in offered.group(1).split(",") if name)
                return BrokerMechanismError(self._servers, self._mechanism, names)
            return BrokerLoginError(self._servers, self._mechanism)
        untrusted = [error for error in heard if error.code() == KafkaError._SSL and "verif" in error.str()]
        if untrusted:
            reason = _DETAILS.sub("", untrusted[-1].str()).split(": verify that")[0]
            return BrokerCertificateError(self._servers, reason.rpartition("::")[2].split(", ")[0].strip(" :"))
        return None

    def unreachable(self, seconds: float, since: float) -> UnreachableBrokerError:
        """Return the error of an unanswered question, put at ``since``, with the best reason heard."""
        telling = [error for error in self._since(since) if error.code() not in _SILENT]
        reason = _DETAILS.sub("", _DETAILS.sub("", telling[-1].str())).strip(" :") if telling else "no answer"
        return UnreachableBrokerError(
            self._servers,
            reason,
            seconds=seconds,
            bare=self._protocol == "plaintext",
            encrypts=self._protocol.endswith("ssl"),
        )

    def _since(self, since: float) -> list[KafkaError]:
        return [error for when, error in list(self._heard) if when >= since]


_SILENT = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._NOENT})
"""Errors that give no reason of their own."""


def error_of(error: KafkaError, servers: str, doing: str, what: str) -> BrokerError:
    """Return the error for people that stands for a broker's answer.

    ``doing`` names the action that was asked for, "read topic shop", and ``what`` its topic or group, "shop".
    """
    code = error.code()
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return UnknownTopicError(servers, what)
    if code in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ):
        return BrokerDeniedError(servers, doing)
    if code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS):
        return GroupInUseError(servers, what)
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return UnsupportedByBrokerError(servers, doing)
    return BrokerError(servers, f"asked to {doing}, it answers {error.name()}")
