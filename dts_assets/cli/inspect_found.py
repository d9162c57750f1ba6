"""The places where ``inspect`` looks for messages, entries and transactions: the lake or a capture.

It reads without Spark and writes nothing. A capture is decoded on the spot, so that a recording can be looked at before any of
its windows is materialized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.errors import NothingFoundError
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removed_rows import refuse_removed_entries, refuse_removed_messages
from dts_assets.model.columns import ColumnShape
from dts_assets.model.message_retention import ENTRIES as REMOVED_ENTRIES
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import partition_key
from dts_assets.model.tables import TableId
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.stages.isolation import decoded_apart
from dts_assets.store.columns import ENTRIES
from dts_assets.wire.format import ENTRIES as DECODED
from dts_assets.wire.format import MESSAGES, WireFormat

_NOT_SHOWN = ("epoch", "window_start", "shard", "sequence", "payload")

ENTRY_COLUMNS = tuple(name for name, _ in ENTRIES if name not in _NOT_SHOWN)
"""The columns of an entry that are shown; its bytes are read only where its rows are shown."""

_AROUND = 2000
"""Offsets before and after a message among which the other fragments of its entry set are looked for."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message as one row of MESSAGES, and the key of its window (None from a capture)."""

    batch: pa.RecordBatch
    window: str | None


@dataclass(frozen=True, slots=True)
class LakeStock:
    """The lake, with the rows that were materialized."""

    pipeline: Pipeline

    def message(self, kafka_partition: int, offset: int) -> FoundMessage:
        """Return the message at an offset.

        Raises:
            NothingFoundError: No message is there.
            RowsRemovedError: Retention has removed it.
        """
        lake = self.pipeline.lake
        marks = [row for row in self.pipeline.ledger.raw_windows() if row.kafka_partition == kafka_partition]
        mark = next((row for row in marks if row.offsets.start <= offset < row.offsets.end), None)
        if mark is None:
            raise NothingFoundError(*_missing(kafka_partition, offset, "raw_envelopes", [row.offsets for row in marks]))
        where = (
            f"kafka_partition = {kafka_partition} and window_start = '{mark.window.start.isoformat()}' and "
            f"offset = {offset}"
        )
        found = lake.scan(self.pipeline.path("raw_envelopes"), columns=MESSAGES.names, where=where)
        if found is None or not found.num_rows:
            refuse_removed_messages(self.pipeline, self.pipeline.unmakeable().removed, [mark.cell])
            raise NothingFoundError(
                partition_key(kafka_partition),
                f"message at offset {offset}",
                f"the offsets {mark.offsets} of window {mark.window} were read, and the topic had none there (transaction "
                f"markers and compaction use up offsets)",
            )
        return FoundMessage(_as_messages(found), mark.window.key)

    def entries_at(self, kafka_partition: int, offset: int, *, payload: bool = False) -> pa.Table:
        """Return the entries of the entry set of a message.

        Raises:
            NothingFoundError: The lake has no entries at all.
            RowsRemovedError: Retention has removed them.
        """
        columns = (*ENTRY_COLUMNS, "window_start", *(("payload",) if payload else ()))
        where = f"kafka_partition = {kafka_partition} and first_offset <= {offset} and last_offset >= {offset}"
        found = self.pipeline.lake.scan(self.pipeline.path("entries"), columns=columns, where=where)
        if found is None:
            raise NothingFoundError("The lake", "entries", "materialize entries, or look into a capture")
        if not found.num_rows:
            marks = (row for row in self.pipeline.ledger.windows() if row.kafka_partition == kafka_partition)
            cells = [row.cell for row in marks if row.offsets.start <= offset < row.offsets.end]
            refuse_removed_entries(self.pipeline, cells, consequence="they cannot be shown")
        return found.sort_by([("last_offset", "ascending"), ("entry_number", "ascending")])

    def transaction(self, gtid: str) -> pa.Table:
        """Return all copies of all entries with a GTID.

        Raises:
            NothingFoundError: No entry has the GTID.
        """
        found = self.pipeline.lake.scan(
            self.pipeline.path("entries"), columns=ENTRY_COLUMNS, where=f"gtid = {_literal(gtid)}"
        )
        if found is None or not found.num_rows:
            removed = any(row.layer == REMOVED_ENTRIES for row in self.pipeline.ledger.removed_rows())
            older = "; entries of older windows were removed by retention" if removed else ""
            raise NothingFoundError(
                "The lake", f"entry with the GTID {gtid}", f"check the GTID, or materialize its window{older}"
            )
        return found

    def shapes(self, entry: Mapping[str, object]) -> tuple[ColumnShape, ...]:
        """Return the columns that events of the entry's window described."""
        table = table_of(entry)
        columns: dict[str, ColumnShape] = {}
        for row in self.pipeline.ledger.table_shapes():
            if (row.window_start, row.table) == (entry["window_start"], table):
                columns |= {column.name: column for column in row.columns if column.name not in columns}
        return tuple(columns.values())


