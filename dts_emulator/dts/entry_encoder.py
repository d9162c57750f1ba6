"""Source events as the vendor's entries, each with the Kafka partition it goes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.data_values import Encoder, encoder, original_type
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.messages.routing import split_by_partition
from dts_emulator.source.events import (
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Rollback,
    RowChange,
    Rows,
    SourceEvent,
    SourceTable,
    Transaction,
)

PROTOCOL_VERSION = 1
"""Of envelopes and of entry headers."""


@dataclass(frozen=True, slots=True)
class Routed:
    """An entry's bytes and where they go."""

    partition: int
    entry: bytes


@dataclass(slots=True)
class EntryEncoder:
    """Encodes events in binlog order. The state is the task's running ``seqId`` and the encoders of tables met so far."""

    options: DtsOptions
    seq_id: int = 0
    tables: dict[SourceTable, tuple[tuple[pb.Column, ...], tuple[Encoder, ...]]] = field(default_factory=dict)

    def transaction(self, transaction: Transaction) -> Iterator[Routed]:
        """Yield the entries of a transaction in order.

        Pieces of one rows event and copies of a broadcast share one ``seqId``.
        """
        pieces = [
            split_by_partition(event.table, event.rows, self.options.routing) if isinstance(event, Rows) else {}
            for event in transaction.events
        ]
        touched = {partition for piece in pieces for partition in piece}
        transaction_id = transaction_id_of(transaction)
        for event, piece in zip(transaction.events, pieces, strict=True):
            self.seq_id += 1
            if isinstance(event, Rows):
                for partition, rows in piece.items():
                    yield Routed(partition, self.dml(event, rows).SerializeToString())
                continue
            encoded = self.control(event, transaction_id).SerializeToString()
            yield from (Routed(partition, encoded) for partition in self.targets(event, touched))

    def targets(self, event: SourceEvent, touched: Collection[int]) -> tuple[int, ...]:
        """Return the partitions of an event without rows; ``touched`` are those of the rows of its transaction."""
        everyone = tuple(range(self.options.partitions))
        if isinstance(event, Ddl):
            return everyone if self.options.ddl_routing == "broadcast" else (0,)
        return everyone if self.options.transaction_boundaries == "broadcast" else tuple(sorted(touched)) or (0,)

    def checkpoint(self, at: Coordinates, *, timestamp: int, synced: str) -> bytes:
        """Return a CHECKPOINT: everything up to the end of ``at`` has been sent."""
        self.seq_id += 1
        entry = pb.Entry(
            header=pb.Header(
                version=PROTOCOL_VERSION, sourceType=self._source_type, messageType=pb.CHECKPOINT, timestamp=timestamp,
                serverId=at.server_id, fileName=at.file_name, position=at.end, seqId=self.seq_id, isLast=True,
            ),
            event=pb.Event(
                checkpointEvent=pb.CheckpointEvent(syncedGtid=synced, fileName=at.file_name, position=at.end)
            ),
        )  # fmt: skip
        return entry.SerializeToString()

    def heartbeat(self, at: Coordinates, *, timestamp: int) -> bytes:
        """Return a HEARTBEAT with the source's clock, at the position reached."""
        self.seq_id += 1
        entry = pb.Entry(
            header=pb.Header(
                version=PROTOCOL_VERSION, sourceType=self._source_type, messageType=pb.HEARTBEAT, timestamp=timestamp,
                serverId=at.server_id, fileName=at.file_name, position=at.end, seqId=self.seq_id, isLast=True,
            ),
            event=pb.Event(heartbeatEvent=pb.HeartbeatEvent(epoch=timestamp)),
        )  # fmt: skip
        return entry.SerializeToString()

    @property
    def _source_type(self) -> pb.SourceType:
        return pb.MYSQL if self.options.source_type == "MYSQL" else pb.MARIADB

    def _header(self, at: Coordinates, message_type: pb.MessageType) -> pb.Header:
        return pb.Header(
            version=PROTOCOL_VERSION, sourceType=self._source_type, messageType=message_type, timestamp=at.timestamp,
            serverId=at.server_id, fileName=at.file_name,
            position=at.end if self.options.header_position == "end" else at.start,
            gtid=str(at.gtid) if at.gtid else "", seqId=self.seq_id, isLast=True,
        )  # fmt: skip

    def control(self, event: SourceEvent, transaction_id: str) -> pb.Entry:
        """Return the entry of an event without rows.

        Raises:
            TypeError: The event has rows.
        """
        if isinstance(event, Begin):
            named = transaction_id if self.options.transaction_id_on_begin else ""
            body = pb.Event(beginEvent=pb.BeginEvent(transactionId=named))
            return pb.Entry(header=self._header(event.at, pb.BEGIN), event=body)
        if isinstance(event, Commit):
            body = pb.Event(commitEvent=pb.CommitEvent(transactionId=event.transaction_id))
            return pb.Entry(header=self._header(event.at, pb.COMMIT), event=body)
        if isinstance(event, Rollback):
            body = pb.Event(rollbackEvent=pb.RollbackEvent())
            return pb.Entry(header=self._header(event.at, pb.ROLLBACK), event=body)
        if isinstance(event, Ddl):
            declared = self.options.ddl_execution_seconds
            seconds = event.execution_seconds if declared is None else declared
            body = pb.Event(ddlEvent=pb.DDLEvent(schemaName=event.database, sql=event.sql, executionTime=seconds))
            return pb.Entry(header=self._header(event.at, pb.DDL), event=body)
        raise TypeError(f"{type(event).__name__} is no control event")

    def dml(self, event: Rows, rows: tuple[RowChange, ...]) -> pb.Entry:
        """Return the entry of some rows of an event."""
        known = self.tables.get(event.table)
        if known is None:
            known = self.tables[event.table] = _table_encoders(event.table, self.options)
        columns, encoders = known
        header = self._header(event.at, pb.DML)
        header.schemaName, header.tableName = event.table.database, event.table.table
        changes = [
            pb.RowChange(
                oldColumns=None
                if row.before is None
                else [to(value) for to, value in zip(encoders, row.before, strict=True)],
                newColumns=None
                if row.after is None
                else [to(value) for to, value in zip(encoders, row.after, strict=True)],
            )
            for row in rows
        ]
        dml = pb.DMLEvent(dmlEventType=_operation(rows[0]), columns=columns, rows=changes)
        return pb.Entry(header=header, event=pb.Event(dmlEvent=dml))


def transaction_id_of(transaction: Transaction) -> str:
    """Return the id that a transaction's COMMIT has, empty without one."""
    return next((event.transaction_id for event in transaction.events if isinstance(event, Commit)), "")


def _operation(row: RowChange) -> pb.DMLType:
    if row.before is None:
        return pb.INSERT
    return pb.DELETE if row.after is None else pb.UPDATE


def _table_encoders(table: SourceTable, options: DtsOptions) -> tuple[tuple[pb.Column, ...], tuple[Encoder, ...]]:
    columns = tuple(
        pb.Column(name=column.name, originalType=original_type(column, options), isKey=column.is_key)
        for column in table.columns
    )
    return columns, tuple(encoder(column, options) for column in table.columns)
