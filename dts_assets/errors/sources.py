"""Errors of sources: captures, and Kafka brokers, each with a sentence of its own.

No sentence holds a password, nor anything of a setting but host names and the name of a SASL mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError


class SourceError(DtsAssetsError):
    """An error of a source: messages cannot be read."""

    exit_code: ClassVar[int] = 10


@dataclass(eq=False)
class CaptureError(SourceError):
    """A capture that cannot be used. ``what`` is a clause about the folder: "it has no column offset; ..."."""

    path: str
    what: str

    def message(self) -> str:
        """Return the folder and what is wrong with it."""
        return f"The capture {self.path} cannot be used: {self.what}."


@dataclass(eq=False)
class CaptureGrownError(SourceError):
    """A capture that was declared complete and has messages behind its stored end.

    ``stored_end`` is the offset where the Kafka partition ended when its last window was closed.
    """

    path: str
    kafka_partition: int
    _: KW_ONLY
    stored_end: int
    found_end: int

    def message(self) -> str:
        """Return both ends and the way out."""
        return (
            f"The capture {self.path} is declared complete, but Kafka partition {self.kafka_partition} now ends at offset "
            f"{self.found_end} and ended at {self.stored_end} when it was read. If it is still being recorded, say "
            f"`complete: false` in the configuration; if it is another recording, use another subscription name or a new lake."
        )


@dataclass(eq=False)
class DatabaseError(SourceError):
    """A source database that cannot be read at ``place``, its address. ``what`` is a clause about it."""

    place: str
    what: str

    def message(self) -> str:
        """Return the address and what is wrong."""
        return f"The source database at {self.place} cannot be read: {self.what}."


@dataclass(eq=False)
class UnreachableDatabaseError(DatabaseError):
    """A source database that does not answer, or breaks the connection off; it may answer later."""

    retriable: ClassVar[bool] = True


@dataclass(eq=False)
class BrokerError(SourceError):
    """A Kafka broker that cannot be used. ``servers`` are its bootstrap addresses, ``what`` is a clause about it."""

    servers: str
    what: str

    def message(self) -> str:
        """Return the broker, what is wrong with it, and where to look."""
        return (
            f"The Kafka broker {self.servers} cannot be used as asked: {self.what}. Check the settings under source.kafka and "
            f"the broker's log."
        )


@dataclass(eq=False)
class UnreachableBrokerError(BrokerError):
    """A broker that did not answer for ``seconds``; ``what`` is the reason that the client library noticed.

    ``bare`` is true if the client neither logs in nor encrypts, ``encrypts`` if it encrypts.
    """

    retriable: ClassVar[bool] = True

    _: KW_ONLY
    seconds: float
    bare: bool = False
    encrypts: bool = False

    def message(self) -> str:
        """Return the address, the time, the reason and where to look."""
        hint = ""
        if self.bare:
            hint = " A client without security.protocol on a port that wants a password or encryption sees the same."
        elif self.encrypts:
            hint = " A client that encrypts sees the same on a port without encryption, a PLAINTEXT listener."
        return (
            f"No Kafka broker answered at {self.servers} within {self.seconds:.0f} s ({self.what}). Check bootstrap_servers, the "
            f"network and whether the broker runs.{hint} When it answers again, the same can be run again."
        )


class BrokerLoginError(BrokerError):
    """A broker that refused the user or the password; ``what`` is the SASL mechanism."""

    while_restarting: ClassVar[bool] = True

    def message(self) -> str:
        """Return the broker and the settings to look at."""
        return (
            f"The Kafka broker {self.servers} refused the user or the password ({self.what}). Check sasl.username and "
            f"sasl.password under source.kafka.config."
        )


@dataclass(eq=False)
class BrokerMechanismError(BrokerError):
    """A broker that does not take the SASL mechanism ``what``.

    ``offered`` are the mechanisms that it takes, none if it takes no login.
    """

    offered: Sequence[str] = ()

    def message(self) -> str:
        """Return the refused mechanism, the offered ones, and the setting to change."""
        way_out = (
            f"it takes {', '.join(self.offered)}: name one of them under sasl.mechanism"
            if self.offered
            else "this port takes no login: use the port that does, or set security.protocol to plaintext or ssl"
        )
        return f"The Kafka broker {self.servers} does not log in by {self.what}; {way_out}."


class BrokerCertificateError(BrokerError):
    """A broker whose certificate is not trusted; ``what`` is the reason."""

    def message(self) -> str:
        """Return the broker, the reason and the setting that names the trusted authority."""
        return (
            f"The certificate of the Kafka broker {self.servers} is not trusted ({self.what}). Name the file of the authority "
            f"that signed it under ssl.ca.location, and the broker by the name that its certificate has."
        )


class BrokerDeniedError(BrokerError):
    """A permission that the user lacks; ``what`` names the action: "read topic shop"."""

    while_restarting: ClassVar[bool] = True

    def message(self) -> str:
        """Return the broker, the action and the way out."""
        return (
            f"The Kafka broker {self.servers} does not allow this user to {self.what}. Use the account that belongs to the "
            f"consumer group, or have it allowed."
        )


class UnsupportedByBrokerError(BrokerError):
    """A broker that is too old for a question; ``what`` names the question: "read topic shop"."""

    def message(self) -> str:
        """Return the broker, the question and the way out."""
        return f"The Kafka broker {self.servers} is too old: it does not know how to {self.what}. Use a newer broker."


class UnknownTopicError(BrokerError):
    """A topic, called ``what``, that the broker does not have."""

    while_restarting: ClassVar[bool] = True

    def message(self) -> str:
        """Return the topic and the setting that names it."""
        return f"The Kafka broker {self.servers} has no topic {self.what}. Check topics under source.kafka."


@dataclass(eq=False)
class PartitionCountError(BrokerError):
    """Topics, listed in ``what``, that have ``found`` partitions in all instead of ``configured``."""

    _: KW_ONLY
    configured: int
    found: int

    def message(self) -> str:
        """Return both counts and what to change."""
        return (
            f"The subscription says partitions: {self.configured}, but {self.what} on {self.servers} "
            f"{'has' if self.found == 1 else 'have'} {self.found}. Set partitions to {self.found}; a lake that was built with "
            f"another number needs another subscription name, whose tables start empty."
        )


class GroupInUseError(BrokerError):
    """A consumer group, called ``what``, that a client has joined."""

    retriable: ClassVar[bool] = True

    def message(self) -> str:
        """Return the group and the way out."""
        return (
            f"The offsets of consumer group {self.what} cannot be set: another client has joined it. Stop that client, or use a "
            f"group of its own for each."
        )


@dataclass(eq=False)
class MessagesGoneError(BrokerError):
    """Messages ``[start, end)`` of topic ``what`` that were asked for while the broker holds only ``[low, high)``."""

    retriable: ClassVar[bool] = True

    _: KW_ONLY
    kafka_partition: int
    start: int
    end: int
    low: int
    high: int

    def message(self) -> str:
        """Return the offsets that are lost or missing, the ones that are there, and the way out."""
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
    """A topic, called ``what``, that ends before the stored offsets: it is another topic of the same name."""

    _: KW_ONLY
    kafka_partition: int
    stored_end: int
    found_end: int

    def message(self) -> str:
        """Return the offsets and the ways out."""
        return (
            f"Topic {self.what} ends at offset {self.found_end} in Kafka partition {self.kafka_partition}, and the lake has "
            f"stored its messages up to {self.stored_end}: it was made anew, and its offsets mean other messages now. Nothing "
            f"was read. Give what comes now a subscription of its own (another name), or point bootstrap_servers back at the "
            f"old topic."
        )
