"""Histories of a lake held against the tables that a server had behind each statement of a life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.schema_history import RULES
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.positions import SourcePosition
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnDropped, ColumnModified, ColumnsRenamed
from dts_assets.wire.ddl.schema_history import SchemaState, schema_history
from dts_assets.wire.ddl.table_schemas import folded
from dts_emulator.source.events import Transaction
from tests.dts_emulator.judged_snapshots import Judged
from tests.dts_emulator.server_lives import Held, Life, Row, one_of
from tests.flows.harness import Harness


@dataclass(frozen=True)
class ByStatement:
    """A value that a statement gave a version: in a column of another type it may be its text (docs/history.md)."""

    value: Any


def faults_of_histories(harness: Harness, life: Life) -> Judged:
    """Compare the versions that held behind each statement with the rows that the server had then.

    Tables that stand still lack windows.
    """
    found, pipeline = Judged(), harness.pipeline
    still = {one.table for one in pipeline.ledger.paused_tables()}
    states = schema_history(list(stored_statements(pipeline, None)), (), rules=RULES)
    for table in (one for one in known_tables(pipeline) if one not in still):
        rows = harness.rows("history", *table.path)
        found.counts["renames"] += sum(row["_op"] == "rename" for row in rows)
        for moment in life.moments:
            if not moment.end:
                continue
            place = position_of(life.transactions[moment.end - 1])
            held = moment.tables.get(table)
            there = [row for row in rows if _holds(row, place)]
            if held is not None and (held.doubt or _is_altered_bag(held, states.get(table, ()))):
                found.counts["left out"] += 1
            elif held is not None:
                names = comparable(states.get(table, ()), held, place, rows)
                given = frozenset(folded(name) for _, name in _told(states.get(table, ()), place))
                _compare(found, f"{table} behind {moment.sql}", there, held, names, given)
            elif there:
                found.faults.append(f"{table} behind {moment.sql}: {len(there)} rows, and no table at the server")
    found.faults += [f"quarantine: {row['reason']}" for row in harness.rows("quarantine")]
    found.faults += [f"paused: {row['paused']}" for row in harness.rows("cuts") if row.get("paused")]
    return found


def _is_altered_bag(held: Held, states: Sequence[SchemaState]) -> bool:
    """Whether rows without a key cannot be found any more, because versions keep what a column was."""
    return not held.schema.key and are_altered(states)


def are_altered(states: Sequence[SchemaState]) -> bool:
    """Whether columns of a table were dropped, or got other names or types."""
    gone = ColumnModified | ColumnsRenamed | ColumnDropped
    return any(isinstance(one, gone) for state in states for one in state.changes)


def position_of(transaction: Transaction) -> SourcePosition:
    """The end of a transaction."""
    return SourcePosition(0, int(transaction.end.file_name.rsplit(".", 1)[1]), transaction.end.end)


def comparable(
    states: Sequence[SchemaState], held: Held, place: SourcePosition, rows: Sequence[dict[str, Any]]
) -> list[str]:
    """The columns of a moment whose values stand in the versions of it.

    A statement that makes another type of a column touches no version, and a column that comes again has its newest value.
    """
    known = {folded(name) for row in rows[:1] for name in row}
    otherwise = {folded(name) for at, name in _told(states, place) if at}
    return [name for name in held.schema.names if folded(name) in known and folded(name) not in otherwise]


def _told(states: Sequence[SchemaState], place: SourcePosition) -> Iterator[tuple[bool, str]]:
    for state in states:
        for one in state.changes:
            match one:
                case ColumnModified():
                    yield True, one.new.name
                case ColumnAdded():
                    yield state.position > place, one.column.name
                case ColumnsRenamed():
                    yield from ((state.position > place, new) for _, new in one.names)


def _holds(row: dict[str, Any], place: SourcePosition) -> bool:
    begin, end = row["_valid_from_position"], row["_valid_to_position"]
    return SourcePosition(**begin) <= place and (end is None or SourcePosition(**end) > place)


def _compare(
    found: Judged, what: str, rows: Sequence[dict[str, Any]], held: Held, names: Sequence[str], given: frozenset[str]
) -> None:
    """Compare versions with rows; columns that are ``given`` have values by statements."""
    places = [held.schema.names.index(name) for name in names]
    left = [
        tuple(
            ByStatement(value) if row["_op"] == "rename" or folded(name) in given else value
            for name, value in zip(names, _row(row, names), strict=True)
        )
        for row in rows
    ]
    for row, unknown in sorted(zip(held.rows, held.unknown, strict=True), key=lambda one: len(one[1])):
        wanted = tuple(row[place] for place in places)
        match = next(
            (
                one
                for one in left
                if all(
                    _is(a, b) or (a in (None, ByStatement(None)) and n in unknown)
                    for a, b, n in zip(one, wanted, names, strict=True)
                )
            ),
            None,
        )
        if match is None:
            found.faults.append(f"{what}: no row {wanted} among {left}")
        else:
            left.remove(match)
            found.counts["values"] += len(names)
    found.faults += [f"{what}: a row too many, {row}" for row in left]


def _is(mine: Any, other: Any) -> bool:
    """Whether a version has a value, perhaps in the type that holds all values of its column."""
    if isinstance(mine, ByStatement):
        return _is(mine.value, other) or _text(mine.value) == _text(other)
    held_by = pa.binary() if isinstance(mine, bytes) else pa.string() if isinstance(mine, str) else None
    if mine == other or held_by is None or other is None or isinstance(other, bytes | tuple):
        return bool(mine == other)
    return bool(held_as(pa.array([other]), held_by)[0].as_py() == mine)


def _text(value: Any) -> str | None:
    """The text of a value, also of one that does not fit its column."""
    if value is None or isinstance(value, tuple):
        return None if value is None else str(value[-1])
    text = f"0x{value.hex()}" if isinstance(value, bytes) else held_as(pa.array([value]), pa.string())[0].as_py()
    return str(text)


def _row(row: dict[str, Any], names: Sequence[str]) -> Row:
    spelled, texts = {folded(name): name for name in row}, dict(row["_invalid"] or ())
    return tuple(one_of(row[spelled[folded(name)]], texts.get(spelled[folded(name)])) for name in names)
