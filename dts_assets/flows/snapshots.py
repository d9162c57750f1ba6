"""The last flow: snapshots and histories brought to the frontier, table by table, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dts_assets.flows.ambiguous_changes import noted_by_table, write_ambiguous
from dts_assets.flows.apart import do_apart
from dts_assets.flows.cut_tags import tagged
from dts_assets.flows.followed_histories import followed_history
from dts_assets.flows.followed_tables import FollowedTables, followed_sources
from dts_assets.flows.following import (
    Following,
    Step,
    following,
    is_plain,
    may_double_deleted,
    origins_of,
    step_of,
    unchanged,
)
from dts_assets.flows.following_shards import (
    ShardsStep,
    are_plain,
    as_events_told,
    following_shards,
    origins_of_shards,
    step_of_shards,
)
from dts_assets.flows.lake_shapes import shapes_in_windows
from dts_assets.flows.layers import CHANGELOG, HISTORY, SNAPSHOT, Layer, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import passed_before
from dts_assets.flows.reports import LayerOutcome
from dts_assets.flows.schema_stops import rows_of_other_keys, stop_of
from dts_assets.flows.snapshot_compaction import convert_rows
from dts_assets.flows.snapshot_counts import Counts, with_facts_of
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.flows.snapshot_layouts import asks_for_former_names, laid_out
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, MergedRows, merge_rows
from dts_assets.flows.snapshot_steps import merge_in_steps
from dts_assets.flows.stored_snapshots import by_window, replaced_since, stored_state, windows_made_again
from dts_assets.flows.tables_plan import MARKED
from dts_assets.model.columns import Column, are_in_order, has_key, matched_by
from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import list_digest
from dts_assets.model.removals import ALL_REMOVED
from dts_assets.model.tables import TableId
from dts_assets.planning.counts_needed import StoredSnapshot
from dts_assets.planning.cuts import not_behind
from dts_assets.planning.moment_frontiers import is_held_by, windows_to_take_back
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import (
    EMPTY_STATE,
    has_other_policy,
    needs_schemas,
    needs_statements,
    plan_snapshot,
)
from dts_assets.stages.followed_schemas import FollowedTable
from dts_assets.stages.history_statements import MOVED
from dts_assets.stages.merged_schemas import FollowedShards
from dts_assets.store.schemas import history_layout, snapshot_layout

_LAYOUTS = {SNAPSHOT.name: snapshot_layout, HISTORY.name: history_layout}


def advance_rows(work: LayerWork, layer: Layer) -> dict[TableId, LayerOutcome]:
    """Bring the snapshots or histories of the work's tables to its frontier.

    A table in which nothing changed is not committed. A table whose step fails has the fault in its outcome.

    Raises:
        OvertakenError: Another run of the tables has taken over.
        StaleGenerationError: Another run has written a snapshot since this one was planned.
    """
    pipeline, progress = work.pipeline, work.progress
    unconverted = convert_rows(pipeline, layer, work.tables, spark=work.spark, progress=progress)
    tables = [table for table in work.tables if table not in unconverted]
    notes = layer is SNAPSHOT and not work.goes_back
    keyless = any(not has_key(work.tables[table]) for table in tables)
    noted = noted_by_table(pipeline) if notes and keyless else None
    opened = do_apart(layer.name, tables, lambda table: _opened(work, layer, table, noted))
    counts = Counts(
        pipeline, (one.stored for one in opened.results.values()), {window.start for window in work.windows}
    )
    planned = do_apart(
        layer.name, opened.results, lambda table: _job(work, layer, table, opened.results[table], counts)
    )
    follower = _history_follower if layer.has_versions else _follower
    following = do_apart(layer.name, planned.results, follower(work, layer, planned.results, opened.results, counts))
    # Tables that stop at schema changes have faults of their own, also if all do.
    jobs = [one for one in following.results.values() if isinstance(one, SnapshotJob)]
    stopped = {table: one for table, one in following.results.items() if isinstance(one, Fault)}
    faults = {**unconverted, **opened.faults, **planned.faults, **following.faults, **stopped}
    pipeline.ledger.require_turn(MARKED, work.turn)  # so changelogs, counts and snapshots were read of one state
    busy = [tagged(work, job, counts) for job in jobs if job.has_news or (work.goes_back and job.has_own_columns)]
    merged = MergedRows()
    if busy:
        began = time.monotonic()
        progress(f"{layer.name}: {len(busy)} of {len(jobs)} tables have changes to apply")
        merged = merge_rows(pipeline, layer, [job for job in busy if not job.has_steps], work.spark(), progress)
        for job in busy:
            if job.has_steps:
                progress(f"{layer.name}: the primary key of {job.table} changes amid the changes")
                merged.add(merge_in_steps(pipeline, job, work.spark()))
        faults |= merged.faults
        stand = sum(job.table not in faults for job in busy)
        progress(f"{layer.name}: {stand} tables stand at the frontier after {time.monotonic() - began:.1f} s")
    done = {job.table for job in busy} - faults.keys()
    if notes:
        write_ambiguous(pipeline, (job for job in busy if job.table in done), merged.ambiguous)
    by_table = {job.table: job for job in jobs if job.table not in faults}
    told = do_apart(
        layer.name, by_table, lambda table: _outcome(pipeline, by_table[table], merged, committed=table in done)
    )
    return {**told.results, **{table: LayerOutcome(fault=one) for table, one in (faults | dict(told.faults)).items()}}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A layer's table as it stands: its Iceberg snapshot, that of its changelog, and its state.

    The Iceberg snapshots are None before the first commit. ``anew`` says that all rows are made anew: because somebody asked for
    it, because other columns are asked for, or because another program has committed to the table, so that nothing is known of
    its rows. ``stood_at`` is the frontier of the rows that stand even then, ``has_present`` says that its columns are those of
    statements, and ``passed`` is the text of the rules that the rows of its changelogs have passed because of other tables.
    """

    current: int | None
    changelog: int | None
    stored: StoredSnapshot
    anew: bool
    stood_at: Frontier
    has_present: bool
    passed: str


