"""The second flow: raw messages of a span joined and decoded into ``entries``, with the marks that later flows rest on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from dts_assets.errors import NotReadyError
from dts_assets.flows.ingest_tasks import EntriesResult, EntriesTask, RawFiles, decode_entries
from dts_assets.flows.pipeline import CODE_VERSION, Pipeline, SparkProvider
from dts_assets.flows.registry import register_shapes
from dts_assets.flows.reports import EntriesCellReport, EntriesReport, Progress, of_bytes, rate
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.spans import Cell, Span
from dts_assets.planning.boundaries import ClosedBy
from dts_assets.planning.completeness import level_of_cell
from dts_assets.planning.generations import ABSENT, generation, input_text
from dts_assets.planning.staleness import raw_input
from dts_assets.stages.entries import merge_shapes
from dts_assets.store.commit import Rectangle
from dts_assets.store.lake import StoredFile
from dts_assets.store.rows import Counts, IngestWindow, RawWindow, ServerPositions, TableShapeRow
from dts_assets.store.schemas import ENTRIES, QUARANTINE

_NEAR = 4
"""Cells before its own whose raw files a task is told of at first; a set whose head lies further back is looked for again."""


@dataclass(frozen=True, slots=True)
class _Before:
    """The cells before one whose raw is stored without a hole; the first cell that is not stored, if any.

    They are the first ``count`` of ``chain``, ascending: all cells of a run share it, because a tuple for each of a thousand
    windows would be half a million cells.
    """

    chain: Sequence[Cell]
    count: int
    beyond: Cell | None

    def nearest(self, most: int | None) -> tuple[Cell, ...]:
        """The last of them, nearest first; all for None."""
        first = 0 if most is None else max(0, self.count - most)
        return tuple(reversed(self.chain[first : self.count]))


def materialize_entries(pipeline: Pipeline, span: Span, *, spark: SparkProvider, progress: Progress) -> EntriesReport:
    """Join and decode the stored messages of a span, and mark its cells in ``windows``.

    Raises NotReadyError if raw_envelopes of a cell is not there, IncompatibleLakeError where the lake was built otherwise.
    """
    began = time.monotonic()
    pipeline.check_shape()
    raw = {row.cell: row for row in pipeline.ledger.raw_windows() if row.kafka_partition in span.kafka_partitions}
    cells = tuple(span.cells())
    _require_raw(pipeline, cells, raw)
    before = _stored_before(pipeline, span, raw)
    messages = sum(raw[cell].messages for cell in cells)
    progress(f"entries: joining and decoding {messages:,} messages of {len(cells)} partitions")
    results = _decode(pipeline, span, raw, before, spark, progress)
    rows = {cell: _row(cell, raw, results[cell], before[cell]) for cell in cells}
    _take_back_marks(pipeline, span, rows)
    _commit(pipeline, span, results)
    shapes = merge_shapes(result.facts.shapes for result in results.values())
    new_tables = register_shapes(pipeline, shapes)
    pipeline.ledger.replace_windows(cells, list(rows.values()))
    reports = tuple(_report(rows[cell], raw[cell], results[cell]) for cell in cells)
    changes = sum(report.changes for report in reports)
    entries = sum(row.counts.entries for row in rows.values())
    done = rate(changes, "row changes", time.monotonic() - began)
    progress(f"entries: stored {len(cells)} partitions, {entries:,} entries with {done}")
    table = pipeline.path("entries")
    location = pipeline.lake.ensure(table, ENTRIES).location()
    decoder = next((result.decoder for result in results.values()), "")
    return EntriesReport(reports, ".".join(table), location, new_tables, time.monotonic() - began, decoder)


def _require_raw(pipeline: Pipeline, cells: Sequence[Cell], raw: Mapping[Cell, RawWindow]) -> None:
    missing: dict[str, list[int]] = {}
    for cell in cells:
        if cell not in raw:
            missing.setdefault(cell.window.key, []).append(cell.kafka_partition)
    if missing:
        raise NotReadyError(pipeline.name, missing, needed="raw_envelopes")


def _stored_before(pipeline: Pipeline, span: Span, raw: Mapping[Cell, RawWindow]) -> dict[Cell, _Before]:
    """What lies before each cell of a span, in one pass over the stored windows of a Kafka partition."""
    wanted = frozenset(span.windows)
    found: dict[Cell, _Before] = {}
    for kafka_partition in span.kafka_partitions:
        chain: list[Cell] = []
        beyond: Cell | None = None
        stored = sorted(row.cell for row in raw.values() if row.kafka_partition == kafka_partition)
        for cell in stored:
            previous = pipeline.grid.previous(cell.window)
            meets = (
                bool(chain) and previous == chain[-1].window and raw[chain[-1]].offsets.end == raw[cell].offsets.start
            )
            if not meets:
                chain = []
                beyond = None if previous is None else Cell(kafka_partition, previous)
            if cell.window in wanted:
                found[cell] = _Before(chain, len(chain), beyond)
            chain.append(cell)
    return found


def _decode(
    pipeline: Pipeline,
    span: Span,
    raw: Mapping[Cell, RawWindow],
    before: Mapping[Cell, _Before],
    spark: SparkProvider,
    progress: Progress,
) -> dict[Cell, EntriesResult]:
    lake, run = pipeline.lake, pipeline.new_run()
    for name, layout in (("entries", ENTRIES), ("quarantine", QUARANTINE)):
        lake.ensure(pipeline.path(name), layout)
    entries, quarantine = (lake.target(pipeline.path(name), run) for name in ("entries", "quarantine"))
    files = _raw_files(pipeline, span)
    watermarks = pipeline.source.watermarks()

    def task(cell: Cell, most: int | None) -> EntriesTask:
        earlier = before[cell].nearest(most)
        whole = len(earlier) == before[cell].count
        first = raw[earlier[-1] if earlier else cell].offsets.start
        # Nothing earlier can ever be stored: the topic's first window, its first offset, or what it has forgotten.
        reaches_start = (whole and before[cell].beyond is None) or first <= watermarks[cell.kafka_partition].low
        return EntriesTask(
            cell=cell,
            offsets=raw[cell].offsets,
            epoch=raw[cell].epoch,
            format=pipeline.settings.format,
            own=RawFiles(cell, files.get(cell, ())),
            earlier=tuple(RawFiles(one, files.get(one, ())) for one in earlier),
            reaches_start=reaches_start,
            nothing_follows=raw[cell].closed_by == ClosedBy.END,
            io_properties=lake.location.file_store_properties,
            entries=entries,
            quarantine=quarantine,
        )

    def decode(cells: Iterable[Cell], most: int | None) -> dict[Cell, EntriesResult]:
        tasks = [task(cell, most) for cell in cells]
        watched = Watched("entries", "partitions", of_bytes, progress)
        results = run_tasks(spark(), tasks, decode_entries, weight=lambda one: raw[one.cell].bytes, watched=watched)
        return {result.cell: result for result in results}

    results = decode(span.cells(), _NEAR)
    further = [cell for cell, result in results.items() if result.looked_beyond and before[cell].count > _NEAR]
    return results | decode(further, None)


def _raw_files(pipeline: Pipeline, span: Span) -> dict[Cell, tuple[str, ...]]:
    """Raw files by cell, for every stored window of the span's Kafka partitions up to its last one."""
    last = span.windows[-1].start
    found: dict[Cell, list[StoredFile]] = {}
    rectangle = {"kafka_partition": set(span.kafka_partitions)}
    for file in pipeline.lake.data_files(pipeline.path("raw_envelopes"), rectangle):
        if file.partition["window_start"] <= last:
            cell = Cell(file.partition["kafka_partition"], pipeline.grid.of_start(file.partition["window_start"]))
            found.setdefault(cell, []).append(file)
    return {cell: tuple(file.path for file in files) for cell, files in found.items()}


