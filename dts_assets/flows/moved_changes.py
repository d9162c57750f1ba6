"""The tables to which statements have moved changes that a run wrote under another name."""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.renamed_tables import tables_reached
from dts_assets.flows.tables_plan import TablesPlan
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import resumed_in
from dts_assets.planning.snapshot_plans import first_new, windows_by_table


def moved_to_by(
    pipeline: Pipeline,
    plan: TablesPlan,
    touched: Mapping[TableId, SourcePosition],
    before: Frontier,
    now: Frontier,
) -> frozenset[TableId]:
    """Return the tables to which statements moved changes that a run wrote, or that snapshots hold only now.

    Tables that were resumed are among them, since they missed what earlier runs found.

    Args:
        pipeline: The subscription.
        plan: The plan of the run.
        touched: The least position of all that the run wrote or took away, by table.
        before: The frontier at which snapshots stood.
        now: The frontier to which they come.
    """
    first = dict(touched)
    # Of the windows up to the last whole one snapshots have held all.
    since = None if before.whole_until is None else before.whole_until + pipeline.grid.every
    counts = [] if now == before else pipeline.ledger.window_tables(since=since)
    for table, windows in windows_by_table(counts).items():
        for window in windows:
            if now.holds(window.window_start, window.first) and not before.holds(window.window_start, window.last):
                least = first_new(before, window)
                first[table] = min(least, first.get(table, least))
    resumed = {
        one.id
        for mark in plan.again
        if mark.window.start in plan.stored
        for one in resumed_in(plan.stored[mark.window.start], plan.paused)
    }
    return tables_reached(pipeline, first).union(resumed)
