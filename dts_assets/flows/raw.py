"""The first flow: messages of a span, from the source into ``raw_envelopes``."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from dts_assets.errors.sources import CaptureGrownError, MessagesGoneError, RecreatedTopicError
from dts_assets.errors.windows import NotClosedError
from dts_assets.flows.ingest_tasks import RawResult, RawTask, copy_messages
from dts_assets.flows.looks import raw_marks
from dts_assets.flows.open_windows import FilesFound, find_files, replace_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.removed_rows import refuse_removed_messages
from dts_assets.flows.reports import Progress, RawCellReport, RawReport, counted, rate
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.flows.turns import ingest_turn
from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.spans import Cell, Span
from dts_assets.model.turns import Turn
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.boundaries import Closing, PlannedCell, instants_to_find, plan_cells
from dts_assets.planning.ingest_marks import Copied, CopiedPart, raw_mark
from dts_assets.planning.mark_changes import contradicts
from dts_assets.planning.raw_reads import RawRead, is_gone, plan_read, problems_of_read

_TRIES = 3


def materialize_raw(pipeline: Pipeline, span: Span, *, spark: SparkProvider, progress: Progress) -> RawReport:
    """Copy the messages of a span into the lake, exactly and atomically, and mark its cells in ``raw_windows``.

    Of a window that was stored while it was open, only the messages that have come since are read. If the topic forgets
    messages between planning and reading, the span is planned again.

    Raises:
        NotClosedError: A window has not closed, and windows are not followed live.
        CaptureGrownError: A capture that is declared complete has grown.
        RecreatedTopicError: The topic ends before an offset that is stored.
        MessagesGoneError: The topic forgot messages after each of several plans.
        IncompatibleLakeError: The lake was built with other settings.
        RowsRemovedError: Retention has removed messages of the span.
    """
    with ingest_turn(pipeline, span, progress) as turn:
        for _ in range(_TRIES):
            try:
                return _materialize(pipeline, span, turn, spark, progress)
            except MessagesGoneError as error:  # forgotten since the watermarks were read: the next plan sees a gap
                progress(f"raw_envelopes: {error} Planning again.")
        return _materialize(pipeline, span, turn, spark, progress)


def _materialize(pipeline: Pipeline, span: Span, turn: Turn, spark: SparkProvider, progress: Progress) -> RawReport:
    began = time.monotonic()
    refuse_removed_messages(pipeline, pipeline.unmakeable().removed, span.cells())
    pipeline.ledger.enter_turn(("raw_windows",), turn)
    found = find_files(pipeline, pipeline.path("raw_envelopes"), span)
    marks = raw_marks(pipeline)
    known = marks.behind_settled(span.windows) or marks.of_days()
    stored = {row.cell: row for row in known if row.kafka_partition in span.kafka_partitions}
    watermarks = pipeline.source.watermarks()
    refuse_other_topic(pipeline, stored.values(), watermarks)
    planned = _plan(pipeline, span, stored.values(), watermarks)
    reads = [
        plan_read(plan, stored.get(plan.cell), low=watermarks[plan.cell.kafka_partition].low)
        for plan in planned
        if not is_gone(plan, watermarks[plan.cell.kafka_partition])
    ]
    run = pipeline.new_run()
    results = _copy(pipeline, reads, run, watermarks, spark, progress)
    rows = _marks(pipeline, reads, results, stored, watermarks, run)
    if rows:
        _take_back_marks(pipeline, reads, rows, stored, turn)
        _commit(pipeline, reads, results, found)
        pipeline.ledger.replace_raw_windows(rows, list(rows.values()), turn=turn)
        pipeline.first_window()
    reports = [_report(plan.cell, rows.get(plan.cell) or stored[plan.cell], results.get(plan.cell)) for plan in planned]
    messages = sum(result.copied.messages for result in results.values())
    done = rate(messages, "messages", time.monotonic() - began)
    progress(f"raw_envelopes: stored {len(reports)} partitions, {done}")
    location = pipeline.lake.ensure_system_table(pipeline.path("raw_envelopes")).location()
    return RawReport(tuple(reports), location, time.monotonic() - began)


def refuse_other_topic(pipeline: Pipeline, stored: Iterable[RawWindow], watermarks: Mapping[int, Watermark]) -> None:
    """Refuse a source whose offsets contradict the stored messages: it is another source, or has been replaced.

    Raises:
        CaptureGrownError: A capture that is declared complete has messages behind an end that closed a stored window.
        RecreatedTopicError: The topic ends before an offset that is stored.
    """
    capture, kafka = pipeline.settings.source.capture, pipeline.settings.source.kafka
    if kafka is not None:
        for row in stored:
            high = watermarks[row.kafka_partition].high
            if row.epoch == pipeline.settings.epoch and high < row.offsets.end:
                raise RecreatedTopicError(
                    kafka.bootstrap_servers,
                    ", ".join(kafka.topics),
                    kafka_partition=row.kafka_partition,
                    stored_end=row.offsets.end,
                    found_end=high,
                )
    if capture is None or not capture.complete:
        return
    for row in stored:
        high = watermarks[row.kafka_partition].high
        if row.closed_by is ClosedBy.END and high > row.offsets.end:
            path = str(capture.path)
            raise CaptureGrownError(path, row.kafka_partition, stored_end=row.offsets.end, found_end=high)


def plan_offsets(
    pipeline: Pipeline,
    cells: Collection[Cell],
    stored: Collection[RawWindow],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> tuple[PlannedCell, ...]:
    """Return cells with their offsets. The source is asked for the boundaries that no stored row gives."""
    if not cells:
        return ()
    now = pipeline.source.now()
    found: Mapping[tuple[int, datetime], int | None] = {}
    if now is not None:
        limit = now + pipeline.settings.window.max_clock_skew
        found = pipeline.source.offsets_for_times(instants_to_find(cells, stored), not_after=limit)
    return plan_cells(cells, stored, found=found, watermarks=watermarks, closing=closing)


def _plan(
    pipeline: Pipeline, span: Span, stored: Collection[RawWindow], watermarks: Mapping[int, Watermark]
) -> tuple[PlannedCell, ...]:
    """Return the offsets of every cell of a span.

    If windows are followed live, the first open cell of a Kafka partition may be read. Later ones may not, since the offsets at
    which they begin are not known yet.

    Raises:
        NotClosedError: A window has not closed, and may not be read while it is open.
    """
    closing = pipeline.closing()
    planned = plan_offsets(pipeline, list(span.cells()), stored, watermarks, closing)
    live = pipeline.settings.window.live
    refused = [one.cell for one in planned if one.closed_by is ClosedBy.OPEN and (one.behind_open or not live)]
    if refused:
        raise NotClosedError(pipeline.name, [str(cell) for cell in refused], latest=closing.now)
    return planned


def _copy(
    pipeline: Pipeline,
    reads: Sequence[RawRead],
    run: str,
    watermarks: Mapping[int, Watermark],
    spark: SparkProvider,
    progress: Progress,
) -> dict[Cell, RawResult]:
    path = pipeline.path("raw_envelopes")
    pipeline.lake.ensure_system_table(path)
    target = pipeline.lake.target(path, run)
    tasks = [
        RawTask(pipeline.source, one.plan.cell, offsets, one.parts, pipeline.settings.epoch, target)
        for one in reads
        if len(offsets := one.still_there(watermarks[one.plan.cell.kafka_partition]))
    ]
    total = sum(len(task.offsets) for task in tasks)
    progress(f"raw_envelopes: reading {total:,} offsets of {len(reads)} partitions")
    watched = Watched("raw_envelopes", "partitions", counted("offsets"), progress)
    done = (
        run_tasks(spark(), tasks, copy_messages, weight=lambda task: len(task.offsets), watched=watched)
        if tasks
        else []
    )
    results = {result.cell: result for result in done}
    for one in reads:
        nothing = Copied(tuple(CopiedPart(part, 0, "") for part in one.parts))
        results.setdefault(one.plan.cell, RawResult(one.plan.cell, (), nothing))
    return results


def _take_back_marks(
    pipeline: Pipeline,
    reads: Iterable[RawRead],
    rows: Mapping[Cell, RawWindow],
    stored: Mapping[Cell, RawWindow],
    turn: Turn,
) -> None:
    """Remove the marks that the files of this run would contradict if it was killed behind their commit.

    A source that is changed back afterwards would make such a mark look right.

    Raises:
        OvertakenError: Another run has taken over.
    """
    cells = [one.plan.cell for one in reads if one.appends_to is None and one.plan.cell in stored]
    changing = [cell for cell in cells if contradicts(stored[cell], rows[cell])]
    pipeline.ledger.require_turn(("raw_windows",), turn)
    if changing:
        pipeline.ledger.replace_raw_windows(changing, [], turn=turn)


def _commit(pipeline: Pipeline, reads: Iterable[RawRead], results: Mapping[Cell, RawResult], found: FilesFound) -> None:
    files = {cell: result.files for cell, result in results.items()}
    appends = {one.plan.cell: one.appends_to for one in reads if one.appends_to is not None}
    replace_cells(pipeline, pipeline.path("raw_envelopes"), files, appends, found=found)


def _marks(
    pipeline: Pipeline,
    reads: Iterable[RawRead],
    results: Mapping[Cell, RawResult],
    stored: Mapping[Cell, RawWindow],
    watermarks: Mapping[int, Watermark],
    run: str,
) -> dict[Cell, RawWindow]:
    """Return the marks of all cells that were read, by cell. A window before one of them may be among them."""
    marks: dict[Cell, RawWindow] = {}
    for read in reads:
        cell = read.plan.cell
        earlier = pipeline.grid.previous(cell.window)
        cell_before = None if earlier is None else Cell(cell.kafka_partition, earlier)
        row_before = None if cell_before is None else marks.get(cell_before) or stored.get(cell_before)
        skewed = _dated_beyond_now(pipeline, cell.kafka_partition, read.offsets)
        problems = problems_of_read(read, watermarks[cell.kafka_partition], row_before=row_before, skewed=skewed)
        marks[cell] = raw_mark(read, results[cell].copied, problems, epoch=pipeline.settings.epoch, run=run)
    return marks


def _dated_beyond_now(pipeline: Pipeline, kafka_partition: int, offsets: OffsetRange) -> Sequence[int]:
    """Return the offsets of messages whose time lies further ahead of now than clocks may differ."""
    now = pipeline.source.now()
    if now is None or not len(offsets):
        return ()
    return pipeline.source.dated_after(kafka_partition, offsets, now + pipeline.settings.window.max_clock_skew)


def _report(cell: Cell, row: RawWindow, result: RawResult | None) -> RawCellReport:
    files = result.files if result is not None else ()
    seconds = 0.0 if result is None else result.seconds
    return RawCellReport(row, len(files), sum(file.bytes for file in files), kept=result is None, seconds=seconds)
