"""Row changes of a PostgreSQL as the vendor's entries.

The types of values follow the vendor's table for MySQL as far as it goes: numbers are numbers in ``sv``, bytes are BYTES, and all
else is PostgreSQL's own text as STRING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.entry_encoder import PROTOCOL_VERSION, EntryEncoder, Routed
from dts_emulator.dts.postgresql_options import SEGMENT_BYTES, PostgresqlDtsOptions
from dts_emulator.postgresql.changes import Cell, RowChange, TableColumns, Transaction
from dts_emulator.source.events import Coordinates

Tables = Mapping[tuple[str, str], TableColumns]

_NUMBERS = {
    "smallint": pb.INT16, "integer": pb.INT32, "bigint": pb.INT64, "real": pb.FLOAT32, "double precision": pb.FLOAT64,
    "numeric": pb.DECIMAL,
}  # fmt: skip
_OPERATIONS = {"INSERT": pb.INSERT, "UPDATE": pb.UPDATE, "DELETE": pb.DELETE}
_NA = pb.Data(dataType=pb.NA)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an entry as the vendor shows it, and the time of its commit in seconds."""

    file_name: str
    position: int
    seconds: int


class PostgresqlEncoder(EntryEncoder):
    """Encodes the transactions that logical decoding tells, with its own numbers as transaction ids."""

    def __init__(self, options: PostgresqlDtsOptions) -> None:
        super().__init__(options)
        self._own = options

    def end_of(self, transaction: Transaction) -> Coordinates:
        """Return the place of a transaction's COMMIT."""
        at = self._place(transaction, transaction.end_lsn, len(transaction.changes) + 1)
        return Coordinates(at.file_name, at.position, at.position, at.seconds, 0, None)

    def changes(self, transaction: Transaction, tables: Tables) -> Iterator[Routed]:
        """Yield the entries of a transaction in order."""
        routes = [self._partition(change, tables[change.schema, change.table]) for change in transaction.changes]
        everyone = self.options.transaction_boundaries == "broadcast"
        touched = range(self.options.partitions) if everyone else sorted(set(routes)) or (0,)
        number = str(transaction.number)
        begin = pb.Event(beginEvent=pb.BeginEvent(transactionId=number))
        at = self._place(transaction, transaction.first_lsn, 0)
        yield from (Routed(one, entry) for entry in [self._entry(at, pb.BEGIN, begin)] for one in touched)
        for place, (change, partition) in enumerate(zip(transaction.changes, routes, strict=True), 1):
            event = pb.Event(dmlEvent=self._dml(change, tables[change.schema, change.table]))
            at = self._place(transaction, change.lsn, place)
            yield Routed(partition, self._entry(at, pb.DML, event, change))
        commit = pb.Event(commitEvent=pb.CommitEvent(transactionId=number))
        at = self._place(transaction, transaction.end_lsn, len(transaction.changes) + 1)
        yield from (Routed(one, entry) for entry in [self._entry(at, pb.COMMIT, commit)] for one in touched)

    def _place(self, transaction: Transaction, lsn: int, number: int) -> _Place:
        own, seconds = self._own, int(transaction.committed.timestamp())
        if own.files == "commit":
            return _Place(f"{transaction.end_lsn >> 32:X}/{transaction.end_lsn & 0xFFFFFFFF:X}", number, seconds)
        if own.positions == "commit":
            lsn = transaction.end_lsn
        segment = f"{own.timeline:08X}{lsn >> 32:08X}{(lsn & 0xFFFFFFFF) // SEGMENT_BYTES:08X}"
        name = "" if own.files == "none" else segment
        return _Place(name, lsn % SEGMENT_BYTES if own.files == "offset" else lsn, seconds)

    def _entry(
        self, at: _Place, message_type: pb.MessageType, event: pb.Event, change: RowChange | None = None
    ) -> bytes:
        self.seq_id += 1
        header = pb.Header(
            version=PROTOCOL_VERSION, sourceType=pb.PGSQL, messageType=message_type, timestamp=at.seconds,
            fileName=at.file_name, position=at.position, seqId=self.seq_id, isLast=True,
        )  # fmt: skip
        if change is not None:
            header.schemaName, header.tableName = change.schema, change.table
        return pb.Entry(header=header, event=event).SerializeToString()

    @property
    def _source_type(self) -> pb.SourceType:
        return pb.PGSQL

    def _partition(self, change: RowChange, columns: TableColumns) -> int:
        parts = [change.schema, change.table]
        if self.options.routing.by_key:
            images = (change.new, change.old) if self.options.routing.by_new_key else (change.old, change.new)
            told = {cell.name: cell for image in reversed(images) for cell in image or ()}
            parts += [told[name].text or "" for name in columns.key]
        return crc32("\0".join(parts).encode()) % self.options.partitions

    def _dml(self, change: RowChange, columns: TableColumns) -> pb.DMLEvent:
        told = change.new if change.new is not None else self._old_cells(change, columns)
        old = self._old(change, columns, told)
        row = pb.RowChange(oldColumns=old, newColumns=None if change.new is None else [self._data(one) for one in told])
        described = [
            pb.Column(name=one.name, originalType=self._type(one, columns), isKey=one.name in columns.key)
            for one in told
        ]
        return pb.DMLEvent(dmlEventType=_OPERATIONS[change.operation], columns=described, rows=[row])

    def _old_cells(self, change: RowChange, columns: TableColumns) -> tuple[Cell, ...]:
        """Return a deleted row with all columns of its table."""
        told = {cell.name: cell for cell in change.old or ()}
        cells = [told.pop(name, Cell(name, kind, None)) for name, kind in columns.columns]
        return (*cells, *told.values())

    def _old(self, change: RowChange, columns: TableColumns, told: tuple[Cell, ...]) -> list[pb.Data] | None:
        if change.operation == "INSERT":
            return None
        known = {cell.name: cell for cell in change.old or ()}
        if change.old is None:  # the key is as it was, and nothing else of the old row is logged
            if self._own.old_key == "none":
                return None
            known = {cell.name: cell for cell in change.new or () if cell.name in columns.identity}
        beside = pb.Data() if columns.is_whole or self._own.old_key == "nil" else _NA
        return [self._data(known[one.name]) if one.name in known else beside for one in told]

    def _type(self, cell: Cell, columns: TableColumns) -> str:
        if self._own.lengths and (cell.name, cell.type) in columns.columns:
            return columns.declared[columns.columns.index((cell.name, cell.type))]
        return cell.type

    def _data(self, cell: Cell) -> pb.Data:
        if cell.is_unchanged:
            return _NA
        if cell.text is None:
            return pb.Data()
        if cell.type in _NUMBERS:
            return pb.Data(dataType=_NUMBERS[cell.type], sv=cell.text)
        if cell.type == "bytea":
            return pb.Data(dataType=pb.BYTES, bv=bytes.fromhex(cell.text.removeprefix("\\x")))
        if cell.type in ("json", "jsonb") and self.options.json_as == "json":
            return pb.Data(dataType=pb.BYTES, bv=cell.text.encode())
        text = cell.text[0] if cell.type == "boolean" else cell.text
        return pb.Data(dataType=pb.STRING, charset=self.options.plain_charset, bv=text.encode())