def _opened(work: LayerWork, layer: Layer, table: TableId, noted: Mapping[str, int] | None) -> _Opened:
    """Open the table of a layer, and compare its changelog with the one that it was made from.

    ``noted`` has by table the digests of changes in quarantine that snapshots did not apply; None where they are of no matter.
    """
    pipeline, path = work.pipeline, work.pipeline.table_path(layer.name, table)
    pipeline.lake.ensure(path, _LAYOUTS[layer.name](table, tuple(work.tables[table])))
    current, before = stored_state(pipeline, layer.name, table)
    passed = passed_before(pipeline, table)
    anew = current is not None and (
        work.anew
        or STATE_PROPERTY not in current.properties
        or before.added != layer.added(pipeline.settings, table)
        or before.passed != passed
        or (noted is not None and before.ambiguous != noted.get(str(table), 0))
    )
    stood_at, has_present, before = before.frontier, before.present is not None, EMPTY_STATE if anew else before
    path = pipeline.table_path(CHANGELOG.name, table)
    changelog = pipeline.lake.state(path)
    replaced = replaced_since(pipeline, path, changelog, before, work.chains_kept(table))
    lacked_nothing = work.backlog is not None and table not in work.backlog
    return _Opened(
        None if current is None else current.snapshot_id,
        None if changelog is None else changelog.snapshot_id,
        StoredSnapshot(
            before,
            replaced,
            lacked_nothing,
            is_new=lacked_nothing
            and before == EMPTY_STATE
            and by_window(pipeline.lake.data_files(path)).keys() <= {window.start for window in work.windows},
        ),
        anew,
        stood_at,
        has_present,
        passed,
    )


