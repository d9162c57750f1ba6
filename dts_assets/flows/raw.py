"""The first flow: messages of a span, from the source into ``raw_envelopes``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dts_assets.errors import CaptureGrownError, NotClosedError
from dts_assets.flows.ingest_tasks import RawResult, RawTask, copy_messages
from dts_assets.flows.pipeline import CODE_VERSION, Pipeline, SparkProvider, stored_cells
from dts_assets.flows.reports import Progress, RawCellReport, RawReport, counted, rate
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.spans import Cell, Span
from dts_assets.planning.boundaries import ClosedBy, PlannedCell, StoredCell, instants_to_find, plan_cells
from dts_assets.planning.generations import generation
from dts_assets.planning.rectangles import rectangles
from dts_assets.store.commit import Rectangle
from dts_assets.store.rows import RawWindow
from dts_assets.store.schemas import RAW_ENVELOPES

_NAMED_OFFSETS = 5


def materialize_raw(pipeline: Pipeline, span: Span, *, spark: SparkProvider, progress: Progress) -> RawReport:
    """Copy the messages of a span into the lake, exactly and atomically, and mark its cells in ``raw_windows``.

    Raises NotClosedError if a window has not closed, CaptureGrownError if a complete capture has grown.
    """
    began = time.monotonic()
    pipeline.check_shape()
    stored = {row.cell: row for row in pipeline.ledger.raw_windows() if row.kafka_partition in span.kafka_partitions}
    watermarks = pipeline.source.watermarks()
    refuse_grown(pipeline, stored.values(), watermarks)
    planned = _plan(pipeline, span, stored, watermarks)
    copied = [plan for plan in planned if not _gone(plan, watermarks)]
    results = _copy(pipeline, copied, spark, progress)
    rows = {plan.cell: _row(pipeline, plan, results[plan.cell], watermarks) for plan in copied}
    if rows:
        pipeline.ledger.replace_raw_windows(rows, list(rows.values()))
        pipeline.first_window()
    reports = [_report(plan.cell, rows.get(plan.cell) or stored[plan.cell], results.get(plan.cell)) for plan in planned]
    messages = sum(report.row.messages for report in reports)
    done = rate(messages, "messages", time.monotonic() - began)
    progress(f"raw_envelopes: stored {len(reports)} partitions, {done}")
    table = pipeline.path("raw_envelopes")
    location = pipeline.lake.ensure(table, RAW_ENVELOPES).location()
    return RawReport(tuple(reports), ".".join(table), location, time.monotonic() - began)


def refuse_grown(pipeline: Pipeline, stored: Iterable[RawWindow], watermarks: Mapping[int, Watermark]) -> None:
    """Raise CaptureGrownError if a capture is declared complete and has messages behind an end that closed a stored window."""
    capture = pipeline.settings.source.capture
    if capture is None or not capture.complete:
        return
    for row in stored:
        high = watermarks[row.kafka_partition].high
        if row.closed_by == ClosedBy.END and high > row.offsets.end:
            path = str(capture.path)
            raise CaptureGrownError(path, row.kafka_partition, stored_end=row.offsets.end, found_end=high)


def find_boundaries(
    pipeline: Pipeline, cells: Iterable[Cell], stored: Iterable[StoredCell]
) -> dict[tuple[int, datetime], int | None]:
    """What the source says of the boundaries that no stored row knows; None where no message is dated so late yet."""
    now = pipeline.source.now()
    if now is None:
        return {}
    limit = now + pipeline.settings.window.max_clock_skew
    return {
        (partition, instant): pipeline.source.offset_for_time(partition, instant, not_after=limit)
        for partition, instant in instants_to_find(cells, stored)
    }


def _plan(
    pipeline: Pipeline, span: Span, stored: Mapping[Cell, RawWindow], watermarks: Mapping[int, Watermark]
) -> tuple[PlannedCell, ...]:
    """The offsets of every cell, all of them closed."""
    marks = stored_cells(stored.values())
    closing = pipeline.closing()
    found = find_boundaries(pipeline, span.cells(), marks)
    planned = plan_cells(span.cells(), marks, found=found, watermarks=watermarks, closing=closing)
    if still_open := [plan.cell for plan in planned if plan.closed_by is ClosedBy.OPEN]:
        raise NotClosedError(pipeline.name, [str(cell) for cell in still_open], latest=closing.now)
    return planned


def _gone(plan: PlannedCell, watermarks: Mapping[int, Watermark]) -> bool:
    """Whether a stored cell can no longer be read again in full: then what is stored is worth more."""
    return plan.stored and bool(len(plan.offsets)) and watermarks[plan.cell.kafka_partition].low > plan.offsets.start


def _copy(
    pipeline: Pipeline, planned: Sequence[PlannedCell], spark: SparkProvider, progress: Progress
) -> dict[Cell, RawResult]:
    pipeline.lake.ensure(pipeline.path("raw_envelopes"), RAW_ENVELOPES)
    target = pipeline.lake.target(pipeline.path("raw_envelopes"), pipeline.new_run())
    tasks = [
        RawTask(pipeline.source, plan.cell, plan.offsets, pipeline.settings.epoch, target)
        for plan in planned
        if len(plan.offsets)
    ]
    total = sum(len(task.offsets) for task in tasks)
    progress(f"raw_envelopes: reading {total:,} offsets of {len(planned)} partitions")
    watched = Watched("raw_envelopes", "partitions", counted("offsets"), progress)
    done = (
        run_tasks(spark(), tasks, copy_messages, weight=lambda task: len(task.offsets), watched=watched)
        if tasks
        else []
    )
    results = {result.cell: result for result in done}
    for plan in planned:
        results.setdefault(plan.cell, RawResult(plan.cell, (), 0, 0, None, None, digest=""))
    for span in rectangles(results):
        files = [file for cell in span.cells() for file in results[cell].files]
        rectangle: Rectangle = {
            "kafka_partition": set(span.kafka_partitions),
            "window_start": {window.start for window in span.windows},
        }
        pipeline.lake.replace(pipeline.path("raw_envelopes"), rectangle, files)
    return results


def _row(pipeline: Pipeline, plan: PlannedCell, result: RawResult, watermarks: Mapping[int, Watermark]) -> RawWindow:
    problems = tuple(_problems(pipeline, plan, watermarks[plan.cell.kafka_partition]))
    facts = [f"epoch={pipeline.settings.epoch}", f"offsets={plan.offsets}", f"messages={result.messages}",
             f"content={result.digest}", *(f"gap={problem.first_offset}" for problem in problems)]  # fmt: skip
    return RawWindow(
        kafka_partition=plan.cell.kafka_partition,
        window=plan.cell.window,
        epoch=pipeline.settings.epoch,
        offsets=plan.offsets,
        closed_by=plan.closed_by.value,
        messages=result.messages,
        bytes=result.bytes,
        first_time=result.first_time,
        last_time=result.last_time,
        problems=problems,
        generation=generation(facts, code_version=CODE_VERSION),
        code_version=CODE_VERSION,
    )


def _problems(pipeline: Pipeline, plan: PlannedCell, watermark: Watermark) -> list[Problem]:
    problems = []
    lost = OffsetRange(plan.offsets.start, min(watermark.low, plan.offsets.end))
    if len(lost):
        detail = f"the source no longer has offsets {lost}; they were never stored"
        problems.append(Problem(ProblemCode.GAP, lost.start, lost.end - 1, detail))
    now = pipeline.source.now()
    if now is not None:
        limit = now + pipeline.settings.window.max_clock_skew
        skewed = pipeline.source.dated_after(plan.cell.kafka_partition, plan.offsets, limit)
        if skewed:
            named = ", ".join(str(offset) for offset in skewed[:_NAMED_OFFSETS])
            detail = f"{len(skewed)} messages are dated beyond now and were read past: offsets {named}"
            problems.append(Problem(ProblemCode.CLOCK, skewed[0], skewed[-1], detail))
    return problems


def _report(cell: Cell, row: RawWindow, result: RawResult | None) -> RawCellReport:
    files = result.files if result is not None else ()
    seconds = 0.0 if result is None else result.seconds
    return RawCellReport(row, len(files), sum(file.bytes for file in files), kept=result is None, seconds=seconds)
