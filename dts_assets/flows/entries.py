"""The second flow: raw messages of a span, joined and decoded into ``entries``.

Its marks in ``windows`` are what later flows rest on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from dts_assets.errors import NotReadyError
from dts_assets.flows.compaction import compact_cells
from dts_assets.flows.ingest_tasks import EntriesResult, EntriesTask, RawFiles, decode_entries
from dts_assets.flows.known_tables import register_shapes
from dts_assets.flows.open_windows import cells_alone, files_of_cells, kept
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import EntriesCellReport, EntriesReport, Progress, of_bytes, rate
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.ledger_rows import Counts, IngestWindow, RawWindow, ServerPositions, TableShapeRow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.refreshes import Refresh, runs_of
from dts_assets.model.spans import Cell, Span
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.appends import can_append_entries
from dts_assets.planning.compactions import needs_compaction
from dts_assets.planning.completeness import level_of_cell
from dts_assets.planning.earlier_cells import EarlierCells, find_earlier_cells
from dts_assets.planning.generations import ABSENT, generation, input_text
from dts_assets.planning.rectangles import rectangles
from dts_assets.planning.staleness import FORMAT_INPUT, raw_input
from dts_assets.stages.entry_facts import merge_shapes
from dts_assets.stages.window_state import WindowState
from dts_assets.store.commit import Rectangle
from dts_assets.store.schemas import ENTRIES, QUARANTINE

_NEAR = 4
"""The number of earlier cells whose raw files a task is told of at first.

