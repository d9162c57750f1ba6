"""The columns of a merged table: those of its shards, each of which follows its own statements.

The table has the present columns of all its shards. A column that a shard lacks is null in the shard's rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TypeVar

from dts_assets.model.columns import Column, joined_type, same_name
from dts_assets.model.positions import SourcePosition
from dts_assets.model.present_columns import PresentColumn, PresentColumns
from dts_assets.stages.alike_paths import AlikePaths
from dts_assets.stages.followed_columns import FollowedColumns, PastSchema
from dts_assets.stages.followed_schemas import FollowedTable
from dts_assets.stages.row_origins import RowOrigins
from dts_assets.stages.server_types import server_type
from dts_assets.stages.shard_truncations import Shard
from dts_assets.stages.shard_ways import Begin, ShardWays
from dts_assets.stages.value_paths import ValuePath, value_paths, with_own_type
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import SchemaColumn, folded

Value = TypeVar("Value")
Way = TypeVar("Way", ValuePath, ValuePath | None)
NO_VALUE = ValuePath(None)


@dataclass(frozen=True)  # without slots, for the cached properties
class FollowedShards:
    """A merged table: the schemas of its shards, and its columns in the snapshot.

    ``shards`` are all that ever were, ``gone`` those among them that are dropped or have another name. ``columns`` are those of
    the shards that are there, and behind them the columns ``shard_names``, which tell a row's shard. ``names`` are their names at
    the source. ``keeps_deleted`` says that the rows of dropped shards stay. ``mixed`` is the first position at which changes may
    be matched by a key that they did not tell, while shards have different keys; None if there is none.
    """

    shards: Mapping[Shard, FollowedTable]
    gone: frozenset[Shard]
    shard_names: tuple[str, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    keeps_deleted: bool = False
    mixed: SourcePosition | None = None

    @property
    def is_moved(self) -> bool:
        """True if rows of the table came, or went, by another name, or changed their shard."""
        return any(one.is_moved for one in self.shards.values())

    @property
    def is_simple(self) -> bool:
        """True if each shard had one schema so far and all its rows, under one name."""
        shards = self.shards.values()
        return not self.is_moved and all(len(one.states) == 1 and one.left_out is None for one in shards)

    @property
    def has_defaults(self) -> bool:
        """True if inserts that lack a column may have a default that is known."""
        return any(one.has_defaults for one in self.shards.values())

    @property
    def doubt(self) -> str:
        """The reason why columns or rows of some shard are not proven; empty where all are."""
        found = ((shard, one.doubt) for shard, one in self.shards.items() if shard not in self.gone)
        return next((f"{'.'.join(shard)} at {doubt}" for shard, doubt in found if doubt), self.unfollowed)

    @cached_property
    def unfollowed(self) -> str:
        """The first statement whose changes rows lack as their keys differ; empty where there is none.

        Where there is none, it is the first change that another key may have matched.
        """
        if self.key is not None:
            return ""
        for shard, one in self.shards.items():
            numbers = one.numbers_with_rows if shard not in self.gone else ()
            found = next((one.states[number].position for number in numbers if _changes_rows(one.states, number)), None)
            if found is not None:
                return (
                    f"{'.'.join(shard)} at {found}: its rows lack this statement, as not all rows have one primary key"
                )
        if self.mixed is not None:
            why = "its shards or sets have different primary keys, and changes of one may be matched by another's"
            return f"{self.mixed}: {why}"
        return ""

    @cached_property
    def digest(self) -> str:
        """A digest of what rows that stand were made by.

        A new shard whose columns are those of another one changes nothing.
        """
        told = {repr(_seen(shard, one, shard in self.gone)) for shard, one in self.shards.items()}
        return hashlib.sha256("\n".join(sorted(told)).encode(errors="surrogatepass")).hexdigest()[:16]

    @cached_property
    def key(self) -> frozenset[str] | None:
        """The names, without case, of the key that finds all rows; None if there are several.

        The key that statements say counts, and so does one that events tell instead.
        """
        found = set[frozenset[str]]()
        for shard, one in self.shards.items():
            if self.keeps_deleted or shard not in self.gone or len(self.gone) == len(self.shards):
                parts = one.key_parts((), since=0 if self.keeps_deleted else one.created)
                if len(parts) > 1:
                    return None
                found.add(frozenset(map(folded, parts[0].keys)))
        return next(iter(found)) if len(found) == 1 else None

    def keyed_by(self, keys: Collection[str]) -> tuple[Column, ...]:
        """Return the columns with a key of some names, to which the columns that tell the shard belong."""
        wanted = {*keys, *map(folded, self.shard_names)} if keys else set()
        return tuple(
            replace(column, is_key=folded(name) in wanted)
            for name, column in zip(self.names, self.columns, strict=True)
        )

    def present(self, keyed: Sequence[Column], flat_name: Callable[[str], str], *, changelog: str) -> PresentColumns:
        """Return the columns as they stand with a snapshot; see :meth:`FollowedTable.present`.

        Shards may have different defaults, so none stands there.
        """
        columns = (
            PresentColumn(source, flat_name(one.name), one.type, one.is_key)
            for source, one in zip(self.names, keyed, strict=True)
        )
        return PresentColumns(self.digest, changelog, tuple(columns), self.doubt)

    def followed(self) -> FollowedColumns:
        """Return the ways of the values of all changes, by the shard and the position of each."""
        alike, numbers, schemas = AlikePaths(), dict[object, int](), list[PastSchema]()
        begins = []
        for shard, one in self.shards.items():
            found = list[Begin]()
            for schema in one.followed().schemas:
                mine = self._of_all(shard, schema)
                defaults = tuple(None if path is None else alike.key(path) for path in mine.defaults)
                number = numbers.setdefault((tuple(map(alike.key, mine.paths)), mine.fields, defaults), len(schemas))
                if number == len(schemas):
                    schemas.append(mine)
                found.append((schema.since, number))
            begins.append((shard, tuple(found)))
        as_named = tuple(map(ValuePath, self.names))
        fields = tuple(one.lake_names for one in self.columns)
        schemas.append(PastSchema(None, as_named, fields, (None,) * len(fields)))
        ways = ShardWays(self.shard_names, tuple(begins), len(schemas) - 1)
        return FollowedColumns(tuple(schemas), tuple(one.type for one in self.columns), shards=ways)

    def with_defaults(self, columns: Sequence[Column]) -> FollowedColumns:
        """Return how changes are read as events told them, in columns that the lake has of all events.

        Their values go through no statement. Inserts that lack a column have the default that it had then.
        """
        found, places = self.followed(), {folded(name): place for place, name in enumerate(self.names)}
        at = [next((places[one] for one in map(folded, each.source_names) if one in places), None) for each in columns]

        def default(schema: PastSchema, place: int | None, column: Column) -> ValuePath | None:
            path = None if place is None else schema.defaults[place]
            return path if place is None or path is None else with_own_type(path, found.types[place], column.type)

        paths, fields = tuple(ValuePath(one.name) for one in columns), tuple(one.lake_names for one in columns)
        defaults = (
            tuple(default(schema, place, one) for place, one in zip(at, columns, strict=True))
            for schema in found.schemas
        )
        schemas = tuple(PastSchema(None, paths, fields, mine) for mine in defaults)
        return replace(found, schemas=schemas, types=tuple(one.type for one in columns), stand=True)

    def from_state(self, shard: Shard, number: int) -> tuple[ValuePath, ...]:
        """Return the ways of a shard's rows in a snapshot that was made behind a state."""
        mine = self._in_own_types(shard, self.shards[shard].from_state(number), NO_VALUE)
        return (*mine, *map(ValuePath, self.shard_names))

    def _of_all(self, shard: Shard, schema: PastSchema) -> PastSchema:
        """Return a schema of a shard for the columns of the merged table."""
        names = self.shard_names
        return PastSchema(
            None,
            (*self._in_own_types(shard, schema.paths, NO_VALUE), *map(ValuePath, names)),
            (*self._by_place(shard, schema.fields, ()), *((one,) for one in names)),
            (*self._in_own_types(shard, schema.defaults, None), *(None,) * len(names)),
        )

    def _in_own_types(self, shard: Shard, mine: Sequence[Way], none: Way) -> tuple[Way, ...]:
        """Return a shard's ways for the columns of the table, each by the shard's own type.

        A value that this type does not take is none, though the type of all shards may hold it.
        """
        types = self._by_place(shard, self.shards[shard].types, "")
        ways = self._by_place(shard, mine, none)
        return tuple(
            replace(way, own_type=kind)
            if way is not None and not way.own_type and kind not in ("", column.type)
            else way
            for way, kind, column in zip(ways, types, self.columns, strict=False)
        )

    def _by_place(self, shard: Shard, mine: Sequence[Value], none: Value) -> tuple[Value, ...]:
        """Return what a shard has for its columns for those of the merged table."""
        places = self._places[shard]
        return tuple(none if place is None else mine[place] for place in places)

    @cached_property
    def _places(self) -> Mapping[Shard, tuple[int | None, ...]]:
        """The place of each column of the table among those of a shard."""
        wanted = [folded(name) for name in self.names[: len(self.names) - len(self.shard_names)]]
        found = {}
        for shard, one in self.shards.items():
            mine = {folded(name): place for place, name in enumerate(one.names)}
            found[shard] = tuple(mine.get(name) for name in wanted)
        return found


