"""Rows of the ledger as typed values: what was read, what closed it, how complete it is, up to where all tables agree.

Instants are UTC. Lists are never null in the lake, because pyiceberg reads a null list of structs as an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

from dts_assets.model.columns import ColumnShape
from dts_assets.model.delivery import (
    NOTHING_DELIVERED,
    CellDelivery,
    Hole,
    SeqIds,
    ShardSequence,
    ShardTransactions,
    Transaction,
)
from dts_assets.model.lineages import Lineage
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode, Reason
from dts_assets.model.refreshes import Refresh
from dts_assets.model.runs import CheckpointMark, Run, ServerRange, StatementMark
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.store.columns import COUNTS


@dataclass(frozen=True, slots=True)
class RawWindow:
    """The mark of raw of a Kafka partition and window; ``closed_by`` is ``message``, ``grace``, ``end`` or ``open``.

    ``refreshes`` are the readings that it was put together from, if it was read while it was open.
    """

    kafka_partition: int
    window: Window
    epoch: int
    offsets: OffsetRange
    closed_by: str
    messages: int
    bytes: int
    first_time: datetime | None
    last_time: datetime | None
    problems: tuple[Problem, ...]
    generation: str
    code_version: str
    refreshes: tuple[Refresh, ...] = ()

    @property
    def cell(self) -> Cell:
        """What the row stands for."""
        return Cell(self.kafka_partition, self.window)


@dataclass(frozen=True, slots=True)
class Counts:
    """The terms of the equations that hold for every Kafka partition and window.

    messages = whole + fragments + null_messages + quarantined_messages;
    carried_in + fragments = joined + superseded + waiting + quarantined_fragments + carried_out;
    entries = data + control + quarantined_entries.
    """

    messages: int = 0
    whole: int = 0
    fragments: int = 0
    null_messages: int = 0
    quarantined_messages: int = 0
    carried_in: int = 0
    joined: int = 0
    superseded: int = 0
    waiting: int = 0
    quarantined_fragments: int = 0
    carried_out: int = 0
    entries: int = 0
    data: int = 0
    control: int = 0
    quarantined_entries: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    @property
    def quarantined(self) -> int:
        """Messages, fragments and entries that could not be used."""
        return self.quarantined_messages + self.quarantined_fragments + self.quarantined_entries

    @property
    def balanced(self) -> bool:
        """Whether the three equations hold."""
        return (
            self.messages == self.whole + self.fragments + self.null_messages + self.quarantined_messages
            and self.carried_in + self.fragments
            == self.joined + self.superseded + self.waiting + self.quarantined_fragments + self.carried_out
            and self.entries == self.data + self.control + self.quarantined_entries
        )


@dataclass(frozen=True, slots=True)
class ServerPositions:
    """The least and the greatest position of one server in a window."""

    server_id: int
    first: SourcePosition
    last: SourcePosition


@dataclass(frozen=True, slots=True)
class IngestWindow:
    """A row of ``windows``: the mark of the ingest of a Kafka partition and window.

    ``refreshes`` are the readings that it was put together from, if it was read while it was open; ``resume`` is what the next
    one goes on with, None if it has to begin anew, and once the window is closed. ``emptying`` counts the statements that take
    away all rows of a table; None where they were not counted.
    """

    kafka_partition: int
    window: Window
    epoch: int
    offsets: OffsetRange
    counts: Counts
    checkpoint: SourcePosition | None
    checkpoint_gtid_set: str | None
    positions: tuple[ServerPositions, ...]
    closed_by: str
    completeness: Completeness
    problems: tuple[Problem, ...]
    code_version: str
    generation: str
    inputs: tuple[str, ...]
    runs: tuple[Run, ...] = ()
    checkpoints: tuple[CheckpointMark, ...] = ()
    statements: tuple[StatementMark, ...] = ()
    delivery: CellDelivery = NOTHING_DELIVERED
    refreshes: tuple[Refresh, ...] = ()
    resume: bytes | None = None
    emptying: int | None = None

    @property
    def cell(self) -> Cell:
        """What the row stands for."""
        return Cell(self.kafka_partition, self.window)


@dataclass(frozen=True, slots=True)
class WindowTable:
    """What a window's run of the tables made of one Kafka partition's entries of one table. ``run`` names the run that counted
    last."""

    kafka_partition: int
    window_start: datetime
    table: TableId
    changes: int
    kept: int
    redelivered: int
    quarantined: int
    row_hash: int
    absent_rows: int
    invalid_values: int
    first_position: SourcePosition | None
    last_position: SourcePosition | None
    truncations: int = 0
    run: str = ""

    @property
    def balanced(self) -> bool:
        """Whether changes = kept + redelivered + quarantined."""
        return self.changes == self.kept + self.redelivered + self.quarantined


@dataclass(frozen=True, slots=True)
class Cut:
    """A row of ``cuts``: the mark of the tables run of a window. ``consistency`` is ``cut`` or ``window``.

    Of a window that was made while it was open, ``ends`` are the offsets up to which its entries are in the changelogs, by Kafka
    partition, and ``made_by`` names the runs that have a part in them. As long as ``chain`` is the same, each of these runs has
    only added rows, none of them at a position that snapshots stood behind already. ``open_in`` are the Kafka partitions in which
    it had not closed: more of it may come.
    """

    window: Window
    cut: SourcePosition | None
    gtid_set: str | None
    consistency: str
    completeness: Completeness
    problems: tuple[Problem, ...]
    generation: str
    inputs: tuple[str, ...]
    code_version: str
    ends: tuple[int, ...] = ()
    made_by: tuple[str, ...] = ()
    chain: str = ""
    open_in: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableShapeRow:
    """The columns that events of a window described for a table, and where the first such event stood."""

    kafka_partition: int
    window_start: datetime
    table: TableId
    columns: tuple[ColumnShape, ...]
    first_position: SourcePosition | None
    code_version: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """Something that could not be used, with its bytes; ``stage`` is ``entries`` or ``tables``."""

    kafka_partition: int
    window_start: datetime
    stage: str
    first_offset: int | None
    last_offset: int | None
    reason: Reason
    detail: str
    payload: bytes | None = None


LedgerRow: TypeAlias = RawWindow | IngestWindow | WindowTable | Cut | TableShapeRow | Lineage | QuarantineRow
Kind = TypeVar("Kind", bound=LedgerRow)


def to_row(value: LedgerRow) -> dict[str, Any]:
    """A value as a lake row; a window, an offset range, a table, the counts and the delivery take several columns."""
    row: dict[str, Any] = {}
    for one in fields(value):
        held = getattr(value, one.name)
        match held:
            case Window():
                row |= {"window_start": held.start, "window_end": held.end}
            case OffsetRange():
                row |= {"start_offset": held.start, "end_offset": held.end}
            case TableId():
                row |= _plain(held)
            case Counts() | CellDelivery():
                row |= _plain(held)
            case _:
                row[one.name] = _plain(held)
    return row


def _plain(value: Any) -> Any:
    """A value as Arrow takes it: structs as dicts, enumerations as their text."""
    match value:
        case (
            SourcePosition()
            | Problem()
            | ServerPositions()
            | ColumnShape()
            | TableId()
            | Counts()
            | Run()
            | ServerRange()
            | CheckpointMark()
            | StatementMark()
            | CellDelivery()
            | Hole()
            | ShardSequence()
            | ShardTransactions()
            | Transaction()
            | SeqIds()
            | Refresh()
        ):
            return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        case Completeness() | Reason() | ProblemCode():
            return value.value
        case tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def from_row(kind: type[Kind], row: Mapping[str, Any]) -> Kind:
    """The value that a lake row holds. Raises KeyError or ValueError for a row of another version."""
    return kind(*(read(row) if read is not None else _instant(row[name]) for name, read in _PLANS[kind]))


def _instant(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _position(value: Mapping[str, int] | None) -> SourcePosition | None:
    return None if value is None else SourcePosition(value["lineage"], value["file"], value["position"])


def _problems(row: Mapping[str, Any]) -> tuple[Problem, ...]:
    return tuple(
        Problem(ProblemCode(one["code"]), one["first_offset"], one["last_offset"], one["detail"])
        for one in row["problems"] or ()
    )


def _positions(row: Mapping[str, Any]) -> tuple[ServerPositions, ...]:
    return tuple(
        ServerPositions(one["server_id"], SourcePosition(**one["first"]), SourcePosition(**one["last"]))
        for one in row["positions"] or ()
    )


def _runs(row: Mapping[str, Any]) -> tuple[Run, ...]:
    return tuple(
        Run(
            **one
            | {
                "first": SourcePosition(**one["first"]),
                "last": SourcePosition(**one["last"]),
                "first_time": _instant(one["first_time"]),
                "last_time": _instant(one["last_time"]),
                "servers": tuple(ServerRange(**server) for server in one["servers"] or ()),
            }
        )
        for one in row["runs"] or ()
    )


def _checkpoints(row: Mapping[str, Any]) -> tuple[CheckpointMark, ...]:
    return tuple(
        CheckpointMark(**one | {"position": SourcePosition(**one["position"])}) for one in row["checkpoints"] or ()
    )


def _statements(row: Mapping[str, Any]) -> tuple[StatementMark, ...]:
    return tuple(
        StatementMark(**one | {"position": SourcePosition(**one["position"]), "time": _instant(one["time"])})
        for one in row["statements"] or ()
    )


def _holes(value: Sequence[Mapping[str, int]] | None) -> tuple[Hole, ...]:
    return tuple(Hole(**one) for one in value or ())


def _transaction(value: Mapping[str, Any]) -> Transaction:
    return Transaction(**{**value, "position": SourcePosition(**value["position"])})


def _delivery(row: Mapping[str, Any]) -> CellDelivery:
    return CellDelivery(
        row["first_message"],
        row["last_message"],
        row["numbered"],
        row["unnumbered"],
        row["skipped_offsets"],
        _holes(row["offset_holes"]),
        tuple(ShardSequence(**one | {"named": _holes(one["named"])}) for one in row["sequences"] or ()),
        tuple(
            ShardTransactions(
                **one
                | {
                    "first": None if one["first"] is None else _transaction(one["first"]),
                    "open": tuple(map(_transaction, one["open"] or ())),
                    "last_position": _position(one["last_position"]),
                }
            )
            for one in row["transactions"] or ()
        ),
        row["more_shards"],
        None if row["seq_ids"] is None else SeqIds(**row["seq_ids"]),
    )


_READERS: dict[str, Any] = {
    "window": lambda row: Window(_instant(row["window_start"]), _instant(row["window_end"])),
    "offsets": lambda row: OffsetRange(row["start_offset"], row["end_offset"]),
    "counts": lambda row: Counts(**{name: row[name] for name in COUNTS}),
    "table": lambda row: TableId(row["database"], row["schema"], row["table"]),
    "columns": lambda row: tuple(ColumnShape(**one) for one in row["columns"] or ()),
    "checkpoint": lambda row: _position(row["checkpoint"]),
    "cut": lambda row: _position(row["cut"]),
    "first_position": lambda row: _position(row["first_position"]),
    "last_position": lambda row: _position(row["last_position"]),
    "positions": _positions,
    "runs": _runs,
    "checkpoints": _checkpoints,
    "statements": _statements,
    "delivery": _delivery,
    "problems": _problems,
    "completeness": lambda row: Completeness(row["completeness"]),
    "reason": lambda row: Reason(row["reason"]),
    "inputs": lambda row: tuple(row["inputs"] or ()),
    "refreshes": lambda row: tuple(Refresh(**one) for one in row["refreshes"] or ()),
    "ends": lambda row: tuple(row["ends"] or ()),
    "made_by": lambda row: tuple(row["made_by"] or ()),
    "run": lambda row: row["run"] or "",
    "chain": lambda row: row["chain"] or "",
    "open_in": lambda row: tuple(row["open_in"] or ()),
}

_PLANS: dict[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple((one.name, _READERS.get(one.name)) for one in fields(kind))
    for kind in (RawWindow, IngestWindow, WindowTable, Cut, TableShapeRow, Lineage, QuarantineRow)
}
"""How each kind is read, field by field; asking each row for its fields was a tenth of the time of reading a ledger."""
