"""The peer that decoding is compared to: protobuf's own parser and a Python loop over every value, as the vendor's demos do it.

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


class _TableLists:
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
        """The rows of one DML event; its columns are those of the table, in order."""
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
        """The table's changes, in the schema of the real decoder (whose ``invalid`` is empty here)."""
        kinds = [
            pa.decimal128(*arguments) if (arguments := decimal_arguments(column.type)) else _TYPES[column.type]
            for column in self.columns
        ]
        images = []
        for lists, missing in zip(self.images, self.missing, strict=True):
            arrays = [pa.array(values, kind) for values, kind in zip(lists, kinds, strict=True)]
            fields = [pa.field(column.name, kind) for column, kind in zip(self.columns, kinds, strict=True)]
            images.append(pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(missing)))
        return pa.RecordBatch.from_pydict(
            {
                "entry_index": pa.array(self.entry_index, pa.int32()),
                "row_number": pa.array(self.row_number, pa.int32()),
                "op": pa.array(self.op),
                "before": images[0],
                "after": images[1],
                "absent": pa.array(self.absent, pa.list_(pa.string())),
                "invalid": pa.array([[]] * len(self.op), pa.map_(pa.string(), pa.string())),
            }
        )


def changes(sets: Iterable[bytes], tables: Mapping[TableId, tuple[Column, ...]]) -> dict[TableId, pa.RecordBatch]:
    """The typed row changes of every table in some entry sets; nothing else of the entries is kept."""
    lists: dict[tuple[str, str], _TableLists] = {}
    entry_index = 0
    for data in sets:
        for entry in pb.Entries.FromString(data).items:
            header = entry.header
            if header.messageType == pb.DML:
                name = (header.schemaName, header.tableName)
                found = lists.get(name)
                if found is None:
                    found = lists[name] = _TableLists(tables[TableId(name[0], "", name[1])])
                found.add(entry.event.dmlEvent, entry_index)
            entry_index += 1
    return {TableId(database, "", table): found.batch() for (database, table), found in lists.items()}


def entries(sets: Iterable[bytes]) -> pa.RecordBatch:
    """The coordinates of every entry and its own bytes: what a loop would land before it looks at rows."""
    rows: list[tuple[Any, ...]] = []
    for set_index, data in enumerate(sets):
        for entry_number, entry in enumerate(pb.Entries.FromString(data).items):
            header = entry.header
            rows.append(
                (
                    set_index, entry_number, pb.MessageType.Name(header.messageType), header.timestamp, header.gtid,
                    header.serverId, header.seqId, header.fileName, header.position, header.schemaName, header.tableName,
                    len(entry.event.dmlEvent.rows), entry.SerializeToString(),
                )
            )  # fmt: skip
    names = ("set_index", "entry_number", "message_type", "event_time", "gtid", "server_id", "seq_id", "file_name", "position",
             "database", "table", "rows", "payload")  # fmt: skip
    return pa.RecordBatch.from_pydict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
