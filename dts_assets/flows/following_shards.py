"""The way of a merged table's snapshot, and of its rows, to the columns of its shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.following import (
    ChangesOrigin,
    FollowedPart,
    Following,
    names_that_stand,
    stored_names,
    with_sums_of,
)
from dts_assets.flows.layers import CHANGELOG, Layer
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_files import AddedColumns, HeldColumns, HeldWay
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.model.columns import Column, matched_by, same_name
from dts_assets.model.key_periods import KeySpan
from dts_assets.model.present_columns import columns_digest
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.alike_paths import AlikePaths
from dts_assets.stages.key_parts import KeyPart
from dts_assets.stages.merged_schemas import FollowedShards
from dts_assets.stages.moved_shards import MovedShards, ShardMove
from dts_assets.stages.shard_truncations import Shard
from dts_assets.stages.shard_ways import Begin, ShardWays
from dts_assets.stages.value_paths import is_read_as_it_stands
from dts_assets.store.columns import flat_name
from dts_assets.store.planned_fields import PlannedField


@dataclass(frozen=True, slots=True)
class ShardsStep:
    """The schemas of shards at a frontier, and those under which rows of the snapshot stand.

    ``before`` has the number of the state by shard; None where no row stands, or where all rows are made anew.
    """

    now: FollowedShards
    before: Mapping[Shard, int] | None


def step_of_shards(before: FollowedShards | None, now: FollowedShards, state: SnapshotState) -> ShardsStep | None:
    """Return the way from a state to the shards' present schemas; None where all rows are made anew.

    See :func:`dts_assets.flows.following.step_of`.
    """
    if state.frontier.window is None:
        return None if now.is_moved else ShardsStep(now, None)
    if before is None:
        return None
    for shard, one in now.shards.items():
        former = before.shards.get(shard)
        if former is None and one.is_moved:
            return None
        if former is not None and (former.states != one.states[: len(former.states)] or former.origins != one.origins):
            return None
        if former is not None and former.moved_rows != one.moved_rows:
            return None
    is_known = before.is_simple if state.present is None else before.digest == state.present.digest
    if not is_known or before.shards.keys() - now.shards.keys():
        return None
    return ShardsStep(now, {shard: len(one.states) - 1 for shard, one in before.shards.items()})


def are_plain(now: FollowedShards, columns: Sequence[Column], *, lacking: bool) -> bool:
    """Return whether the snapshot has all columns that events told, as its shards had one schema each.

    They stand in the order of its shards then. ``lacking`` says that changes lack columns: then inserts have defaults that the
    schemas tell.
    """
    if lacking and now.has_defaults:
        return False
    names = [one.name for one in columns]
    return now.is_simple and not any(one.own_types for one in columns) and [*now.names] == names


def following_shards(
    pipeline: Pipeline,
    layer: Layer,
    table: TableId,
    columns: Sequence[Column],
    state: SnapshotState,
    step: ShardsStep,
    key: Collection[str],
    origins: tuple[ChangesOrigin, ...],
) -> Following:
    """Return how the snapshot of a merged table gets the columns of its shards.

    ``key`` finds the rows of all changes, which stand in ``origins``.

    Raises:
        LakeTableError: The layout of the snapshot needs a column that is gone, or one whose type it cannot take.
    """
    path, now = pipeline.table_path(layer.name, table), step.now
    there, target = dict(pipeline.lake.fields(path) or ()), pipeline.lake.target(path, "")
    named = names_that_stand(columns, state)
    keyed = now.keyed_by(key)
    ways = {
        shard: HeldWay(paths, stored_names(paths, named, there))
        for shard, one in now.shards.items()
        for paths in (now.from_state(shard, (step.before or {}).get(shard, len(one.states) - 1)),)
    }
    wanted = layer.columns_of(pipeline.settings, table, keyed)
    held = {shard: way for shard, way in ways.items() if step.before is None or shard in step.before}
    formers = _formers(tuple(held.values()), [name for name, _ in wanted[: len(keyed)]], there)
    formers += [name if name in there else None for name, _ in wanted[len(keyed) :]]
    fields = [PlannedField(name, kind, former) for (name, kind), former in zip(wanted, formers, strict=True)]
    fields = with_sums_of(fields, there)
    planned_target, planned = pipeline.lake.planned(path, fields, "", layer.layout(pipeline.settings, table))
    standing = added = None
    if step.before is not None:
        had = {shard: _names_before(now, shard, number, named) for shard, number in step.before.items()}
        moved = any(former is not None and former != one.name for one, former in zip(fields, formers, strict=True))
        types = tuple(one.type for one in keyed)
        if (state.unfit and moved) or not all(
            _stands(way, place, formers[place], had[shard], there, types[place])
            for shard, way in held.items()
            for place in range(len(keyed))
        ):
            standing = _held_columns(now, held, target.schema, named, types)
        else:
            added = _added_columns(now, held, [name for name, _ in wanted])
    present = now.present(keyed, flat_name, changelog=columns_digest(columns))
    return Following(keyed, present, now.followed(), standing, planned_target, planned, origins=origins, added=added)


def origins_of_shards(
    pipeline: Pipeline, tables: FollowedTables, table: TableId, now: FollowedShards
) -> tuple[ChangesOrigin, ...]:
    """Return the changelogs with rows of a merged table; none where no shard had another name."""
    if not now.is_moved:
        return ()
    own, others, routes = list[ShardMove](), list[tuple[TableId, ShardMove]](), pipeline.settings.routes
    for shard, one in now.shards.items():
        for origin in one.origins:
            if routes.takes_shard(table, origin.table):
                own.append(ShardMove(routes.shard(origin.table), origin.since, origin.until, shard))
            else:
                name = tables.lake_table(origin.table)
                own_set = (origin.table.source_set,) if routes.by_set else ()
                others.append((name, ShardMove(own_set, origin.since, origin.until, shard)))
    found = []
    for name, moves in [(table, own), *((name, [move]) for name, move in others)]:
        path = pipeline.table_path(CHANGELOG.name, name)
        stands = pipeline.lake.state(path)
        if stands is not None and moves:
            since, until = (None, None) if name == table else (moves[0].since, moves[0].until)
            location, moved = pipeline.lake.target(path, "").location, MovedShards(now.shard_names, tuple(moves))
            source = ChangesSource(location, pipeline.lake.file_store(path), since, until, moved)
            found.append(ChangesOrigin(name, None if name == table else stands.snapshot_id, source))
    return tuple(found)


def as_events_told(
    pipeline: Pipeline,
    layer: Layer,
    table: TableId,
    columns: Sequence[Column],
    now: FollowedShards,
    spans: Sequence[KeySpan],
) -> Following:
    """Return how a snapshot gets all columns that events told, as the keys of its shards differ.

    Changes are matched by the keys of ``spans``, one after the other. Inserts that lack a column have its default.
    """
    path, mine = pipeline.table_path(layer.name, table), tuple(columns)
    there = dict(pipeline.lake.fields(path) or ())
    wanted = layer.columns_of(pipeline.settings, table, mine)
    told = [PlannedField(name, kind, name if name in there else None) for name, kind in wanted]
    target, planned = pipeline.lake.planned(path, told, "", layer.layout(pipeline.settings, table))
    changes = now.with_defaults(mine)
    parts = tuple(
        FollowedPart(
            KeyPart(one.since, one.until, 0, one.columns), matched_by(mine, one.columns), changes, None, target
        )
        for one in spans
    )
    last = parts[-1].columns if parts else mine
    return Following(last, None, changes, None, target, planned, parts if len(parts) > 1 else ())


def _formers(ways: Sequence[HeldWay], names: Sequence[str], there: Collection[str]) -> list[str | None]:
    """Return for each column the stored one whose place it takes: its own, or that of most shards."""
    told = [Counter(way.stored[place] for way in ways) for place in range(len(names))]
    found: list[str | None] = [
        name if name in there and one[name] else None for name, one in zip(names, told, strict=True)
    ]
    taken = {*found}
    for place, one in enumerate(told):
        likely = [
            name for name, _ in sorted(one.items(), key=lambda pair: (-pair[1], pair[0] or "")) if name not in taken
        ]
        if found[place] is None and likely and likely[0] is not None:
            found[place] = likely[0]
            taken.add(likely[0])
    return found


def _names_before(now: FollowedShards, shard: Shard, number: int, named: Mapping[str, str]) -> frozenset[str]:
    """Return the stored columns in which a shard's rows may have values, without case."""
    schema = now.shards[shard].states[number].schema
    names = () if schema is None else schema.names
    return frozenset(same_name(named.get(name, flat_name(name))) for name in names)


