"""The second flow: raw messages of a span, joined and decoded into ``entries``.

It ends with marks in ``windows``, which later flows read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dts_assets.errors import LakeTableError
from dts_assets.flows.compaction import compact_cells
from dts_assets.flows.ingest_tasks import EntriesResult, EntriesTask, decode_entries
from dts_assets.flows.judged import QuarantineRows, quarantine_rows
from dts_assets.flows.known_tables import register_shapes
from dts_assets.flows.lake_shapes import stored_shapes
from dts_assets.flows.looks import raw_marks
from dts_assets.flows.open_windows import FilesFound, files_of_cells, find_files, replace_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.removed_rows import refuse_entries_again, refuse_removed_messages
from dts_assets.flows.reports import EntriesCellReport, EntriesReport, Progress, of_bytes, rate
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.flows.turns import ingest_turn
from dts_assets.model.ledger_rows import IngestWindow, RawWindow, TableShapeRow
from dts_assets.model.message_retention import RAW, Removed
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.refreshes import runs_of
from dts_assets.model.spans import Cell, Span
from dts_assets.model.turns import Turn
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.appends import can_append_entries
from dts_assets.planning.compactions import needs_compaction
from dts_assets.planning.earlier_cells import EarlierCells, find_earlier_cells
from dts_assets.planning.ingest_marks import entries_mark
from dts_assets.planning.mark_changes import contradicts
from dts_assets.planning.message_retention import Unmakeable
from dts_assets.planning.open_sets import disagreeing, left_open_by, open_before, with_windows_before
from dts_assets.stages.window_state import WindowState
from dts_assets.store.commit import Rectangle
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import WriteTarget

_MARKED = ("windows", "table_shapes")
_OWN_STAGE = MappingProxyType({"stage": frozenset({"entries"})})

_NEAR = 4
"""The number of earlier cells whose raw files a task is told of at first.

If the head of an entry set lies further back, the cell is decoded again with the files of all earlier cells.
"""


def materialize_entries(pipeline: Pipeline, span: Span, *, spark: SparkProvider, progress: Progress) -> EntriesReport:
    """Join and decode the stored messages of a span, and mark its cells in ``windows``.

    Of a window that was decoded while it was open, only the messages that have come since are decoded.

    Raises:
        NotReadyError: The raw messages of a cell are not stored yet.
        LakeTableError: The stored messages of a cell are not those that its mark stands for.
        IncompatibleLakeError: The lake was built with other settings.
        RowsRemovedError: Retention has removed messages that the span, or entries that are made again, are made from.
    """
    with ingest_turn(pipeline, span, progress) as turn:
        return _materialize(pipeline, span, turn, spark, progress)


def _materialize(pipeline: Pipeline, span: Span, turn: Turn, spark: SparkProvider, progress: Progress) -> EntriesReport:
    began = time.monotonic()
    unmakeable = pipeline.unmakeable()
    refuse_removed_messages(pipeline, unmakeable.removed, span.cells())
    pipeline.ledger.enter_turn(_MARKED, turn)
    found = {
        "entries": find_files(pipeline, pipeline.path("entries"), span),
        "quarantine": find_files(pipeline, pipeline.path("quarantine"), span, beside=_OWN_STAGE),
    }
    plan = _plan(pipeline, span, unmakeable, progress)
    messages = sum(plan.new_messages(cell) for cell in plan.cells)
    progress(f"entries: joining and decoding {messages:,} messages of {len(plan.cells)} partitions")
    run = pipeline.new_run()
    tasks = _Tasks.of(pipeline, span, plan, run)
    results = _decode(tasks, plan.before, spark, progress)
    if plan.lacks_heads(results):
        tasks.discard(results.values())
        progress("entries: heads of entry sets lie in settled days; decoding again with all earlier partitions")
        plan = _plan(pipeline, span, unmakeable, progress, with_settled=True)
        results = _decode(_Tasks.of(pipeline, span, plan, run), plan.before, spark, progress)
    rows = plan.marks(results, run)
    _require_no_fewer(pipeline, unmakeable.removed, plan, results, rows)
    _take_back_marks(pipeline, plan, rows, turn)
    shapes = _commit(pipeline, results, plan.appends, found, turn)
    new_tables = register_shapes(pipeline, stored_shapes(shapes))
    pipeline.ledger.replace_windows(plan.cells, list(rows.values()), turn=turn)
    compact_cells(pipeline, _scattered(rows.values()), plan.raw, spark=spark, progress=progress)
    entries = sum(rows[cell].counts.entries - plan.stored_entries(cell) for cell in plan.cells)
    seconds = time.monotonic() - began
    progress(f"entries: stored {len(plan.cells)} partitions, {rate(entries, 'entries', seconds)}")
    location = pipeline.lake.ensure_system_table(pipeline.path("entries")).location()
    decoder = next((result.decoder for result in results.values()), "")
    rejected = quarantine_rows(pipeline, span.windows)
    reports = tuple(_report(rows[cell], plan.raw[cell], results[cell], rejected) for cell in plan.cells)
    return EntriesReport(reports, location, new_tables, seconds, decoder)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The cells of a run with their stored marks.

    ``raw`` has the marks of raw of all windows, or of those behind the settled days if it ``leaves_out_settled`` ones; ``stored``
    the marks of entries of the run's windows. ``appends`` are the marks of entries to whose cells only new entries are added.
    ``left_open`` are the entry sets that other stored cells left open.
    """

    cells: tuple[Cell, ...]
    raw: Mapping[Cell, RawWindow]
    before: Mapping[Cell, EarlierCells]
    stored: Mapping[Cell, IngestWindow]
    appends: Mapping[Cell, IngestWindow]
    decoding: str
    left_open: Mapping[Cell, tuple[OpenSet, ...]]
    leaves_out_settled: bool

    def open_before(self, results: Mapping[Cell, EntriesResult]) -> dict[Cell, tuple[OpenSet, ...]]:
        """Return the entry sets that cells have to take over.

        It is known of those cells whose predecessor is stored or decoded.
        """
        found = {cell: result.decoded.left_open for cell, result in results.items()}
        return open_before(self.raw, {**self.left_open, **found})

    def lacks_heads(self, results: Mapping[Cell, EntriesResult]) -> bool:
        """Return whether a head was sought beyond the marks, while those of settled days are left out."""
        return self.leaves_out_settled and any(result.decoded.looked_beyond for result in results.values())

    def new_messages(self, cell: Cell) -> int:
        """Return the number of messages of a cell that are decoded now."""
        return self.raw[cell].messages - (self.appends[cell].counts.messages if cell in self.appends else 0)

    def stored_entries(self, cell: Cell) -> int:
        """Return the number of entries that a cell keeps."""
        return self.appends[cell].counts.entries if cell in self.appends else 0

    def marks(self, results: Mapping[Cell, EntriesResult], run: str) -> dict[Cell, IngestWindow]:
        """Return the marks of all cells after the run."""
        return {
            cell: entries_mark(
                cell,
                self.raw,
                results[cell].decoded,
                beyond=self.before[cell].beyond,
                appends_to=self.appends.get(cell),
                decoding=self.decoding,
                run=run,
            )
            for cell in self.cells
        }


