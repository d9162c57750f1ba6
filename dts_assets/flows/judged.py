"""The ledger judged: its marks and counts, compared with the number of rows in ``quarantine``. No such row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.known_tables import known_names, known_tables
from dts_assets.flows.maintained_tables import copies_paths, made_paths, system_paths
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.partial_images import partial_images
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.failures import Failure
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.judgements import Judgement, group_by_window, judge_cell, judge_window, unbalanced_tables

_SIDE_BY_SIDE = 8
"""Tables that are looked at at once: the catalog's answers are waited for."""


@dataclass(frozen=True, slots=True)
class QuarantineRows:
    """The number of rows by stage, Kafka partition and window start."""

    counts: Mapping[tuple[str, int, datetime], int]

    def of_entries(self, cell: Cell) -> int:
        """Return the rows that the ingest of a cell put into quarantine."""
        return self.counts.get(("entries", cell.kafka_partition, cell.window.start), 0)

    def of_tables(self, start: datetime) -> Mapping[int, int]:
        """Return the rows that the tables of a window put into quarantine, by Kafka partition."""
        return {
            partition: count
            for (stage, partition, of), count in self.counts.items()
            if stage == "tables" and of == start
        }


def quarantine_rows(pipeline: Pipeline, windows: Iterable[Window] | None = None) -> QuarantineRows:
    """Return the numbers of rows of some windows (None: of all), from the files of the table alone."""
    rectangle = {} if windows is None else {"window_start": {window.start for window in windows}}
    counts: Counter[tuple[str, int, datetime]] = Counter()
    for file in pipeline.lake.data_files(pipeline.path("quarantine"), rectangle):
        place = file.partition
        counts[place["stage"], place["kafka_partition"], place["window_start"]] += file.rows
    return QuarantineRows(counts)


def unbalanced_windows(
    pipeline: Pipeline,
    windows: Iterable[Window],
    rows: QuarantineRows | None,
    *,
    lacking: Collection[datetime] = (),
) -> dict[datetime, tuple[str, ...]]:
    """Return what the stored counts of some windows leave out, by window start.

    ``rows`` is None where quarantine is not compared: only a run of all tables of a window writes it. Windows ``lacking`` a
    paused table are not compared either, by window start: their quarantine has no rows of this table, and its counts stay.
    """
    windows = list(windows)
    counted = group_by_window(pipeline.ledger.window_tables(windows))
    return {
        window.start: unbalanced_tables(
            counted.get(window.start, ()),
            None if rows is None or window.start in lacking else rows.of_tables(window.start),
        )
        for window in windows
    }


def judge_ledger(pipeline: Pipeline) -> list[Judgement]:
    """Return the judgement of every stored partition: first those of entries, then the windows.

    A closed window whose tables were never made, because no table of it is known, is judged as its tables' run would do it.
    """
    cells, rows = pipeline.ledger.windows(), quarantine_rows(pipeline)
    judged = [judge_cell(row, quarantine_rows=rows.of_entries(row.cell)) for row in cells]
    cuts = pipeline.ledger.cuts()
    lacking = {row.window.start for row in cuts if row.paused}
    wrong = unbalanced_windows(pipeline, [row.window for row in cuts], rows, lacking=lacking)
    judged += [judge_window(row, unbalanced=wrong[row.window.start]) for row in cuts]
    return [*judged, *map(judge_window, _unmade(pipeline, cells, cuts))]


def unusable_tables(pipeline: Pipeline) -> tuple[Failure, ...]:
    """Load every table of the subscription, and return the failures.

    A table that was set back is refused: the ledger speaks of rows that it does not show. A table without work left is not
    loaded by anything else. One that stands still may be one that cannot be loaded.
    """
    still = paused_here(pipeline)
    paths = [*system_paths(pipeline), *copies_paths(pipeline)]
    paths += [path for table in known_tables(pipeline) if table not in still for path in made_paths(pipeline, table)]
    opened = one_by_one(
        paths, pipeline.lake.table, named=lambda path: f"The look at {'.'.join(path)}", side_by_side=_SIDE_BY_SIDE
    )
    return tuple(opened.failures.values())


def _unmade(pipeline: Pipeline, cells: Iterable[IngestWindow], cuts: Iterable[Cut]) -> list[Cut]:
    """Return the marks that closed windows without a mark would get."""
    cells, made = list(cells), {row.window for row in cuts}
    closed = Counter(row.window for row in cells if row.closed_by is not ClosedBy.OPEN and row.window not in made)
    whole = sorted(window for window, count in closed.items() if count == len(pipeline.kafka_partitions))
    if not whole:
        return []
    topic = pipeline.topic_marks(
        cells, known_names(pipeline), copied=pipeline.copies(), partial=partial_images(pipeline)
    )
    return [topic.mark(window) for window in whole]
