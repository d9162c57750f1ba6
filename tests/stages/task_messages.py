"""Messages of a DRS task, cut into windows and taken through decoding, comparison and identity as the flows do it, in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Comparison, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.message_lives import follow_ids
from dts_assets.planning.parts_elsewhere import PartsElsewhere
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.changelog_decoder import ChangelogDecoder
from dts_assets.stages.copies_elsewhere import CellEntries, CopiesElsewhere, copies_elsewhere
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.message_contents import CONTENT_COLUMNS, compare
from dts_assets.stages.redelivered_entries import COPY_COLUMNS, copies_in_cell, keys_of
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.format import WireFormat
from tests.ledger_rows import ingest_row
from tests.wire.made import messages

START = datetime(2026, 1, 5, tzinfo=UTC)
WIRE = DrsJsonC()
TABLES = {
    TableId("shop", "", name): (Column("id", "bigint", is_key=name != "bag"), Column("note", "string", is_key=False))
    for name in ("orders", "bag")
}


@dataclass(frozen=True)
class Sent:
    """One message: its id, what it says, its ``es`` in seconds, and when it was sent (which decides its window)."""

    number: int
    said: str
    es: int
    tick: int
    partition: int = 0
    kind: str = "INSERT"
    table: str = "orders"
    key: int | None = None

    def body(self) -> bytes:
        types = {"id": "int", "note": "varchar"}
        row = {"id": str(self.number if self.key is None else self.key), "note": self.said}
        rows = self.kind not in ("DDL", "INIT_DDL")
        message = {
            "mysqlType": types if rows else None, "id": self.number, "es": self.es * 1000, "ts": self.tick * 1000 + 7,
            "database": "shop", "table": self.table if rows else "", "type": self.kind, "isDdl": not rows,
            "sql": "" if rows else self.said, "data": [row] if rows else None,
            "old": [row] if self.kind == "UPDATE" else None, "pkNames": ["id"] if rows and self.table != "bag" else None,
        }  # fmt: skip
        return json.dumps(message).encode()


@dataclass
class _Kept:
    rows: list[pa.RecordBatch] = field(default_factory=list)

    def entries(self, rows: pa.RecordBatch) -> None:
        self.rows.append(rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(rows.to_pylist())


@dataclass
class _Changes:
    found: list[tuple[TableId, dict[str, Any]]] = field(default_factory=list)

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        self.found += [(table, row) for row in rows.to_pylist()]

    def rejected(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(rows.to_pylist())

    def statements(self, rows: pa.RecordBatch) -> None:
        self.ddl = getattr(self, "ddl", 0) + rows.num_rows


@dataclass
class Change:
    """A row of a changelog: its place in the order of the table, what happened, and where it came from."""

    at: tuple[int, int]
    op: str
    key: int | None
    note: str | None
    partition: int
    offset: int
    table: str


class Topic:
    """A topic whose windows begin at some ticks. ``chunk`` messages are decoded at a time."""

    def __init__(
        self, sent: Iterable[Sent], borders: Sequence[int] = (), *, chunk: int = 1000, epoch_from: int = 1 << 40
    ):
        self.cells: dict[Cell, list[pa.RecordBatch]] = {}
        self.rows: dict[Cell, IngestWindow] = {}
        self.comparisons: dict[str, Comparison] = {}
        by_cell: dict[Cell, list[Sent]] = {}
        self.partitions = sorted({one.partition for one in sent})
        for one in sent:
            by_cell.setdefault(Cell(one.partition, window(one.tick, borders)), []).append(one)
        offsets: dict[tuple[int, int], int] = {}
        for cell in sorted(by_cell, key=lambda cell: (cell.window.start, cell.kafka_partition)):
            epoch = int(by_cell[cell][0].tick >= epoch_from)
            first = offsets.setdefault((cell.kafka_partition, epoch), 0)
            self._ingest(cell, by_cell[cell], first, chunk, epoch)
            offsets[cell.kafka_partition, epoch] = first + len(by_cell[cell])

    def _ingest(self, cell: Cell, sent: Sequence[Sent], first: int, chunk: int, epoch: int) -> None:
        kept, offsets = _Kept(), OffsetRange(first, first + len(sent))
        values = [one.body() for one in sent]
        resume = None
        for start in range(0, len(values), chunk):
            end = min(len(values), start + chunk)
            some = OffsetRange(first + start, first + end)
            reading = CellReading(
                cell, some, epoch, WIRE, before=lambda _: iter(()), reaches_start=True, nothing_follows=False,
                is_open=True, resume=resume,
            )  # fmt: skip
            decoder = CellDecoder(reading, kept)
            batch = messages(*values[start:end])
            place = batch.schema.get_field_index("offset")
            numbers = pa.array(range(some.start, some.end), batch.schema.field(place).type)
            decoder.read([batch.set_column(place, "offset", numbers)])
            resume = decoder.resume()
            assert resume is not None
        self.cells[cell] = kept.rows
        row = ingest_row(cell, offsets, epoch=epoch, runs=decoder.runs.runs(), statements=decoder.runs.statements())
        object.__setattr__(row, "seen_tables", tuple(decoder.tables.seen))
        self.rows[cell] = row

    def decide(self, stored: Iterable[Cell] | None = None) -> TopicHistory:
        """Compare what some stored windows ask for, and return the history that they tell."""
        rows = [self.rows[cell] for cell in (self.rows if stored is None else stored)]
        for partition in self.partitions:
            mine = sorted(
                (row for row in rows if row.kafka_partition == partition), key=lambda row: (row.epoch, row.window)
            )
            elsewhere = PartsElsewhere(rows)
            while (fall := follow_ids(partition, mine, self.comparisons, elsewhere=elsewhere).undecided) is not None:
                answer = compare(fall, lambda cell: (one.select(CONTENT_COLUMNS) for one in self.cells[cell]), WIRE)
                self.comparisons[answer.inputs] = answer
        return TopicHistory.of(rows, TABLES, order=ChangeOrder.MESSAGE_ID, comparisons=self.comparisons.values())

    def in_any_order(self, random: Random) -> TopicHistory:
        """Store the windows one by one in any order, deciding each time what can be decided."""
        cells = list(self.rows)
        random.shuffle(cells)
        for count in range(1, len(cells)):
            self.decide(cells[:count])
        return self.decide()

    def changes(self, history: TopicHistory | None = None) -> list[Change]:
        """All changelog rows in the order of a table."""
        history = history or self.decide()
        assert not history.undecided
        sink, elsewhere = _Changes(), found_elsewhere(history, self.cells, WIRE)
        for cell, batches in self.cells.items():
            redelivered = {}
            key = (cell.kafka_partition, cell.window.start)
            if cell in elsewhere:
                redelivered = {key: elsewhere[cell].keys}
            if (suspicion := history.suspicions.get(cell)) is not None:
                found = copies_in_cell(
                    (history.stretches(cell), (one.select(COPY_COLUMNS) for one in batches)),
                    [(history.stretches(one), [b.select(COPY_COLUMNS) for b in self.cells[one]]) for one in suspicion.earlier],
                    history.rules(cell), WIRE,
                )  # fmt: skip
                redelivered = {key: np.union1d(redelivered.get(key, keys_of(found)), keys_of(found))}
            wanted = EntriesWanted(
                {key: history.rules(cell)}, redelivered, {key: history.statements.get(cell, frozenset())},
                {key: history.loads.get(cell, ())},
            )  # fmt: skip
            decoder = ChangelogDecoder(WIRE, TABLES, wanted, sink)
            decoder.read_statements(batches)
            decoder.read(batches)
        found = [_change(table, row) for table, row in sink.found]
        return sorted(found, key=lambda one: (one.at, one.partition, one.offset))


def found_elsewhere(
    history: TopicHistory, cells: Mapping[Cell, Sequence[pa.RecordBatch]], wire: WireFormat
) -> dict[Cell, CopiesElsewhere]:
    """The copies of messages in other Kafka partitions, as the flow finds them window by window."""
    found: dict[Cell, CopiesElsewhere] = {}
    for start in {cell.window.start for cell in history.rows}:
        own = [cell for cell in history.rows if cell.window.start == start]
        compared = sorted(
            [*history.shared.get(start, ()), *own],
            key=lambda cell: (history.rows[cell].epoch, cell.window.start, cell.kafka_partition),
        )
        given = [
            CellEntries(cell.kafka_partition, cell in own, history.rules(cell), partial(_columns, cells[cell]))
            for cell in compared
        ]
        found |= {compared[place]: copies for place, copies in copies_elsewhere(given, wire).items()}
    return found


def _columns(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (one.select(names) for one in batches)


def window(tick: int, borders: Sequence[int]) -> Window:
    start = START + timedelta(hours=sum(border <= tick for border in borders))
    return Window(start, start + timedelta(hours=1))


def _change(table: TableId, row: dict[str, Any]) -> Change:
    position, image = row["source_position"], row["after"] or row["before"] or {}
    assert isinstance(position, dict)
    assert isinstance(image, dict)
    return Change(
        (position["lineage"], position["position"]), str(row["op"]), image.get("id"), image.get("note"),
        row["kafka_partition"], row["kafka_offset"], table.table,
    )  # fmt: skip


def named(history: TopicHistory) -> list[ProblemCode]:
    """The problems that are named beside the windows' own."""
    return sorted(one.code for one in history.lineages.doubts)


def snapshot(changes: Iterable[Change], table: str = "orders") -> dict[int | None, str | None]:
    """The rows of a table with a key, from its changes."""
    rows: dict[int | None, str | None] = {}
    changes = [one for one in changes if one.table == table]
    emptied = max((one.at for one in changes if one.op == "truncate"), default=(-1, -1))
    for one in changes:
        if one.op != "truncate" and one.at > emptied:
            if one.op == "delete":
                rows.pop(one.key, None)
            else:
                rows[one.key] = one.note
    return rows


def bag(changes: Iterable[Change], table: str = "bag") -> list[tuple[int | None, str | None]]:
    """The rows that a table without a key has, from its changes."""
    changes = [one for one in changes if one.table == table]
    emptied = max((one.at for one in changes if one.op == "truncate"), default=(-1, -1))
    left = [one for one in changes if one.op != "truncate" and one.at > emptied]
    rows = [(one.key, one.note) for one in left if one.op != "delete"]
    for one in left:
        if one.op == "delete":
            rows.remove((one.key, one.note))
    return sorted(rows, key=str)