def followed_shards(
    shards: Mapping[Shard, FollowedTable],
    gone: Collection[Shard],
    shard_names: Sequence[str],
    *,
    keeps_deleted: bool = False,
) -> FollowedShards | None:
    """Return a merged table with the present columns of its shards; None where none is known.

    The columns stand in the order of the shard with the newest schema. Further ones of the other shards follow.

    Args:
        shards: The shards, each with its schemas and its columns in the lake.
        gone: The shards that are not there any more. If all are, the last columns of all count.
        shard_names: The columns that tell the shard of a row.
        keeps_deleted: Whether the rows of dropped shards stay.
    """
    there = {shard: one for shard, one in shards.items() if shard not in gone} or shards
    if not there:
        return None
    newest = sorted(there, key=lambda shard: (there[shard].states[-1].position, shard), reverse=True)
    found: dict[str, tuple[str, list[Column]]] = {}
    for shard in newest:
        for name, column in zip(there[shard].names, there[shard].columns, strict=True):
            found.setdefault(folded(name), (name, []))[1].append(column)
    taken, columns = {*map(same_name, shard_names)}, []
    for _, mine in found.values():
        name, kind = mine[0].name, reduce(joined_type, (one.type for one in mine))
        while same_name(name) in taken:
            name += "_"
        taken.add(same_name(name))
        has_documents = any(one.holds_documents for one in mine)
        is_key = any(one.is_key for one in mine)
        columns.append(Column(name, kind, is_key, mine[0].spellings, holds_documents=has_documents))
    keyed = any(one.is_key for one in columns)
    columns += [Column(name, "string", keyed) for name in shard_names]
    names = (*(name for name, _ in found.values()), *shard_names)
    return FollowedShards(shards, frozenset(gone), tuple(shard_names), tuple(columns), names, keeps_deleted)


