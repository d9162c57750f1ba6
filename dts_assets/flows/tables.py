"""The third flow: entries of whole windows into changelogs and the layers made from them, marked in ``cuts``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from dts_assets.flows.ambiguous_changes import ambiguous_by_window, corrected_marks_of_others
from dts_assets.flows.apart import do_apart
from dts_assets.flows.cut_tags import kept_cuts, remove_moved_tags, tag_unchanged
from dts_assets.flows.falling_ids import compare_contents
from dts_assets.flows.filter_statements import judged_otherwise, with_other_names
from dts_assets.flows.known_tables import known_tables, registered_columns
from dts_assets.flows.layers import CHANGELOG, EVERYTHING, SNAPSHOT, Layer, LayerWork, Selection
from dts_assets.flows.moved_changes import moved_to_by
from dts_assets.flows.pauses import pause_tables
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.renamed_tables import register_names
from dts_assets.flows.reports import (
    NO_FACTS,
    LayerOutcome,
    Progress,
    TableReport,
    TablesReport,
    WindowReport,
    latest,
    summed,
)
from dts_assets.flows.ruled_changelogs import forget_plain_versions, pass_rules
from dts_assets.flows.schema_news import schema_news
from dts_assets.flows.settling import settle_days
from dts_assets.flows.tables_commit import Written, commit_tables, quarantined_entries
from dts_assets.flows.tables_decode import decode_tables
from dts_assets.flows.tables_plan import MARKED, TablesPlan, chosen_tables, plan_tables, refuse_incomplete
from dts_assets.flows.tables_tasks import TablesResult
from dts_assets.flows.turns import tables_turn
from dts_assets.flows.unmatched_rules import refuse_unmatched
from dts_assets.flows.upkeep import NO_UPKEEP, Upkeep, keep_up_in_turn
from dts_assets.flows.window_facts import unseen_by_window, window_facts, windows_concerned
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import Cut, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.appends import open_windows
from dts_assets.planning.backlog import entered, taken_out
from dts_assets.planning.compactions import needs_compaction
from dts_assets.planning.cuts import frontier, frontier_of_table, window_cut
from dts_assets.planning.judgements import with_ambiguous, with_quarantined
from dts_assets.planning.pauses import Fault, pauses_of, windows_lacking, with_missing
from dts_assets.planning.snapshot_plans import Chain
from dts_assets.planning.topic_marks import proven_anew
from dts_assets.stages.table_tallies import TableTally, TallyKey


def materialize_tables(
    pipeline: Pipeline,
    windows: Sequence[Window],
    *,
    selection: Selection = EVERYTHING,
    spark: SparkProvider,
    progress: Progress,
    defer: Callable[[Upkeep], None] | None = None,
) -> TablesReport:
    """Make the changelogs of some windows and bring the layers made from them to the frontier.

    A run of only some tables does not mark its windows. A run that waited for another does not make again what that one made.
    ``defer`` gets the upkeep that is left, to do it later; without it the upkeep is done at once.

    Raises:
        NotReadyError: A Kafka partition of a window has no entries yet.
        IncompleteWindowError: A window is incomplete, and the settings say that such windows block.
        IncompatibleLakeError: The lake was built with other settings.
    """
    before: dict[datetime, Cut] = {}
    waited = False

    def waiting(line: str) -> None:
        nonlocal waited
        progress(line)
        before.update({row.window.start: row for row in pipeline.ledger.cuts(windows)})
        waited = True

    with tables_turn(pipeline, waiting) as turn:
        compare_contents(pipeline, spark=spark, progress=progress)
        plan = plan_tables(
            pipeline, sorted(windows), selection, turn, progress, before_waiting=before if waited else None
        )
        judged = judged_otherwise(pipeline, plan)
        plan = replace(plan.with_moved(judged.appended), judged_otherwise=judged.others)
        return _materialize(pipeline, plan, spark, progress, defer)


def _materialize(
    pipeline: Pipeline,
    plan: TablesPlan,
    spark: SparkProvider,
    progress: Progress,
    defer: Callable[[Upkeep], None] | None,
) -> TablesReport:
    began = time.monotonic()
    refuse_unmatched(pipeline, progress)
    plan, unruled = _with_rules(pipeline, plan, plan.changelogs, spark=spark, progress=progress)
    decoded = decode_tables(pipeline, plan, spark=spark, progress=progress)
    if left_out := chosen_tables(
        plan.tables,
        CHANGELOG,
        plan.selection,
        without={*plan.paused, *plan.changelogs, *unruled},
        among={table for result in decoded.results for table in result.left_out},
    ):
        progress(f"changelog: {len(left_out)} tables more have entries than were described; decoding again")
        plan, more = _with_rules(pipeline, plan.with_tables(left_out), left_out, spark=spark, progress=progress)
        unruled |= more
        decoded = decode_tables(pipeline, plan, spark=spark, progress=progress)
    plan = plan.with_moved(decoded.before.moved)
    lost = quarantined_entries(tally for result in decoded.results for tally in result.tallies.items())
    refuse_incomplete(pipeline, _with_quarantined(plan.marks, lost), plan.ingested)
    _mark_judged_otherwise(pipeline, plan, progress)
    written = commit_tables(pipeline, plan, decoded, progress=progress)
    # Now the statements of this run are stored, too, and rules hold for the names that they gave.
    renamed = register_names(pipeline, plan.windows, again=plan.windows_again, stored=plan.stored)
    plan, more = _with_rules(pipeline, plan, (), spark=spark, progress=progress)
    written = replace(written, faults={**unruled, **more, **written.faults})
    advanced = _advance_layers(pipeline, plan, written, renamed, spark=spark, progress=progress)
    _mark_windows(pipeline, plan, advanced, progress)
    forget_plain_versions(pipeline, progress)
    upkeep = _upkeep(plan, advanced, written)
    if defer is not None:
        defer(upkeep)
    elif upkeep != NO_UPKEEP:
        keep_up_in_turn(pipeline, upkeep, spark=spark, progress=progress)
    _warn_of_pauses(advanced.failed, progress)
    return TablesReport(
        _window_reports(advanced, written, decoded.results),
        _table_reports(pipeline, plan.windows, decoded.results, written.tallies, advanced),
        time.monotonic() - began,
        next((result.decoder for result in decoded.results), ""),
        {**plan.paused, **{row.table: row for row in advanced.failed}},
    )


def _with_rules(
    pipeline: Pipeline, plan: TablesPlan, makes: Collection[TableId], *, spark: SparkProvider, progress: Progress
) -> tuple[TablesPlan, dict[TableId, Fault]]:
    """Let stored rows pass the rules of tables that they reach; return plan and new faults.

    Tables with a fault are left out of it. The changelogs that the plan ``makes`` may have to be made.
    """
    removed = {row.table for row in plan.paused.values() if row.is_removed}
    there = {table: columns for table, columns in registered_columns(pipeline).items() if table not in removed}

    def note(tables: Collection[TableId]) -> None:
        pipeline.ledger.require_turn(MARKED, plan.turn)
        pipeline.ledger.change_backlog(lambda rows: entered(rows, tables, plan.run))

    done = pass_rules(pipeline, there, spark=spark, progress=progress, note=note, makes=makes)
    changelogs = {table: columns for table, columns in plan.changelogs.items() if table not in done.faults}
    concerned = None if plan.concerned is None else plan.concerned | done.rewritten
    faults = {table: fault for table, fault in done.faults.items() if table not in plan.paused}
    return replace(plan, changelogs=changelogs, concerned=concerned), faults


@dataclass(frozen=True, slots=True)
class _Advanced:
    """The marks that the windows get, the frontier of all layers, and the outcome of each table.

    ``others`` are marks of other windows, which the next run judges again: another number of changes is ambiguous there now.
    ``failed`` are the pauses of the tables that failed in the run; the marks name them. ``known`` are all tables as the run knows
    them at its end; ``outcomes`` are by layer name: ``{"snapshot": {orders: LayerOutcome()}}``.
    """

    marks: tuple[Cut, ...]
    others: tuple[Cut, ...]
    reached: Frontier
    outcomes: Mapping[str, Mapping[TableId, LayerOutcome]]
    failed: tuple[PausedTable, ...]
    known: Mapping[TableId, tuple[Column, ...]]


def _advance_layers(
    pipeline: Pipeline,
    plan: TablesPlan,
    written: Written,
    renamed: Collection[TableId],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> _Advanced:
    """Bring the layers that are made from other layers to the frontier that the committed changelogs allow.

    ``renamed`` are tables that statements of the run's windows gave their names.
    """
    cuts = {start: window_cut(row) for start, row in plan.stored.items()}
    first, told = pipeline.first_window(), plan.history.past.frontier
    marks, cuts_before = plan.marks, dict(cuts)
    stood_at = frontier(cuts, pipeline.grid, first=first, behind=told)
    if plan.selection.whole:
        made = plan.appends.marked(
            plan.again, plan.ingested, run=plan.run, firsts=written.firsts, stood_at=stood_at.cut
        )
        anew = proven_anew(plan.proven, plan.stored)
        lost = quarantined_entries(written.tallies.items())
        marks = _with_quarantined(sorted([*made, *anew], key=lambda mark: mark.window), lost)
        cuts |= {mark.window.start: window_cut(mark) for mark in marks}
    reached = frontier(cuts, pipeline.grid, first=first, behind=told)
    chains = {
        mark.window.start: Chain(mark.chain, frozenset(mark.made_by))
        for mark in (*plan.stored.values(), *marks)
        if mark.chain
    }
    made_now = {mark.window.start: mark for mark in marks} if plan.selection.whole else {}
    lacking = windows_lacking({**plan.stored, **made_now}.values())
    reached_without = {
        starts: frontier_of_table(cuts, pipeline.grid, first=first, lacking=starts, behind=told)
        for starts in set(lacking.values())
    }
    behind = {table: reached_without[starts] for table, starts in lacking.items()}
    closed = kept_cuts(pipeline, cuts, reached)
    remove_moved_tags(pipeline, cuts_before, cuts, reached)
    ambiguous_before = ambiguous_by_window(pipeline, plan.tables, plan.stored.values())
    known, outcomes, faults = _make_layers(
        pipeline,
        plan,
        written,
        LayerWork(
            pipeline,
            {},
            plan.windows,
            reached,
            chains,
            plan.turn,
            spark,
            progress,
            behind,
            written.kept,
            plan.appends.compared,
            plan.lacking,
            plan.selection.anew,
            closed,
            altered=written.altered,
        ),
        stood_at,
        renamed,
    )
    marked = plan.windows if plan.selection.whole else ()
    ambiguous = ambiguous_by_window(pipeline, known, plan.stored.values())
    marks = tuple(with_ambiguous(mark, ambiguous.get(mark.window.start, 0)) for mark in marks)
    others = corrected_marks_of_others(pipeline, plan.stored, ambiguous_before, ambiguous, without=marked)
    failed = pauses_of(faults, since=datetime.now(UTC), first_window=plan.windows[0].start)
    if plan.selection.whole:
        changed = {table for table, one in outcomes.get(SNAPSHOT.name, {}).items() if one.committed}
        without = {*plan.paused, *faults, *behind, *changed}
        tag_unchanged(pipeline, known, closed, reached, without=without, progress=progress)
    return _Advanced(_with_missing(plan, marks, failed), others, reached, outcomes, failed, known)


def _make_layers(
    pipeline: Pipeline,
    plan: TablesPlan,
    written: Written,
    whole: LayerWork,
    stood_at: Frontier,
    renamed: Collection[TableId],
) -> tuple[dict[TableId, tuple[Column, ...]], dict[str, Mapping[TableId, LayerOutcome]], dict[TableId, Fault]]:
    """Make the layers that are made from other layers, which stood at a frontier before.

    All known tables are returned, the outcomes, and the faults of all tables so far.
    """
    known, outcomes, faults = known_tables(pipeline), dict[str, Mapping[TableId, LayerOutcome]](), dict(written.faults)
    moved_to = moved_to_by(pipeline, plan, written.touched, stood_at, whole.reached)
    concerned = None if plan.concerned is None else plan.concerned | moved_to
    for layer in pipeline.layers:
        if layer.make is None or layer.made_from is None:
            continue
        asked_for = {table: known[table] for table in known if layer.takes(pipeline.settings, table)}
        chosen = chosen_tables(asked_for, layer, plan.selection, without={*plan.paused, *faults}, among=concerned)
        rows = do_apart(layer.name, chosen, partial(_has_rows, pipeline, layer, layer.made_from))
        tables = {
            table: columns
            for table, columns in chosen.items()
            if rows.results.get(table) or (layer.moves_rows and table in renamed and table not in rows.faults)
        }
        outcomes[layer.name] = layer.make(replace(whole, tables=tables, moved_to=moved_to))
        faults |= rows.faults
        faults |= {table: one.fault for table, one in outcomes[layer.name].items() if one.fault is not None}
    return known, outcomes, faults


def _has_rows(pipeline: Pipeline, layer: Layer, made_from: Layer, table: TableId) -> bool:
    """Return whether a layer may have rows of a table.

    A table that got its name by a statement may have no change yet.
    """
    return pipeline.has_rows(made_from, table) or (layer.moves_rows and pipeline.has_rows(SNAPSHOT, table))


def _with_missing(plan: TablesPlan, marks: Iterable[Cut], failed: Collection[PausedTable]) -> tuple[Cut, ...]:
    """Return marks that name the tables which their windows lack.

    A window whose rows stay lacks only what failed behind them. Nobody misses a removed table.
    """
    again = {mark.window for mark in plan.again}
    still = [row for row in plan.paused.values() if not row.is_removed]
    return tuple(with_missing(mark, [*still, *failed] if mark.window in again else failed) for mark in marks)


def _warn_of_pauses(failed: Iterable[PausedTable], progress: Progress) -> None:
    for row in failed:
        progress(f"{row.layer}: {row.table} failed and is paused; all other tables went on: {row.reason}")


def _with_quarantined(marks: Iterable[Cut], entries: Mapping[datetime, int]) -> tuple[Cut, ...]:
    return tuple(with_quarantined(mark, entries.get(mark.window.start, 0)) for mark in marks)


def _mark_judged_otherwise(pipeline: Pipeline, plan: TablesPlan, progress: Progress) -> None:
    """Mark other windows as stale before the statements are stored.

    A later run would take stored statements for known to them.
    """
    if others := plan.judged_otherwise:
        progress(f"tables: {len(others)} other windows were judged by row filters whose columns have other names there")
        pipeline.ledger.replace_cuts([mark.window for mark in others], others, turn=plan.turn)


def _mark_windows(pipeline: Pipeline, plan: TablesPlan, advanced: _Advanced, progress: Progress) -> None:
    """Write the marks of a run that made everything of its windows.

    The rows of ``cuts`` are the last commit of the windows: a run that was killed before leaves no mark and is simply run again.
    """
    if advanced.failed:
        pipeline.ledger.require_turn(MARKED, plan.turn)
        pause_tables(pipeline, advanced.failed)
    if advanced.others:
        pipeline.ledger.replace_cuts([mark.window for mark in advanced.others], advanced.others, turn=plan.turn)
    if not plan.selection.whole:
        if advanced.failed:  # the windows of these marks lack the tables from now on
            stored = pipeline.ledger.cuts(plan.windows)
            pipeline.ledger.replace_cuts(
                [mark.window for mark in stored],
                [with_missing(mark, advanced.failed) for mark in stored],
                turn=plan.turn,
            )
        return
    pipeline.ledger.replace_lineages(plan.history.lineages.all)
    stale = {mark.window for mark in plan.judged_otherwise}
    marks = [with_other_names(mark) if mark.window in stale else mark for mark in advanced.marks]
    pipeline.ledger.replace_cuts(plan.windows, marks, turn=plan.turn)
    _take_out_of_backlog(pipeline, plan, advanced)
    settle_days(pipeline, progress)


def _upkeep(plan: TablesPlan, advanced: _Advanced, written: Written) -> Upkeep:
    """Return the upkeep that a run leaves; a run that marks no window leaves none."""
    if not plan.selection.whole:
        return NO_UPKEEP
    still_open = open_windows(plan.ingested.values())
    worn = {table for made in advanced.outcomes.values() for table, outcome in made.items() if outcome.worn}
    return Upkeep(
        frozenset(
            mark.window
            for mark in advanced.marks
            if needs_compaction(len(mark.made_by), still_open=mark.window.start in still_open)
        ),
        any(mark.window.start not in still_open for mark in advanced.marks),
        {table: plan.tables[table] for table in sorted({*written.tables, *worn}) if table in plan.tables},
        frozenset({*plan.paused, *(row.table for row in advanced.failed)}),
    )


def _take_out_of_backlog(pipeline: Pipeline, plan: TablesPlan, advanced: _Advanced) -> None:
    """Take the tables out of the backlog of which no layer lacks a change any more."""
    still = {*plan.paused, *(row.table for row in advanced.failed)}
    waiting = {table for made in advanced.outcomes.values() for table, outcome in made.items() if outcome.waits}
    looked_at = chosen_tables(advanced.known, CHANGELOG, plan.selection, without=still, among=plan.concerned)
    done = {table for table in looked_at if table not in waiting}
    pipeline.ledger.change_backlog(
        lambda rows: taken_out(
            rows, seen=plan.backlog, run=plan.run, done=done, layers=pipeline.layer_titles,
            all_tables=advanced.known if plan.concerned is None else (),
        )
    )  # fmt: skip


def _window_reports(
    advanced: _Advanced, written: Written, results: Collection[TablesResult]
) -> tuple[WindowReport, ...]:
    """Return the report of every window of a run."""
    changes = summed((start, tally.changes) for (start, _, _), tally in written.tallies.items())
    reached = advanced.reached.window
    seconds = summed(pair for result in results for pair in result.seconds.items())
    return tuple(
        WindowReport(
            mark,
            reached is not None and mark.window.start <= reached,
            changes.get(mark.window.start, 0),
            seconds.get(mark.window.start, 0.0),
            written.unbalanced.get(mark.window.start, ()),
        )
        for mark in advanced.marks
    )


def _table_reports(
    pipeline: Pipeline,
    windows: Sequence[Window],
    results: Collection[TablesResult],
    tallies: Mapping[TallyKey, TableTally],
    advanced: _Advanced,
) -> tuple[TableReport, ...]:
    """Return the report of every known table."""
    before = pipeline.grid.previous(windows[0])
    shapes = pipeline.ledger.table_shapes(windows if before is None else [before, *windows])
    tables, outcomes = advanced.known, advanced.outcomes
    news = schema_news(pipeline, windows, shapes, tables=tables)
    by_table: dict[TableId, list[tuple[datetime, TableTally]]] = {}
    for (start, _, table), tally in tallies.items():
        by_table.setdefault(table, []).append((start, tally))
    changes = {table: summed((start, tally.changes) for start, tally in mine) for table, mine in by_table.items()}
    unseen = unseen_by_window(pipeline, windows)
    concerned = windows_concerned(pipeline, windows, news, unseen)
    facts = window_facts(pipeline, concerned, outcomes.get(SNAPSHOT.name, {}), news=news, unseen=unseen, columns=tables)
    reports = []
    for table, columns in tables.items():
        mine = by_table.get(table, [])
        files = [file for result in results for file in result.files.get(table, ())]
        reports.append(
            TableReport(
                table=table,
                columns=columns,
                layers={
                    layer.name: outcomes.get(layer.name, {}).get(table, LayerOutcome())
                    for layer in pipeline.layers
                    if layer.takes(pipeline.settings, table)
                },
                news=news.get(table, {}),
                facts=facts.get(table, NO_FACTS),
                concerned=concerned.get(table, frozenset()),
                changes=changes.get(table, {}),
                stored_bytes=summed((file.partition[0], file.bytes) for file in files),
                invalid_values=summed((start, tally.invalid_values) for start, tally in mine),
                quarantined=summed((start, tally.quarantined) for start, tally in mine),
                latest_event=latest((start, tally.latest_event) for start, tally in mine),
            )
        )
    return tuple(reports)
