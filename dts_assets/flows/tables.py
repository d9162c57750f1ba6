"""The third flow: entries of whole windows into changelogs and the layers made from them, marked in ``cuts``."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from dts_assets.flows.layers import EVERYTHING, Selection
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress, TablesReport, WindowReport
from dts_assets.flows.table_reports import summed, table_reports
from dts_assets.flows.tables_advance import Advanced, advance_layers, mark_windows
from dts_assets.flows.tables_commit import Written, commit_tables
from dts_assets.flows.tables_decode import decode_tables
from dts_assets.flows.tables_plan import plan_tables
from dts_assets.flows.tables_tasks import TablesResult
from dts_assets.model.windows import Window
from dts_assets.store.locks import hold_lock


def materialize_tables(
    pipeline: Pipeline,
    windows: Sequence[Window],
    *,
    selection: Selection = EVERYTHING,
    spark: SparkProvider,
    progress: Progress,
) -> TablesReport:
    """Make the changelogs of some windows and bring the layers made from them to the frontier.

    A run of only some tables does not mark its windows.

    Raises:
        NotReadyError: A Kafka partition of a window has no entries yet.
        IncompleteWindowError: A window is incomplete, and the settings say that such windows block.
        IncompatibleLakeError: The lake was built with other settings.
    """
    said = "tables: another run of them is going on in this lake; waiting for it to end"
    with hold_lock(pipeline.lake.location, f"{pipeline.name}-tables", on_wait=lambda: progress(said)):
        return _materialize(pipeline, sorted(windows), selection, spark, progress)


def _materialize(
    pipeline: Pipeline, windows: Sequence[Window], selection: Selection, spark: SparkProvider, progress: Progress
) -> TablesReport:
    began = time.monotonic()
    pipeline.check_shape()
    plan = plan_tables(pipeline, windows, selection, progress)
    decoded = decode_tables(pipeline, plan, spark=spark, progress=progress)
    written = commit_tables(pipeline, plan, decoded, progress=progress)
    advanced = advance_layers(pipeline, plan, written, spark=spark, progress=progress)
    mark_windows(pipeline, plan, advanced, written, spark=spark, progress=progress)
    return TablesReport(
        _window_reports(advanced, written, decoded.results),
        table_reports(pipeline, decoded.results, written.tallies, advanced.outcomes),
        time.monotonic() - began,
        next((result.decoder for result in decoded.results), ""),
    )


def _window_reports(
    advanced: Advanced, written: Written, results: Collection[TablesResult]
) -> tuple[WindowReport, ...]:
    """Return the report of every window of a run."""
    changes = summed((start, tally.changes) for (start, _, _), tally in written.tallies.items())
    seconds = summed(pair for result in results for pair in result.seconds.items())
    return tuple(
        WindowReport(
            mark,
            advanced.applied(mark.window),
            changes.get(mark.window.start, 0),
            seconds.get(mark.window.start, 0.0),
            written.unbalanced.get(mark.window.start, ()),
        )
        for mark in advanced.marks
    )
