"""The peer of decoding: protobuf's parser and a Python loop over every value, as in the vendor's demos.

Written to be as quick as such a loop gets without leaving it: converters looked up once per column, one list per output column,
one ``pyarrow.array`` call per list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dts_assets.model.columns import Column, decimal_arguments
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.format import ENTRIES

_TYPES = {
    "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "int": lambda data: int(data.sv),
    "bigint": lambda data: int(data.sv),
    "float": lambda data: float(data.sv),
    "double": lambda data: float(data.sv),
    "decimal": lambda data: Decimal(data.sv),
    "string": lambda data: data.bv.decode(),
    "binary": lambda data: data.bv,
    "date": lambda data: date.fromisoformat(data.bv.decode()),
    "timestamp": lambda data: datetime.fromisoformat(data.bv.decode().replace(" +", "+")),
    "timestamp_ntz": lambda data: datetime.fromisoformat(data.bv.decode()),
}
_OPERATIONS = ("insert", "update", "delete")
_MESSAGE_TYPES = pb.MessageType.keys()
_SOURCE_TYPES = pb.SourceType.keys()


class TableLists:
    """One list per output column of a table."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.convert = [_CONVERT["decimal" if decimal_arguments(column.type) else column.type] for column in columns]
        self.entry_index: list[int] = []
        self.row_number: list[int] = []
        self.op: list[str] = []
        self.images: tuple[list[list[Any]], list[list[Any]]] = ([[] for _ in columns], [[] for _ in columns])
        self.missing: tuple[list[bool], list[bool]] = ([], [])
        self.absent: list[list[str]] = []

    def add(self, event: Any, entry_index: int) -> None:
        """Add the rows of one DML event; its columns are those of the table, in order."""
        operation = _OPERATIONS[event.dmlEventType]
        for row_number, row in enumerate(event.rows):
            self.entry_index.append(entry_index)
            self.row_number.append(row_number)
            self.op.append(operation)
            absent: list[str] = []
            for side, image in enumerate((row.oldColumns, row.newColumns)):
                self.missing[side].append(not image)
                lists = self.images[side]
                if not image:
                    for values in lists:
                        values.append(None)
                    continue
                for number, data in enumerate(image):
                    kind = data.dataType
                    if kind == pb.NIL:
                        lists[number].append(None)
                    elif kind == pb.NA:
                        lists[number].append(None)
                        absent.append(f"{('before', 'after')[side]}.{self.columns[number].name}")
                    else:
                        lists[number].append(self.convert[number](data))
            self.absent.append(absent)

    def batch(self) -> pa.RecordBatch:
        """Return the table's changes, in the schema of the real decoder (whose ``invalid`` is empty here)."""
        kinds = [
            pa.decimal128(*arguments) if (arguments := decimal_arguments(column.type)) else _TYPES[column.type]
            for column in self.columns
        ]
        images = []
        for lists, missing in zip(self.images, self.missing, strict=True):
            arrays = [pa.array(values, kind) for values, kind in zip(lists, kinds, strict=True)]
            fields = [pa.field(column.name, kind) for column, kind in zip(self.columns, kinds, strict=True)]
            images.append(pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(missing, pa.bool_())))
        return pa.RecordBatch.from_pydict(
            {
                "entry_index": pa.array(self.entry_index, pa.int32()),
                "row_number": pa.array(self.row_number, pa.int32()),
                "op": pa.array(self.op, pa.string()),
                "before": images[0],
                "after": images[1],
                "absent": pa.array(self.absent, pa.list_(pa.string())),
                "invalid": pa.array([[]] * len(self.op), pa.map_(pa.string(), pa.string())),
            }
        )


class TablesLoop:
    """Typed row changes of every table, one entry after the other."""

    def __init__(self, tables: Mapping[TableId, tuple[Column, ...]]) -> None:
        self._columns = tables
        self._lists: dict[tuple[str, str], TableLists] = {}

    def add(self, entry: Any, entry_index: int) -> None:
        """Add the rows of a DML entry."""
        name = (entry.header.schemaName, entry.header.tableName)
        lists = self._lists.get(name)
        if lists is None:
            lists = self._lists[name] = TableLists(self._columns[TableId(name[0], "", name[1])])
        lists.add(entry.event.dmlEvent, entry_index)

    def batches(self) -> dict[TableId, pa.RecordBatch]:
        """One batch per table that had a row."""
        return {TableId(database, "", table): lists.batch() for (database, table), lists in self._lists.items()}


def changes(payloads: Iterable[bytes], tables: Mapping[TableId, tuple[Column, ...]]) -> dict[TableId, pa.RecordBatch]:
    """Return the typed row changes in the bytes of some DML entries."""
    loop = TablesLoop(tables)
    for entry_index, payload in enumerate(payloads):
        loop.add(pb.Entry.FromString(payload), entry_index)
    return loop.batches()


def decode(
    sets: Iterable[bytes], tables: Mapping[TableId, tuple[Column, ...]]
) -> tuple[pa.RecordBatch, dict[TableId, pa.RecordBatch]]:
    """Return the table of entries (coordinates and own bytes) and the typed row changes of entry sets."""
    loop = TablesLoop(tables)
    rows: list[tuple[Any, ...]] = []
    for set_index, data in enumerate(sets):
        for entry_number, entry in enumerate(pb.Entries.FromString(data).items):
            rows.append(coordinates(entry, set_index, entry_number))
            if entry.header.messageType == pb.DML:
                loop.add(entry, len(rows) - 1)
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ENTRIES), loop.batches()


def coordinates(entry: Any, set_index: int, entry_number: int) -> tuple[Any, ...]:
    """Return the row of ``entries`` of a parsed entry."""
    header, event = entry.header, entry.event
    kind = header.messageType
    transaction = event.beginEvent.transactionId or event.commitEvent.transactionId
    properties = [("isLast", "true")] if header.isLast else []
    if header.properties or event.properties:
        properties += [(pair.key, pair.value) for pair in (*header.properties, *event.properties)]
    is_dml = kind == pb.DML
    return (
        set_index, entry_number, _MESSAGE_TYPES[kind], _SOURCE_TYPES[header.sourceType], header.timestamp * 1_000_000,
        header.gtid or None, transaction or None, event.beginEvent.threadId or None, header.serverId, header.seqId,
        header.fileName or None, header.position, header.schemaName if is_dml else None, None,
        header.tableName if is_dml else None, len(event.dmlEvent.rows) if is_dml else None, entry.SerializeToString(),
        properties,
    )  # fmt: skip
