"""Tables as they were at a moment of the source, made in a folder beside the lake.

The snapshots' own flow makes them, with the moment's frontier in place of the present one, in a branch of the lake. So keys,
statements, bags, documents and merged tables are what they are in snapshots. A table begins as the nearest version that is still
there, or from nothing, and takes over the changes between. Where no version stands before the moment, a version behind it may be
nearer than nothing: the keys of changes between are then computed again without these changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from dts_assets.errors import NothingFoundError
from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.known_moments import complete_words, frontier_words, held_window, known_position, position_at_time
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import CHANGELOG, SNAPSHOT, LayerWork
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.flows.snapshots import advance_rows
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.flows.this_process import this_process
from dts_assets.flows.unproven import unproven_at
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.model.turns import NOBODY
from dts_assets.planning.copied_tables import copied_meanwhile
from dts_assets.planning.moment_frontiers import (
    StoredVersion,
    frontier_at,
    is_held_by,
    is_worth_going_back,
    version_to_begin_from,
    version_to_go_back_from,
    why_windows_count_as_a_whole,
)
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import SnapshotState, TableWindow, windows_by_table
from dts_assets.planning.source_moments import AtTime, AtWindow, Moment
from dts_assets.store.branches import BranchedLake, versions_of
from dts_assets.store.lake import TableState
from dts_assets.store.left_files import files_are_there
from dts_assets.store.tags import cut_tags

if TYPE_CHECKING:
    from dts_assets.flows.reports import Progress


@dataclass(frozen=True, slots=True)
class TablesAt:
    """The tables of a subscription as of a moment.

    ``where`` says the moment in words: ``as of 0:3:700``. ``tables`` are Iceberg tables by the names of their source tables.
    ``absent`` are tables that do not exist then, ``paused`` those that stand still now, with their reasons, and ``failed`` those
    that could not be made. ``begun`` are the tables that began as a stored version, with its Iceberg snapshot. ``unproven`` are
    those among ``tables`` whose rows or columns are not proven at the moment, with the position since when, and the reason.
    """

    where: str
    frontier: Frontier
    tables: Mapping[TableId, Table]
    absent: tuple[TableId, ...]
    paused: Mapping[TableId, str]
    failed: Mapping[TableId, Fault]
    begun: Mapping[TableId, int]
    unproven: Mapping[TableId, str]


@dataclass(frozen=True, slots=True)
class MomentPlan:
    """A moment that is known, and the version that each table begins from; nothing is made yet.

    ``begins`` has the Iceberg snapshots of tables that begin as a stored version, before the moment or behind it. Other fields
    are those of :class:`TablesAt`.
    """

    where: str
    frontier: Frontier
    tables: Mapping[TableId, Sequence[Column]]
    begins: Mapping[TableId, TableState]
    absent: tuple[TableId, ...]
    paused: Mapping[TableId, str]


def plan_moment(pipeline: Pipeline, moment: Moment | None, *, tables: Collection[TableId] | None = None) -> MomentPlan:
    """Find a moment, and the versions of tables nearest before it.

    ``tables`` are the tables to make, None stands for all. A moment that is None is the present: what is complete.

    Raises:
        NothingFoundError: The moment is not known, or not everything up to it is there.
    """
    sources = SchemaSources.of(pipeline)
    frontier, where = _frontier(sources, moment)
    known, stand = known_tables(pipeline), paused_here(pipeline)
    chosen = {table: columns for table, columns in known.items() if tables is None or table in tables}
    paused = {table: stand[table].reason for table in chosen if table in stand}
    unknown = _not_copied_yet(pipeline, frontier)
    asked = {table: columns for table, columns in chosen.items() if table not in paused and table not in unknown}
    there = _existing(pipeline, asked, frontier)
    nearest = _nearest_version(pipeline, frontier)
    begins = {table: found for table in there if (found := nearest(table)) is not None}
    absent = tuple(table for table in chosen if table not in there and table not in paused)
    return MomentPlan(where, frontier, there, begins, absent, paused)


def tables_at(
    pipeline: Pipeline,
    moment: Moment | None,
    folder: Path,
    *,
    tables: Collection[TableId] | None = None,
    spark: SparkProvider = this_process,
    progress: Progress = lambda _: None,
) -> TablesAt:
    """Make tables as they were at a moment, all at the same one, and return them.

    New files lie in ``folder``, which has to stay as long as the tables are read. ``tables`` are the tables to make, None stands
    for all. Changes at the moment itself count; a moment that is None is the present. The lake is only read. Without ``spark``
    all work is done in this process.

    Raises:
        NothingFoundError: The moment is not known, or not everything up to it is there.
    """
    return make_tables(pipeline, plan_moment(pipeline, moment, tables=tables), folder, spark=spark, progress=progress)


def make_tables(
    pipeline: Pipeline,
    plan: MomentPlan,
    folder: Path,
    *,
    spark: SparkProvider = this_process,
    progress: Progress = lambda _: None,
) -> TablesAt:
    """Make the tables of a plan; see :func:`tables_at`.

    Tables that the folder has of an earlier moment go on from there, unless a stored version is nearer.
    """
    lake = BranchedLake(pipeline.lake.location, layer=SNAPSHOT.name, branch=folder)
    # Nobody asks for a layout there, and its columns may come later, or have gone.
    settings, begun = pipeline.settings.model_copy(update={"layout": {}}), dict[TableId, int]()
    branch = replace(pipeline, lake=lake, settings=settings)
    for table in plan.tables:
        version = plan.begins.get(table)
        if _goes_on(branch, table, plan.frontier, version):
            continue
        lake.drop(branch.table_path(SNAPSHOT.name, table))
        if version is not None:
            lake.begin(branch.table_path(SNAPSHOT.name, table), version)
            begun[table] = version.snapshot_id
    work = LayerWork(branch, plan.tables, (), plan.frontier, {}, NOBODY, spark, progress, goes_back=True)
    outcomes = advance_rows(work, SNAPSHOT)
    made = {table: lake.table(branch.table_path(SNAPSHOT.name, table)) for table in plan.tables}
    failed = {table: one.fault for table, one in outcomes.items() if one.fault is not None}
    there = {table: columns for table, columns in plan.tables.items() if table not in failed}
    unproven = unproven_at(pipeline, branch, there, plan.frontier)
    failed |= {table: Fault(SNAPSHOT.name, one.sentence) for table, one in unproven.failures.items()}
    return TablesAt(
        plan.where,
        plan.frontier,
        {table: one for table, one in made.items() if one is not None and table not in failed},
        plan.absent,
        plan.paused,
        failed,
        begun,
        unproven.results,
    )


def _goes_on(branch: Pipeline, table: TableId, frontier: Frontier, version: TableState | None) -> bool:
    """Return whether a table of a branch stands before a frontier, and no stored version between them.

    One whose files have left the lake with their version goes on no more.
    """
    stands, state = stored_state(branch, SNAPSHOT.name, table)
    if stands is None or not is_held_by(state.frontier, frontier):
        return False
    opened = branch.lake.table(branch.table_path(SNAPSHOT.name, table))
    if opened is None or not files_are_there(opened):
        return False
    if version is None:
        return True
    stored = SnapshotState.of_text(version.properties[STATE_PROPERTY]).frontier
    return is_held_by(stored, state.frontier) or not is_held_by(stored, frontier)


def _frontier(sources: SchemaSources, moment: Moment | None) -> tuple[Frontier, str]:
    """Return the frontier of a moment, and the moment in words.

    Raises:
        NothingFoundError: The moment is not known, or not everything up to it is there.
    """
    if moment is None:
        if sources.frontier.window is None:
            raise NothingFoundError("The lake", "tables yet", complete_words(sources))
        return sources.frontier, f"as of {frontier_words(sources)}"
    if isinstance(moment, AtWindow):
        window = held_window(sources, moment.start)
        return SchemaSources.of(sources.pipeline, until=window).frontier, f"as of window {window.key}"
    if isinstance(moment, AtTime):
        position = position_at_time(sources, moment.time)
        where = f"as of {moment.time:%Y-%m-%d %H:%M:%S} UTC, which is {position}"
    else:
        position, where = known_position(sources, moment, sought="tables")
    cuts = sources.pipeline.ledger.cuts()
    found = frontier_at(position, cuts, sources.frontier)
    if found is None:
        why = why_windows_count_as_a_whole(cuts, sources.frontier)
        hint = f"{why}, so name a window, whose end is a moment that all tables share: {complete_words(sources)}"
        raise NothingFoundError("The lake", f"tables {where}", hint)
    return found, where


def _not_copied_yet(pipeline: Pipeline, frontier: Frontier) -> frozenset[TableId]:
    """Return the tables of which a copy was not complete as of a frontier.

    There is no state of them then.
    """
    copied = pipeline.ledger.copied_tables()
    taken = [one for one in copied if one.window_start is not None]
    found = copied_meanwhile(taken, frontier)
    routes = pipeline.settings.routes
    tables = (routes.decoded_table(one) if routes else one for one in found)
    return frozenset(table for table in tables if table is not None)


def _existing(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]], frontier: Frontier
) -> dict[TableId, Sequence[Column]]:
    """Return the tables that exist as of a frontier, as far as their changes and statements tell."""
    followed = FollowedTables(pipeline, tables)
    return {table: columns for table, columns in tables.items() if followed.exists(table, frontier)}


def _nearest_version(pipeline: Pipeline, frontier: Frontier) -> Callable[[TableId], TableState | None]:
    """Return the function that gives the version of a table to begin from.

    It gives None where no version is nearer than an empty table.
    """
    counts: list[Mapping[TableId, Sequence[TableWindow]]] = []

    def nearest(table: TableId) -> TableState | None:
        found = _version_before_or_behind(pipeline, table, frontier)
        if found is None:
            return None
        state = SnapshotState.of_text(found.properties[STATE_PROPERTY])
        if is_held_by(state.frontier, frontier):
            return found
        # By one key alone, and where no truncation ever was, keys are computed again without making all rows anew.
        if state.truncated or len(state.keys) > 1:
            return None
        if not counts:
            counts.append(windows_by_table(pipeline.ledger.window_tables()))
        return found if is_worth_going_back(counts[0].get(table, ()), frontier, state.frontier) else None

    return nearest


def _version_before_or_behind(pipeline: Pipeline, table: TableId, frontier: Frontier) -> TableState | None:
    """Return the nearest version of a table's snapshot before a frontier, else behind it; None without one.

    A version with a tag needs no version of the changelog of its own: tags go from versions behind which windows were made again.
    So what was made again since the present version tells all.
    """
    path = pipeline.table_path(SNAPSHOT.name, table)
    changelog = pipeline.lake.table(pipeline.table_path(CHANGELOG.name, table))
    snapshot = pipeline.lake.table(path)
    if changelog is None or snapshot is None:
        return None
    logs, tagged = {one.snapshot_id for one in changelog.snapshots()}, {*cut_tags(snapshot).values()}
    present = stored_state(pipeline, SNAPSHOT.name, table)[1].changelog_snapshot
    versions = {one.snapshot_id: one for one in versions_of(pipeline.lake, path) if STATE_PROPERTY in one.properties}
    states: dict[int, SnapshotState] = {}

    def stored() -> Iterator[StoredVersion]:  # one by one, since a table may have thousands
        for number, one in versions.items():
            state = states.get(number) or SnapshotState.of_text(one.properties[STATE_PROPERTY])
            if state.changelog_snapshot not in logs and number in tagged:
                state = replace(state, changelog_snapshot=present)
            states[number] = state
            yield StoredVersion(number, state.frontier, state.changelog_snapshot)

    found = version_to_begin_from(stored(), frontier, changelogs=logs)
    found = found or version_to_go_back_from(stored(), frontier, changelogs=logs)
    if found is None:
        return None
    properties = {**versions[found.snapshot_id].properties, STATE_PROPERTY: states[found.snapshot_id].to_text()}
    return TableState(found.snapshot_id, properties)
