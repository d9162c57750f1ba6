"""A wire format that nobody has: lines such as ``17 2026-01-05T00:00:01+00:00 put toys.things id=1 name=bolt``.

It is a package of its own, as another house would install one. Operations are ``put``, ``drop`` and ``sql``; a schema file says
which columns a table has: ``{"toys.things": {"id": "int key", "name": "text"}}``.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.formats import ChangeOrder, FormatSettings, FormatTraits
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.layouts import struct_type
from dts_assets.wire.format import (
    ENTRIES,
    FRAGMENTS,
    DecodedChanges,
    DecodedEntries,
    Rejected,
    TableChanges,
    TableShape,
)

_CHANGES = ("entry_index", "row_number", "op", "before", "after", "absent", "invalid")


@dataclass(frozen=True, slots=True)
class ToyLines:
    schema: bytes

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="toy", evidence=frozenset(), order=ChangeOrder.MESSAGE_ID, needs_schema=True
    )

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        if settings.schema is None:
            raise WireFormatError("toy-lines", "it needs a schema file")
        return cls(settings.schema)

    @property
    def entries_fingerprint(self) -> str:
        return f"toy-lines {hashlib.sha256(self.schema).hexdigest()}"

    @property
    def changes_fingerprint(self) -> str:
        return self.entries_fingerprint

    @property
    def decoder(self) -> str:
        return "toy_lines 1.0"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        whole = {"shard": "", "total": 1, "index": 0, "is_null": False}
        rows = [{**whole, "data": value} for value in messages["value"].to_pylist()]
        return pa.RecordBatch.from_pylist(rows, FRAGMENTS)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        rows: list[dict[str, Any]] = []
        rejected: list[Rejected] = []
        shapes: dict[TableShape, int] = {}
        for index, data in enumerate(sets.to_pylist()):
            for number, line in enumerate(data.splitlines()):
                try:
                    rows.append({"set_index": index, "entry_number": number, "payload": line, **self._entry(line)})
                except ValueError:
                    detail = "it is no line of a known table"
                    rejected.append(Rejected(index, number, Reason.UNDECODABLE_ENTRY, detail, line))
                else:
                    if rows[-1]["message_type"] == "DML":
                        shapes.setdefault(self._shape(f"{rows[-1]['database']}.{rows[-1]['table']}"), len(rows) - 1)
        return DecodedEntries(pa.RecordBatch.from_pylist(rows, ENTRIES), tuple(rejected), shapes, (), {})

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        found: dict[TableId, list[tuple[int, str, dict[str, str]]]] = {table: [] for table in tables}
        for index, row in enumerate(entries.select(["database", "table", "payload"]).to_pylist()):
            table = TableId(row["database"] or "", "", row["table"] or "")
            if table in found:
                _, _, op, _, *values = row["payload"].decode().split(" ")
                found[table].append((index, op, dict(value.split("=", 1) for value in values)))
        made = tuple(TableChanges(table, _batch(rows, tables[table])) for table, rows in found.items() if rows)
        return DecodedChanges(made, (), frozenset(), {})

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        return np.array([zlib.crc32(line.split(b" ", 2)[2]) for line in payloads.to_pylist()], np.int64)

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        return np.ones(len(payloads), np.bool_)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        return {"int": "bigint", "text": "string"}[original_type]

    def _entry(self, line: bytes) -> dict[str, Any]:
        number, at, op, table, *rest = line.decode().split(" ")
        database, _, name = table.partition(".")
        common = {"position": int(number), "event_time": datetime.fromisoformat(at), "source_type": "TOY"}
        if op == "sql":
            return common | {"message_type": "DDL", "database": table, "properties": [("sql", " ".join(rest))]}
        if op not in ("put", "drop") or table not in json.loads(self.schema):
            raise ValueError(op)
        return common | {"message_type": "DML", "database": database, "table": name, "rows": 1, "properties": []}

    def _shape(self, table: str) -> TableShape:
        columns: dict[str, str] = json.loads(self.schema)[table]
        shapes = (ColumnShape(name, text.partition(" ")[0], text.endswith(" key")) for name, text in columns.items())
        database, _, name = table.partition(".")
        return TableShape(TableId(database, "", name), tuple(shapes))


def _batch(rows: list[tuple[int, str, dict[str, str]]], columns: tuple[Column, ...]) -> pa.RecordBatch:
    struct = struct_type(columns)
    images = [
        {one.name: int(row[one.name]) if one.type == "bigint" else row[one.name] for one in columns if one.name in row}
        for _, _, row in rows
    ]
    dropped = [op == "drop" for _, op, _ in rows]
    nothing = [None] * len(rows)
    arrays = [
        pa.array([index for index, _, _ in rows], pa.int32()),
        pa.array(np.zeros(len(rows), np.int32)),
        pa.array(["delete" if one else "insert" for one in dropped]),
        pa.array([image if one else None for image, one in zip(images, dropped, strict=True)], struct),
        pa.array([None if one else image for image, one in zip(images, dropped, strict=True)], struct),
        pa.array([[] for _ in nothing], pa.list_(pa.string())),
        pa.array([[] for _ in nothing], pa.map_(pa.string(), pa.string())),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(_CHANGES))
