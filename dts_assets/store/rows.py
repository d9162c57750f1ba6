"""Rows of the ledger to and from the rows of the lake.

Instants are UTC. Lists are never null in the lake, because pyiceberg reads a null list of structs as an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from dts_assets.model.columns import ColumnShape
from dts_assets.model.delivery import (
    CellDelivery,
    Hole,
    SeqIds,
    ShardSequence,
    ShardTransactions,
    Transaction,
)
from dts_assets.model.ledger_rows import (
    Counts,
    Cut,
    IngestWindow,
    LedgerRow,
    QuarantineRow,
    RawWindow,
    ServerPositions,
    TableShapeRow,
    WindowTable,
)
from dts_assets.model.lineages import Lineage
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode, Reason
from dts_assets.model.refreshes import Refresh
from dts_assets.model.runs import CheckpointMark, Run, ServerRange, StatementMark
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.store.columns import COUNTS

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
