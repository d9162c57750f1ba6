"""Snapshots get the columns that their tables have at a frontier, and their rows follow.

The columns come in the commit that brings the rows: no reader sees the one without the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dts_assets.errors import LakeTableError
from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.layers import CHANGELOG, Layer
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_files import AddedColumns, HeldColumns, HeldWay
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.columns import Column, has_key, same_name
from dts_assets.model.key_periods import KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.present_columns import PresentColumns, columns_digest
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotPlan, SnapshotState
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.followed_schemas import FollowedTable, unchanged_columns
from dts_assets.stages.key_parts import KeyPart
from dts_assets.stages.laid_out_columns import layout_of_schemas
from dts_assets.stages.row_origins import RowOrigin
from dts_assets.stages.row_sums import SummedColumn
from dts_assets.stages.value_paths import ValuePath, is_read_as_it_stands
from dts_assets.store.columns import OWN_COLUMNS, ROW_SUM, flat_name
from dts_assets.store.files import WriteTarget, with_columns
from dts_assets.store.planned_fields import PlannedField, PlannedSchema
from dts_assets.wire.ddl.schema_changes import ColumnModified
from dts_assets.wire.ddl.schema_history import SchemaState


@dataclass(frozen=True, slots=True)
class Step:
    """A table's schemas at a frontier, and the schema under which the rows of its snapshot stand.

    ``before`` is its number among the states; None where no row stands, or where all rows are made anew.
    """

    now: FollowedTable
    before: int | None


@dataclass(frozen=True, slots=True)
class FollowedPart:
    """A part of the changes, with the columns that rows have between it and the next part."""

    part: KeyPart
    columns: tuple[Column, ...]
    changes: FollowedColumns
    held: HeldColumns | None
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class ChangesOrigin:
    """A changelog with changes of a table, as it stands at an Iceberg snapshot.

    None stands for the Iceberg snapshot of the plan.
    """

    table: TableId
    changelog: int | None
    source: ChangesSource


@dataclass(frozen=True, slots=True)
class Following:
    """The columns that a snapshot gets, and the ways of rows and changes to them.

    ``columns`` are those of the source as the lake has them. ``changes`` read changelogs, ``held`` reads rows that stand; None
    where they are read as they stand: then ``added`` has the columns that came with values which no statement says. New files
    go to ``target``, and ``planned`` comes in their commit; None where the table has these columns. Where rows are found by
    another key from some position on, ``parts`` are taken over one after the other. ``origins`` are the changelogs of a table
    that had another name; none where its own changelog has all changes. ``present`` stands in the commit; None where the table
    follows statements no more. ``converted_at`` is the position of the first statement that converts values of rows, and
    ``proven_at`` that of the last copy, whose rows are those of the source.
    """

    columns: tuple[Column, ...]
    present: PresentColumns | None
    changes: FollowedColumns
    held: HeldColumns | None
    target: WriteTarget
    planned: PlannedSchema | None
    parts: tuple[FollowedPart, ...] = ()
    origins: tuple[ChangesOrigin, ...] = ()
    added: AddedColumns | None = None
    converted_at: SourcePosition | None = None
    proven_at: SourcePosition | None = None


def step_of(before: FollowedTable | None, now: FollowedTable, state: SnapshotState) -> Step | None:
    """Return the way from a snapshot's state to its table's schema; None where all rows are made anew.

    ``before`` has the schemas that the state's frontier holds. What it tells now may differ from what the snapshot was made
    from: then a window was made again. Rows that moved from another table, or to it, are made anew, too.
    """
    if state.frontier.window is None:
        return None if now.is_moved else Step(now, None)
    if before is None:
        return Step(now, 0) if len(now.states) == 1 and not now.is_moved and state.present is None else None
    same_origins = before.origins == now.origins and before.moved_rows == now.moved_rows
    if before.states != now.states[: len(before.states)] or not same_origins:
        return None
    if state.present is None:
        return Step(now, 0) if len(before.states) == 1 and not now.is_moved else None
    return Step(now, len(before.states) - 1) if before.digest == state.present.digest else None


def may_double_deleted(plan: SnapshotPlan, key: Collection[str], tables: Iterable[FollowedTable]) -> bool:
    """Return whether a plan that computes keys again could leave deleted rows twice.

    Without a key changes are found by all values. Such a row has the NULL that it had, and its changes have what a statement
    filled.
    """
    keeps = DELETED_AT in plan.state.added
    return plan.recomputes and keeps and not key and any(one.fills_nulls for one in tables)


def is_plain(now: FollowedTable, columns: Sequence[Column], *, lacking: bool, is_new: bool) -> bool:
    """Return whether a table has had one schema so far: its snapshot has all columns of events.

    ``lacking`` says that changes lack columns: then inserts have defaults that the schema tells. One that ``is_new`` gets the
    order of its schema: that of the events is of the window that was made first.
    """
    if lacking and now.has_defaults:
        return False
    names = [one.name for one in columns]
    return (
        len(now.states) == 1
        and not now.is_moved
        and now.left_out is None
        and not any(one.own_types for one in columns)
        and {*now.names} == {*names}
        and (not is_new or [*now.names] == names)
    )


def unchanged(
    pipeline: Pipeline, layer: Layer, table: TableId, columns: Sequence[Column], present: PresentColumns
) -> Following:
    """Return how a snapshot goes on whose table has the columns that it had."""
    mine = present.stored(tuple(columns))
    target = pipeline.lake.target(pipeline.table_path(layer.name, table), "")
    followed = unchanged_columns(columns, present, zone=pipeline.clock_zone)
    return Following(mine, present, followed, None, target, None)


def following(
    pipeline: Pipeline,
    layer: Layer,
    table: TableId,
    columns: Sequence[Column],
    state: SnapshotState,
    step: Step,
    told: Sequence[KeySpan],
    origins: tuple[ChangesOrigin, ...],
) -> Following:
    """Return how a snapshot gets the columns of its table's last schema.

    ``told`` has the keys that changes told, ``origins`` the changelogs of a table that had another name.

    Raises:
        LakeTableError: The layout of the snapshot needs a column that is gone, or one whose type it cannot take.
    """
    path, now = pipeline.table_path(layer.name, table), step.now
    there, target = dict(pipeline.lake.fields(path) or ()), pipeline.lake.target(path, "")
    named = names_that_stand(columns, state)
    start = len(now.states) - 1 if step.before is None else step.before
    paths = now.from_state(start)
    stands = _Stands.of(state, there)
    stored = stored_names(paths, named, stands.types)
    shown = [place for place in range(len(paths)) if place not in now.mapped]
    wanted = layer.columns_of(pipeline.settings, table, [now.columns[place] for place in shown])
    names = tuple(flat_name(one.name) for one in now.columns)
    gone = {names[place] for place, source in enumerate(now.names) if not source}
    stay = stands.gone & gone if step.before is not None else frozenset[str]()
    formers = [names[place] if names[place] in stay else stands.own(stored[place]) for place in shown]
    formers += [name if name in there else None for name, _ in wanted[len(shown) :]]
    fields = [PlannedField(name, kind, former) for (name, kind), former in zip(wanted, formers, strict=True)]
    fields = with_sums_of(fields, there)
    layout = layout_of_schemas(layer.layout(pipeline.settings, table), now)
    planned_target, planned = pipeline.lake.planned(path, fields, "", layout)
    as_they_stand = all(
        is_read_as_it_stands(one, stands.types.get(name or ""), kind.type)
        for one, name, kind in zip(paths, stored, now.columns, strict=True)
    )
    renamed = {other for name, other in zip(stored, names, strict=True) if name not in (None, other)}
    # A map has the names of its columns, and rows without a key are told apart by texts of a column, too.
    otherwise = renamed if state.unfit else renamed & {names[place] for place in now.mapped}
    otherwise |= stands.in_map - {*stored}
    # The texts of a dropped column would be those of a column that comes under its name.
    otherwise |= there.keys() - {name for name, _ in wanted[len(shown) :]} - {*stored} - stay if state.unfit else set()
    otherwise |= gone - stay if state.unfit and not has_key(now.columns) else set()
    held = None
    held_columns = partial(
        HeldColumns, target.schema, in_hexadecimal=stands.in_hexadecimal, mapped=frozenset(now.mapped)
    )
    if step.before is not None and (otherwise or not as_they_stand):
        held = held_columns((HeldWay(paths, stored),), now.types)
    unsaid = tuple(name for name, one in zip(names, paths, strict=True) if one.is_unknown)
    added = AddedColumns((unsaid,)) if unsaid and held is None and step.before is not None else None
    keeps = DELETED_AT in layer.added(pipeline.settings, table)
    first = step.before if step.before is not None else 0 if keeps else now.created
    parts = now.key_parts(told, since=first)
    keyed, made = now.keyed_by(parts[-1]), []
    _refuse_mapped_keys(path, now, keyed)
    for number, part in enumerate(parts if len(parts) > 1 else ()):
        later = parts[number:-1]
        more, before = now.step_columns(later), len(now.step_columns(parts[:number]))
        mine = tuple(replace(one, is_key=False) for one in keyed) if later else keyed
        keys = {one.name for one in now.step_columns(later[:1])}
        mine += tuple(replace(one, is_key=one.name in keys) for one in more)
        standing = None
        if number == 0 and step.before is not None:
            paths = now.from_state(step.before, later)
            kinds = (*now.types, *(one.type for one in more))
            standing = held_columns((HeldWay(paths, stored_names(paths, named, stands.types)),), kinds)
        made.append(
            FollowedPart(
                part,
                mine,
                now.followed(later),
                standing,
                with_columns(planned_target, [(one.name, one.type) for one in more], first=before),
            )
        )
    present = now.present(keyed, flat_name, changelog=columns_digest(columns))
    converting = (one.position for one in now.states[(step.before or now.created) + 1 :] if _converts(one))
    converted_at = next((one for one in converting if now.proven_at is None or now.proven_at < one), None)
    return Following(
        keyed, present, now.followed(), held, planned_target, planned, tuple(made), origins, added, converted_at,
        now.proven_at,
    )  # fmt: skip


def _converts(state: SchemaState) -> bool:
    return any(isinstance(one, ColumnModified) for one in state.changes)


def with_sums_of(fields: Sequence[PlannedField], there: Mapping[str, str]) -> list[PlannedField]:
    """Return the columns that a table gets, with a new one of rows' sums if needed.

    Sums that stand stay as long as no column goes, and no text becomes another one. ``there`` are the columns as the table has
    them.
    """
    kinds = {one.former: SummedColumn(0, one.name, one.type).kind for one in fields}
    own = {name: SummedColumn(0, name, kind).kind for name, kind in there.items() if name not in OWN_COLUMNS}
    if all(kinds.get(name) == kind for name, kind in own.items()):
        return [*fields]
    return [replace(one, former=None) if one.name == ROW_SUM else one for one in fields]


@dataclass(frozen=True, slots=True)
class _Stands:
    """The columns of a snapshot as it stands: lake types by names, and places by policy."""

    types: Mapping[str, str]
    gone: frozenset[str]
    in_map: frozenset[str]
    in_hexadecimal: frozenset[str]

    @classmethod
    def of(cls, state: SnapshotState, there: Mapping[str, str]) -> _Stands:
        present = () if state.present is None else state.present.columns
        gone = frozenset(one.name for one in present if one.place == "gone")
        mapped = {one.name: one.type for one in present if one.place == "map"}
        binary = frozenset(name for name, kind in mapped.items() if kind == "binary")
        return cls({**there, **dict.fromkeys(mapped, "string")}, gone, frozenset(mapped), binary)

    def own(self, name: str | None) -> str | None:
        """Return the name of a column of the table, None for one in its map."""
        return None if name in self.in_map else name


def _refuse_mapped_keys(path: Sequence[str], now: FollowedTable, keyed: Sequence[Column]) -> None:
    """Refuse a key of which the map of new columns has a part.

    Raises:
        LakeTableError: There is such a key.
    """
    places = [place for place in now.mapped if keyed[place].is_key]
    if places:
        names, at = ", ".join(now.names[place] for place in places), _key_position(now)
        what = (
            f"its columns are frozen, and since source position {at} the new column {names} is part of the primary key"
        )
        way = "let schema_changes be follow or keep for the table, and resume it"
        raise LakeTableError(".".join(path), what, way)


def _key_position(now: FollowedTable) -> SourcePosition:
    keys = [() if one.schema is None else one.schema.key for one in now.states]
    first = max((number for number, key in enumerate(keys) if key != keys[-1]), default=-1) + 1
    return now.states[first].position


def origins_of(
    pipeline: Pipeline, tables: FollowedTables, table: TableId, origins: Sequence[RowOrigin]
) -> tuple[ChangesOrigin, ...]:
    """Return the changelogs of some origins of a table's rows, as they stand now."""
    found = []
    for one in origins:
        mine = tables.lake_table(one.table)
        path = pipeline.table_path(CHANGELOG.name, mine)
        state = pipeline.lake.state(path)
        if state is not None:
            store, location = pipeline.lake.file_store(path), pipeline.lake.target(path, "").location
            source = ChangesSource(location, store, one.since, one.until)
            found.append(ChangesOrigin(mine, None if mine == table else state.snapshot_id, source))
    return tuple(found)


def stored_names(
    paths: Sequence[ValuePath], named: Mapping[str, str], there: Mapping[str, str]
) -> tuple[str | None, ...]:
    """Return the names of the stored columns at which paths begin; None where there is none."""
    spelled = {same_name(name): name for name in there}
    return tuple(
        None if one.origin is None else spelled.get(same_name(named.get(one.origin, flat_name(one.origin))))
        for one in paths
    )


def names_that_stand(columns: Sequence[Column], state: SnapshotState) -> Mapping[str, str]:
    """Return the names that columns of the source have in a snapshot as it stands."""
    if state.present is not None:
        return {one.source: one.name for one in state.present.columns if one.place != "gone"}
    return {name: flat_name(one.name) for one in columns for name in one.source_names}
