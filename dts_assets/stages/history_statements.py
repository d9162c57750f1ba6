"""Statements that change a history by no event: other names, and columns that came with values.

A rename ends the open versions under a name and begins versions under another one. A column that is added, or gets another
name, has a value in the open versions from then on, in place. So has a column of the primary key that gets another type. Nothing
else makes or changes versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.followed_columns import FollowedColumns, PastSchema
from dts_assets.stages.followed_schemas import FollowedTable
from dts_assets.stages.row_origins import NameChange, RowOrigins
from dts_assets.stages.value_paths import (
    TextByRule,
    ValuePath,
    default_path,
    no_text,
    own_type,
    value_path,
    with_own_type,
)
from dts_assets.wire.ddl.schema_changes import TableCreated
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import SchemaColumn, folded

MOVED = "moved:"
"""The begin of the text of a history to which rows came from other names."""


@dataclass(frozen=True, slots=True)
class ColumnFill:
    """A column that gets values in open versions; ``place`` and ``origin`` are numbers of columns of the history.

    ``place`` is None while no event has told the column, so that the history has none of its name. The values are those of the
    ``origin`` (None: of no column of the history). Their way depends on the begin of a version: each of the ``ways`` counts from
    its position on, the first one from anywhere. A column of the primary key is ``of_key``: later changes find rows by it.
    """

    place: int | None
    origin: int | None
    ways: tuple[tuple[SourcePosition, ValuePath], ...]
    of_key: bool = False
    left_at: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class HistoryStatement:
    """A statement that changes a history by no event, at its position and time.

    It may end all open versions (``ends``), begin versions of the rows of another name (``rows``), or fill columns of open ones.
    Such rows have one schema up to the position ``until`` (None: nothing tells of another one).
    """

    position: SourcePosition
    time: datetime | None
    window_start: datetime | None
    ends: bool = False
    rows: RowOrigins | None = None
    fills: tuple[ColumnFill, ...] = ()
    until: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """The columns of a history, all that events ever told, and what values of statements become in them.

    Args:
        columns: The columns.
        shown_otherwise: The function that tells whether a rule or a setting makes other values of those of a column.
        by_rule: The function that gives a default as the rule of its column makes it.
        lake_type: The function that gives the lake type of a column; None where it is that of the server's values.
        zone: The zone of wall clocks that a setting stores as instants; empty where there are none.
    """

    columns: Sequence[Column]
    shown_otherwise: Callable[[SchemaColumn], bool] = lambda _: False
    by_rule: TextByRule = no_text
    lake_type: Callable[[SchemaColumn], str] | None = None
    zone: str = ""

    @property
    def places(self) -> Mapping[str, int]:
        """The numbers of the columns by their names at the source, without case."""
        return {folded(name): place for place, column in enumerate(self.columns) for name in column.source_names}

    def way(self, column: SchemaColumn, path: ValuePath, place: int | None) -> ValuePath:
        """Return the way of values that statements give a column to the one at a place.

        None stands for no such column.
        """
        if self.shown_otherwise(column):
            return path.by_rule(self.by_rule)
        path = replace(path, zone=self.zone) if self.zone else path
        if self.lake_type is None:
            return path
        kind = self.lake_type(column)
        own = own_type(column, kind)
        path = replace(path, own_type=own) if own else path
        return path if place is None else with_own_type(path, kind, self.columns[place].type)


def history_statements(
    states: Sequence[SchemaState], moves: Sequence[NameChange], history: HistoryColumns
) -> tuple[HistoryStatement, ...]:
    """Return the statements that change the history of a table, in the order of the source.

    Args:
        states: The states of the table's schema.
        moves: The statements by which rows left its name, or came under it.
        history: The columns of the history.
    """
    places = history.places
    moved, ways = {one.place: one for one in moves}, _Ways(states, places.keys())
    found = []
    for number, state in enumerate(states):
        one = moved.get(number)
        if one is not None or any(isinstance(change, TableCreated) for change in state.changes):
            ways.forget(number)
        fills = ways.assigned(number)  # none where rows moved
        filled = tuple(
            ColumnFill(
                places.get(folded(column.name)),
                None if origin.name is None else places.get(folded(origin.name)),
                tuple((at, history.way(column, path, places.get(folded(column.name)))) for at, path in told),
                state.schema is not None and state.schema.has_in_key(column),
                origin.left_at,
            )
            for column, origin, told in fills
        )
        if one is not None or filled:
            time = None if state.statement is None else state.statement.time
            rows = None if one is None else one.rows
            until = None if rows is None else _until(states, number)
            found.append(
                HistoryStatement(state.position, time, state.window_start, one is not None, rows, filled, until)
            )
    return tuple(found)


def _until(states: Sequence[SchemaState], number: int) -> SourcePosition | None:
    """Return the last position before the next state of a table."""
    here = states[number].position
    return next((one.position.previous for one in states[number:] if one.position > here), None)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The column of a history whose values another one gets.

    They are those before the statement at ``left_at`` (None: those of now).
    """

    name: str | None
    left_at: SourcePosition | None = None


