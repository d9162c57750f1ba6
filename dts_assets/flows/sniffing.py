"""The look into an unknown source: its format, its Kafka partitions, and the tables in a sample.

Nothing is stored, nobody's offsets are moved, and no value of a row leaves this module: only names, types and counts do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from dts_assets.flows.first_times import first_times
from dts_assets.model.collections import lake_column
from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.model.windows import Window
from dts_assets.settings.formats import traits_of
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.sources.layouts import located
from dts_assets.sources.samples import both_ends, read_sample
from dts_assets.sources.source import Source
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.isolation import decoded_apart
from dts_assets.wire.format import TableShape, WireFormat
from dts_assets.wire.formats import wire_format
from dts_assets.wire.recognition.recogniser import Recognition, recognise

RECOGNISED = 64
"""The most messages of a Kafka partition by which the format is recognised.

As many of them are its first as its last.
"""

_EARLIEST, _SKEW = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=5)
_OF_A_CUT_SAMPLE = frozenset({Reason.MISSING_HEAD.value, Reason.MISSING_FRAGMENT.value})
_NOWHERE = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class SniffedPartition:
    """A Kafka partition: its number, its place, its extent, and how many messages were looked at."""

    number: int
    topic: str
    partition: int
    mark: Watermark
    looked_at: int


@dataclass(slots=True)
class SniffedTable:
    """A table in the sample: its columns in the source's order, and its rows by operation."""

    table: TableId
    columns: dict[str, Column] = field(default_factory=dict)
    source_types: dict[str, str] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    kafka_partitions: set[int] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """The number of row changes that were looked at."""
        return self.operations.total()


@dataclass(frozen=True, slots=True)
class Sniffed:
    """All that a sample of a source told.

    ``format`` is the name of the format that tables were read with; None where none could be. ``statements`` and
    ``rejected`` count DDL statements and what could not be used, by reason; ``first`` and ``last`` are the times between which
    the messages of the source are dated, None in an empty source.
    """

    topics: tuple[tuple[str, int], ...]
    partitions: tuple[SniffedPartition, ...]
    recognition: Recognition
    format: str | None
    tables: tuple[SniffedTable, ...]
    statements: int
    rejected: Mapping[str, int]
    first: datetime | None
    last: datetime | None

    @property
    def looked_at(self) -> int:
        """The number of messages that were looked at."""
        return sum(one.looked_at for one in self.partitions)


def sniff(
    source: Source,
    topics: tuple[tuple[str, int], ...],
    settings: FormatSettings,
    *,
    chosen: str | None = None,
    messages: int = 2000,
    seconds: float = 30.0,
) -> Sniffed:
    """Look into a source of some topics, at so many messages of each Kafka partition at most.

    ``chosen`` is a format that takes the place of the recognised one. SourceErrors go through.

    Raises:
        WireFormatError: The chosen format cannot be made.
    """
    marks = dict(sorted(source.watermarks().items()))
    pieces = _pieces(source, marks, messages, seconds)
    counts = Counter({number: sum(map(len, some)) for (number, _), some in pieces.items()})
    recognition = recognise(_few(pieces), settings)
    name = chosen or next((one for one in recognition.formats if _can_be_made(one, settings)), None)
    found = _Found()
    if name is not None:
        wire = wire_format(name, settings)
        for (number, offsets), batches in pieces.items():
            found.read(wire, number, offsets, batches)
    partitions = tuple(
        SniffedPartition(number, *located(topics, number), mark, counts[number]) for number, mark in marks.items()
    )
    # A message that is dated in the future is not believed to be the first, as in the windows of a run.
    times = first_times(source, marks, since=_EARLIEST, skew=_SKEW).values()
    latest = [mark.latest for mark in marks.values() if mark.latest is not None]
    now = source.now()
    return Sniffed(
        topics, partitions, recognition, name, tuple(found.tables[table] for table in sorted(found.tables)),
        found.statements, found.rejected, min(times, default=None),
        min(max(latest), now) if latest and now is not None else None,
    )  # fmt: skip