def _job(work: LayerWork, layer: Layer, table: TableId, opened: _Opened, counts: Counts) -> SnapshotJob:
    before = EMPTY_STATE if opened.anew else opened.stored.state
    wanted, replaced = work.frontier(table), opened.stored.replaced
    goes_back = work.goes_back and not is_held_by(before.frontier, wanted)
    windows = counts.of_all_time(table) if opened.anew or goes_back else counts.windows(table)
    if goes_back:  # keys of changes that are to be taken back are computed again, as if their windows had been replaced
        replaced |= {one.window_start for one in windows_to_take_back(windows, wanted, before.frontier)}
    planned = partial(
        plan_snapshot,
        before,
        wanted if goes_back else not_behind(wanted, before.frontier),
        changelog_snapshot=opened.changelog,
        windows=windows,
        replaced=replaced,
        chains=work.chains,
        anew=opened.anew,
        added=layer.added(work.pipeline.settings, table),
        has_key=has_key(work.tables[table]),
        sends_parts=work.pipeline.settings.traits.changed_only or bool(table.schema),
    )
    if (plan := planned()).doubts_keys:
        plan = planned(told=counts.told_keys(table))
    plan = replace(plan, state=replace(plan.state, passed=opened.passed))
    columns = tuple(work.tables[table])
    return SnapshotJob(
        layer,
        table,
        matched_by(columns, plan.spans[-1].columns) if plan.spans else columns,
        before,
        plan,
        opened.current,
        counts.truncating(table) if plan.rebuilds else frozenset(),
        work.turn,
    )


def _follower(
    work: LayerWork,
    layer: Layer,
    planned: Mapping[TableId, SnapshotJob],
    opened: Mapping[TableId, _Opened],
    counts: Counts,
) -> Callable[[TableId], SnapshotJob | Fault]:
    """Return the function that gives planned jobs their columns, or the fault of a table that stops."""
    pipeline, routes, sources = work.pipeline, work.pipeline.settings.routes, followed_sources(work.pipeline)
    may_follow = {
        table: job
        for table, job in planned.items()
        if layer is SNAPSHOT and (table in sources or routes.shard_columns(table))
    }
    looked_at = {(table, start) for table, job in may_follow.items() for start in (*job.plan.newer, *job.plan.replaced)}
    told = shapes_in_windows(pipeline, looked_at)
    shapes = {
        table: {list_digest(map(repr, columns)) for start, columns in some if start in may_follow[table].plan.newer}
        for table, some in told.items()
    }
    names = {
        table: set.intersection(*({column.name for column in columns} for _, columns in some))
        for table, some in told.items()
    }
    asked = {
        table: work.tables[table]
        for table, job in may_follow.items()
        if needs_schemas(
            job.before,
            job.plan,
            counts.windows(table),
            work.tables[table],
            shapes.get(table, set()),
            names=names.get(table, ()),
            made_again=windows_made_again(work, table, job.before.frontier),
            is_merged=bool(routes.shard_columns(table)),
        )
        or has_other_policy(job.before, pipeline.settings.schema_policy(table))
        or table in {*work.altered, *work.moved_to}
        or asks_for_former_names(pipeline, job)
        or (routes.shard_columns(table) and job.plan.state.absent)  # shards may have different defaults
        or (routes.merges and job.before.frontier.window is None)  # a table may begin as a former shard
        or (job.current is None and not all(are_in_order(one, work.tables[table]) for _, one in told.get(table, ())))
        # The columns of the version that a moment begins with may be of a later event, or of places that were mended since.
        or (work.goes_back and (job.before.present is not None or (table not in told and not job.before.keys)))
    }
    tables = FollowedTables(pipeline, asked)

    def follow(table: TableId) -> SnapshotJob | Fault:
        job, columns = planned[table], work.tables[table]
        job = with_columns(job) if table not in asked else job
        if table in asked:
            now = tables.at(table, job.plan.state.frontier)
            if isinstance(now, FollowedShards):
                before = tables.at(table, job.before.frontier)
                made = _of_shards(work, layer, job, opened[table], counts, tables, before, now)
                return made if isinstance(made, Fault) else noted(_with_unfollowed(made, now))
            stood_at, before = opened[table].stood_at, tables.at(table, job.before.frontier)
            stood = before if stood_at == job.before.frontier else tables.at(table, stood_at)
            assert not isinstance(before, FollowedShards), "a table is merged or not"
            assert not isinstance(stood, FollowedShards), "a table is merged or not"
            stop = stop_of(pipeline, table, stood_at, stood, now, found=work.altered.get(table, {}))
            if stop is not None:
                return stop
            plain = now is None or is_plain(now, columns, lacking=job.plan.state.absent, is_new=job.current is None)
            if now is None or (job.before.present is None and plain):
                job = with_columns(job)
            else:
                step = step_of(before, now, job.before)
                told_keys = counts.keys_of_rows(pipeline.settings.routes, now)
                parts = now.key_parts(told_keys, since=now.created)
                may_double = may_double_deleted(job.plan, parts[-1].keys, [now])
                if step is None or may_double or (job.plan.recomputes and len(parts) > 1):
                    job = _job(work, layer, table, replace(opened[table], anew=True), counts)
                    step = Step(now, None)
                if job.plan.rebuilds:
                    step = Step(now, None)
                origins = origins_of(pipeline, tables, table, now.origins if now.is_moved else ())
                job = with_facts_of(job, counts, origins)
                told = told_keys if now.is_moved else job.plan.spans
                found = following(pipeline, layer, table, columns, job.before, step, told, origins)
                job = _followed(pipeline, job, found)
        return noted(job)

    def with_columns(job: SnapshotJob) -> SnapshotJob:
        if layer is SNAPSHOT and job.plan.nothing and job.before.present is None:
            return job  # what changelogs have of later windows is no matter of the rows that stand
        return _with_columns(pipeline, job, work.tables[job.table])

    def noted(job: SnapshotJob) -> SnapshotJob:
        """Return a job whose state has the columns that events told last."""
        seen = shapes.get(job.table, set())
        shape = job.plan.state.shape if not seen else next(iter(seen)) if len(seen) == 1 else ""
        return replace(job, plan=replace(job.plan, state=replace(job.plan.state, shape=shape)))

    return follow