def _plan(
    pipeline: Pipeline, span: Span, unmakeable: Unmakeable, progress: Progress, *, with_settled: bool = False
) -> _Plan:
    """Return the cells of a span, with the marks that are there.

    Marks of settled days are left out unless ``with_settled``: a head rarely lies that far back.

    Raises:
        NotReadyError: The raw messages of a cell are not stored yet.
        RowsRemovedError: Retention has removed messages that stored entries were made from.
    """
    marks = raw_marks(pipeline)
    behind = None if with_settled else marks.behind_settled(span.windows)
    rows = marks.of_days() if behind is None else behind
    raw = {row.cell: row for row in rows if row.kafka_partition in span.kafka_partitions}
    cells = tuple(span.cells())
    pipeline.require(cells, raw, needed="raw_envelopes")
    near = with_windows_before(span.windows, raw)
    entries = {row.cell: row for row in pipeline.ledger.windows(near) if row.kafka_partition in span.kafka_partitions}
    stored = {cell: entries[cell] for cell in cells if cell in entries}
    refuse_entries_again(pipeline, unmakeable, stored.values())
    decoding, changed = pipeline.decoding_settings(), disagreeing(entries)
    appends = {
        cell: row
        for cell, row in stored.items()
        if cell not in changed and can_append_entries(row, raw, decoding=decoding) and _readable(row, progress)
    }
    left_open = {cell: sets for cell, sets in left_open_by(entries).items() if cell not in stored}
    since = {one: at for one in span.kafka_partitions if (at := unmakeable.removed.until(RAW, one)) is not None}
    before = find_earlier_cells(span, raw, pipeline.grid, since=since)
    return _Plan(cells, raw, before, stored, appends, decoding, left_open, behind is not None)


def _readable(row: IngestWindow, progress: Progress) -> bool:
    """Return whether the state that an earlier reading left can be read.

    If it cannot, a line of progress says why the window is decoded from its start.
    """
    try:
        WindowState.of_bytes(row.resume or b"")
    except ValueError as error:
        progress(f"entries: the state kept of {row.cell} cannot be read: {error}; its window is decoded from the start")
        return False
    return True


