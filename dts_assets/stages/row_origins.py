"""The names under which the rows of a table came: its own, and those that it had before it was renamed.

A change stands in the changelog of the name that its event carries. So the rows of a renamed table are made from several
changelogs, each between two positions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_changes import SchemaChange, TableCreated, TableRenamed
from dts_assets.wire.ddl.schema_history import SchemaState

Histories = Mapping[TableId, Sequence[SchemaState]]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The changes that stand under a source table's name behind ``since``, and not behind ``until``; None stands for no bound."""

    table: TableId
    since: SourcePosition | None = None
    until: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class OriginState:
    """A state of a table, or of the table that it was under another name: ``table`` is the name that changes have under it."""

    table: TableId
    state: SchemaState


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """The schemas that the rows of a table stood under, in the order of their positions, and the origins of its changes.

    A table that was never renamed has no other origin than its own name, without bounds.
    """

    states: tuple[OriginState, ...]
    origins: tuple[RowOrigin, ...]


def row_origins(histories: Histories, table: TableId, known: Collection[TableId]) -> RowOrigins:
    """Return the schemas and the origins of a table's rows.

    Args:
        histories: The states of all related tables.
        table: A source table.
        known: The source tables whose changes are stored. The rows of any other table are not known: a table that gets its name
            from such a table keeps the rows that it had, as behind a tool that copies a table and swaps the two.
    """
    return _origins(histories, table, known, len(histories.get(table, ())), None)


@dataclass(frozen=True, slots=True)
class NameChange:
    """A statement behind which no row of before stands under a table's name.

    It gave the name away, or gave it to another table. ``place`` is the number of the state that it made. ``rows`` has the
    schemas and the origins of the rows that came by it, as they stood before it; None where none came.
    """

    place: int
    rows: RowOrigins | None = None


def name_changes(histories: Histories, table: TableId, known: Collection[TableId]) -> tuple[NameChange, ...]:
    """Return the statements by which rows came under a name, or left it.

    The arguments are those of :func:`row_origins`. A table that gets a name back within one statement never left it.
    """
    found = []
    for place, state in enumerate(histories.get(table, ())):
        arrival, leaves = _moves(state, table)
        if leaves:
            found.append(NameChange(place))
        elif arrival is not None:
            source = _before_arrival(histories, state, table, arrival)
            if source is not None and source[0] in known and source[0] != table:
                here = just_before(state.position)
                earlier = _origins(histories, source[0], known, source[1], here)
                moved = OriginState(table, replace(state, changes=_all_changes(histories, state, source[0])))
                found.append(NameChange(place, RowOrigins((*earlier.states, moved), earlier.origins)))
    return tuple(found)


def just_before(position: SourcePosition) -> SourcePosition:
    """Return the last position before another one."""
    return replace(position, position=position.position - 1)


def _origins(
    histories: Histories, table: TableId, known: Collection[TableId], end: int, until: SourcePosition | None
) -> RowOrigins:
    """Return the origins of the rows that a table has behind the first ``end`` of its states."""
    states = histories.get(table, ())
    later: list[OriginState] = []
    was_made = False
    for place in range(end - 1, -1, -1):
        state = states[place]
        here = just_before(state.position)
        arrival, leaves = _moves(state, table)
        if leaves:
            own = [OriginState(table, one) for one in states[: place + 1]]
            return RowOrigins((*own, *later), (RowOrigin(table, here, until),))
        if arrival is not None and not was_made:
            found = _before_arrival(histories, state, table, arrival)
            if found is not None and found[0] in known:
                earlier = _origins(histories, found[0], known, found[1], here)
                moved = OriginState(table, replace(state, changes=_all_changes(histories, state, found[0])))
                return RowOrigins((*earlier.states, moved, *later), (*earlier.origins, RowOrigin(table, here, until)))
        was_made = was_made or any(isinstance(change, TableCreated) for change in state.changes)
        later.insert(0, OriginState(table, state))
    return RowOrigins(tuple(later), (RowOrigin(table, None, until),))


def _moves(state: SchemaState, table: TableId) -> tuple[int | None, bool]:
    """Return the place of the change by which a table got its name last, and whether the name was given away instead."""
    renames = [(place, one) for place, one in enumerate(state.changes) if isinstance(one, TableRenamed)]
    if not renames:
        return None, False
    place, last = renames[-1]
    return (place, False) if last.new == table else (None, True)


def _before_arrival(
    histories: Histories, state: SchemaState, table: TableId, arrival: int
) -> tuple[TableId, int] | None:
    """Return the table whose rows another table has got, as it was called before the statement, and the number of its states."""
    change = state.changes[arrival]
    while isinstance(change, TableRenamed):
        source = change.table
        states = histories.get(source, ())
        place = next(
            (n for n, one in enumerate(states) if one.statement is not None and one.statement == state.statement), None
        )
        if place is None:
            return None
        before = states[place].changes[: states[place].changes.index(change)]
        earlier = [one for one in before if isinstance(one, TableRenamed) and one.new == source]
        if not earlier:
            return source, place
        change = earlier[-1]
    return None


def _all_changes(histories: Histories, state: SchemaState, source: TableId) -> tuple[SchemaChange, ...]:
    """Return the changes that a statement made to a table under its former name, and the rename."""
    found = next(one for one in histories[source] if one.statement == state.statement)
    return found.changes if found.changes else state.changes