def _history_follower(
    work: LayerWork,
    layer: Layer,
    planned: Mapping[TableId, SnapshotJob],
    opened: Mapping[TableId, _Opened],
    counts: Counts,
) -> Callable[[TableId], SnapshotJob]:
    """Return the function that gives planned jobs of histories the statements of their tables."""
    pipeline, sources = work.pipeline, followed_sources(work.pipeline)
    asked = {
        table: work.tables[table]
        for table, job in planned.items()
        if table in sources
        and (
            table in work.moved_to
            or needs_statements(job.before, job.plan, counts.windows(table), work.tables[table], moved=MOVED)
        )
    }
    tables = FollowedTables(pipeline, asked)

    def follow(table: TableId) -> SnapshotJob:
        job, columns = planned[table], work.tables[table]
        if table in asked:
            found = followed_history(
                pipeline, tables, table, job.plan.state.frontier, counts.of_all_time, lacking=job.plan.state.absent
            )
            if not found.goes_on(job.before, job.plan):
                job = _job(work, layer, table, replace(opened[table], anew=True), counts)
            state = found.state(job.plan.state, columns)
            plan = replace(job.plan, state=state, fold_absent=state.absent, follow_moves=state.moves)
            job = replace(job, plan=plan)
            if not (plan.rebuilds and found.eras):
                job = replace(job, history=found.without_eras)
            else:
                spans = found.spans(counts.of_all_time(table))
                keyed = matched_by(columns, spans[-1].columns) if spans else job.columns
                job = replace(job, columns=keyed, plan=replace(plan, spans=spans), history=found)
        return _with_columns(pipeline, job, columns)

    return follow