def _take_back_marks(pipeline: Pipeline, span: Span, rows: Mapping[Cell, IngestWindow]) -> None:
    """Remove the marks of cells that are about to hold something else.

    A run that is killed between its rows and its mark would leave the old mark on them, and if what it read were changed back,
    that mark would look right.
    """
    stored = pipeline.ledger.windows(span.windows)
    changing = [row.cell for row in stored if row.cell in rows and row.generation != rows[row.cell].generation]
    if changing:
        pipeline.ledger.replace_windows(changing, [])


def _commit(pipeline: Pipeline, span: Span, results: Mapping[Cell, EntriesResult]) -> None:
    """Entries, quarantine and shapes, in this order; the ledger's mark comes after them."""
    rectangle: Rectangle = {
        "kafka_partition": set(span.kafka_partitions),
        "window_start": {window.start for window in span.windows},
    }
    files = [file for result in results.values() for file in result.files]
    pipeline.lake.replace(pipeline.path("entries"), rectangle, files)
    rejected = [file for result in results.values() for file in result.quarantine_files]
    pipeline.lake.replace(pipeline.path("quarantine"), {**rectangle, "stage": {"entries"}}, rejected)
    shapes = [
        TableShapeRow(
            cell.kafka_partition, cell.window.start, shape.table, shape.columns, position, code_version=CODE_VERSION
        )
        for cell, result in results.items()
        for shape, position in sorted(result.facts.shapes.items(), key=lambda item: (item[0].table, item[1]))
    ]
    pipeline.ledger.replace_table_shapes(results, shapes)


def _row(cell: Cell, stored: Mapping[Cell, RawWindow], result: EntriesResult, before: _Before) -> IngestWindow:
    raw = stored[cell]
    tally, facts = result.tally, result.facts
    inputs = [input_text(raw_input(cell), raw.generation)]
    inputs += [input_text(raw_input(cell), stored[cell].generation) for cell in result.heads_from]
    if result.looked_beyond and before.beyond is not None:
        inputs.append(input_text(raw_input(before.beyond), ABSENT))
    problems = (*raw.problems, *result.problems)
    counts = Counts(
        **asdict(tally),
        entries=facts.entries,
        data=facts.data,
        control=facts.control,
        quarantined_entries=facts.quarantined_entries,
    )
    return IngestWindow(
        kafka_partition=raw.kafka_partition,
        window=raw.window,
        epoch=raw.epoch,
        offsets=raw.offsets,
        counts=counts,
        checkpoint=facts.checkpoint,
        checkpoint_gtid_set=facts.checkpoint_gtid_set,
        positions=tuple(
            ServerPositions(server, first, last) for server, (first, last) in sorted(facts.positions.items())
        ),
        runs=result.runs,
        checkpoints=result.checkpoints,
        statements=result.statements,
        delivery=result.delivery,
        closed_by=raw.closed_by,
        completeness=level_of_cell(problems, result.delivery, nothing_follows=raw.closed_by == ClosedBy.END),
        problems=problems,
        code_version=CODE_VERSION,
        generation=generation(inputs, code_version=CODE_VERSION),
        inputs=tuple(sorted(inputs)),
    )


def _report(row: IngestWindow, raw: RawWindow, result: EntriesResult) -> EntriesCellReport:
    stored = sum(file.bytes for file in result.files)
    facts = result.facts
    return EntriesCellReport(
        row, facts.changes, stored, facts.latest_event, raw.last_time, message_bytes=raw.bytes, seconds=result.seconds
    )