A set whose head lies further back is looked for again.
"""


def materialize_entries(pipeline: Pipeline, span: Span, *, spark: SparkProvider, progress: Progress) -> EntriesReport:
    """Join and decode the stored messages of a span, and mark its cells in ``windows``.

    Of a window that was decoded while it was open only what has come since is decoded. Raises NotReadyError if raw_envelopes of
    a cell is not there, IncompatibleLakeError where the lake was built otherwise.
    """
    with cells_alone(pipeline, span, progress):
        return _materialize(pipeline, span, spark, progress)


def _materialize(pipeline: Pipeline, span: Span, spark: SparkProvider, progress: Progress) -> EntriesReport:
    began = time.monotonic()
    pipeline.check_shape()
    raw = {row.cell: row for row in pipeline.ledger.raw_windows() if row.kafka_partition in span.kafka_partitions}
    cells = tuple(span.cells())
    _require_raw(pipeline, cells, raw)
    before = find_earlier_cells(span, raw, pipeline.grid)
    stored = {row.cell: row for row in pipeline.ledger.windows(span.windows)}
    decoding = pipeline.decoding_settings()
    appends = {
        cell: row
        for cell in cells
        if (row := stored.get(cell)) is not None
        and can_append_entries(row, raw, decoding=decoding)
        and _readable(row, progress)
    }
    messages = sum(raw[cell].messages - (appends[cell].counts.messages if cell in appends else 0) for cell in cells)
    progress(f"entries: joining and decoding {messages:,} messages of {len(cells)} partitions")
    run = pipeline.new_run()
    results = _decode(pipeline, span, raw, before, appends, run, spark, progress)
    rows = {cell: _row(cell, raw, results[cell], before[cell], appends.get(cell), run, decoding) for cell in cells}
    _take_back_marks(pipeline, stored, {cell: row for cell, row in rows.items() if cell not in appends})
    _commit(pipeline, results, appends)
    shapes = merge_shapes(result.facts.shapes for result in results.values())
    new_tables = register_shapes(pipeline, shapes)
    pipeline.ledger.replace_windows(cells, list(rows.values()))
    scattered = [
        row
        for row in rows.values()
        if needs_compaction(len(runs_of(row.refreshes)), still_open=row.closed_by is ClosedBy.OPEN)
    ]
    compact_cells(pipeline, scattered, raw, spark=spark, progress=progress)
    reports = tuple(_report(rows[cell], raw[cell], results[cell]) for cell in cells)
    entries = sum(
        rows[cell].counts.entries - (appends[cell].counts.entries if cell in appends else 0) for cell in cells
    )
    progress(f"entries: stored {len(cells)} partitions, {rate(entries, 'entries', time.monotonic() - began)}")
    table = pipeline.path("entries")
    location = pipeline.lake.ensure(table, ENTRIES).location()
    decoder = next((result.decoder for result in results.values()), "")
    return EntriesReport(reports, ".".join(table), location, new_tables, time.monotonic() - began, decoder)


def _readable(row: IngestWindow, progress: Progress) -> bool:
    """Return whether the state that an earlier reading left can be read.

    If not, report why the window is read from its start.
    """
    try:
        WindowState.of_bytes(row.resume or b"")
    except ValueError as error:
        progress(f"entries: the state kept of {row.cell} cannot be read: {error}; its window is decoded from the start")
        return False
    return True


def _require_raw(pipeline: Pipeline, cells: Sequence[Cell], raw: Mapping[Cell, RawWindow]) -> None:
    missing: dict[str, list[int]] = {}
    for cell in cells:
        if cell not in raw:
            missing.setdefault(cell.window.key, []).append(cell.kafka_partition)
    if missing:
        raise NotReadyError(pipeline.name, missing, needed="raw_envelopes")


def _decode(
    pipeline: Pipeline,
    span: Span,
    raw: Mapping[Cell, RawWindow],
    before: Mapping[Cell, EarlierCells],
    appends: Mapping[Cell, IngestWindow],
    run: str,
    spark: SparkProvider,
    progress: Progress,
) -> dict[Cell, EntriesResult]:
    lake = pipeline.lake
    for name, layout in (("entries", ENTRIES), ("quarantine", QUARANTINE)):
        lake.ensure(pipeline.path(name), layout)
    entries, quarantine = (lake.target(pipeline.path(name), run) for name in ("entries", "quarantine"))
    files = _raw_files(pipeline, span, raw)
    watermarks = pipeline.source.watermarks()
    wire = pipeline.format

    def task(cell: Cell, most: int | None) -> EntriesTask:
        earlier = before[cell].nearest(most)
        whole = len(earlier) == before[cell].count
        first = raw[earlier[-1] if earlier else cell].offsets.start
        # Nothing earlier can ever be stored: the topic's first window, its first offset, or what it has forgotten.
        reaches_start = (whole and before[cell].beyond is None) or first <= watermarks[cell.kafka_partition].low
        return EntriesTask(
            cell=cell,
            offsets=OffsetRange(
                appends[cell].offsets.end if cell in appends else raw[cell].offsets.start, raw[cell].offsets.end
            ),
            epoch=raw[cell].epoch,
            format=wire,
            own=RawFiles(cell, files.get(cell, ())),
            earlier=tuple(RawFiles(one, files.get(one, ())) for one in earlier),
            reaches_start=reaches_start,
            nothing_follows=raw[cell].closed_by is ClosedBy.END,
            io_properties=lake.location.file_store_properties,
            entries=entries,
            quarantine=quarantine,
            is_open=raw[cell].closed_by is ClosedBy.OPEN,
            resume=appends[cell].resume if cell in appends else None,
        )

    def decode(cells: Iterable[Cell], most: int | None) -> dict[Cell, EntriesResult]:
        tasks = [task(cell, most) for cell in cells]
        watched = Watched("entries", "partitions", of_bytes, progress)
        results = run_tasks(spark(), tasks, decode_entries, weight=lambda one: raw[one.cell].bytes, watched=watched)
        return {result.cell: result for result in results}

    results = decode(span.cells(), _NEAR)
    further = [cell for cell, result in results.items() if result.looked_beyond and before[cell].count > _NEAR]
    return results | decode(further, None)


def _raw_files(pipeline: Pipeline, span: Span, raw: Mapping[Cell, RawWindow]) -> dict[Cell, tuple[str, ...]]:
    """Return raw files by cell, for every stored window up to the span's last one.

    They are of the span's Kafka partitions.
    """
    last = span.windows[-1].start
    rectangle = {"kafka_partition": set(span.kafka_partitions)}
    files = pipeline.lake.data_files(pipeline.path("raw_envelopes"), rectangle)
    refreshes = {cell: row.refreshes for cell, row in raw.items()}
    found = files_of_cells(pipeline, (file for file in files if file.partition["window_start"] <= last), refreshes)
    return {cell: tuple(file.path for file in some) for cell, some in found.items()}


def _take_back_marks(
    pipeline: Pipeline, stored: Mapping[Cell, IngestWindow], rows: Mapping[Cell, IngestWindow]
) -> None:
    """Remove the marks of cells that are about to hold something else.

    A run that is killed between its rows and its mark would leave the old mark on them, and if what it read were changed back,
    that mark would look right.
    """
    changing = [cell for cell, row in rows.items() if cell in stored and stored[cell].generation != row.generation]
    if changing:
        pipeline.ledger.replace_windows(changing, [])


def _commit(pipeline: Pipeline, results: Mapping[Cell, EntriesResult], appends: Mapping[Cell, IngestWindow]) -> None:
    """Commit entries, quarantine and shapes, in this order; the ledger's mark comes after them."""
    added = kept(runs_of(row.refreshes) for row in appends.values())
    for cells, keep in ((results.keys() - appends.keys(), None), (appends.keys(), added)):
        for span in rectangles(cells):
            rectangle: Rectangle = {
                "kafka_partition": set(span.kafka_partitions),
                "window_start": {window.start for window in span.windows},
            }
            some = [results[cell] for cell in span.cells()]
            files = [file for result in some for file in result.files]
            pipeline.lake.replace(pipeline.path("entries"), rectangle, files, keep=keep)
            rejected = [file for result in some for file in result.quarantine_files]
            pipeline.lake.replace(pipeline.path("quarantine"), {**rectangle, "stage": {"entries"}}, rejected, keep=keep)
    shapes = [
        TableShapeRow(
            cell.kafka_partition, cell.window.start, shape.table, shape.columns, position, code_version=CODE_VERSION
        )
        for cell, result in results.items()
        for shape, position in sorted(result.facts.shapes.items(), key=lambda item: (item[0].table, item[1]))
    ]
    pipeline.ledger.replace_table_shapes(results, shapes)


