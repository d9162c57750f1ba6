"""Rows that were copied from a table beside the stream, as typed columns.

An entry is a part of a chunk. Its payload is an Arrow stream with a column of texts (or bytes) for each column of the source,
whose field carries the declared type and whether it is in the primary key. The texts are those that MySQL and MariaDB give for
values: ``CAST(x AS CHAR)``, instants as wall clocks in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.formats import ChangeOrder, FormatSettings, FormatTraits
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.casts import parse
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.columns.layouts import struct_type
from dts_assets.wire.columns.table_changes import ValueNotes, beside_images, table_changes, table_codes
from dts_assets.wire.columns.table_rows import carried_by, json_by, keys_of, list_of
from dts_assets.wire.format import DecodedChanges, TableChanges, ToldKeys

ORIGINAL_TYPE, IS_KEY = b"original-type", b"is-key"
"""The metadata of a column in a payload: the declared type, and ``1`` for a key column."""

_CLOCK = re.compile(r"\s*(datetime|date)\b", re.I)
_REMOVED = b"removed"
"""The metadata of a payload whose rows the source does not have."""


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """The format of copied rows. ``zone`` is that of wall clocks which are declared to be instants."""

    zone: str
    operation: str = "read"

    traits: ClassVar[FormatTraits] = FormatTraits("copy", frozenset(), ChangeOrder.BINLOG_POSITION, rows_apart=True)

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format of copied rows of a subscription."""
        return cls(settings.source_time_zone)

    @property
    def decoder(self) -> str:
        """The parser with its version: Arrow's casts."""
        return f"pyarrow {pa.__version__}"

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the rows of wanted tables as changes with a new image.

        Rows that were removed have an old image instead.
        """
        wanted, codes = table_codes(entries, tables)
        names = list(tables)
        found = tuple(
            self._changes_of(names[code], tables[names[code]], index, _rows_of(entries["payload"][index]))
            for index, code in zip(wanted.tolist(), codes.tolist(), strict=True)
        )
        return DecodedChanges(found, (), frozenset(), {})

    def _changes_of(
        self, table: TableId, columns: tuple[Column, ...], index: int, rows: pa.RecordBatch
    ) -> TableChanges:
        removed = _REMOVED in (rows.schema.metadata or {})
        carried = list_of(tuple(map(_shape_of, rows.schema)))
        assert carried is not None, "a copied table has columns, and each has a name"
        notes, count, children, own = ValueNotes(columns), rows.num_rows, [], {}
        kinds = struct_type(columns)
        for number, column in enumerate(columns):
            place = carried.place(column)
            if place is None:
                children.append(pa.nulls(count, kinds.field(number).type))
                continue
            at, shape = place
            if removed and not shape.is_key:  # the source does not have the row, so it tells its key alone
                notes.absent(0, np.arange(count), np.full(count, number, np.int32))
            kind = column.own_type(shape.original_type)
            typed, bad = self._typed(rows.column(at), kind, shape.original_type)
            if bad is not None and bad.any():
                unfit = np.flatnonzero(bad)
                values = rows.column(at).cast(pa.binary()).take(pa.array(unfit))
                notes.invalid(int(not removed), unfit, np.full(len(unfit), number, np.int32), values)
            if kind != column.type:
                own[f"{'before' if removed else 'after'}.{column.name}"] = (typed,)
                typed = held_as(typed, kinds.field(number).type)
            children.append(typed)
        image = pa.StructArray.from_arrays(children, fields=list(kinds))
        beside = beside_images(np.full(count, index), np.arange(count), pa.array([self.operation] * count, pa.string()))
        keys, lists, json = keys_of([carried], columns), carried_by([carried]), json_by([carried], columns)
        images = (image, pa.nulls(count, kinds)) if removed else (pa.nulls(count, kinds), image)
        return table_changes(table, images, notes, beside, ToldKeys(keys), ToldKeys(lists), ToldKeys(json), own)

    def _typed(self, values: pa.Array, kind: str, original_type: str) -> tuple[pa.Array, Bools | None]:
        """Return texts of a declared type as values of a lake type, and which texts are none."""
        if kind in ("string", "binary"):
            return values.cast(pa.string() if kind == "string" else pa.binary()), None
        zone = self.zone if _CLOCK.match(original_type) else "+00:00"
        return parse(values.cast(pa.binary()), kind, zone=zone if kind == "timestamp" else None)


def payload_of(rows: pa.RecordBatch, shapes: Iterable[ColumnShape], *, removed: bool = False) -> bytes:
    """Return the payload of some rows, whose columns are those of ``shapes`` in their order.

    ``removed`` says that the source does not have these rows; only their keys are told.
    """
    fields = [
        pa.field(shape.name, column.type, metadata={ORIGINAL_TYPE: shape.original_type, IS_KEY: str(int(shape.is_key))})
        for shape, column in zip(shapes, rows.columns, strict=True)
    ]
    sink = pa.BufferOutputStream()
    schema = pa.schema(fields, metadata={_REMOVED: b"1"} if removed else None)
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=schema))
    return bytes(sink.getvalue())


def _rows_of(payload: pa.BinaryScalar) -> pa.RecordBatch:
    with pa.ipc.open_stream(payload.as_buffer()) as stream:
        return stream.read_next_batch()


def _shape_of(field: pa.Field) -> ColumnShape:
    return ColumnShape(field.name, field.metadata[ORIGINAL_TYPE].decode(), field.metadata[IS_KEY] == b"1")