def _decode(
    tasks: _Tasks, before: Mapping[Cell, EarlierCells], spark: SparkProvider, progress: Progress
) -> dict[Cell, EntriesResult]:
    """Decode cells with the raw files of some earlier cells.

    A cell whose search for a head goes further back is decoded again with the files of all earlier cells. A cell that took over
    other entry sets than the cell before it leaves is decoded again with these: so it is with sets that do not simply go on.
    Files of earlier tries are removed: no commit will see them, so that nothing would ever find them.
    """
    known = tasks.plan.open_before({})
    results: dict[Cell, EntriesResult] = {}

    def decode(cells: Iterable[Cell], most: int | None) -> None:
        watched = Watched("entries", "partitions", of_bytes, progress)
        asked = [tasks.of_cell(cell, before[cell], most, known.get(cell)) for cell in cells]
        done = run_tasks(
            spark(), asked, decode_entries, weight=lambda task: tasks.plan.raw[task.cell].bytes, watched=watched
        )
        found = {result.cell: result for result in done}
        tasks.discard(results[cell] for cell in found if cell in results)
        results.update(found)

    def decode_far(cells: Sequence[Cell]) -> None:
        decode(cells, _NEAR)
        decode([cell for cell in cells if results[cell].decoded.looked_beyond and before[cell].count > _NEAR], None)

    decode_far(list(before))
    while again := _disagreeing(tasks.plan, results):
        known = tasks.plan.open_before(results)
        decode_far(again)
    return results


