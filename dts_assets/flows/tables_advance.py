"""The end of a tables run: layers are brought to the frontier, then the windows are marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.compaction import compact_changelogs
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import LayerWork
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import LayerOutcome, Progress
from dts_assets.flows.tables_commit import Written
from dts_assets.flows.tables_plan import TablesPlan, chosen_tables
from dts_assets.flows.upkeep import expire_old_snapshots
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.appends import open_windows
from dts_assets.planning.compactions import needs_compaction
from dts_assets.planning.cuts import frontier, window_cut
from dts_assets.planning.snapshot_plans import Chain
from dts_assets.planning.topic_marks import proven_anew


@dataclass(frozen=True, slots=True)
class Advanced:
    """The marks that the windows get, the frontier of all layers, and the outcome of each table."""

    marks: tuple[Cut, ...]
    reached: Frontier
    outcomes: Mapping[str, Mapping[TableId, LayerOutcome]]

    def applied(self, window: Window) -> bool:
        """Return whether the layers have reached a window."""
        return self.reached.window is not None and window.start <= self.reached.window


def advance_layers(
    pipeline: Pipeline, plan: TablesPlan, written: Written, *, spark: SparkProvider, progress: Progress
) -> Advanced:
    """Bring the layers that are made from other layers to the frontier that the committed changelogs allow."""
    cuts = {start: window_cut(row) for start, row in plan.stored.items()}
    first = pipeline.first_window()
    marks = plan.marks
    if plan.selection.whole:
        stood_at = frontier(cuts, pipeline.grid, first=first).cut
        made = plan.appends.marked(plan.again, plan.ingested, run=plan.run, firsts=written.firsts, stood_at=stood_at)
        anew = proven_anew(plan.proven, plan.stored)
        marks = tuple(sorted([*made, *anew], key=lambda mark: mark.window))
        cuts |= {mark.window.start: window_cut(mark) for mark in marks}
    reached = frontier(cuts, pipeline.grid, first=first)
    chains = {
        mark.window.start: Chain(mark.chain, frozenset(mark.made_by))
        for mark in (*plan.stored.values(), *marks)
        if mark.chain
    }
    return Advanced(marks, reached, _make_layers(pipeline, plan, reached, chains, spark, progress))


def _make_layers(
    pipeline: Pipeline,
    plan: TablesPlan,
    reached: Frontier,
    chains: Mapping[datetime, Chain],
    spark: SparkProvider,
    progress: Progress,
) -> dict[str, Mapping[TableId, LayerOutcome]]:
    """Make each layer that is made from another layer: ``{"snapshot": {orders: LayerOutcome(True, 7, 70)}}``."""
    tables, outcomes = known_tables(pipeline), dict[str, Mapping[TableId, LayerOutcome]]()
    for layer in pipeline.layers:
        source = layer.made_from
        if layer.make is None or source is None:
            continue
        chosen = chosen_tables(tables, layer, plan.selection)
        stored = {table: columns for table, columns in chosen.items() if pipeline.has_rows(source, table)}
        work = LayerWork(pipeline, stored, plan.windows, reached, chains, spark, progress)
        outcomes[layer.name] = layer.make(work)
    return outcomes


def mark_windows(
    pipeline: Pipeline,
    plan: TablesPlan,
    advanced: Advanced,
    written: Written,
    *,
    spark: SparkProvider,
    progress: Progress,
) -> None:
    """Write the marks of a run that made everything of its windows, then compact and expire.

    The rows of ``cuts`` are the last commit of the windows: a run that was killed before leaves no mark and is simply run again.
    """
    if not plan.selection.whole:
        return
    pipeline.ledger.replace_lineages(plan.history.lineages.all)
    pipeline.ledger.replace_cuts(plan.windows, advanced.marks)
    still_open = open_windows(plan.ingested.values())
    scattered = [
        mark
        for mark in advanced.marks
        if needs_compaction(len(mark.made_by), still_open=mark.window.start in still_open)
    ]
    compact_changelogs(pipeline, scattered, plan.tables, spark=spark, progress=progress)
    expire_old_snapshots(pipeline, written.tables)
