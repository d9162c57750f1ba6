"""The work of a moment before it is done, by Iceberg's metadata and the ledger's counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.moments import MomentPlan
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.flows.stored_snapshots import replaced_since
from dts_assets.model.tables import TableId
from dts_assets.planning.moment_frontiers import is_held_by, windows_to_take_back
from dts_assets.planning.snapshot_plans import (
    EMPTY_STATE,
    SnapshotState,
    TableWindow,
    plan_snapshot,
    windows_by_table,
)


@dataclass(frozen=True, slots=True)
class TableCost:
    """The version and the changes that one table of a moment is made from.

    ``version`` is the Iceberg snapshot that it begins as, None where it is made from its whole changelog. ``begins_at`` is the
    window in which that version stands, by its start, and ``goes_back`` says that it is behind the moment. ``changes`` and
    ``bytes`` are those of the ``files`` of the changelog that are read: all changes count in which a change between may be.
    """

    version: int | None
    begins_at: datetime | None
    files: int = 0
    changes: int = 0
    bytes: int = 0
    goes_back: bool = False


def costs_of(pipeline: Pipeline, plan: MomentPlan) -> dict[TableId, TableCost]:
    """Return what each table of a plan costs."""
    states = {
        table: SnapshotState.of_text(plan.begins[table].properties[STATE_PROPERTY])
        if table in plan.begins
        else EMPTY_STATE
        for table in plan.tables
    }
    reads_from = [one.reads_from if is_held_by(one.frontier, plan.frontier) else None for one in states.values()]
    counts = _counts(pipeline, reads_from)
    return {table: _cost(pipeline, plan, table, states[table], counts.get(table, ())) for table in plan.tables}


def _counts(pipeline: Pipeline, since: Collection[datetime | None]) -> Mapping[TableId, tuple[TableWindow, ...]]:
    """Return the counts of all windows that some table needs.

    None among ``since`` stands for a table that needs those of all time.
    """
    least = None if None in since else min((one for one in since if one is not None), default=None)
    return windows_by_table(pipeline.ledger.window_tables(since=least))


def _cost(
    pipeline: Pipeline, plan: MomentPlan, table: TableId, before: SnapshotState, windows: Collection[TableWindow]
) -> TableCost:
    path, reached = pipeline.table_path(CHANGELOG.name, table), plan.frontier.window
    changelog = pipeline.lake.state(path)
    version, since = plan.begins.get(table), before.frontier.window
    begins = (None if version is None else version.snapshot_id, since)
    if changelog is None or reached is None:
        return TableCost(*begins)
    replaced = replaced_since(pipeline, path, changelog, before)
    taken_back, goes_back = set[datetime](), not is_held_by(before.frontier, plan.frontier)
    if goes_back:
        taken_back = {one.window_start for one in windows_to_take_back(windows, plan.frontier, before.frontier)}
        replaced |= taken_back
    work = plan_snapshot(
        before, plan.frontier, changelog_snapshot=changelog.snapshot_id, windows=windows, replaced=replaced
    )
    if work.nothing:
        return TableCost(*begins, goes_back=goes_back)
    whole = work.rebuilds or work.recomputes
    rectangle = {} if whole else {"window_start": set(work.newer)}
    files = [
        file
        for file in pipeline.lake.data_files(path, rectangle)
        if file.partition["window_start"] <= reached or file.partition["window_start"] in taken_back
    ]
    rows, size = sum(one.rows for one in files), sum(one.bytes for one in files)
    return TableCost(*begins, len(files), rows, size, goes_back)
