"""The producer: transactions in binlog order in, Kafka messages in sending order out.

In a recording its clock is the source's: it reads a transaction when the source has committed it, adds the latency, and needs
time for every byte it sends. So message times never go back, fragments of a large set lie apart, and a CHECKPOINT can fall
between two entry sets of one long transaction, with the end of the transaction before it as its position. A producer that
follows a live server is the same with the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dts_assets.model.gtids import GtidSet
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.entry_encoder import EntryEncoder
from dts_emulator.dts.envelope_cutter import PendingSet, as_item, envelopes
from dts_emulator.messages.clocks import SECOND, Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Coordinates, Transaction


def produce(transactions: Iterable[Transaction], options: DtsOptions, *, until: int | None = None) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions``, in sending order.

    ``until`` is the time in seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on after the last transaction.
    """
    yield from tell(DtsTask(options, SourceClock(options.bytes_per_second)), transactions, until=until)


def tell(task: DtsTask, transactions: Iterable[Transaction], *, until: int | None) -> Iterator[Message]:
    """Yield the messages of a new task, see :func:`produce`."""
    latency = task.latency_ms * 1000
    for transaction in transactions:
        yield from task.advance(transaction.end.timestamp * SECOND + latency)
        yield from task.send(transaction)
    yield from task.flush()
    if until is not None and task.committed is not None:
        yield from task.advance(until * SECOND + latency)


class DtsTask:
    """A task of the vendor, which sends changes and, as time passes, CHECKPOINTs and HEARTBEATs."""

    def __init__(self, options: DtsOptions, clock: Clock) -> None:
        self.options = options
        self.encoder = self._new_encoder()
        self.synced = GtidSet()
        self.committed: Coordinates | None = None
        self.sent = [0] * options.partitions
        """By partition, the number of the last message."""
        self._clock = clock
        self._pending = [PendingSet(options.max_message_bytes) for _ in range(options.partitions)]
        self._waiting_since: dict[int, int] = {}
        self._next_checkpoint = 0
        self._next_heartbeat = 0

    @property
    def number(self) -> int:
        """The last ``seqId``."""
        return self.encoder.seq_id

    @property
    def latency_ms(self) -> int:
        """The milliseconds from the commit of a transaction to its first message."""
        return self.options.latency_ms

    def resume(self, at: Coordinates, *, synced: GtidSet, number: int, sent: Sequence[int]) -> None:
        """Go on from where a task stood: everything up to the end of ``at`` is sent."""
        self.committed, self.synced, self.encoder.seq_id, self.sent = at, synced, number, list(sent)
        self._schedule()

    @property
    def due(self) -> int:
        """When :meth:`advance` will next have something to send, in the clock's microseconds."""
        tick = self._next_tick * SECOND + self._latency
        oldest = min(self._waiting_since.values(), default=None)
        return tick if oldest is None else min(tick, oldest + self.options.linger_ms * 1000)

    def send(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction, as far as they do not wait for more to merge with."""
        for routed in self.encoder.transaction(transaction):
            yield from self._add(routed.partition, self._item(routed.entry))
        self._commit(transaction)
        if not self.options.linger_ms:
            yield from self.flush()

    def advance(self, instant: int) -> Iterator[Message]:
        """Let the time pass until ``instant``, with everything that falls due on the way."""
        if not self._next_checkpoint:
            self._clock.reach(instant)
            self._schedule()
        while (due := self.due) <= instant:
            self._clock.reach(due)
            if due == self._next_tick * SECOND + self._latency:
                yield from self._tick()
            else:
                yield from self.flush()
        self._clock.reach(instant)

    def flush(self) -> Iterator[Message]:
        """Everything that waits for more to merge with."""
        for partition in range(self.options.partitions):
            yield from self._flush(partition)

    def _commit(self, transaction: Transaction) -> None:
        self.committed = transaction.end
        if transaction.end.gtid is not None:
            self.synced |= transaction.end.gtid.as_set()

    def _new_encoder(self) -> EntryEncoder:
        return EntryEncoder(self.options)

    def _item(self, entry: bytes) -> bytes:
        """Return an entry as a part of what is sent."""
        return as_item(entry)

    def _values(self, entries: bytes) -> Sequence[bytes]:
        """Return the values of the messages that are sent for some entries."""
        return envelopes(entries, limit=self.options.max_message_bytes)

    @property
    def _latency(self) -> int:
        return self.options.latency_ms * 1000

    def _schedule(self) -> None:
        """Put the next ticks at the first whole multiples after now."""
        source_now = (self._clock.now - self._latency) // SECOND
        checkpoint, heartbeat = self.options.checkpoint_seconds, self.options.heartbeat_seconds
        self._next_checkpoint = (source_now // checkpoint + 1) * checkpoint
        self._next_heartbeat = (source_now // heartbeat + 1) * heartbeat if heartbeat else 0

    @property
    def _next_tick(self) -> int:
        return min(self._next_checkpoint, self._next_heartbeat or self._next_checkpoint)

    def _tick(self) -> Iterator[Message]:
        """CHECKPOINT and HEARTBEAT into every partition, behind what waits there. Ticks missed while sending are one."""
        source_now = (self._clock.now - self._latency) // SECOND
        checkpoint_due = self._next_checkpoint <= source_now
        heartbeat_due = bool(self._next_heartbeat) and self._next_heartbeat <= source_now
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
            yield from self._send(partition, self._item(entry))

    def _add(self, partition: int, item: bytes) -> Iterator[Message]:
        pending = self._pending[partition]
        yield from self._overdue()
        if not pending.fits(item):
            yield from self._flush(partition)
        if not pending.items:
            self._waiting_since[partition] = self._clock.now
        pending.add(item)
        if pending.is_full:
            yield from self._flush(partition)

    def _flush(self, partition: int) -> Iterator[Message]:
        if self._pending[partition].items:
            yield from self._overdue()
            yield from self._send_pending(partition)

    def _overdue(self) -> Iterator[Message]:
        """Return the tick that fell due while earlier sets were on their way, if one did."""
        if self._next_tick * SECOND + self._latency <= self._clock.now:
            yield from self._tick()

    def _send_pending(self, partition: int) -> Iterator[Message]:
        self._waiting_since.pop(partition, None)
        if self._pending[partition].items:
            yield from self._send(partition, self._pending[partition].take())

    def _send(self, partition: int, entries: bytes) -> Iterator[Message]:
        """Yield the messages of one entry set, in order and with nothing between them in their partition."""
        for value in self._values(entries):
            self.sent[partition] += 1
            sequence = self.sent[partition]
            headers = [("ps", str(sequence).encode("ascii"))]
            if self.options.shard_id is not None:
                headers.append(("ShardId", self.options.shard_id.encode()))
            offset = self.options.first_offset + sequence - 1
            yield Message(partition, offset, self._clock.now // 1000, None, value, tuple(headers))
            self._clock.sent(len(value))
