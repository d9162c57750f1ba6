"""What a subscription still lacks: the ledger and the source asked, planning to decide. Reads only, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.marks import TopicMarks
from dts_assets.flows.pipeline import Pipeline, stored_cells
from dts_assets.flows.raw import find_boundaries, refuse_other_topic
from dts_assets.model.offsets import Watermark
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.boundaries import Closing, PlannedCell, StoredCell, closed_windows, plan_cells
from dts_assets.planning.generations import ABSENT, input_text
from dts_assets.planning.staleness import Computed, Work, entries_sources, plan_work, tables_inputs


@dataclass(frozen=True, slots=True)
class Status:
    """The work that is left, with what decides its result.

    ``followed`` are the open cells that are read live, with or without anything new. ``ends`` has the end offset of every missing
    cell, and how far an open one can be read now; the other two have the inputs that stale entries and the tables of ready
    windows would read now.
    """

    work: Work
    followed: tuple[Cell, ...]
    ends: Mapping[Cell, int]
    entries_inputs: Mapping[Cell, tuple[str, ...]]
    tables_inputs: Mapping[datetime, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Closed:
    """The windows that have closed, by Kafka partition, and the first one after them with its offsets, where there is one."""

    windows: Mapping[int, Sequence[Window]]
    next: Mapping[int, PlannedCell]


def find_status(pipeline: Pipeline) -> Status:
    """The state of a subscription now. Raises CaptureGrownError if a complete capture has grown, RecreatedTopicError for
    a topic that ends before what is stored."""
    ledger = pipeline.ledger
    raw_rows = ledger.raw_windows()  # first: what a run stores meanwhile must not lie behind the end that is seen here
    watermarks, closing = pipeline.source.watermarks(), pipeline.closing()
    refuse_other_topic(pipeline, raw_rows, watermarks)
    stored = stored_cells(raw_rows)
    raw = {row.cell: row.generation for row in raw_rows}
    ingested = ledger.windows()
    topic = TopicMarks.of(pipeline, ingested, known_tables(pipeline))
    entries = {
        row.cell: Computed(row.generation, row.inputs, is_open=row.closed_by is ClosedBy.OPEN) for row in ingested
    }
    tables = {row.window.start: Computed(row.generation, row.inputs) for row in ledger.cuts()}
    closed = _closed(pipeline, stored, watermarks, closing)
    read_to = {row.cell: row.offsets.end for row in raw_rows}
    followed = {
        plan.cell: plan.offsets.end > read_to.get(plan.cell, -1)
        for plan in closed.next.values()
        if pipeline.settings.window.live and watermarks[plan.cell.kafka_partition].latest is not None
    }
    settings = pipeline.shaping_settings()
    seen = {window for windows in closed.windows.values() for window in windows} | {cell.window for cell in followed}
    beside = {window.start: topic.beside(window) for window in seen}
    work = plan_work(
        closed.windows,
        raw=raw,
        entries=entries,
        tables=tables,
        decoding=pipeline.decoding_settings(),
        settings=settings,
        beside=beside,
        followed=followed,
    )
    now = entries_sources(raw, decoding=pipeline.decoding_settings())
    return Status(
        work=work,
        followed=tuple(sorted(followed)),
        ends=_ends(_plans(pipeline, work.ingest, stored, watermarks, closing))
        | _ends(plan for plan in closed.next.values() if plan.cell in followed),
        entries_inputs={
            cell: tuple(input_text(name, now.get(name, ABSENT)) for name in _names(entries[cell]))
            for cell in work.stale_entries
        },
        tables_inputs={
            window.start: tables_inputs(window, pipeline.kafka_partitions, entries, settings=settings, beside=beside)
            for window in work.tables
        },
    )


def _closed(
    pipeline: Pipeline, stored: Sequence[StoredCell], watermarks: Mapping[int, Watermark], closing: Closing
) -> _Closed:
    """The windows that have closed. A message dated too far ahead counts for nothing, so the last ones are looked at closely."""
    until, first = _until(pipeline, closing), pipeline.first_window()
    windows = [] if until is None or first is None else list(pipeline.grid.until(until, since=first))
    by_time = {
        partition: list(closed_windows(partition, windows, watermark=watermarks[partition], closing=closing))
        for partition in pipeline.kafka_partitions
    }
    known = {cell.cell for cell in stored if cell.closed_by is not ClosedBy.OPEN}
    unsure = [
        Cell(partition, window)
        for partition, some in by_time.items()
        for window in some
        if Cell(partition, window) not in known
    ]
    still_open = {
        plan.cell for plan in _plans(pipeline, unsure, stored, watermarks, closing) if plan.closed_by is ClosedBy.OPEN
    }
    closed = {
        partition: [window for window in some if Cell(partition, window) not in still_open]
        for partition, some in by_time.items()
    }
    following = [
        Cell(partition, window)
        for partition, some in closed.items()
        if first is not None
        and (window := pipeline.grid.next(some[-1]) if some else pipeline.grid.of_start(first)) is not None
    ]
    plans = _plans(pipeline, following, stored, watermarks, closing) if pipeline.settings.window.live else ()
    return _Closed(closed, {plan.cell.kafka_partition: plan for plan in plans if not plan.behind_open})


def _until(pipeline: Pipeline, closing: Closing) -> datetime | None:
    """Up to when windows may have closed: a recording that has ended closes the window of its last message too."""
    if not pipeline.complete:
        return closing.now
    if pipeline.grid.end is not None:
        return pipeline.grid.end
    last = None if closing.now is None else pipeline.grid.containing(closing.now)
    return None if last is None else last.end


def _plans(
    pipeline: Pipeline,
    cells: Sequence[Cell],
    stored: Sequence[StoredCell],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> tuple[PlannedCell, ...]:
    found = find_boundaries(pipeline, cells, stored)
    return plan_cells(cells, stored, found=found, watermarks=watermarks, closing=closing)


def _ends(plans: Iterable[PlannedCell]) -> dict[Cell, int]:
    return {plan.cell: plan.offsets.end for plan in plans}


def _names(row: Computed) -> list[str]:
    return sorted(text.rpartition("=")[0] for text in row.inputs)
