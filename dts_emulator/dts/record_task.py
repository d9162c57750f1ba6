"""The task whose messages are records: as in Protobuf, with a message for each row change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import DtsTask
from dts_emulator.dts.entry_encoder import EntryEncoder, Routed, transaction_id_of
from dts_emulator.dts.record_fields import place_of
from dts_emulator.messages.clocks import Clock
from dts_emulator.messages.message import Message
from dts_emulator.messages.routing import partition_of_row
from dts_emulator.source.events import Coordinates, Rows, Transaction


class RecordTask(DtsTask):
    """A task of the vendor, whose messages are records."""

    def __init__(self, records: RecordEncoder, options: DtsOptions, clock: Clock) -> None:
        self._records = records
        super().__init__(options, clock)

    def _new_encoder(self) -> EntryEncoder:
        return self._records

    def _item(self, entry: bytes) -> bytes:
        return entry

    def _values(self, entries: bytes) -> Sequence[bytes]:
        return (entries,)

    def send(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction: records never wait for one another."""
        for partitions, record in self._records.records(transaction):
            # Before the record gets its id, and not between its copies, so that ids grow in every partition.
            yield from self._overdue()
            value = self._records.numbered(record)
            for partition in partitions:
                yield from self._send(partition, value)
        self._commit(transaction)


@dataclass(slots=True)
class RecordEncoder(EntryEncoder, ABC):
    """Encodes events as records. ``seq_id`` is the last record's id; copies of a broadcast share it."""

    clock: Clock | None = None

    def transaction(self, transaction: Transaction) -> Iterator[Routed]:
        """Yield the records of a transaction in order, each copy of a broadcast by itself."""
        for partitions, record in self.records(transaction):
            value = self.numbered(record)
            yield from (Routed(partition, value) for partition in partitions)

    def records(self, transaction: Transaction) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Yield the records of a transaction in order with the partitions of each; they have no ids yet.

        Rows of one event come in its order.
        """
        begin = transaction.events[0].at
        start = {"safePosition": place_of(begin.file_name, begin.start)}
        routing, transaction_id = self.options.routing, transaction_id_of(transaction)
        places = [
            [partition_of_row(event.table, row, routing) for row in event.rows] if isinstance(event, Rows) else []
            for event in transaction.events
        ]
        touched = {partition for some in places for partition in some}
        for event, partitions in zip(transaction.events, places, strict=True):
            if isinstance(event, Rows):
                found = self.records_of(self.dml(event, event.rows))
                yield from (((place,), one | start) for place, one in zip(partitions, found, strict=True))
                continue
            (record,) = self.records_of(self.control(event, transaction_id))
            yield self.targets(event, touched), record | start

    def numbered(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record, which gets the next id and the time now."""
        self.seq_id += 1
        now = 0 if self.clock is None else self.clock.now // 1000
        return self.encoded({**record, "id": self.seq_id, "readerTimestamp": now})

    def checkpoint(self, at: Coordinates, *, timestamp: int, synced: str) -> bytes:
        """Return a CHECKPOINT: everything up to the end of ``at`` has been sent."""
        return self._only(super(RecordEncoder, self).checkpoint(at, timestamp=timestamp, synced=synced))

    def heartbeat(self, at: Coordinates, *, timestamp: int) -> bytes:
        """Return a HEARTBEAT with the source's clock, at the position reached."""
        return self._only(super(RecordEncoder, self).heartbeat(at, timestamp=timestamp))

    def _only(self, entry: bytes) -> bytes:
        self.seq_id -= 1  # the entry has taken the number that its record gets
        (record,) = self.records_of(pb.Entry.FromString(entry))
        return self.numbered(record | {"safePosition": record["position"]})  # between two transactions

    @abstractmethod
    def records_of(self, entry: pb.Entry) -> Iterator[dict[str, Any]]:
        """Yield the records of an entry, without ``id``, ``safePosition`` and ``readerTimestamp``."""

    @abstractmethod
    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record."""
