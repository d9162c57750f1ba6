"""The columns that a snapshot has by its policy, of all columns that its table ever had.

A column is followed over its names. One that a statement drops and another adds again is another column, under any policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.stages.value_paths import value_paths
from dts_assets.wire.ddl.schema_changes import ColumnDropped, TableCreated
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema, folded


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column of a snapshot under its ``name`` there, which may be one that the source had.

    ``column`` is the source's as it is now, or as it was last where ``is_gone`` says that it was dropped. ``is_new`` says that a
    frozen snapshot has no place for it but in its map.
    """

    name: str
    column: SchemaColumn
    is_gone: bool = False
    is_new: bool = False


def placed_columns(states: Sequence[SchemaState], policy: SchemaPolicy) -> tuple[PlacedColumn, ...]:
    """Return the columns of a snapshot behind the last of some states, each of which has a schema."""
    now, first = states[-1].schema, _first(states)
    assert now is not None, "states without a table are left out"
    if policy is SchemaPolicy.FREEZE:
        return _frozen(states, first, now)
    there = tuple(PlacedColumn(one.name, one) for one in now.columns)
    return (*there, *_kept(states, first)) if policy is SchemaPolicy.KEEP else there


def last_created(states: Sequence[SchemaState]) -> int:
    """Return the number of the state behind which a table was last created.

    It had no row then. The number is 0 where no statement says so.
    """
    made = (number for number, one in enumerate(states) if any(isinstance(c, TableCreated) for c in one.changes))
    return max(made, default=0)


def _first(states: Sequence[SchemaState]) -> int:
    """Return the number of the first state of the table that there is now whose columns are known."""
    return next(n for n in range(last_created(states), len(states)) if states[n].schema and _columns(states[n]))


def _columns(state: SchemaState) -> tuple[SchemaColumn, ...]:
    return () if state.schema is None else state.schema.columns


def _steps(states: Sequence[SchemaState], first: int) -> Iterator[tuple[TableSchema, Mapping[str, str]]]:
    """Yield the schemas behind a state, each with the names of its columns by their former names.

    The latter are without case. Where a table was not known for a while, the next known columns are held against the last ones.
    """
    before = first
    for number in range(first + 1, len(states)):
        schema, former = states[number].schema, states[before].schema
        if schema is None or former is None or not schema.columns:
            continue
        origins = {
            folded(path.origin): name
            for name, path in value_paths(states, before, number, schema.names)[0].items()
            if path.origin is not None
        }
        yield schema, {one: origins[one] for one in map(folded, former.names) if one in origins}
        before = number


def _kept(states: Sequence[SchemaState], first: int) -> tuple[PlacedColumn, ...]:
    """Return the columns that were dropped, in that order, whose names no column has had since."""
    kept, before = dict[str, SchemaColumn](), _columns(states[first])
    for schema, followers in _steps(states, first):
        kept |= {folded(one.name): one for one in before if folded(one.name) not in followers}
        for one in schema.columns:
            kept.pop(folded(one.name), None)
        before = schema.columns
    return tuple(PlacedColumn(one.name, one, is_gone=True) for one in kept.values())


def _frozen(states: Sequence[SchemaState], first: int, now: TableSchema) -> tuple[PlacedColumn, ...]:
    """Return the first columns as they are now, or were last, and then those that came since."""
    columns = _columns(states[first])
    last, names = list(columns), [folded(one.name) for one in columns]
    gone = [False] * len(columns)
    for schema, followers in _steps(states, first):
        there = {one.name: one for one in schema.columns}
        for place, name in enumerate(names):
            found = None if gone[place] else there.get(followers.get(name, ""))
            gone[place] = found is None
            if found is not None:
                last[place], names[place] = found, folded(found.name)
    own = {name for name, is_gone in zip(names, gone, strict=True) if not is_gone}
    mine = (
        PlacedColumn(one.name, found, is_gone=is_gone) for one, found, is_gone in zip(columns, last, gone, strict=True)
    )
    new = (PlacedColumn(one.name, one, is_new=True) for one in now.columns if folded(one.name) not in own)
    return (*mine, *new)


def with_kept(states: Iterable[SchemaState]) -> Iterable[SchemaState]:
    """Yield states with columns that events told no more, though no statement dropped them."""
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
