"""The reader of the work that a subscription lacks.

It asks the ledger and the source, and planning decides. It reads only, and needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.looks import Look, looks, paused_now
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import plan_offsets, refuse_other_topic
from dts_assets.model.offsets import Watermark
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.backlog import layers_asked_for
from dts_assets.planning.boundaries import Closing, PlannedCell, closed_windows
from dts_assets.planning.work import Work, plan_work


def find_work(pipeline: Pipeline) -> Work:
    """Return the work that a subscription lacks now.

    Raises:
        CaptureGrownError: A capture that is declared complete has grown.
        RecreatedTopicError: The topic ends before an offset that is stored.
    """
    known = known_names(pipeline)
    candidates = looks(pipeline, known)
    look = next(candidates)
    # Marks are read first: a run may store more after the watermarks are read.
    watermarks, closing = pipeline.source.watermarks(), pipeline.closing()
    refuse_other_topic(pipeline, look.raw.values(), watermarks)
    while (found := _closed(pipeline, look, watermarks, closing)) is None:
        look = next(candidates)
    stored, (closed, following) = look.raw.values(), found
    followed = {
        plan.cell: plan.cell not in look.raw or plan.offsets.end > look.raw[plan.cell].offsets.end
        for plan in following
        if watermarks[plan.cell.kafka_partition].latest is not None
    }
    seen = {window for windows in closed.values() for window in windows} | {cell.window for cell in followed}
    work = plan_work(
        closed,
        raw=look.sources,
        entries=look.entries,
        cuts=look.cuts,
        decoding=pipeline.decoding_settings(),
        settings=pipeline.shaping_settings(),
        beside={window.start: look.topic.beside(window) for window in seen},
        followed=followed,
        paused=paused_now(pipeline, known),
        layers=layers_asked_for(pipeline.ledger.backlog(), pipeline.layer_titles),
        unmakeable=pipeline.unmakeable(),
    )
    planned = plan_offsets(pipeline, work.ingest, stored, watermarks, closing)
    open_plans = (plan for plan in following if plan.cell in followed)
    return replace(work, ends={plan.cell: plan.offsets.end for plan in (*planned, *open_plans)})


def _closed(
    pipeline: Pipeline, look: Look, watermarks: Mapping[int, Watermark], closing: Closing
) -> tuple[dict[int, list[Window]], list[PlannedCell]] | None:
    """Return the windows that have closed, by Kafka partition, and the first cells after them.

    Cells after them are looked for if windows are followed live. Settled windows are left out. Where one of them is not closed
    by the clock of now, the result is None: a look over all windows has to tell.

    A message that is dated too far ahead closes no window, so the boundaries of windows that the ledger does not know as
    closed are looked up.
    """
    until, first = _until(pipeline, closing), pipeline.first_window()
    since = first if look.before is None else look.before.start
    windows = [] if until is None or since is None else list(pipeline.grid.until(until, since=since))
    by_time = {
        partition: closed_windows(partition, windows, watermark=watermarks[partition], closing=closing)
        for partition in pipeline.kafka_partitions
    }
    if look.before is not None and any(look.before not in some for some in by_time.values()):
        return None
    cells = [Cell(partition, window) for partition, some in by_time.items() for window in some if window != look.before]
    stored = look.raw.values()
    known = {row.cell for row in stored if row.closed_by is not ClosedBy.OPEN}
    unsure = plan_offsets(pipeline, [cell for cell in cells if cell not in known], stored, watermarks, closing)
    still_open = {plan.cell for plan in unsure if plan.closed_by is ClosedBy.OPEN}
    closed: dict[int, list[Window]] = {partition: [] for partition in pipeline.kafka_partitions}
    for cell in cells:
        if cell not in still_open:
            closed[cell.kafka_partition].append(cell.window)
    after = [
        Cell(partition, window)
        for partition, some in closed.items()
        if first is not None and (window := _after(pipeline, some[-1] if some else look.before, first)) is not None
    ]
    plans = plan_offsets(pipeline, after, stored, watermarks, closing) if pipeline.settings.window.live else ()
    return closed, [plan for plan in plans if not plan.behind_open]


def _after(pipeline: Pipeline, last: Window | None, first: datetime) -> Window | None:
    """Return the window after the last one that has closed, the ``first`` one if there is none."""
    return pipeline.grid.of_start(first) if last is None else pipeline.grid.next(last)


def _until(pipeline: Pipeline, closing: Closing) -> datetime | None:
    """Return the instant up to which windows may have closed.

    A recording that has ended closes the window of its last message too.
    """
    if not pipeline.complete:
        return closing.now
    if pipeline.grid.end is not None:
        return pipeline.grid.end
    last = None if closing.now is None else pipeline.grid.containing(closing.now)
    return None if last is None else last.end