def _of_shards(
    work: LayerWork,
    layer: Layer,
    job: SnapshotJob,
    opened: _Opened,
    counts: Counts,
    tables: FollowedTables,
    before: FollowedTable | FollowedShards | None,
    now: FollowedShards,
) -> SnapshotJob | Fault:
    """Return the job of a merged table whose shards' schemas are known."""
    pipeline, table, columns = work.pipeline, job.table, tuple(work.tables[job.table])
    assert not isinstance(before, FollowedTable), "a table is merged or not"
    if (key := now.key) is None and now.is_moved:
        return rows_of_other_keys(table)
    ends_doubt = key is not None and bool(job.before.unfollowed)  # rows may be of changes that another key matched
    has_defaults = job.plan.state.absent and now.has_defaults
    plain = (key is None and not has_defaults) or are_plain(now, columns, lacking=job.plan.state.absent)
    # Columns of statements may have types that cannot be widened to those of all events, even if all rows are made anew.
    if not opened.has_present and plain and not ends_doubt:
        return _with_columns(pipeline, job, columns)
    step = None
    if key is not None and not ends_doubt and not may_double_deleted(job.plan, key, now.shards.values()):
        step = step_of_shards(before, now, job.before)
    if step is None and (key is not None or job.before.present is not None):
        job = _job(work, layer, table, replace(opened, anew=True), counts)
    if key is None:
        return _followed(pipeline, job, as_events_told(pipeline, layer, table, columns, now, job.plan.spans))
    step = ShardsStep(now, None) if step is None or job.plan.rebuilds else step
    origins = origins_of_shards(pipeline, tables, table, now)
    job = with_facts_of(job, counts, origins)
    return _followed(pipeline, job, following_shards(pipeline, layer, table, columns, job.before, step, key, origins))


def _with_columns(pipeline: Pipeline, job: SnapshotJob, columns: Sequence[Column]) -> SnapshotJob:
    """Return a job whose table has the columns that it had, and those that events told since."""
    present = job.before.present
    if present is not None:
        job = laid_out(pipeline, job)
        return _followed(pipeline, job, unchanged(pipeline, job.layer, job.table, columns, present))
    path = pipeline.table_path(job.layer.name, job.table)
    if job.current is None and any(one.own_types for one in columns):  # it may have been made with a narrower type
        pipeline.lake.drop(path)
        pipeline.lake.ensure(path, _LAYOUTS[job.layer.name](job.table, tuple(columns)))
    pipeline.lake.evolve(path, job.layer.columns_of(pipeline.settings, job.table, columns))
    return laid_out(pipeline, job)


def _followed(pipeline: Pipeline, job: SnapshotJob, found: Following) -> SnapshotJob:
    planned = found.planned
    if planned is not None and planned.lays_out:
        job = laid_out(pipeline, job, planned.layout) if job.plan.nothing else replace(job, laid_out=True)
    lost = job.plan.state.lost
    if lost is not None and found.proven_at is not None and lost.position <= found.proven_at:
        lost = None
    state = replace(
        job.plan.state, lost=lost, present=found.present, unfit=job.plan.state.unfit or found.changes.may_be_unfit
    )
    return replace(job, columns=found.columns, plan=replace(job.plan, state=state, spans=()), following=found)


def _with_unfollowed(job: SnapshotJob, now: FollowedShards) -> SnapshotJob:
    """Return a job whose state says which statement or rows it lacks."""
    state = job.plan.state
    lacks = "" if state.present is not None else now.unfollowed if now.is_simple else now.doubt
    return replace(job, plan=replace(job.plan, state=replace(state, unfollowed=lacks)))


def _outcome(pipeline: Pipeline, job: SnapshotJob, merged: MergedRows, *, committed: bool) -> LayerOutcome:
    size = pipeline.lake.size(pipeline.table_path(job.layer.name, job.table))
    counts, unknown = merged.not_removed.get(job.table, ALL_REMOVED), merged.unknown.get(job.table, {})
    return LayerOutcome(
        committed,
        None if size is None else size.rows,
        None if size is None else size.bytes,
        waits=job.plan.state.waits_from is not None,
        not_removed=counts if counts.unseen or counts.ambiguous or counts.misfits or not has_key(job.columns) else None,
        worn=job.laid_out,
        columns=None if job.following is None else job.following.columns,
        doubt=(stored_state(pipeline, job.layer.name, job.table)[1] if unknown else job.plan.state).doubt,
        was_doubted=bool(job.before.doubt),
        unknown_values=unknown,
    )
