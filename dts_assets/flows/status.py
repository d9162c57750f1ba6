"""What a subscription still lacks: the ledger and the source asked, planning to decide. Reads only, and needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.marks import TopicMarks
from dts_assets.flows.pipeline import Pipeline, stored_cells
from dts_assets.flows.raw import find_boundaries, refuse_grown
from dts_assets.flows.registry import known_tables
from dts_assets.model.spans import Cell
from dts_assets.planning.boundaries import Closing, StoredCell, closed_windows, plan_cells
from dts_assets.planning.generations import ABSENT, input_text
from dts_assets.planning.staleness import Computed, Work, plan_work, raw_input, tables_inputs


@dataclass(frozen=True, slots=True)
class Status:
    """The work that is left, with what decides its result.

    ``ends`` has the end offset of every missing cell; the other two have the inputs that stale entries and the tables of ready
    windows would read now.
    """

    work: Work
    ends: Mapping[Cell, int]
    entries_inputs: Mapping[Cell, tuple[str, ...]]
    tables_inputs: Mapping[datetime, tuple[str, ...]]


def find_status(pipeline: Pipeline) -> Status:
    """The state of a subscription now. Raises CaptureGrownError if a complete capture has grown."""
    ledger = pipeline.ledger
    watermarks, closing = pipeline.source.watermarks(), pipeline.closing()
    raw_rows = ledger.raw_windows()
    refuse_grown(pipeline, raw_rows, watermarks)
    raw = {row.cell: row.generation for row in raw_rows}
    ingested = ledger.windows()
    topic = TopicMarks.of(pipeline, ingested, known_tables(pipeline))
    entries = {row.cell: Computed(row.generation, row.inputs) for row in ingested}
    tables = {row.window.start: Computed(row.generation, row.inputs) for row in ledger.cuts()}
    until = _until(pipeline, closing)
    windows = tuple(pipeline.grid.until(until)) if until is not None else ()
    closed = {
        partition: closed_windows(partition, windows, watermark=watermarks[partition], closing=closing)
        for partition in pipeline.kafka_partitions
    }
    settings = pipeline.shaping_settings()
    beside = {window.start: topic.beside(window) for window in windows}
    work = plan_work(closed, raw=raw, entries=entries, tables=tables, settings=settings, beside=beside)
    now = {raw_input(cell): generation for cell, generation in raw.items()}
    return Status(
        work=work,
        ends=_ends(pipeline, work.ingest, stored_cells(raw_rows)),
        entries_inputs={
            cell: tuple(input_text(name, now.get(name, ABSENT)) for name in _names(entries[cell]))
            for cell in work.stale_entries
        },
        tables_inputs={
            window.start: tables_inputs(window, pipeline.kafka_partitions, entries, settings=settings, beside=beside)
            for window in work.tables
        },
    )


def _until(pipeline: Pipeline, closing: Closing) -> datetime | None:
    """Up to when windows may have closed: a recording that has ended closes the window of its last message too."""
    if not pipeline.complete:
        return closing.now
    if pipeline.grid.end is not None:
        return pipeline.grid.end
    last = None if closing.now is None else pipeline.grid.containing(closing.now)
    return None if last is None else last.end


def _ends(pipeline: Pipeline, cells: tuple[Cell, ...], stored: tuple[StoredCell, ...]) -> dict[Cell, int]:
    planned = plan_cells(
        cells,
        stored,
        found=find_boundaries(pipeline, cells, stored),
        watermarks=pipeline.source.watermarks(),
        closing=pipeline.closing(),
    )
    return {plan.cell: plan.offsets.end for plan in planned}


def _names(row: Computed) -> list[str]:
    return sorted(text.rpartition("=")[0] for text in row.inputs)