class _Ways:
    """The states from which the values of each column go one way, found from state to state."""

    def __init__(self, states: Sequence[SchemaState], stored: Collection[str]) -> None:
        """Take the states of a table, and the folded names of the columns that its history has."""
        self._states, self._stored = states, stored
        self._elsewhere: dict[str, _Origin] = {}
        self._since: dict[str, list[int]] = {}
        self._seen: set[str] = set()
        self._altered: set[str] = set()
        self._first = 0

    def forget(self, number: int) -> None:
        """Begin anew with a state behind which no row of before stands."""
        self._since.clear()
        self._elsewhere.clear()
        self._seen.clear()
        self._altered.clear()
        self._first = number

    def assigned(
        self, number: int
    ) -> Sequence[tuple[SchemaColumn, _Origin, tuple[tuple[SourcePosition, ValuePath], ...]]]:
        """Return the columns that a state's statement gave values, with their origins and ways.

        Among them are columns of the primary key whose values a statement has converted: changes tell them as they are now. Where
        the history lacks a column, its values stay where they were: a later statement takes them from there.
        """
        states, schema = self._states, self._states[number].schema
        if schema is None:
            return ()
        found, key, since, elsewhere = [], {*map(folded, schema.key)}, dict[str, list[int]](), dict[str, _Origin]()
        for column in schema.columns if number > self._first else ():
            step = value_path(states, number - 1, number, column.name)
            name = folded(column.name)  # a name that changes in case only is one field of the history
            comes = bool(states[number].changes) and (step.origin is None or folded(step.origin) != name)
            if not comes and step.has_steps:
                self._altered.add(name)
            if comes or (states[number].changes and name in self._altered & key):
                starts = [number - 1] if step.origin is None else self._since.get(folded(step.origin), [self._first])
                told = tuple((states[one].position, value_path(states, one, number, column.name)) for one in starts)
                # Where no event can have told the column before, it is NULL already.
                if step.origin is not None or name in self._seen or not told[0][1].keeps_values:
                    origin = self._origin(step.origin)
                    found.append((column, origin, told))
                    since[name] = [number] if name in self._stored else [*starts]
                    if name not in self._stored:
                        elsewhere[name] = replace(origin, left_at=origin.left_at or states[number].position)
                    continue
            if step.has_steps:
                self._since.setdefault(name, [self._first]).append(number)
        self._since |= since
        self._elsewhere |= elsewhere
        self._altered -= since.keys()
        self._seen |= {folded(column.name) for column in schema.columns}
        return found

    def _origin(self, name: str | None) -> _Origin:
        """Return where the values of a column stand in the history."""
        return _Origin(name) if name is None else self._elsewhere.get(folded(name), _Origin(name))


def arrived_columns(rows: FollowedTable, columns: Sequence[Column]) -> FollowedColumns:
    """Return how changes under former names are read in the columns of a history.

    ``rows`` has the schemas of the rows, up to the one with which they came under the history's name.
    """
    found, types = rows.followed(), rows.types
    by_name = {folded(name): place for place, name in enumerate(rows.names)}
    places = [
        next((by_name[folded(name)] for name in one.source_names if folded(name) in by_name), None) for one in columns
    ]

    def ways(paths: Sequence[ValuePath | None]) -> Iterator[ValuePath | None]:
        for place, column in zip(places, columns, strict=True):
            path = None if place is None else paths[place]
            yield path if place is None or path is None else with_own_type(path, types[place], column.type)

    schemas = tuple(
        PastSchema(
            schema.since,
            tuple(path or ValuePath(None) for path in ways(schema.paths)),
            tuple(() if place is None else schema.fields[place] for place in places),
            tuple(ways(schema.defaults)),
        )
        for schema in found.schemas
    )
    return replace(found, schemas=schemas, types=tuple(one.type for one in columns))


def with_defaults(states: Sequence[SchemaState], history: HistoryColumns) -> FollowedColumns | None:
    """Return how a history reads the changes of its table, of which inserts may lack columns.

    Such inserts have the defaults that the table had then. It is None where no default is known. All other values are read as
    they stand.
    """
    places, none = history.places, (None,) * len(history.columns)
    paths = tuple(ValuePath(one.name) for one in history.columns)
    fields = tuple(one.lake_names for one in history.columns)
    schemas = [PastSchema(None, paths, fields, none)]
    for number, state in enumerate(states):
        defaults: list[ValuePath | None] = [*none]
        for column in () if state.schema is None else state.schema.columns:
            place = places.get(folded(column.name))
            is_key = state.schema is not None and state.schema.has_in_key(column)
            default = None if place is None else default_path(column, ValuePath(column.name), is_key=is_key)
            if place is not None and default is not None:
                default = history.way(column, default, place)
                defaults[place] = default if default.has_steps else None  # a rule may know none
        if repr(tuple(defaults)) != repr(schemas[-1].defaults):
            schemas.append(PastSchema(state.position if number else None, paths, fields, tuple(defaults)))
    if len(schemas) == 1:
        return None
    schemas = schemas if schemas[1].since is not None else schemas[1:]
    return FollowedColumns(tuple(schemas), tuple(one.type for one in history.columns), stand=True)


def statements_text(
    statements: Sequence[HistoryStatement], told: Sequence[str], changes: FollowedColumns | None = None
) -> str:
    """Return a text for the statements that changed a history; it is empty if none did.

    It is ``moved:5d41402abc4b2a76`` if rows came from other names, of whose changelogs ``told`` tells all that counts, else
    ``filled:5d41402abc4b2a76``, and ``filled:`` as long as the history has none of the columns that were filled. The defaults by
    which ``changes`` are read count as well.
    """
    if not statements and changes is None:
        return ""
    kept = [replace(one, fills=tuple(fill for fill in one.fills if fill.place is not None)) for one in statements]
    counting = [repr(one) for one in kept if one.ends or one.fills]
    counting += [*told] if counting else []
    for one in () if changes is None else changes.schemas:
        known = [pair for pair in zip(one.fields, one.defaults, strict=True) if pair[1] is not None]
        counting.append(repr((one.since, known)))
    digest = hashlib.sha256("\n".join(counting).encode()).hexdigest()[:16] if counting else ""
    return f"{MOVED if any(one.rows for one in statements) else 'filled:'}{digest}"
