"""The producer: transactions in binlog order in, Kafka messages in sending order out.

Its clock is the source's: it reads a transaction when the source has committed it, adds the latency, and needs time for every
byte it sends. So message times never go back, fragments of a large set lie apart, and a CHECKPOINT can fall between two entry
sets of one long transaction, with the end of the transaction before it as its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dts_assets.emulator.entries import EntryEncoder
from dts_assets.emulator.envelopes import PendingSet, as_item, envelopes
from dts_assets.emulator.events import Coordinates, Transaction
from dts_assets.emulator.gtids import GtidSet
from dts_assets.emulator.options import EmulatorOptions

_SECOND = 1_000_000
"""The clock counts microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Message:
    """A Kafka message; ``timestamp`` in milliseconds since the epoch."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def produce(
    transactions: Iterable[Transaction], options: EmulatorOptions, *, until: int | None = None
) -> Iterator[Message]:
    """The messages of a task that reads ``transactions``, in sending order.

    ``until``: seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on after the last transaction.
    """
    producer = _Producer(options)
    for transaction in transactions:
        yield from producer.transaction(transaction)
    yield from producer.finish(until)


class _Producer:
    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        self.encoder = EntryEncoder(options)
        self.synced = GtidSet()
        self.committed: Coordinates | None = None
        self.pending = [PendingSet(options.max_message_bytes) for _ in range(options.partitions)]
        self.waiting_since: dict[int, int] = {}
        self.sent = [0] * options.partitions
        self.now = 0
        self.next_checkpoint = 0
        self.next_heartbeat = 0

    def transaction(self, transaction: Transaction) -> Iterator[Message]:
        arrival = transaction.end.timestamp * _SECOND + self._latency
        if self.committed is None:
            self.now = arrival
            self._schedule()
        yield from self._advance(arrival)
        for routed in self.encoder.transaction(transaction):
            yield from self._add(routed.partition, as_item(routed.entry))
        self.committed = transaction.end
        if transaction.end.gtid is not None:
            self.synced.add(transaction.end.gtid)
        if not self.options.linger_ms:
            yield from self._flush_all()

    def finish(self, until: int | None) -> Iterator[Message]:
        yield from self._flush_all()
        if until is not None and self.committed is not None:
            yield from self._advance(until * _SECOND + self._latency)

    @property
    def _latency(self) -> int:
        return self.options.latency_ms * 1000

    def _schedule(self) -> None:
        """Put the next ticks at the first whole multiples after now."""
        source_now = (self.now - self._latency) // _SECOND
        checkpoint, heartbeat = self.options.checkpoint_seconds, self.options.heartbeat_seconds
        self.next_checkpoint = (source_now // checkpoint + 1) * checkpoint
        self.next_heartbeat = (source_now // heartbeat + 1) * heartbeat if heartbeat else 0

    def _advance(self, instant: int) -> Iterator[Message]:
        """Let the time pass until ``instant``, with everything that falls due on the way."""
        while True:
            tick = self._next_tick * _SECOND + self._latency
            oldest = min(self.waiting_since.values(), default=None)
            flush = None if oldest is None else oldest + self.options.linger_ms * 1000
            due = tick if flush is None else min(tick, flush)
            if due > instant:
                break
            self.now = max(self.now, due)
            if due == tick:
                yield from self._tick()
            else:
                yield from self._flush_all()
        self.now = max(self.now, instant)

    @property
    def _next_tick(self) -> int:
        return min(self.next_checkpoint, self.next_heartbeat or self.next_checkpoint)

    def _tick(self) -> Iterator[Message]:
        """CHECKPOINT and HEARTBEAT into every partition, behind what waits there. Ticks missed while sending are one."""
        source_now = (self.now - self._latency) // _SECOND
        checkpoint_due = self.next_checkpoint <= source_now
        heartbeat_due = bool(self.next_heartbeat) and self.next_heartbeat <= source_now
        self._schedule()
        if self.committed is None:
            return
        for partition in range(self.options.partitions):
            yield from self._send_pending(partition)
        if checkpoint_due:
            last = source_now // self.options.checkpoint_seconds * self.options.checkpoint_seconds
            entry = self.encoder.checkpoint(self.committed, timestamp=last, synced=str(self.synced))
            yield from self._send_everywhere(entry)
        if heartbeat_due:
            last = source_now // self.options.heartbeat_seconds * self.options.heartbeat_seconds
            yield from self._send_everywhere(self.encoder.heartbeat(self.committed, timestamp=last))

    def _send_everywhere(self, entry: bytes) -> Iterator[Message]:
        for partition in range(self.options.partitions):
            yield from self._send(partition, as_item(entry))

    def _add(self, partition: int, item: bytes) -> Iterator[Message]:
        pending = self.pending[partition]
        yield from self._overdue()
        if not pending.fits(item):
            yield from self._flush(partition)
        if not pending.items:
            self.waiting_since[partition] = self.now
        pending.add(item)
        if pending.is_full:
            yield from self._flush(partition)

    def _flush_all(self) -> Iterator[Message]:
        for partition in range(self.options.partitions):
            yield from self._flush(partition)

    def _flush(self, partition: int) -> Iterator[Message]:
        if self.pending[partition].items:
            yield from self._overdue()
            yield from self._send_pending(partition)

    def _overdue(self) -> Iterator[Message]:
        """The tick that fell due while earlier sets were on their way, if one did."""
        if self._next_tick * _SECOND + self._latency <= self.now:
            yield from self._tick()

    def _send_pending(self, partition: int) -> Iterator[Message]:
        self.waiting_since.pop(partition, None)
        if self.pending[partition].items:
            yield from self._send(partition, self.pending[partition].take())

    def _send(self, partition: int, entries: bytes) -> Iterator[Message]:
        """The messages of one entry set, in order and with nothing between them in their partition."""
        for value in envelopes(entries, limit=self.options.max_message_bytes):
            self.sent[partition] += 1
            sequence = self.sent[partition]
            headers = [("ps", str(sequence).encode("ascii"))]
            if self.options.shard_id is not None:
                headers.append(("ShardId", self.options.shard_id.encode()))
            offset = self.options.first_offset + sequence - 1
            yield Message(partition, offset, self.now // 1000, None, value, tuple(headers))
            self.now += len(value) * _SECOND // self.options.bytes_per_second
