"""The tables whose snapshots are not proven as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.foreign_keys import NOTHING_UNSEEN, KeyedTables, UnseenAt
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.lacked_origins import lacked_origins
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.lost_keys import doubt_of
from dts_assets.flows.one_by_one import OneByOne, one_by_one
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId


def unseen_now(pipeline: Pipeline) -> UnseenAt:
    """Return the tables that foreign keys may have changed without events, at the frontier as it stands."""
    tables = KeyedTables(pipeline)
    found = tables.at(SchemaSources.frontier_of(pipeline)) if tables.are_followed else NOTHING_UNSEEN
    reasons = {table: said for table, said in found.reasons.items() if table not in tables.paused}
    return replace(found, reasons=reasons)


def unproven_tables(pipeline: Pipeline) -> OneByOne[TableId, str]:
    """Return the position since which snapshots are not proven behind their statements, and the reason.

    Tables that stand still are left out. Beside them stand the failures of tables that could not be read.
    """
    known, still = known_tables(pipeline), paused_here(pipeline)
    return unproven_of(pipeline, {table: columns for table, columns in known.items() if table not in still})


def unproven_at(
    pipeline: Pipeline, branch: Pipeline, tables: Mapping[TableId, Sequence[Column]], frontier: Frontier
) -> OneByOne[TableId, str]:
    """Return the same of the tables of a branch that stands at a frontier.

    Foreign keys that may have changed rows without events by then count, unless they are accepted.
    """
    unseen = KeyedTables(pipeline).at(frontier)
    reasons = {one: unseen.reasons[one] for one in tables if one in unseen.reasons and not unseen.are_accepted}
    found = unproven_of(branch, tables)
    return OneByOne(dict(sorted({**reasons, **found.results}.items())), found.failures)


def unproven_of(pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]]) -> OneByOne[TableId, str]:
    """Return the position since which the snapshots of some tables are not proven behind their statements."""
    stored = one_by_one(
        tables,
        lambda table: stored_state(pipeline, SNAPSHOT.name, table)[1],
        named=lambda table: f"The look at the columns of {table}",
    )
    doubted = {table: one for table, one in stored.results.items() if one.doubt}
    followed = FollowedTables(pipeline, {table: tables[table] for table in doubted})

    def doubt(table: TableId) -> str:
        """Return the reason as it is seen now: an earlier version may have noted another one."""
        at = followed.at(table, doubted[table].frontier) if followed.is_followed(table) else None
        return doubted[table].doubt if at is None else doubt_of(at, doubted[table].lost)

    found = one_by_one(doubted, doubt, named=lambda table: f"The look at the statements of {table}")
    lacked = lacked_origins(pipeline, tables)
    failures = {**stored.failures, **found.failures, **lacked.failures}
    said = {table: one.said for table, one in lacked.results.items() if one is not None}
    said |= {table: one for table, one in found.results.items() if one}
    return OneByOne(dict(sorted(said.items())), failures)