def _pieces(
    source: Source, marks: Mapping[int, Watermark], messages: int, seconds: float
) -> dict[tuple[int, OffsetRange], list[pa.RecordBatch]]:
    """Return the messages of both ends of every Kafka partition, by Kafka partition and range.

    All first messages come before all last ones, so that a sample that took too long has some of each Kafka partition.
    """
    ranges = {number: both_ends(mark, messages) for number, mark in marks.items()}
    found: dict[tuple[int, OffsetRange], list[pa.RecordBatch]] = {}
    for at in range(2):
        wanted = [(number, some[at]) for number, some in ranges.items() if at < len(some)]
        for number, batch in read_sample(source, wanted, seconds=seconds / 2):
            (piece,) = (offsets for known, offsets in wanted if known == number)
            found.setdefault((number, piece), []).append(batch)
    return found


def _few(pieces: Mapping[tuple[int, OffsetRange], Sequence[pa.RecordBatch]]) -> pa.RecordBatch:
    """Return the messages by which the format is recognised: some of both ends of each Kafka partition."""
    few: list[pa.RecordBatch] = []
    for batches in pieces.values():
        few += (batches[0].slice(0, RECOGNISED // 2), batches[-1].slice(max(0, len(batches[-1]) - RECOGNISED // 2)))
    table = pa.Table.from_batches(few, MESSAGE_SCHEMA).combine_chunks()
    return table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], MESSAGE_SCHEMA)


def _can_be_made(name: str, settings: FormatSettings) -> bool:
    return settings.schema is not None or not traits_of(name).needs_schema


@dataclass(slots=True)
class _Found:
    """The tables of pieces that were read, and what else was in them."""

    tables: dict[TableId, SniffedTable] = field(default_factory=dict)
    statements: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unsigned: set[TaughtType] = field(default_factory=set)

    def read(self, wire: WireFormat, number: int, offsets: OffsetRange, batches: Sequence[pa.RecordBatch]) -> None:
        """Read the messages of a range as the ingest would; sets that the range cuts are passed over."""
        nothing: Iterable[pa.RecordBatch] = ()
        reading = CellReading(
            Cell(number, _NOWHERE), offsets, 0, wire, lambda _: nothing, reaches_start=False, nothing_follows=False,
            is_open=True,
        )  # fmt: skip
        kept = _Kept()
        decoder = CellDecoder(reading, kept)
        decoder.read(batches)
        self.rejected.update(reason for reason in kept.reasons if reason not in _OF_A_CUT_SAMPLE)
        self.statements += decoder.facts.ddl_statements
        shapes = list(decoder.facts.shapes)
        for shape in shapes:
            self._add_columns(wire, shape)
        for batch in kept.entries_of_rows:
            self._count(wire, number, batch, shapes)

    def _add_columns(self, wire: WireFormat, shape: TableShape) -> None:
        """Note the columns of a shape; a column that is known keeps its place."""
        table = self.tables.setdefault(shape.table, SniffedTable(shape.table))
        for one in shape.columns:
            is_unsigned = TaughtType(shape.table, one.name, one.original_type) in self.unsigned
            kind = wire.column_type(one.original_type, unsigned=is_unsigned, table=shape.table)
            table.columns[one.name] = lake_column(one, kind)
            table.source_types[one.name] = one.original_type

    def _count(self, wire: WireFormat, number: int, entries: pa.RecordBatch, shapes: Sequence[TableShape]) -> None:
        """Count the row changes of entries, and widen columns that hold unsigned values."""
        columns = {one.table: tuple(one.columns.values()) for one in self.tables.values()}
        for _, decoded in decoded_apart(lambda some: wire.changes(some, columns), entries):
            if isinstance(decoded, Exception):
                self.rejected[Reason.UNEXPECTED.value] += 1
                continue
            self.rejected.update(one.reason.value for one in decoded.rejected)
            for changes in decoded.tables:
                table = self.tables[changes.table]
                operations = changes.batch["op"].to_pylist()
                table.operations.update(operations)
                if operations:
                    table.kafka_partitions.add(number)
            self.unsigned |= decoded.unsigned
            for shape in shapes if decoded.unsigned else ():
                self._add_columns(wire, shape)


@dataclass(slots=True)
class _Kept:
    """The rows of a cell that are looked at further."""

    entries_of_rows: list[pa.RecordBatch] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def entries(self, rows: pa.RecordBatch) -> None:
        named = rows.select(["payload", "database", "schema", "table"])
        self.entries_of_rows.append(
            named.filter(pa.array([kind == "DML" for kind in rows["message_type"].to_pylist()]))
        )

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.reasons += rows["reason"].to_pylist()