def _disagreeing(plan: _Plan, results: Mapping[Cell, EntriesResult]) -> list[Cell]:
    """Return the decoded cells that took over other sets than the cells before them leave.

    A cell that is appended to has taken over what there was before.
    """
    expected = plan.open_before(results)
    return [
        cell
        for cell, result in results.items()
        if cell in expected and cell not in plan.appends and result.decoded.taken_over != expected[cell]
    ]


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The facts that the tasks of a run share.

    ``files`` are raw files by cell, ``entries`` and ``quarantine`` are the tables to write to.
    """

    pipeline: Pipeline
    plan: _Plan
    files: Mapping[Cell, tuple[str, ...]]
    watermarks: Mapping[int, Watermark]
    raw_store: FileStore
    entries: WriteTarget
    quarantine: WriteTarget

    @classmethod
    def of(cls, pipeline: Pipeline, span: Span, plan: _Plan, run: str) -> _Tasks:
        """Return the facts of a run, whose tables exist from now on."""
        lake = pipeline.lake
        paths = [pipeline.path(name) for name in ("entries", "quarantine")]
        for path in paths:
            lake.ensure_system_table(path)
        targets = (lake.target(path, run) for path in paths)
        files, store = _raw_files(pipeline, span, plan), lake.file_store(pipeline.path("raw_envelopes"))
        return cls(pipeline, plan, files, pipeline.source.watermarks(), store, *targets)

    def discard(self, results: Iterable[EntriesResult]) -> None:
        """Remove the files of some results, which no commit has seen."""
        for result in results:
            for name, files in (("entries", result.files), ("quarantine", result.quarantine_files)):
                self.pipeline.lake.discard(self.pipeline.path(name), files)

    def of_cell(
        self, cell: Cell, before: EarlierCells, most: int | None, open_before: tuple[OpenSet, ...] | None
    ) -> EntriesTask:
        """Return the task of a cell, with the raw files of at most ``most`` cells before it."""
        row, appends_to, earlier = self.plan.raw[cell], self.plan.appends.get(cell), before.nearest(most)
        start = appends_to.offsets.end if appends_to is not None else row.offsets.start
        return EntriesTask(
            cell=cell,
            offsets=OffsetRange(start, row.offsets.end),
            epoch=row.epoch,
            format=self.pipeline.format,
            own=self.files.get(cell, ()),
            earlier={one: self.files.get(one, ()) for one in earlier},
            reaches_start=self._reaches_start(cell, before, earlier),
            nothing_follows=row.closed_by is ClosedBy.END,
            raw_store=self.raw_store,
            entries=self.entries,
            quarantine=self.quarantine,
            is_open=row.closed_by is ClosedBy.OPEN,
            resume=appends_to.resume if appends_to is not None else None,
            open_before=open_before if appends_to is None else None,
        )

    def _reaches_start(self, cell: Cell, before: EarlierCells, earlier: Sequence[Cell]) -> bool:
        """Return whether nothing before the earlier cells can ever be stored.

        They begin with the grid's first window, with the topic's first offset, or with an offset that it has forgotten.
        """
        whole = len(earlier) == before.count
        first = self.plan.raw[earlier[-1] if earlier else cell].offsets.start
        return (whole and before.beyond is None) or first <= self.watermarks[cell.kafka_partition].low


def _raw_files(pipeline: Pipeline, span: Span, plan: _Plan) -> dict[Cell, tuple[str, ...]]:
    """Return the raw files of the plan's windows up to the span's last, by cell.

    They are in offset order. Only the span's Kafka partitions are looked at.
    """
    last, raw = span.windows[-1].start, plan.raw
    rectangle: Rectangle = {"kafka_partition": set(span.kafka_partitions)}
    if plan.leaves_out_settled:
        rectangle = {**rectangle, "window_start": {cell.window.start for cell in raw}}
    files = pipeline.lake.data_files(pipeline.path("raw_envelopes"), rectangle)
    found = files_of_cells(pipeline, (file for file in files if file.partition["window_start"] <= last), raw)
    for cell in span.cells():
        _require_rows(pipeline, raw[cell], sum(file.rows for file in found.get(cell, ())))
    return {cell: tuple(file.path for file in some) for cell, some in found.items()}


def _require_rows(pipeline: Pipeline, row: RawWindow, found: int) -> None:
    """Refuse a cell whose raw files are not those that its mark stands for.

    Raises:
        LakeTableError: The files hold more or fewer messages than the mark says.
    """
    if found != row.messages:
        raise LakeTableError(
            f"{pipeline.name}.raw_envelopes",
            f"of {row.cell} it holds {found} messages where its mark in raw_windows says {row.messages}",
            "materialize raw_envelopes of this partition again",
        )


def _require_no_fewer(
    pipeline: Pipeline,
    removed: Removed,
    plan: _Plan,
    results: Mapping[Cell, EntriesResult],
    rows: Mapping[Cell, IngestWindow],
) -> None:
    """Refuse cells that would have fewer entries than before because retention has removed messages.

    They were looked through in vain for the head of a set.

    Raises:
        RowsRemovedError: Messages were removed that a cell may have been made from.
    """
    for cell, before in plan.stored.items():
        fewer = rows[cell].counts.entries < before.counts.entries
        if cell not in plan.appends and fewer and results[cell].decoded.looked_beyond:
            earlier = (row.cell for row in plan.raw.values() if row.kafka_partition == cell.kafka_partition)
            refuse_removed_messages(pipeline, removed, (one for one in earlier if one.window < cell.window))


def _take_back_marks(pipeline: Pipeline, plan: _Plan, rows: Mapping[Cell, IngestWindow], turn: Turn) -> None:
    """Remove the marks of cells whose content is about to be replaced by another.

    A run that is killed between its rows and its mark would leave the old mark on the new rows. If its inputs were changed
    back afterwards, that mark would look right.

    Raises:
        OvertakenError: Another run has taken over.
    """
    changing = [
        cell
        for cell, row in plan.stored.items()
        if cell in rows and cell not in plan.appends and contradicts(row, rows[cell])
    ]
    pipeline.ledger.require_turn(_MARKED, turn)
    if changing:
        pipeline.ledger.replace_windows(changing, [], turn=turn)


def _commit(
    pipeline: Pipeline,
    results: Mapping[Cell, EntriesResult],
    appends: Mapping[Cell, IngestWindow],
    found: Mapping[str, FilesFound],
    turn: Turn,
) -> list[TableShapeRow]:
    """Commit entries, quarantine and shapes, in this order, and return the shapes.

    The ledger's marks come after them.
    """
    files = {cell: result.files for cell, result in results.items()}
    replace_cells(pipeline, pipeline.path("entries"), files, appends, found=found["entries"])
    rejected = {cell: result.quarantine_files for cell, result in results.items()}
    replace_cells(
        pipeline, pipeline.path("quarantine"), rejected, appends, found=found["quarantine"], beside=_OWN_STAGE
    )
    shapes = [
        TableShapeRow(
            cell.kafka_partition,
            cell.window.start,
            shape.table.of_all_sets,
            shape.columns,
            position,
            CODE_VERSION,
            shape.table.source_set or None,
        )
        for cell, result in results.items()
        for shape, position in result.shapes.items()
    ]
    pipeline.ledger.replace_table_shapes(results, shapes, turn=turn)
    return shapes


def _scattered(rows: Iterable[IngestWindow]) -> list[IngestWindow]:
    """Return the rows of the cells whose many files are compacted now."""
    return [
        row for row in rows if needs_compaction(len(runs_of(row.refreshes)), still_open=row.closed_by is ClosedBy.OPEN)
    ]


def _report(row: IngestWindow, raw: RawWindow, result: EntriesResult, rejected: QuarantineRows) -> EntriesCellReport:
    stored = sum(file.bytes for file in result.files)
    return EntriesCellReport(
        row, result.changes, stored, result.latest_event, raw.last_time, message_bytes=raw.bytes,
        seconds=result.seconds, quarantine_rows=rejected.of_entries(row.cell),
    )  # fmt: skip
