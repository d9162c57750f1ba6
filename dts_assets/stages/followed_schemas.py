"""The columns of a snapshot by the schemas that its table had, and the way of stored rows and of changes to them.

A snapshot has the columns of its table's last schema, in their order. Columns that events told no more, though no statement
dropped them, stay: a format may leave columns out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dts_assets.model.columns import Column, same_name, widened
from dts_assets.model.key_periods import KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.present_columns import PresentColumn, PresentColumns
from dts_assets.model.schema_policies import SchemaPolicy, in_map
from dts_assets.model.tables import TableId
from dts_assets.stages.followed_columns import FollowedColumns, PastSchema
from dts_assets.stages.placed_columns import PlacedColumn, last_created, placed_columns
from dts_assets.stages.row_origins import RowOrigin, RowOrigins, just_before
from dts_assets.stages.server_types import server_type
from dts_assets.stages.value_paths import ValuePath, default_path, value_paths
from dts_assets.wire.ddl.schema_changes import ColumnDropped, TableCreated
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn, TableSchema, folded
from dts_assets.wire.ddl.told_schemas import ToldColumn

Fields = Mapping[str, tuple[str, ...]]
"""The names that a changelog may have for the columns of a source table, by their names without case."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of the log in which one key finds the rows of all changes.

    Its changes stand behind ``since`` and not behind ``until``; None stands for no bound. ``last`` is the number of its last
    state, whose names the ``keys`` are.
    """

    since: SourcePosition | None
    until: SourcePosition | None
    last: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table whose schemas are known, and its columns in the snapshot.

    ``columns`` are those of the last of the ``states`` as the lake has them: a :class:`~dts_assets.model.columns.Column` has all
    names that a changelog may have for it. ``names`` are their names at the source. ``fields`` has the names in the changelog of
    each state for every column of any schema, by its name without case. Values of columns in ``shown_otherwise`` go through no
    statement, because a rule or a setting has made them others. ``origins`` are the changelogs with the changes of its rows.
    By a ``policy`` a snapshot may have columns that the source dropped, whose name there is empty, and ``mapped`` ones, whose
    values are texts in a map: it has their own lake types by their places.
    """

    states: tuple[SchemaState, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    fields: tuple[Fields, ...]
    origins: tuple[RowOrigin, ...]
    shown_otherwise: frozenset[str] = frozenset()
    policy: SchemaPolicy = SchemaPolicy.FOLLOW
    mapped: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_moved(self) -> bool:
        """True if rows of the table came, or went, by another name."""
        return len(self.origins) > 1 or self.origins[0].since is not None

    @property
    def has_defaults(self) -> bool:
        """True if inserts that lack a column may have a default that is known."""
        return any(
            _default_of(one)[1] is not None for state in self.states if state.schema for one in state.schema.columns
        )

    @property
    def digest(self) -> str:
        """A digest of the states, of the origins and of the policy, equal exactly if these are."""
        states = [repr((one.position, one.schema, one.changes)) for one in self.states]
        policy = [self.policy.value] if self.policy.shapes_columns else []
        return hashlib.sha256("\n".join([*states, repr(self.origins), *policy]).encode()).hexdigest()[:16]

    def key_parts(self, told: Iterable[KeySpan], *, since: int) -> tuple[KeyPart, ...]:
        """Return the parts of the log, from a state on, in each of which one key finds the rows of all changes.

        Statements say the key, and ``told`` has the keys that changes told: they count where they say another one.
        """
        begins = self._keys_begun(told, since)
        parts: list[KeyPart] = []
        for place, (begin, keys) in enumerate(begins):
            border = None if begin is None else just_before(begin)
            end = begins[place + 1][0] if place + 1 < len(begins) else None
            until = None if end is None else just_before(end)
            last = len(self.states) - 1 if until is None else max(since, last_state(self.states, until))
            part = KeyPart(border, until, last, keys)
            if parts and self._find_alike(parts[-1], part):
                parts[-1] = replace(part, since=parts[-1].since)
            else:
                parts.append(part)
        return tuple(parts)

    def _keys_begun(self, told: Iterable[KeySpan], since: int) -> list[tuple[SourcePosition | None, tuple[str, ...]]]:
        """Return the keys from a state on, each with the position from which it counts (None: from the first change on)."""
        begun: dict[SourcePosition | None, tuple[str, ...]] = {None: _key(self.states[since])}
        for number in range(since + 1, len(self.states)):
            if self.states[number].changes and _finds_other_rows(self.states, number):
                begun[self.states[number].position] = _key(self.states[number])
        for span in told:
            first = None if span.since is None else replace(span.since, position=span.since.position + 1)
            if first is None or not self._counts_at(first, span.columns, begun, since):
                begun[first] = span.columns
        return sorted(begun.items(), key=lambda one: _in_order(one[0]))

    def _counts_at(
        self,
        position: SourcePosition,
        keys: Sequence[str],
        begun: Mapping[SourcePosition | None, tuple[str, ...]],
        since: int,
    ) -> bool:
        """Return whether a key at a position is the one that was begun last."""
        last = max((one for one in begun if one is None or one <= position), key=_in_order)
        start = since if last is None else max(since, last_state(self.states, last))
        end = max(since, last_state(self.states, position))
        return self._find_alike(KeyPart(None, None, start, begun[last]), KeyPart(None, None, end, tuple(keys)))

    def _find_alike(self, part: KeyPart, later: KeyPart) -> bool:
        """Return whether the keys of two parts find the same rows."""
        paths = value_paths(self.states, part.last, later.last)
        mine = [paths.get(name, ValuePath(name)) for name in later.keys]
        return {folded(one.origin or "") for one in mine} == {*map(folded, part.keys)} and not any(
            one.steps for one in mine
        )

    def keyed_by(self, part: KeyPart) -> tuple[Column, ...]:
        """Return the columns of now with the key of the last part."""
        keys = {*map(folded, part.keys)}
        return tuple(
            replace(column, is_key=folded(name) in keys) for name, column in zip(self.names, self.columns, strict=True)
        )

    @property
    def created(self) -> int:
        """The number of the state behind which the table was last created, with no row; 0 where no statement says so."""
        return last_created(self.states)

    def step_columns(self, parts: Sequence[KeyPart]) -> tuple[Column, ...]:
        """Return the key columns of some parts that are in none of the table's columns of now, under names of their own.

        They stand in rows between two steps alone.
        """
        return tuple(
            Column(f"{name} in schema {part.last}", kind, False) for part in parts for name, kind in self._keys(part)
        )

    def _keys(self, part: KeyPart) -> list[tuple[str, str]]:
        schema = self.states[part.last].schema
        assert schema is not None, "states without a table are left out"
        keys = [(name, schema.column(name)) for name in part.keys]
        kinds = [(name, None if column is None else server_type(column)) for name, column in keys]
        return [(name, "string" if kind is None else kind.lake_type) for name, kind in kinds]

    def present(self, keyed: Sequence[Column], flat_name: Callable[[str], str], *, changelog: str) -> PresentColumns:
        """Return the columns as they stand with a snapshot, whose names ``flat_name`` gives.

        ``keyed`` are the columns with their last key, ``changelog`` is the digest of the changelog's columns.
        """
        schema = self.states[-1].schema
        assert schema is not None, "states without a table are left out"
        columns = (
            PresentColumn(
                source,
                flat_name(one.name),
                self.mapped.get(place, one.type),
                one.is_key,
                *_default_of(None if source in self.shown_otherwise else schema.column(source)),
                *self._place_of(place),
            )
            for place, (source, one) in enumerate(zip(self.names, keyed, strict=True))
        )
        policy = self.policy.value if self.policy.shapes_columns else ""
        return PresentColumns(self.digest, changelog, tuple(columns), policy)

    def _place_of(self, place: int) -> tuple[str, str]:
        source, name = self.names[place], self.columns[place].name
        if not source:
            return "gone", name
        if place in self.mapped:
            return "map", name
        return ("frozen", name) if self.policy is SchemaPolicy.FREEZE and source != name else ("", "")

    def followed(self, parts: Sequence[KeyPart] = (), family: Family | None = None) -> FollowedColumns:
        """Return the ways of the values of all changes, whatever schema they stand behind.

        The columns are followed by those of :meth:`step_columns`.
        """
        schemas = []
        for number, state in enumerate(self.states):
            mine = self.from_state(number, parts)
            fields = tuple(
                self.fields[number].get(folded(one.origin), (one.origin,)) if one.origin else () for one in mine
            )
            defaults = tuple(self._default(number, path) for path in mine)
            schemas.append(PastSchema(state.position if number else None, mine, fields, defaults))
        types = tuple(column.type for column in self.step_columns(parts))
        return FollowedColumns(tuple(schemas), (*self.types, *types), family, frozenset(self.mapped))

    @property
    def types(self) -> tuple[str, ...]:
        """The lake types of the columns, those of mapped columns before their values become texts."""
        return tuple(self.mapped.get(place, one.type) for place, one in enumerate(self.columns))

    def _default(self, number: int, path: ValuePath) -> ValuePath | None:
        schema = self.states[number].schema
        column = None if schema is None or path.origin is None else schema.column(path.origin)
        return None if column is None or column.name in self.shown_otherwise else default_path(column, path)

    def from_state(self, number: int, parts: Sequence[KeyPart] = ()) -> tuple[ValuePath, ...]:
        """Return the ways of the values of rows that a snapshot has, which was made behind a state.

        The columns are followed by those of :meth:`step_columns`.
        """
        keys = tuple(
            path
            for part in parts
            for path in (
                [value_paths(self.states, number, part.last).get(name, ValuePath(name)) for name in part.keys]
                if number <= part.last
                else [ValuePath(None)] * len(part.keys)
            )
        )
        return (*self._to_last(number), *keys)

    def _to_last(self, number: int) -> tuple[ValuePath, ...]:
        paths = value_paths(self.states, number, len(self.states) - 1)
        return tuple(
            ValuePath(None)
            if not name
            else replace(paths[name], steps=())
            if name in self.shown_otherwise
            else paths[name]
            for name in self.names
        )


def _in_order(position: SourcePosition | None) -> tuple[bool, SourcePosition]:
    return position is not None, position or SourcePosition(0, 0, 0)


def _key(state: SchemaState) -> tuple[str, ...]:
    return () if state.schema is None else state.schema.key


def _finds_other_rows(states: Sequence[SchemaState], number: int) -> bool:
    """Return whether rows of a state have other keys than in the state before.

    A statement may have made one value of two, such as 1 of ``1`` and ``01``: then rows that were gone before it would count as
    gone behind it.
    """
    paths = value_paths(states, number - 1, number)
    mine = [paths[name] for name in _key(states[number]) if name in paths]
    keys = {folded(name) for name in _key(states[number - 1])}
    return {folded(one.origin or "") for one in mine} != keys or any(one.steps for one in mine)


def _default_of(column: SchemaColumn | None) -> tuple[str, str | None]:
    told = column is None or isinstance(column, ToldColumn) or column.default is None
    return ("", None) if column is None or told else (column.type, column.default)


def unchanged_columns(
    stored: Sequence[Column], present: PresentColumns, family: Family | None = None
) -> FollowedColumns:
    """Return the columns of changes that all stand behind the last schema, of which ``present`` are the columns.

    ``stored`` are all columns that their changelog has.
    """
    fields = present.fields(tuple(stored))
    paths = tuple(ValuePath(one.source if one.place != "gone" else None) for one in present.columns)
    defaults = tuple(
        default_path(SchemaColumn(one.source, one.source_type, default=one.default), path)
        for one, path in zip(present.columns, paths, strict=True)
    )
    mapped = frozenset(place for place, one in enumerate(present.columns) if one.place == "map")
    types = tuple(one.type for one in present.columns)
    return FollowedColumns((PastSchema(None, paths, fields, defaults),), types, family, mapped)


def followed_table(
    rows: RowOrigins,
    columns: Mapping[TableId, Sequence[Column]],
    table: TableId,
    lake_type: Callable[[SchemaColumn], str],
    *,
    left_out: Callable[[str], bool] = lambda _: False,
    shown_otherwise: Callable[[SchemaColumn], bool] = lambda _: False,
    policy: SchemaPolicy = SchemaPolicy.FOLLOW,
) -> FollowedTable | None:
    """Return a table with the columns of its last schema; None where no schema is known.

    Args:
        rows: The states of the table's schema in source order, and the origins of its rows.
        columns: All columns that changelogs have, by source table.
        table: The source table.
        lake_type: The function that gives the lake type of a column of a schema.
        left_out: The function that tells whether a rule leaves a column out, by its name at the source.
        shown_otherwise: The function that tells whether a rule or a setting makes other values of those of a column.
        policy: What the snapshot does with columns that come and go.
    """
    there = [one for one in rows.states if one.state.schema is not None]
    known = tuple(_with_kept(one.state for one in there))
    if not known or known[-1].schema is None or not known[-1].schema.columns:
        return None
    fields = {one: _fields(columns.get(one, ())) for one in {table, *(one.table for one in there)}}
    named = {folded(name): column for column in columns.get(table, ()) for name in column.source_names}
    schema, taken = known[-1].schema, set[str]()
    shown = [one for one in placed_columns(known, policy) if not left_out(one.column.name)]
    made = [_placed(one, schema, lake_type(one.column), named.get(folded(one.column.name)), taken) for one in shown]
    others = frozenset(one.column.name for one in shown if not one.is_gone and shown_otherwise(one.column))
    return FollowedTable(
        known,
        tuple(made),
        tuple("" if one.is_gone else one.column.name for one in shown),
        tuple(fields[one.table] for one in there),
        rows.origins,
        others,
        policy,
        {place: lake_type(one.column) for place, one in enumerate(shown) if one.is_new},
    )


def _fields(columns: Iterable[Column]) -> Fields:
    found = dict[str, tuple[str, ...]]()
    for column in columns:
        for name in column.source_names:
            found[folded(name)] = tuple(dict.fromkeys((*column.lake_names, *found.get(folded(name), ()))))
    return found


def _placed(one: PlacedColumn, schema: TableSchema, kind: str, there: Column | None, taken: set[str]) -> Column:
    is_key = not one.is_gone and folded(one.column.name) in map(folded, schema.key)
    if one.is_new:
        return Column(in_map(one.column.name), "string", is_key)
    is_other = one.is_gone or folded(one.name) != folded(one.column.name)
    named = replace(one.column, name=one.name)
    return replace(_column(named, schema, kind, None if is_other else there, taken), is_key=is_key)


def _column(one: SchemaColumn, schema: TableSchema, kind: str, there: Column | None, taken: set[str]) -> Column:
    name = one.name if there is None or same_name(one.name) == same_name(there.name) else there.name
    while same_name(name) in taken:
        name += "_"
    taken.add(same_name(name))
    stored = () if there is None else there.lake_names
    spellings = (*(other for other in reversed(stored) if other != name), name) if stored not in ((), (name,)) else ()
    return Column(name, kind, folded(one.name) in map(folded, schema.key), spellings)


def _with_kept(states: Iterable[SchemaState]) -> Iterable[SchemaState]:
    """Yield states with the columns that events told no more, though no statement dropped them."""
    kept, before = dict[str, SchemaColumn](), None
    for state in states:
        schema = state.schema
        assert schema is not None, "the caller leaves states without a table out"
        if state.statement is None and before is not None:
            kept |= {folded(one.name): replace(one, nullable=True) for one in before.columns}
        for change in state.changes:
            if isinstance(change, TableCreated):
                kept.clear()
            elif isinstance(change, ColumnDropped):
                kept.pop(folded(change.name), None)
        for name in [name for name in kept if schema.column(name) is not None]:
            del kept[name]
        before = replace(schema, columns=(*schema.columns, *kept.values()))
        yield replace(state, schema=before)


def is_read_as_it_stands(path: ValuePath, stored_type: str | None, lake_type: str) -> bool:
    """Return whether a stored column is read as it stands: Iceberg renames it, moves it and promotes its type.

    ``stored_type`` is None where the column is not stored.
    """
    if not path.keeps_values:
        return False
    return path.origin is None or stored_type is None or widened(stored_type, lake_type) == lake_type


def last_state(states: Sequence[SchemaState], position: SourcePosition) -> int:
    """Return the place of the last state at or before a position; the first one where none is."""
    return max((place for place, one in enumerate(states) if one.position <= position), default=0)
