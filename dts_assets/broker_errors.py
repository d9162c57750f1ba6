"""What can be wrong with a Kafka broker, each thing a class with a sentence of its own; the tree is drawn in ``errors``.

No sentence holds a password, nor anything of a setting but host names and the name of a SASL mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from dts_assets.errors import SourceError


@dataclass(eq=False)
class BrokerError(SourceError):
    """A Kafka broker cannot be used. ``servers`` are its bootstrap addresses, ``what`` is a clause about it."""

    servers: str
    what: str = "it is not what was expected"

    def message(self) -> str:
        """The broker and what is wrong with it."""
        return f"The Kafka broker {self.servers} cannot be used as asked: {self.what}."


@dataclass(eq=False)
class UnreachableBrokerError(BrokerError):
    """Nobody answered for ``seconds``; ``what`` is what the client library noticed, ``bare`` that it neither logs in nor
    encrypts."""

    retriable: ClassVar[bool] = True

    _: KW_ONLY
    seconds: float
    bare: bool = False

    def message(self) -> str:
        """The address, the time, the reason and where to look."""
        hint = (
            " A client without security.protocol on a port that wants a password or encryption sees the same."
            if self.bare
            else ""
        )
        return (
            f"No Kafka broker answered at {self.servers} within {self.seconds:.0f} s ({self.what}). Check bootstrap_servers, the "
            f"network and whether the broker runs.{hint} When it answers again, the same can be run again."
        )


@dataclass(eq=False)
class BrokerLoginError(BrokerError):
    """The broker refused the user or the password; ``what`` is the SASL mechanism."""

    def message(self) -> str:
        """The broker and the settings to look at."""
        return (
            f"The Kafka broker {self.servers} refused the user or the password ({self.what}). Check sasl.username and "
            f"sasl.password under source.kafka.config."
        )


@dataclass(eq=False)
class BrokerMechanismError(BrokerError):
    """The broker does not take the SASL mechanism ``what``; ``offered`` are those that it takes, none where it takes no login."""

    offered: Sequence[str] = ()

    def message(self) -> str:
        """Both, and the setting to change."""
        way_out = (
            f"it takes {', '.join(self.offered)}: name one of them under sasl.mechanism"
            if self.offered
            else "this port takes no login: use the port that does, or set security.protocol to plaintext or ssl"
        )
        return f"The Kafka broker {self.servers} does not log in by {self.what}; {way_out}."


@dataclass(eq=False)
class BrokerCertificateError(BrokerError):
    """The broker's certificate is not trusted; ``what`` is the reason."""

    def message(self) -> str:
        """The broker, the reason and the setting that names what is trusted."""
        return (
            f"The certificate of the Kafka broker {self.servers} is not trusted ({self.what}). Name the file of the authority "
            f"that signed it under ssl.ca.location, and the broker by the name that its certificate has."
        )


@dataclass(eq=False)
class BrokerDeniedError(BrokerError):
    """The user may not do ``what``: "read topic shop"."""

    def message(self) -> str:
        """The broker and what is not allowed."""
        return (
            f"The Kafka broker {self.servers} does not allow this user to {self.what}. Use the account that belongs to the "
            f"consumer group, or have it allowed."
        )


@dataclass(eq=False)
class UnknownTopicError(BrokerError):
    """There is no topic called ``what``."""

    def message(self) -> str:
        """The topic and the setting that names it."""
        return f"The Kafka broker {self.servers} has no topic {self.what}. Check topics under source.kafka."


@dataclass(eq=False)
class PartitionCountError(BrokerError):
    """The topics have ``found`` partitions in all; ``what`` lists them."""

    _: KW_ONLY
    configured: int
    found: int

    def message(self) -> str:
        """Both counts and what to change."""
        return (
            f"The subscription says partitions: {self.configured}, but {self.what} on {self.servers} "
            f"{'has' if self.found == 1 else 'have'} {self.found}. Set partitions to {self.found}; a lake that was built with "
            f"another number needs another subscription name, whose tables start empty."
        )


@dataclass(eq=False)
class GroupInUseError(BrokerError):
    """A client has joined the consumer group ``what``."""

    retriable: ClassVar[bool] = True

    def message(self) -> str:
        """The group and the way out."""
        return (
            f"The offsets of consumer group {self.what} cannot be set: another client has joined it. Stop that client, or use a "
            f"group of its own for each."
        )


@dataclass(eq=False)
class MessagesGoneError(BrokerError):
    """Offsets ``[start, end)`` of a topic's partition were asked for, and the broker holds only ``[low, high)``; ``what`` is the
    topic."""

    _: KW_ONLY
    kafka_partition: int
    start: int
    end: int
    low: int
    high: int

    def message(self) -> str:
        """The offsets that are lost or missing, and those that are there."""
        lost = f"offsets [{self.start}, {min(self.end, self.low)}) were deleted before they were read"
        missing = (
            f"offsets [{max(self.start, self.high)}, {self.end}) are not there, so the topic was made anew or cut off"
        )
        return (
            f"Messages of partition {self.kafka_partition} of topic {self.what} are gone: "
            f"{lost if self.low > self.start else missing}; the broker has [{self.low}, {self.high}). "
            f"Run it again to store what is left with a named gap; a topic that was made anew needs a higher epoch."
        )


@dataclass(eq=False)
class RecreatedTopicError(BrokerError):
    """A topic, ``what``, ends before what the lake has stored of it, so it is another topic of the same name."""

    _: KW_ONLY
    kafka_partition: int
    stored_end: int
    found_end: int

    def message(self) -> str:
        """The offsets, and the ways out."""
        return (
            f"Topic {self.what} ends at offset {self.found_end} in Kafka partition {self.kafka_partition}, and the lake has "
            f"stored its messages up to {self.stored_end}: it was made anew, and its offsets mean other messages now. Nothing "
            f"was read. Give what comes now a subscription of its own (another name), or point bootstrap_servers back at the "
            f"old topic."
        )
