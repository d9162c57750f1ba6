"""The columns of a snapshot by its table's schemas, and the way of rows and changes to them.

A snapshot has the columns of its table's last schema, in their order. Columns that events told no more, though no statement
dropped them, stay: a format may leave columns out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dts_assets.model.collections import DOCUMENT_TYPE
from dts_assets.model.columns import Column, same_name
from dts_assets.model.key_periods import KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.present_columns import PresentColumn, PresentColumns
from dts_assets.model.schema_policies import SchemaPolicy, in_map
from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import is_unknown
from dts_assets.stages.followed_columns import FollowedColumns, PastSchema
from dts_assets.stages.key_parts import KeyPart, key_parts
from dts_assets.stages.placed_columns import PlacedColumn, last_created, placed_columns, with_kept
from dts_assets.stages.row_origins import OriginState, RowOrigin, RowOrigins
from dts_assets.stages.server_types import server_type
from dts_assets.stages.value_keeping import keeps_values
from dts_assets.stages.value_paths import (
    TextByRule,
    ValuePath,
    default_path,
    inserted_text,
    no_text,
    own_type,
    value_paths,
)
from dts_assets.wire.ddl.schema_changes import ColumnModified
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.schema_news import doubt_of
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn, TableSchema, folded

Fields = Mapping[str, tuple[str, ...]]
"""The names of a source table's columns in a changelog, by their names without case."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table whose schemas are known, and its columns in the snapshot.

    ``columns`` are those of the last of the ``states`` as the lake has them: a :class:`~dts_assets.model.columns.Column` has all
    names that a changelog may have for it. ``names`` are their names at the source. ``fields`` has the names in the changelog of
    each state for every column of any schema, by its name without case. Values of columns in ``shown_otherwise`` go through no
    statement, because a rule or a setting has made them others. ``origins`` are the changelogs with the changes of its rows, and
    ``moved_rows`` is a digest of the changes under other names. By a ``policy`` a snapshot may have columns that the source
    dropped, whose name there is empty, and ``mapped`` ones, whose values are texts in a map: it has their own lake types by their
    places. ``proven_at`` is the position of the last copy of the table: columns and rows were those of the source there, whatever
    statements before it did. ``left_out`` has the position at which rows came from a name whose row filter had left some out, and
    a sentence that says so. ``ruled`` has the columns of each state whose values have passed a rule, as fingerprints by names
    without case; none where there are no rules. ``in_part`` has the first position at which rows may have come into the row
    filter without all their columns, and the columns of the filter without case. ``zone`` is that of wall clocks which a setting
    makes instants. ``kept`` has the first and last position of each window's changes, which tell whether a statement found rows;
    None where they are not known. ``by_rule`` gives a default as the rule of its column makes it.
    """

    states: tuple[SchemaState, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    fields: tuple[Fields, ...]
    origins: tuple[RowOrigin, ...]
    shown_otherwise: frozenset[str] = frozenset()
    policy: SchemaPolicy = SchemaPolicy.FOLLOW
    mapped: Mapping[int, str] = field(default_factory=dict)
    moved_rows: str = ""
    proven_at: SourcePosition | None = None
    left_out: tuple[SourcePosition, str] | None = None
    in_part: tuple[SourcePosition, frozenset[str]] | None = None
    ruled: tuple[Mapping[str, str], ...] = ()
    zone: str = ""
    kept: tuple[tuple[SourcePosition, SourcePosition], ...] | None = None
    by_rule: TextByRule = no_text

    @property
    def is_moved(self) -> bool:
        """True if rows of the table came, or went, by another name."""
        return len(self.origins) > 1 or self.origins[0].since is not None

    @property
    def doubt(self) -> str:
        """The reason why columns or rows of the table are not proven; empty where they are."""
        created, ruled, lost = self.created, frozenset[str](), frozenset[str]()
        for number in self.numbers_with_rows:
            state = self.states[number]
            found = next(filter(None, map(doubt_of, state.changes)), None) or state.doubt
            if found is None and state.statement is None and number > created:
                found = "events tell other columns, and no statement says why"
            if number > created and self.ruled:
                ruled = self._with_another_rule(number, ruled)
            if number > created and (lost or any(map(is_unknown, state.changes))):
                lost = self._with_lost_values(number, lost)
            if found is None and ruled:
                found = self._not_found_by(number, ruled, "have passed a rule before this statement")
            if found is None and lost:
                found = self._not_found_by(number, lost, "are not known in its new type")
            if found is None and number > created and (unsent := self._unsent_columns(number)):
                found = self._not_found_by(number, unsent, "are not known in rows that came into its row filter")
            if found is not None:
                return f"{state.position}: {found}"
        if self.left_out is not None and (self.proven_at is None or self.proven_at < self.left_out[0]):
            return f"{self.left_out[0]}: {self.left_out[1]}"
        return ""

    def _with_another_rule(self, number: int, before: Collection[str]) -> frozenset[str]:
        """Return the columns of a state, without case, whose values a rule of now may not have made.

        They passed another rule, or the same one before a statement converted them. ``before`` are those of the state before.
        """
        then, now = self.ruled[number - 1], self.ruled[number]
        modified = (one for one in self.states[number].changes if isinstance(one, ColumnModified))
        converted = {folded(one.new.name) for one in modified if not keeps_values(one.old, one.new)}
        return frozenset(
            name
            for name, origin in self._origins(number).items()
            if origin in before or then.get(origin) != now.get(name) or (name in now and name in converted)
        )

    def _with_lost_values(self, number: int, before: Collection[str]) -> frozenset[str]:
        """Return the columns of a state, without case, whose values are not known in any row of before.

        ``before`` are those of the state before.
        """
        schema = self.states[number].schema
        paths = {} if schema is None else value_paths(self.states, number - 1, number, schema.names)[0]
        return frozenset(
            folded(name)
            for name, path in paths.items()
            if name not in self.shown_otherwise
            and path.origin is not None
            and (folded(path.origin) in before or any(is_unknown(one.change) for one in path.steps))
        )

    def _unsent_columns(self, number: int) -> frozenset[str]:
        """Return the columns of a state with another key that rows in the filter may lack, without case.

        They have the columns of the filter, and of the key before.
        """
        schema, before = self.states[number].schema, self.states[number - 1].schema
        if self.in_part is None or self.states[number].position <= self.in_part[0] or schema is None or before is None:
            return frozenset()
        known = self.in_part[1] | set(map(folded, before.key))
        origins = self._origins(number)
        same_key = [origins.get(folded(one)) for one in schema.key] == [*map(folded, before.key)]
        return frozenset() if same_key else frozenset(name for name, origin in origins.items() if origin not in known)

    def _origins(self, number: int) -> dict[str, str]:
        """Return the columns that those of a state come from in the state before, all without case."""
        schema = self.states[number].schema
        paths = {} if schema is None else value_paths(self.states, number - 1, number, schema.names)[0]
        return {folded(name): folded(path.origin) for name, path in paths.items() if path.origin is not None}

    def _not_found_by(self, number: int, columns: Collection[str], why: str) -> str | None:
        """Return why no change finds some rows of before a state by some columns; None where changes do."""
        schema = self.states[number].schema
        key = () if schema is None else schema.key
        names = key or (() if schema is None else schema.names)
        found = next((one for one in names if folded(one) in columns), None)
        if found is None:
            return None
        by = "changes find rows by it" if key else "no primary key finds their rows"
        return f"values of column {found} {why}, and {by}"

    @property
    def numbers_with_rows(self) -> Iterator[int]:
        """The numbers of the states before which the table may have rows that no copy brought."""
        created = self.created
        begin = self.states[created].position if created else None
        kept = None if self.kept is None else [one for one in self.kept if begin is None or begin <= one[1]]
        first_kept = None if kept is None else min((first for first, _ in kept), default=None)
        for number in range(created, len(self.states)):
            position = self.states[number].position
            may_have_rows = kept is None or (first_kept is not None and first_kept < position)
            if may_have_rows and (self.proven_at is None or self.proven_at < position):
                yield number

    @property
    def has_defaults(self) -> bool:
        """True if inserts that lack a column may have a default that is known."""
        schemas = [state.schema for state in self.states if state.schema is not None]
        return any(
            inserted_text(one, is_key=schema.has_in_key(one))[1] is not None
            for schema in schemas
            for one in schema.columns
        )

    @property
    def fills_nulls(self) -> bool:
        """True if a statement may have filled NULL, since a column takes none any more."""
        changes = [one for state in self.states for one in state.changes if isinstance(one, ColumnModified)]
        return any(one.old.nullable and not one.new.nullable for one in changes)

    @property
    def digest(self) -> str:
        """A digest that is equal exactly if the states, the origins, the policy and the zone are."""
        states = [repr((one.position, one.schema, one.changes)) for one in self.states]
        policy = [self.policy.value] if self.policy.shapes_columns else []
        zone = [f"clocks of {self.zone}"] if self.zone else []
        text = "\n".join([*states, repr(self.origins), self.moved_rows, *policy, *zone])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def key_parts(self, told: Iterable[KeySpan], *, since: int) -> tuple[KeyPart, ...]:
        """Return the parts of the log, from a state on, each with one key that finds rows.

        Statements say the key, and ``told`` has the keys that changes told: they count where they say another one.
        """
        return key_parts(self.states, told, since=since)

    def keyed_by(self, part: KeyPart) -> tuple[Column, ...]:
        """Return the columns of now with the key of the last part."""
        keys = {*map(folded, part.keys)}
        return tuple(
            replace(column, is_key=folded(name) in keys) for name, column in zip(self.names, self.columns, strict=True)
        )

    @property
    def created(self) -> int:
        """The number of the state in which the table was last created, without rows.

        It is 0 where no statement says so.
        """
        return last_created(self.states)

    def step_columns(self, parts: Sequence[KeyPart]) -> tuple[Column, ...]:
        """Return the key columns of some parts, under names of their own, for rows between two steps."""
        return tuple(
            Column(f"{name} behind {part.since}", kind, False) for part in parts for name, kind in self._keys(part)
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
                *inserted_text(
                    schema.column(source), self.by_rule if source in self.shown_otherwise else None, is_key=one.is_key
                ),
                *self._place_of(place),
            )
            for place, (source, one) in enumerate(zip(self.names, keyed, strict=True))
        )
        policy = self.policy.value if self.policy.shapes_columns else ""
        return PresentColumns(self.digest, changelog, tuple(columns), self.doubt, policy)

    def _place_of(self, place: int) -> tuple[str, str]:
        source, name = self.names[place], self.columns[place].name
        if not source:
            return "gone", name
        if place in self.mapped:
            return "map", name
        return ("frozen", name) if self.policy is SchemaPolicy.FREEZE and source != name else ("", "")

    def followed(self, parts: Sequence[KeyPart] = (), family: Family | None = None) -> FollowedColumns:
        """Return the ways of the values of all changes, by the schemas that they stand behind.

        The columns are followed by those of :meth:`step_columns`.
        """
        schemas = []
        for number, mine in enumerate(self._ways(0, parts)):
            fields = tuple(
                self.fields[number].get(folded(one.origin), (one.origin,)) if one.origin else () for one in mine
            )
            defaults = tuple(self._default(number, path) for path in mine)
            since = self.states[number].position if number else None
            schemas.append(PastSchema(since, mine, fields, defaults))
        types = tuple(column.type for column in self.step_columns(parts))
        return FollowedColumns(tuple(schemas), (*self.types, *types), family, frozenset(self.mapped))

    @property
    def types(self) -> tuple[str, ...]:
        """The lake types of the columns, those of mapped columns before their values become texts."""
        return tuple(self.mapped.get(place, one.type) for place, one in enumerate(self.columns))

    def from_state(self, number: int, parts: Sequence[KeyPart] = ()) -> tuple[ValuePath, ...]:
        """Return the ways of the values of rows in a snapshot that was made behind a state.

        The columns are followed by those of :meth:`step_columns`.
        """
        return self._ways(number, parts)[0]

    def _ways(self, start: int, parts: Sequence[KeyPart]) -> list[tuple[ValuePath, ...]]:
        """Return the ways of all columns from each state on; none leads back to a part."""
        last, own = len(self.states) - 1, self._own_types()
        ways = [
            tuple(self._way(one, name, number, own.get(name, "")) for name in self.names)
            for number, one in enumerate(value_paths(self.states, start, last, filter(None, self.names)), start)
        ]
        for part in parts:
            found = value_paths(self.states, start, part.last, part.keys) if start <= part.last else []
            mine = [tuple(one[name] for name in part.keys) for one in found]
            mine += [(ValuePath(None),) * len(part.keys)] * (len(ways) - len(mine))
            ways = [(*one, *more) for one, more in zip(ways, mine, strict=True)]
        return ways

    def _own_types(self) -> Mapping[str, str]:
        schema = self.states[-1].schema
        assert schema is not None, "states without a table are left out"
        named = {name: schema.column(name) for name in self.names if name}
        kinds = dict(zip(self.names, self.types, strict=True))
        return {name: own_type(one, kinds[name]) for name, one in named.items() if one is not None}

    def _way(self, ways: Mapping[str, ValuePath], name: str, number: int, kind: str) -> ValuePath:
        if not name:
            return ValuePath(None)
        path = replace(ways[name], zone=self.zone, own_type=kind) if self.zone or kind else ways[name]
        has_passed = self.ruled and path.origin is not None and folded(path.origin) in self.ruled[number]
        if name in self.shown_otherwise or (has_passed and self.columns[self.names.index(name)].type == "string"):
            return path.by_rule(self.by_rule)  # no server has ever had such a value
        return path

    def _default(self, number: int, path: ValuePath) -> ValuePath | None:
        schema = self.states[number].schema
        column = None if schema is None or path.origin is None else schema.column(path.origin)
        default = (
            None if column is None or schema is None else default_path(column, path, is_key=schema.has_in_key(column))
        )
        if default is None or column is None or column.name not in self.shown_otherwise:
            return default
        made = default.by_rule(self.by_rule)
        return made if made.has_steps else None


def unchanged_columns(
    stored: Sequence[Column], present: PresentColumns, family: Family | None = None, *, zone: str = ""
) -> FollowedColumns:
    """Return the columns of changes that all stand behind the last schema, of which ``present`` are the columns.

    ``stored`` are all columns that their changelog has. ``zone`` is that of wall clocks which a setting makes instants.
    """
    fields = present.fields(tuple(stored))
    paths = tuple(ValuePath(one.source if one.place != "gone" else None) for one in present.columns)
    columns = [SchemaColumn(one.source, one.source_type, default=one.default) for one in present.columns]
    defaults = tuple(
        default_path(column, replace(path, zone=zone, own_type=own_type(column, one.type)))
        for one, column, path in zip(present.columns, columns, paths, strict=True)
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
    rule_on: Callable[[TableId, str], str] | None = None,
) -> FollowedTable | None:
    """Return a table with the columns of its last schema; None where no schema can be followed.

    Args:
        rows: The states of the table's schema in source order, and the origins of its rows.
        columns: All columns that changelogs have, by source table.
        table: The source table.
        lake_type: The function that gives the lake type of a column of a schema.
        left_out: The function that tells whether a rule leaves a column out, by its name at the source.
        shown_otherwise: The function that tells whether a rule or a setting makes other values of those of a column.
        policy: What the snapshot does with columns that come and go.
        rule_on: The function that gives the fingerprint of the rule on a column of a source table, empty where there is none;
            None where there are no rules.
    """
    there = [one for one in rows.states if one.state.schema is not None]
    known = tuple(with_kept(one.state for one in there))
    if not known or known[-1].schema is None or not known[-1].schema.columns:
        return None
    if table.schema and _differ_in_case_only(known):
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
        ruled=() if rule_on is None else tuple(_rules_on(one, rule_on) for one in there),
    )


def _rules_on(one: OriginState, rule_on: Callable[[TableId, str], str]) -> dict[str, str]:
    columns = () if one.state.schema is None else one.state.schema.columns
    return {folded(column.name): rule for column in columns if (rule := rule_on(one.table, column.name))}


def _differ_in_case_only(states: Iterable[SchemaState]) -> bool:
    """Return whether names of columns differ in case only.

    Where a table has a schema they are several columns, and schemas compare names as servers of the MySQL family do.
    """
    names = {one.name for state in states if state.schema is not None for one in state.schema.columns}
    return len({folded(name) for name in names}) < len(names)


def _fields(columns: Iterable[Column]) -> Fields:
    found = dict[str, tuple[str, ...]]()
    for column in columns:
        for name in column.source_names:
            found[folded(name)] = tuple(dict.fromkeys((*column.lake_names, *found.get(folded(name), ()))))
    return found


def _placed(one: PlacedColumn, schema: TableSchema, kind: str, there: Column | None, taken: set[str]) -> Column:
    is_key = not one.is_gone and schema.has_in_key(one.column)
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
    return Column(name, kind, schema.has_in_key(one), spellings, holds_documents=one.type == DOCUMENT_TYPE)