def known_origins(rows: RowOrigins) -> RowOrigins:
    """Return the schemas of rows without the last ones of which no column is known."""
    states = list(rows.states)
    while states and states[-1].state.schema is not None and not states[-1].state.schema.columns:
        states.pop()
    return replace(rows, states=tuple(states))


def _changes_rows(states: Sequence[SchemaState], number: int) -> bool:
    """Return whether a statement gives rows that are there other values, or the same ones under other names."""
    before, schema = states[number - 1].schema if number else None, states[number].schema
    if before is None or schema is None:
        return False
    found = value_paths(states, number - 1, number, schema.names)[0]
    kept = {folded(one.origin) for one in found.values() if one.origin is not None}
    return kept != {*map(folded, before.names)} or any(
        not one.keeps_values or one.origin not in (None, name) for name, one in found.items()
    )


def _seen(shard: Shard, one: FollowedTable, is_gone: bool) -> object:
    """Return what tells shards apart by rows that stand: of one schema its columns alone."""
    schema = one.states[-1].schema
    if one.is_moved or len(one.states) > 1 or schema is None:
        return shard, one.digest, is_gone
    return tuple((column.name, _kind(column)) for column in schema.columns), schema.key, is_gone


def _kind(column: SchemaColumn) -> str:
    kind = server_type(column)
    return column.type if kind is None else kind.lake_type
