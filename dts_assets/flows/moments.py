"""Tables as they were at a moment of the source, made in a folder beside the lake.

The snapshots' own flow makes them, with the moment's frontier in place of the present one, in a branch of the lake. So keys,
statements, bags, documents and merged tables are what they are in snapshots. A table begins as the nearest version that is still
there, or from nothing, and takes over the changes between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from dts_assets.errors import NothingFoundError
from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.known_moments import complete_words, held_window, known_position, position_at_time
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import CHANGELOG, SNAPSHOT, LayerWork
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.flows.snapshots import advance_rows
from dts_assets.flows.this_process import this_process
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.model.turns import NOBODY
from dts_assets.planning.copied_tables import copied_meanwhile
from dts_assets.planning.moment_frontiers import StoredVersion, frontier_at, version_to_begin_from
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.planning.source_moments import AtTime, AtWindow, Moment
from dts_assets.store.branches import BranchedLake

if TYPE_CHECKING:
    from dts_assets.flows.reports import Progress


@dataclass(frozen=True, slots=True)
class TablesAt:
    """The tables of a subscription as of a moment.

    ``where`` says the moment in words: ``as of 0:3:700``. ``tables`` are Iceberg tables by the names of their source tables.
    ``absent`` are tables that do not exist then, ``paused`` those that stand still now, with their reasons, and ``failed`` those
    that could not be made. ``begun`` are the tables that began as a stored version, with its Iceberg snapshot.
    """

    where: str
    frontier: Frontier
    tables: Mapping[TableId, Table]
    absent: tuple[TableId, ...]
    paused: Mapping[TableId, str]
    failed: Mapping[TableId, Fault]
    begun: Mapping[TableId, int]


def tables_at(
    pipeline: Pipeline,
    moment: Moment,
    folder: Path,
    *,
    tables: Collection[TableId] | None = None,
    spark: SparkProvider = this_process,
    progress: Progress = lambda _: None,
) -> TablesAt:
    """Make tables as they were at a moment, all at the same one, and return them.

    New files lie in ``folder``, which has to stay as long as the tables are read. ``tables`` are the tables to make, None stands
    for all. Changes at the moment itself count. The lake is only read. Without ``spark`` all work is done in this process.

    Raises:
        NothingFoundError: The moment is not known, or not everything up to it is there.
    """
    sources = SchemaSources.of(pipeline)
    frontier, where = _frontier(sources, moment)
    known, stand = known_tables(pipeline), paused_here(pipeline)
    chosen = {table: columns for table, columns in known.items() if tables is None or table in tables}
    paused = {table: stand[table].reason for table in chosen if table in stand}
    branch = replace(pipeline, lake=BranchedLake(pipeline.lake.location, layer=SNAPSHOT.name, branch=folder))
    unknown = _not_copied_yet(pipeline, frontier)
    asked = {table: columns for table, columns in chosen.items() if table not in paused and table not in unknown}
    there = _existing(branch, asked, frontier)
    begun = {table: found for table in there if (found := _begin(branch, table, frontier)) is not None}
    work = LayerWork(branch, there, (), frontier, {}, NOBODY, spark, progress)
    outcomes = advance_rows(work, SNAPSHOT)
    made = {table: branch.lake.table(branch.table_path(SNAPSHOT.name, table)) for table in there}
    failed = {table: one.fault for table, one in outcomes.items() if one.fault is not None}
    return TablesAt(
        where,
        frontier,
        {table: one for table, one in made.items() if one is not None and table not in failed},
        tuple(table for table in chosen if table not in there and table not in paused),
        paused,
        failed,
        begun,
    )


def _frontier(sources: SchemaSources, moment: Moment) -> tuple[Frontier, str]:
    """Return the frontier of a moment, and the moment in words.

    Raises:
        NothingFoundError: The moment is not known, or not everything up to it is there.
    """
    if isinstance(moment, AtWindow):
        window = held_window(sources, moment.start)
        return SchemaSources.of(sources.pipeline, until=window).frontier, f"as of window {window.key}"
    if isinstance(moment, AtTime):
        position = position_at_time(sources, moment.time)
        where = f"as of {moment.time:%Y-%m-%d %H:%M:%S} UTC, which is {position}"
    else:
        position, where = known_position(sources, moment, sought="tables")
    found = frontier_at(position, sources.pipeline.ledger.cuts(), sources.frontier)
    if found is None:
        raise NothingFoundError(
            "The lake",
            f"tables {where}",
            "its windows have no cut, so name a window, whose end is a moment that all tables share: "
            + complete_words(sources),
        )
    return found, where


def _not_copied_yet(pipeline: Pipeline, frontier: Frontier) -> frozenset[TableId]:
    """Return the tables of which a copy was not complete as of a frontier.

    There is no state of them then.
    """
    copied = pipeline.ledger.copied_tables()
    taken = [one for one in copied if one.window_start is not None]
    if frontier.cut is None:
        return frozenset()
    found = copied_meanwhile(taken, frontier.cut)
    routes = pipeline.settings.routes
    tables = (routes.decoded_table(one) if routes else one for one in found)
    return frozenset(table for table in tables if table is not None)


def _existing(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]], frontier: Frontier
) -> dict[TableId, Sequence[Column]]:
    """Return the tables that exist as of a frontier, as far as their changes and statements tell."""
    followed = FollowedTables(pipeline, tables)
    return {table: columns for table, columns in tables.items() if followed.exists(table, frontier)}


def _begin(pipeline: Pipeline, table: TableId, frontier: Frontier) -> int | None:
    """Let a table of the branch begin as the nearest version of the lake's own.

    Its Iceberg snapshot is returned, None without one.
    """
    lake, path = pipeline.lake, pipeline.table_path(SNAPSHOT.name, table)
    assert isinstance(lake, BranchedLake)
    changelog = lake.table(pipeline.table_path(CHANGELOG.name, table))
    if changelog is None:
        return None
    states = (
        (one.snapshot_id, SnapshotState.of_text(one.properties[STATE_PROPERTY]))
        for one in lake.versions(path)
        if STATE_PROPERTY in one.properties
    )
    found = version_to_begin_from(
        (StoredVersion(version, state.frontier, state.changelog_snapshot) for version, state in states),
        frontier,
        changelogs={one.snapshot_id for one in changelog.snapshots()},
    )
    if found is None:
        return None
    lake.begin(path, found.snapshot_id)
    return found.snapshot_id
