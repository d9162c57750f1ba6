"""A Canal instance: transactions in binlog order in, Kafka messages in sending order out.

There are no BEGIN and COMMIT, no checkpoints and no numbers per partition. Messages of a batch share its number, and a Canal that
is started again counts batches from one and sends once more what was not acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from dts_assets.model.gtids import GtidSet
from dts_emulator.canal.canal_options import CanalOptions
from dts_emulator.canal.message_encoder import CanalEncoder, Fields, encoded
from dts_emulator.messages.clocks import SECOND, Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.messages.routing import Routing, split_by_partition
from dts_emulator.source.events import Coordinates, Ddl, Rows, Transaction


def produce_canal(transactions: Iterable[Transaction], options: CanalOptions) -> Iterator[Message]:
    """Yield the messages of a Canal that reads these transactions."""
    task = CanalTask(options, SourceClock(options.bytes_per_second))
    for transaction in transactions:
        yield from task.send(transaction)


class CanalTask:
    """A Canal, which sends a message for every row event and Kafka partition, and one for every statement."""

    def __init__(self, options: CanalOptions, clock: Clock) -> None:
        self.options = options
        self.encoder = CanalEncoder(options.source_time_zone)
        self._clock = clock
        partitions = 1 if options.partition_policy == 1 else options.partitions
        # Canal hashes the row in data, which has the new key.
        self.routing = Routing(partitions, by_key=options.partition_policy == 2, by_new_key=True)
        self.sent = [0] * options.partitions
        """By partition, how many messages were sent."""
        self.synced = GtidSet()
        self.number = 0
        """Of the messages that were made, without those that were sent again."""
        self._batches = 0
        """The number of the last batch."""
        self._left = 0
        """Messages that the batch may still take."""
        self._recent: deque[tuple[int, Fields]] = deque(maxlen=options.repeated)

    @property
    def latency_ms(self) -> int:
        """The milliseconds from the commit of a transaction to its first message."""
        return self.options.latency_ms

    @property
    def due(self) -> None:
        """Nothing falls due: there are neither CHECKPOINTs nor HEARTBEATs."""
        return

    def resume(self, at: Coordinates, *, synced: GtidSet, number: int, sent: Sequence[int]) -> None:
        """Go on behind so many messages; batches are counted from one again."""
        self.number, self.sent = number, list(sent)

    def advance(self, instant: int) -> Iterator[Message]:
        """Yield nothing: time alone sends no message."""
        yield from ()

    def flush(self) -> Iterator[Message]:
        """Yield nothing: no message waits for others."""
        yield from ()

    def send(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction."""
        self._clock.reach(transaction.end.timestamp * SECOND + self.options.latency_ms * 1000)
        for event in transaction.events:
            seconds = event.at.timestamp
            if isinstance(event, Rows):
                for partition, rows in split_by_partition(event.table, event.rows, self.routing).items():
                    yield from self._made(partition, self.encoder.rows(event.table, rows, seconds=seconds))
            elif isinstance(event, Ddl):
                yield from self._made(0, self.encoder.statement(event, seconds=seconds))

    def _made(self, partition: int, fields: Fields) -> Iterator[Message]:
        self.number += 1
        yield self._message(partition, fields)
        self._recent.append((partition, fields))
        if self.options.pause_every is not None and self.number % self.options.pause_every == 0:
            self._batches = self._left = 0
            for again in tuple(self._recent):
                yield self._message(*again)

    def _message(self, partition: int, fields: Fields) -> Message:
        if not self._left:
            self._batches, self._left = self._batches + 1, self.options.batch
        self._left -= 1
        milliseconds = self._clock.now // 1000
        value = encoded(fields, number=self._batches, milliseconds=milliseconds)
        offset = self.options.first_offset + self.sent[partition]
        self.sent[partition] += 1
        self._clock.sent(len(value))
        return Message(partition, offset, milliseconds, None, value, ())
