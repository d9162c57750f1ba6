"""The redrive: rows in quarantine are read again by the code as it is now.

Rows that can be used now leave the quarantine. Raw keeps every message, so only a fixed decoder or a better setting is needed:
the entries of the partitions that have rows in quarantine are made again, then the tables of their windows. Rows that still
cannot be used stay in quarantine.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import EntriesCellReport, Progress, TablesReport
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.ledger_rows import QuarantineRow
from dts_assets.model.problems import Reason
from dts_assets.planning.redriven import can_be_redriven, entries_to_redrive, quarantined_cells, tables_to_redrive


@dataclass(frozen=True, slots=True)
class Quarantined:
    """The part of the quarantine that a redrive is asked for; None stands for all.

    ``start`` and ``end`` are window starts; ``end`` is not included.
    """

    start: datetime | None = None
    end: datetime | None = None
    kafka_partitions: frozenset[int] | None = None
    reasons: frozenset[Reason] | None = None

    def holds(self, row: QuarantineRow) -> bool:
        """Return whether a row belongs to this part."""
        return (
            (self.start is None or row.window_start >= self.start)
            and (self.end is None or row.window_start < self.end)
            and (self.kafka_partitions is None or row.kafka_partition in self.kafka_partitions)
            and (self.reasons is None or row.reason in self.reasons)
        )


@dataclass(frozen=True, slots=True)
class RedriveReport:
    """The result of a redrive: rows by (stage, reason), and the partitions that were made anew.

    ``found`` counts the rows before, ``{("entries", Reason.MISSING_HEAD): 3}``; ``stayed`` counts the rows that are left, in the
    partitions, stages and reasons of ``found``.
    """

    found: Mapping[tuple[str, Reason], int]
    stayed: Mapping[tuple[str, Reason], int]
    entries: tuple[EntriesCellReport, ...]
    tables: tuple[TablesReport, ...]
    seconds: float

    @property
    def moved(self) -> int:
        """The number of rows that are not in quarantine any more."""
        return sum(max(0, count - self.stayed.get(key, 0)) for key, count in self.found.items())


def redrive(pipeline: Pipeline, chosen: Quarantined, *, spark: SparkProvider, progress: Progress) -> RedriveReport:
    """Decode again the entries and tables that have rows in quarantine.

    If there is no such row, Spark is not started. Rows stay whose messages or entries retention has removed.
    """
    began = time.monotonic()
    rows = [row for row in pipeline.ledger.quarantine() if chosen.holds(row)]
    rows, gone = can_be_redriven(rows, pipeline.unmakeable(), pipeline.ledger.windows)
    if gone:
        progress(f"redrive: {len(gone)} rows stay, since what they came from was removed by retention")
    cells = quarantined_cells(rows, pipeline.grid)
    progress(f"redrive: {len(rows)} rows are in quarantine, in {len(cells)} partitions")
    entries = [
        report
        for run in entries_to_redrive(rows, pipeline.grid).ingest_runs()
        for report in materialize_entries(pipeline, run.span, spark=spark, progress=progress).cells
    ]
    cuts = pipeline.ledger.cuts({cell.window for cell in cells}) if cells else []
    tables = [
        materialize_tables(pipeline, windows, spark=spark, progress=progress)
        for windows in tables_to_redrive(rows, pipeline.ledger.quarantine(), cuts).tables_runs()
    ]
    places = {(cell.kafka_partition, cell.window.start) for cell in cells}
    left = [row for row in pipeline.ledger.quarantine() if (row.kafka_partition, row.window_start) in places]
    found, stayed = _counted(rows), _counted(left)
    stayed = {key: count for key, count in stayed.items() if key in found}
    report = RedriveReport(found, stayed, tuple(entries), tuple(tables), time.monotonic() - began)
    progress(f"redrive: {report.moved} of {len(rows)} rows moved on, after {report.seconds:.1f} s")
    return report


def _counted(rows: Iterable[QuarantineRow]) -> dict[tuple[str, Reason], int]:
    return dict(Counter((row.stage, row.reason) for row in rows))