def _stands(
    way: HeldWay, place: int, former: str | None, had: Collection[str], there: Mapping[str, str], lake_type: str
) -> bool:
    """Return whether the rows of a shard have a column's values where the table has the column now."""
    path, stored = way.paths[place], way.stored[place]
    if stored is None:
        return path.keeps_values and (former is None or same_name(former) not in had)
    return stored == former and is_read_as_it_stands(path, there.get(stored), lake_type)


def _held_columns(
    now: FollowedShards, ways: Mapping[Shard, HeldWay], schema: bytes, named: Mapping[str, str], types: tuple[str, ...]
) -> HeldColumns:
    alike, numbers, found, begins = (
        AlikePaths(),
        dict[object, int](),
        list[HeldWay](),
        list[tuple[Shard, tuple[Begin]]](),
    )
    for shard, way in ways.items():
        number = numbers.setdefault((tuple(map(alike.key, way.paths)), way.stored), len(found))
        if number == len(found):
            found.append(way)
        begins.append((shard, ((None, number),)))
    names = tuple(named.get(name, flat_name(name)) for name in now.shard_names)
    # No row is of another shard.
    return HeldColumns(schema, tuple(found), types, shards=ShardWays(names, tuple(begins), 0))


def _added_columns(now: FollowedShards, ways: Mapping[Shard, HeldWay], wanted: Sequence[str]) -> AddedColumns | None:
    """Return the columns that came to shards with values which no statement says; None if there is none."""
    unsaid = {
        shard: tuple(name for name, path in zip(wanted, way.paths, strict=False) if path.is_unknown)
        for shard, way in ways.items()
    }
    if not any(unsaid.values()):
        return None
    told = tuple(dict.fromkeys([(), *unsaid.values()]))
    begins = tuple((shard, ((None, told.index(names)),)) for shard, names in unsaid.items())
    return AddedColumns(told, ShardWays(tuple(map(flat_name, now.shard_names)), begins, 0))
