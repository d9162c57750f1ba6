"""The interface that the tasks of all vendors have, for the process that feeds them with transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from dts_assets.model.gtids import GtidSet
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Coordinates, Transaction


class Task(Protocol):
    """A task of a vendor: it sends messages for transactions, and some as time passes."""

    @property
    def sent(self) -> Sequence[int]:
        """The number of messages that were sent, by Kafka partition."""
        ...

    @property
    def number(self) -> int:
        """The last number that an entry or a message was given: ``seqId``, or ``id``."""
        ...

    @property
    def synced(self) -> GtidSet:
        """The transactions that were sent, as a CHECKPOINT has them; empty where the vendor sends none."""
        ...

    @property
    def latency_ms(self) -> int:
        """The milliseconds from the commit of a transaction to its first message."""
        ...

    @property
    def due(self) -> int | None:
        """The time in the clock's microseconds at which :meth:`advance` will have something to send; None for never."""
        ...

    def resume(self, at: Coordinates, *, synced: GtidSet, number: int, sent: Sequence[int]) -> None:
        """Go on from where another task stood: everything up to the end of ``at`` is sent."""
        ...

    def send(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction, as far as they do not wait for more to merge with."""
        ...

    def advance(self, instant: int) -> Iterator[Message]:
        """Let the time pass until ``instant`` and yield the messages that fall due on the way."""
        ...

    def flush(self) -> Iterator[Message]:
        """Yield everything that waits for more to merge with."""
        ...