def _row(
    cell: Cell,
    stored: Mapping[Cell, RawWindow],
    result: EntriesResult,
    before: EarlierCells,
    appends_to: IngestWindow | None,
    run: str,
    decoding: str,
) -> IngestWindow:
    raw = stored[cell]
    tally, facts = result.tally, result.facts
    own = input_text(raw_input(cell), "")
    inputs = {input_text(raw_input(cell), raw.generation), input_text(FORMAT_INPUT, decoding)}
    inputs |= {input_text(raw_input(one), stored[one].generation) for one in result.heads_from}
    if result.looked_beyond and before.beyond is not None:
        inputs.add(input_text(raw_input(before.beyond), ABSENT))
    if appends_to is not None:
        inputs |= {text for text in appends_to.inputs if not text.startswith(own)}
    made = generation(inputs, code_version=CODE_VERSION)
    refreshes = appends_to.refreshes if appends_to is not None else ()
    if appends_to is not None or raw.closed_by is ClosedBy.OPEN:
        refreshes = (*refreshes, Refresh(result.end, made, run))
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
        offsets=OffsetRange(raw.offsets.start, result.end),
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
        completeness=level_of_cell(problems, result.delivery, nothing_follows=raw.closed_by is ClosedBy.END),
        problems=problems,
        code_version=CODE_VERSION,
        generation=made,
        inputs=tuple(sorted(inputs)),
        refreshes=refreshes,
        resume=result.resume,
        emptying=facts.emptying,
    )


def _report(row: IngestWindow, raw: RawWindow, result: EntriesResult) -> EntriesCellReport:
    stored = sum(file.bytes for file in result.files)
    facts = result.facts
    return EntriesCellReport(
        row, facts.changes, stored, facts.latest_event, raw.last_time, message_bytes=raw.bytes, seconds=result.seconds
    )