@dataclass(slots=True)
class CaptureStock:
    """A capture, decoded as the subscription says."""

    source: CaptureSource
    format: WireFormat
    _shapes: dict[TableId, tuple[ColumnShape, ...]] = field(default_factory=dict)

    def message(self, kafka_partition: int, offset: int) -> FoundMessage:
        """Return the message at an offset.

        Raises:
            NothingFoundError: No message is there.
        """
        for batch in self.source.read(kafka_partition, OffsetRange(offset, offset + 1)):
            return FoundMessage(_as_messages(pa.Table.from_batches([batch])), None)
        known = self.source.watermarks().get(kafka_partition)
        there = [] if known is None else [OffsetRange(known.low, known.high)]
        raise NothingFoundError(*_missing(kafka_partition, offset, "The capture", there))

    def entries_at(self, kafka_partition: int, offset: int, *, payload: bool = False) -> pa.Table:
        """Return the entries of the entry set of a message."""
        self.message(kafka_partition, offset)
        around = OffsetRange(max(0, offset - _AROUND), offset + _AROUND)
        whole = [one for one in self._sets(kafka_partition, around) if one[0] <= offset <= one[1]]
        columns = [*ENTRY_COLUMNS, *(["payload"] if payload else [])]
        return self._entries(kafka_partition, whole).select(columns)

    def transaction(self, gtid: str) -> pa.Table:
        """Return all copies of all entries with a GTID.

        Raises:
            NothingFoundError: No entry has the GTID.
        """
        found = []
        for partition, known in self.source.watermarks().items():
            entries = self._entries(partition, list(self._sets(partition, OffsetRange(known.low, known.high))))
            found.append(entries.select(ENTRY_COLUMNS).filter(pc.fill_null(pc.equal(entries["gtid"], gtid), False)))
        entries = pa.concat_tables(found)
        if not entries.num_rows:
            raise NothingFoundError(
                "The capture", f"entry with the GTID {gtid}", "check the GTID, or look into the lake"
            )
        return entries

    def shapes(self, entry: Mapping[str, object]) -> tuple[ColumnShape, ...]:
        """Return the columns that the decoded entries described for the entry's table."""
        return self._shapes.get(table_of(entry), ())

    def _sets(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[tuple[int, int, bytes]]:
        """Give the whole entry sets among some offsets: first and last offset, and bytes.

        Broken entry sets are left out.
        """
        open_sets: dict[str, tuple[int, list[bytes]]] = {}
        for batch in self.source.read(kafka_partition, offsets):
            fragments = self.format.fragments(_as_messages(pa.Table.from_batches([batch])))
            for offset, row in zip(batch["offset"].to_pylist(), fragments.to_pylist(), strict=True):
                if row["is_null"] or row["reason"] is not None:
                    continue
                first, parts = (offset, []) if row["index"] == 0 else open_sets.pop(row["shard"], (offset, []))
                if row["index"] != len(parts):
                    continue
                parts.append(row["data"])
                if len(parts) == row["total"]:
                    yield first, offset, b"".join(parts)
                else:
                    open_sets[row["shard"]] = (first, parts)

    def _entries(self, kafka_partition: int, sets: Sequence[tuple[int, int, bytes]]) -> pa.Table:
        """Return the entries of sets, without those of a set that cannot be decoded."""
        found, passed = [pa.Table.from_pylist([], _PLACED)], 0
        datas = pa.RecordBatch.from_pydict({"data": pa.array([data for _, _, data in sets], pa.binary())})
        for some, decoded in decoded_apart(lambda rows: self.format.entries(rows["data"]), datas):
            mine = sets[passed : passed + some.num_rows]
            passed += some.num_rows
            if isinstance(decoded, Exception):
                continue
            for shape in decoded.shapes:
                self._shapes[shape.table] = shape.columns
            index = decoded.batch["set_index"].to_pylist()
            columns = {name: decoded.batch[name] for name in decoded.batch.schema.names} | {
                "kafka_partition": pa.array([kafka_partition] * len(index), pa.int32()),
                "first_offset": pa.array([mine[one][0] for one in index], pa.int64()),
                "last_offset": pa.array([mine[one][1] for one in index], pa.int64()),
            }
            found.append(pa.table(columns, schema=_PLACED))
        return pa.concat_tables(found)


_PLACED = pa.schema(
    [
        *DECODED,
        ("kafka_partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)
"""Entries with the offsets of their sets."""

Stock: TypeAlias = LakeStock | CaptureStock
"""A place where messages and entries are. Each of its methods raises NothingFoundError if it finds nothing."""


def _missing(kafka_partition: int, offset: int, place: str, there: Iterable[OffsetRange]) -> tuple[str, str, str]:
    """Return the facts of an error: `("The capture", "offset 9 of p00", "there are 0 to 5")`."""
    joined: list[list[int]] = []
    for one in sorted((one.start, one.end) for one in there if len(one)):
        if joined and one[0] <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], one[1])
        else:
            joined.append(list(one))
    shown = ", ".join(f"{first} to {end - 1}" for first, end in joined)
    known = f"there are {shown}" if shown else "there are none of this Kafka partition"
    return place, f"offset {offset} of {partition_key(kafka_partition)}", known


def table_of(entry: Mapping[str, object]) -> TableId:
    """Return the table that an entry names."""
    return TableId(*(str(entry[part] or "") for part in ("database", "schema", "table")))


def _as_messages(table: pa.Table) -> pa.RecordBatch:
    columns = [table[name].combine_chunks().cast(MESSAGES.field(name).type) for name in MESSAGES.names]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def name_shown(entry: Mapping[str, object]) -> str:
    """Return the name that people see of an entry: ``shopdb.orders``, ``shopdb`` of a statement, nothing of a BEGIN."""
    if entry["table"] or entry["message_type"] == "DML":
        return str(table_of(entry))
    return ".".join(str(entry[part]) for part in ("database", "schema") if entry[part])
