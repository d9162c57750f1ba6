"""A DRS task: transactions in binlog order in, Kafka messages in sending order out.

There are no BEGIN and COMMIT, no checkpoints and no numbers per partition: a message has an ``id`` that grows by one over
the whole task, and a task that is resumed sends some messages again with the ids that they had.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from dts_assets.model.gtids import GtidSet
from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.drs.full_load import FullLoad
from dts_emulator.drs.message_encoder import DrsEncoder, Fields, encoded
from dts_emulator.drs.topics import topic_of
from dts_emulator.messages.clocks import SECOND, Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.messages.routing import Routing, split_by_partition
from dts_emulator.source.events import Coordinates, Ddl, RowChange, Rows, SourceTable, Transaction

Place = tuple[str | None, int]
"""A topic, None for the only one, and a partition of it."""


def produce_drs(transactions: Iterable[Transaction], options: DrsOptions) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions``, in sending order.

    Raises:
        UnsupportedSource: The full load cannot be computed, see :class:`FullLoad`.
    """
    yield from tell(DrsTask(options, SourceClock(options.bytes_per_second)), transactions)


def tell(task: DrsTask, transactions: Iterable[Transaction]) -> Iterator[Message]:
    """Yield the messages of a task that is given ``transactions``, the full load first where there is one.

    Raises:
        UnsupportedSource: The full load cannot be computed, see :class:`FullLoad`.
    """
    options = task.options
    load = None if options.full_load_until is None else FullLoad()
    for transaction in transactions:
        if load is not None and transaction.end.timestamp <= (options.full_load_until or 0):
            load.take(transaction)
            continue
        if load is not None:
            yield from task.load(load)
            load = None
        yield from task.send(transaction)
    if load is not None:
        yield from task.load(load)


class DrsTask:
    """A task of the vendor, which sends a message for every change."""

    def __init__(self, options: DrsOptions, clock: Clock) -> None:
        self.options = options
        self.encoder = DrsEncoder(options)
        self._clock = clock
        partitions = 1 if options.partition_policy == 1 else options.partitions
        self.routing = Routing(partitions, by_key=options.partition_policy == 2)
        self.sent = [0] * options.partitions
        """By partition, how many messages were sent, to all topics together."""
        self._sent_to: Counter[tuple[str | None, int]] = Counter()
        self.synced = GtidSet()
        self.number = 0
        """Of the last message of the task."""
        self.recent: deque[tuple[Place, int, Fields]] = deque(maxlen=options.repeated)

    @property
    def latency_ms(self) -> int:
        """The milliseconds from the commit of a transaction to its first message."""
        return self.options.latency_ms

    @property
    def due(self) -> None:
        """Nothing falls due: there are neither CHECKPOINTs nor HEARTBEATs."""
        return

    def resume(self, at: Coordinates, *, synced: GtidSet, number: int, sent: Sequence[int]) -> None:
        """Go on with the ids behind ``number``; where the source stood is in no message."""
        self.number, self.sent = number, list(sent)
        self._sent_to = Counter({(None, partition): count for partition, count in enumerate(sent)})

    def advance(self, instant: int) -> Iterator[Message]:
        """Yield nothing: time alone sends no message."""
        yield from ()

    def flush(self) -> Iterator[Message]:
        """Yield nothing: no message waits for others."""
        yield from ()

    def load(self, load: FullLoad) -> Iterator[Message]:
        """Yield the messages of a full load."""
        self._wait_for(load.seconds)
        for statement in load.statements:
            fields = self.encoder.statement(statement.database, statement.sql, seconds=load.seconds, load=True)
            yield from self._numbered((topic_of(self.options, statement.database), 0), fields)
        for table, rows in load.tables():
            yield from self._rows(table, rows, seconds=load.seconds, load=True)

    def send(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction."""
        self._wait_for(transaction.end.timestamp)
        for event in transaction.events:
            seconds = event.at.timestamp
            if isinstance(event, Rows):
                yield from self._rows(event.table, event.rows, seconds=seconds)
            elif isinstance(event, Ddl):
                # With a topic for all tables a statement's own key is not documented.
                fields = self.encoder.statement(event.database, event.sql, seconds=seconds)
                yield from self._numbered((topic_of(self.options, event.database), 0), fields)

    def _wait_for(self, seconds: int) -> None:
        self._clock.reach(seconds * SECOND + self.options.latency_ms * 1000)

    def _rows(
        self, table: SourceTable, rows: tuple[RowChange, ...], *, seconds: int, load: bool = False
    ) -> Iterator[Message]:
        """Messages of rows in their order: neighbours that go to the same partition may share one."""
        topic = topic_of(self.options, table.database, table.table)
        for partition, piece in self._pieces(table, rows):
            for fields in self.encoder.rows(table, piece, seconds=seconds, load=load):
                yield from self._numbered((topic, partition), fields)

    def _pieces(self, table: SourceTable, rows: tuple[RowChange, ...]) -> Iterator[tuple[int, list[RowChange]]]:
        piece: list[RowChange] = []
        last = 0
        for row in rows:
            (partition,) = split_by_partition(table, (row,), self.routing)
            if piece and partition != last:
                yield last, piece
                piece = []
            piece.append(row)
            last = partition
        if piece:
            yield last, piece

    def _numbered(self, place: Place, fields: Fields) -> Iterator[Message]:
        self.number += 1
        yield self._message(place, self.number, fields)
        self.recent.append((place, self.number, fields))
        if self.options.pause_every is not None and self.number % self.options.pause_every == 0:
            for again in tuple(self.recent):
                yield self._message(*again)

    def _message(self, place: Place, number: int, fields: Fields) -> Message:
        topic, partition = place
        milliseconds = self._clock.now // 1000
        value = self._encoded(fields, number=number, milliseconds=milliseconds)
        offset = self.options.first_offset + self._sent_to[place]
        self._sent_to[place] += 1
        self.sent[partition] += 1
        self._clock.sent(len(value))
        return Message(partition, offset, milliseconds, None, value, (), topic)

    def _encoded(self, fields: Fields, *, number: int, milliseconds: int) -> bytes:
        return encoded(fields, number=number, milliseconds=milliseconds)
