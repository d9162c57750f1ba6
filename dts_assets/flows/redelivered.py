"""Changes that were delivered before: suspected from the ledger, looked up on Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.copies_elsewhere import find_copies_elsewhere
from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.redelivered_tasks import IdentityResult, IdentityTask, find_in_cell
from dts_assets.flows.reports import Progress, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.suspicions import Suspicion
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.redelivered_entries import EntryKeys
from dts_assets.store.commit import Rectangle


@dataclass(frozen=True, slots=True)
class Redelivered:
    """The entries of some cells that were delivered before.

    ``moved`` are the starts of the windows of which changes that were stored are copies by now, or the other way round: messages
    that came later showed it.
    """

    results: tuple[IdentityResult, ...]
    moved: frozenset[datetime] = frozenset()

    @property
    def entries(self) -> dict[Cell, EntryKeys]:
        """The entries that are not to be decoded."""
        return {result.cell: result.keys for result in self.results if len(result.keys)}

    def changes(self, tables: Collection[TableId]) -> dict[tuple[datetime, int, TableId], int]:
        """Return the number of changes of some tables that were delivered before.

        They are by window start, Kafka partition and table.
        """
        return {
            (result.cell.window.start, result.cell.kafka_partition, table): count
            for result in self.results
            for table, count in result.changes.items()
            if table in tables
        }


NOTHING_BEFORE = Redelivered(())


def find_redelivered_changes(
    pipeline: Pipeline,
    history: TopicHistory,
    windows: Sequence[Window],
    tables: Iterable[TableId],
    *,
    base: Collection[str],
    ends: Mapping[tuple[int, datetime], int],
    counted: Iterable[WindowTable],
    spark: SparkProvider,
    progress: Progress,
) -> Redelivered:
    """Find the changes of some windows that were delivered before, and list them in ``redeliveries``.

    Only suspicious cells are compared with earlier ones; if there is none, Spark is not started. ``base`` are the files that
    ``redeliveries`` had of these windows when the run was planned. ``ends`` are the first offsets, by Kafka partition and start,
    of windows to whose changelogs rows are appended, and ``counted`` the stored counts of tables in these.

    Raises:
        StaleGenerationError: Another run has written to these windows since.
    """
    cells = pipeline.cells(windows)
    elsewhere = find_copies_elsewhere(pipeline, history, windows, ends, spark=spark, progress=progress)
    suspicious = [
        history.suspicions.get(cell) or Suspicion(cell, (), itself=True, by_gtid=False)
        for cell in cells
        if cell in history.suspicions or cell in elsewhere.copies
    ]
    path = pipeline.path("redeliveries")
    pipeline.lake.ensure_system_table(path)
    results: list[IdentityResult] = []
    if suspicious:
        target = pipeline.lake.target(path, pipeline.new_run())
        files = _entries_files(pipeline, history, suspicious)
        known, store = frozenset(tables), pipeline.lake.file_store(pipeline.path("entries"))
        tasks = [
            IdentityTask(
                cell=one.cell,
                own=tuple(files.get(one.cell, ())),
                earlier=tuple((cell, tuple(files.get(cell, ()))) for cell in one.earlier),
                rules=history.rules(one.cell),
                trust_gtids=history.trusts_gtids,
                by_gtid=one.by_gtid,
                tables=known,
                format=pipeline.format,
                stretches={cell: some for cell in (one.cell, *one.earlier) if (some := history.stretches(cell))},
                entries_store=store,
                redeliveries=target,
                routes=pipeline.settings.routes,
                elsewhere=elsewhere.copies.get(one.cell),
                suspicious=one.cell in history.suspicions,
                end=ends.get((one.cell.kafka_partition, one.cell.window.start), 0),
            )
            for one in suspicious
        ]
        progress(f"identity: {len(tasks)} of {len(cells)} partitions may hold changes that were delivered before")
        watched = Watched("identity", "partitions", of_bytes, progress)
        results = run_tasks(spark(), tasks, find_in_cell, weight=lambda task: len(task.own), watched=watched)
    rectangle: Rectangle = {"window_start": {window.start for window in windows}, "stage": {"tables"}}
    pipeline.lake.replace(path, rectangle, [file for result in results for file in result.files], base=base)
    former = {
        (one.cell.window.start, one.cell.kafka_partition, table): count
        for one in results
        for table, count in one.former.items()
    }
    then = {(row.window_start, row.kafka_partition, row.table): row.redelivered for row in counted}
    moved = frozenset(key[0] for key, count in then.items() if former.get(key, 0) != count)
    return Redelivered(tuple(results), elsewhere.moved | moved)


def _entries_files(pipeline: Pipeline, history: TopicHistory, suspicious: Sequence[Suspicion]) -> dict[Cell, list[str]]:
    wanted = {cell for one in suspicious for cell in (one.cell, *one.earlier)}
    rectangle: Rectangle = {
        "kafka_partition": {cell.kafka_partition for cell in wanted},
        "window_start": {cell.window.start for cell in wanted},
    }
    found = files_of_cells(pipeline, pipeline.lake.data_files(pipeline.path("entries"), rectangle), history.rows)
    return {cell: [file.path for file in some] for cell, some in found.items() if cell in wanted}
