"""The names under which rows of a table came: its own, and those before it was renamed.

A change stands in the changelog of the name that its event carries. So the rows of a renamed table are made from several
changelogs, each between two positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_changes import TableCreated, TableRenamed
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement

Histories = Mapping[TableId, Sequence[SchemaState]]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The changes under a source table's name behind ``since``, and not behind ``until``.

    None stands for no bound.
    """

    table: TableId
    since: SourcePosition | None = None
    until: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class OriginState:
    """A state of a table under one of its names: ``table`` is the name that its changes have."""

    table: TableId
    state: SchemaState


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """The schemas of a table's rows in the order of their positions, and the origins of its changes.

    A table that was never renamed has no other origin than its own name, without bounds.
    """

    states: tuple[OriginState, ...]
    origins: tuple[RowOrigin, ...]


def moved_changes(
    bounds: Collection[tuple[TableId, SourcePosition | None]], rows: Iterable[WindowTable]
) -> tuple[str, ...]:
    """Return texts for the changes under some names up to positions, whatever files hold them.

    Texts are others where a window was made again with other changes. The position None stands for all changes. ``rows`` are the
    counts of these names by window.
    """
    until: dict[TableId, list[SourcePosition | None]] = {}
    for table, bound in bounds:
        until.setdefault(table, []).append(bound)
    return tuple(
        sorted(
            repr((row.table, bound, row.window_start, row.kafka_partition, row.kept, row.truncations, row.row_hash))
            for row in rows
            if (row.kept or row.truncations) and row.first_position is not None
            for bound in until.get(row.table, ())
            if bound is None or row.first_position <= bound
        )
    )


def held_counts(rows: Iterable[WindowTable], frontier: Frontier) -> list[WindowTable]:
    """Return the counts of windows of which a frontier holds a change."""
    return [row for row in rows if row.first_position and frontier.holds(row.window_start, row.first_position)]


def row_origins(histories: Histories, table: TableId, known: Collection[TableId]) -> RowOrigins:
    """Return the schemas and the origins of a table's rows.

    Args:
        histories: The states of all related tables.
        table: A source table.
        known: The source tables whose changes are stored. The rows of any other table are not known: a table that gets its name
            from such a table keeps the rows that it had, as behind a tool that copies a table and swaps the two.
    """
    return _origins(histories, _Places(histories), (table, len(histories.get(table, ()))), None, known)


def origins_in_set(histories: Histories, table: TableId, known: Collection[TableId]) -> RowOrigins:
    """Return the schemas and the origins of the rows of a table in its set.

    ``histories`` are those of this set. A statement moves rows within its set alone.
    """
    mine = {one.of_all_sets for one in known if one.source_set == table.source_set}
    found = row_origins(histories, table.of_all_sets, mine)
    return RowOrigins(
        tuple(replace(one, table=one.table.of_set(table.source_set)) for one in found.states),
        tuple(replace(one, table=one.table.of_set(table.source_set)) for one in found.origins),
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of statements among the states of tables, found for the tables that are asked for."""

    histories: Histories
    known: dict[TableId, dict[SourceStatement | None, int]] = field(default_factory=dict)

    def of(self, table: TableId, statement: SourceStatement | None) -> int | None:
        if table not in self.known:
            states = self.histories.get(table, ())
            self.known[table] = {one.statement: place for place, one in enumerate(states)}
        return self.known[table].get(statement)


def _origins(
    histories: Histories,
    places: _Places,
    begin: tuple[TableId, int],
    until: SourcePosition | None,
    known: Collection[TableId],
) -> RowOrigins:
    """Return the origins of the rows that a table has behind so many of its states."""
    later, origins = list[OriginState](), list[RowOrigin]()
    name, end = begin
    while True:
        found = _own_states(histories, places, name, end, known)
        later += found.states
        origins.append(RowOrigin(name, found.since, until))
        if found.earlier is None:
            return RowOrigins(tuple(reversed(later)), tuple(reversed(origins)))
        (name, end), until = found.earlier, found.since


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
    found, places = [], _Places(histories)
    for place, state in enumerate(histories.get(table, ())):
        arrival, leaves = _moves(state, table)
        if leaves:
            found.append(NameChange(place))
        elif arrival is not None:
            source = _before_arrival(histories, places, state, arrival)
            if source is not None and source[0] in known and source[0] != table:
                earlier = _origins(histories, places, source, state.position.previous, known)
                changes = histories[source[0]][source[1]].changes or state.changes
                moved = OriginState(table, replace(state, changes=changes))
                found.append(NameChange(place, RowOrigins((*earlier.states, moved), earlier.origins)))
    return tuple(found)


def arrivals(histories: Histories, table: TableId) -> Iterator[tuple[SourcePosition, TableId]]:
    """Yield where the rows of a table got another name, with the name before, the last one first.

    They end where the table was created.
    """
    places, end = _Places(histories), len(histories.get(table, ()))
    while end:
        end -= 1
        state = histories[table][end]
        arrival, leaves = _moves(state, table)
        if leaves:
            return
        source = None if arrival is None else _before_arrival(histories, places, state, arrival)
        if source is not None and source[0] != table:
            table, end = source
            yield state.position, table
        elif any(isinstance(one, TableCreated) for one in state.changes):
            return


@dataclass(frozen=True, slots=True)
class _OwnStates:
    """The states that a table has under one name, the last one first.

    Changes count behind ``since``. ``earlier`` is the former name, with the number of its states until then.
    """

    states: list[OriginState]
    since: SourcePosition | None = None
    earlier: tuple[TableId, int] | None = None


def _own_states(
    histories: Histories, places: _Places, table: TableId, end: int, known: Collection[TableId]
) -> _OwnStates:
    """Return the first ``end`` states of a table, back to the statement that gave it its name."""
    states = histories.get(table, ())
    found: list[OriginState] = []
    was_made = False
    for place in range(end - 1, -1, -1):
        state = states[place]
        arrival, leaves = _moves(state, table)
        if leaves:
            found += [OriginState(table, one) for one in states[place::-1]]
            return _OwnStates(found, state.position.previous)
        earlier = None if arrival is None or was_made else _before_arrival(histories, places, state, arrival)
        if earlier is not None and earlier[0] in known:
            changes = histories[earlier[0]][earlier[1]].changes or state.changes
            found.append(OriginState(table, replace(state, changes=changes)))
            return _OwnStates(found, state.position.previous, earlier)
        was_made = was_made or any(isinstance(change, TableCreated) for change in state.changes)
        found.append(OriginState(table, state))
    return _OwnStates(found)


def _moves(state: SchemaState, table: TableId) -> tuple[int | None, bool]:
    """Return the place of the change by which a table got its name last.

    Beside it stands whether the name was given away instead.
    """
    renames = [(place, one) for place, one in enumerate(state.changes) if isinstance(one, TableRenamed)]
    if not renames:
        return None, False
    place, last = renames[-1]
    return (place, False) if last.new == table else (None, True)


def _before_arrival(
    histories: Histories, places: _Places, state: SchemaState, arrival: int
) -> tuple[TableId, int] | None:
    """Return the table whose rows another one has got, by its name before the statement.

    Beside it stands the number of its states until then.
    """
    change = state.changes[arrival]
    while isinstance(change, TableRenamed):
        source = change.table
        place = places.of(source, state.statement)
        if place is None:
            return None
        changes = histories[source][place].changes
        before = changes[: changes.index(change)]
        earlier = [one for one in before if isinstance(one, TableRenamed) and one.new == source]
        if not earlier:
            return source, place
        change = earlier[-1]
    return None
