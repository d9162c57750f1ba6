"""The reports of every table of a tables run, from the counts of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import LayerOutcome, TableReport
from dts_assets.flows.tables_tasks import TablesResult
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.stages.changelog_decoder import TableTally, TallyKey

Number = TypeVar("Number", int, float)


def stored_tallies(pipeline: Pipeline, windows: Sequence[Window]) -> dict[TallyKey, TableTally]:
    """Return the counts that an earlier run stored for windows whose rows stay."""
    rows = pipeline.ledger.window_tables(windows) if windows else []
    return {
        (row.window_start, row.kafka_partition, row.table): TableTally(
            row.changes, row.kept, row.quarantined, row.truncations, row.row_hash, row.absent_rows, row.invalid_values,
            row.first_position, row.last_position,
        )
        for row in rows
    }  # fmt: skip


def table_reports(
    pipeline: Pipeline,
    results: Collection[TablesResult],
    tallies: Mapping[TallyKey, TableTally],
    outcomes: Mapping[str, Mapping[TableId, LayerOutcome]],
) -> tuple[TableReport, ...]:
    """Return the report of every known table; ``outcomes`` are by layer name: ``{"snapshot": {orders: LayerOutcome()}}``."""
    by_table: dict[TableId, list[tuple[datetime, TableTally]]] = {}
    for (start, _, table), tally in tallies.items():
        by_table.setdefault(table, []).append((start, tally))
    reports = []
    for table, columns in known_tables(pipeline).items():
        mine = by_table.get(table, [])
        files = [file for result in results for file in result.files.get(table, ())]
        reports.append(
            TableReport(
                table=table,
                columns=columns,
                layers={
                    layer.name: outcomes.get(layer.name, {}).get(table, LayerOutcome())
                    for layer in pipeline.layers
                    if layer.has_table(columns)
                },
                changes=summed((start, tally.changes) for start, tally in mine),
                stored_bytes=summed((file.partition[0], file.bytes) for file in files),
                invalid_values=summed((start, tally.invalid_values) for start, tally in mine),
                quarantined=summed((start, tally.quarantined) for start, tally in mine),
                latest_event=_latest((start, tally.latest_event) for start, tally in mine),
            )
        )
    return tuple(reports)


def summed(pairs: Iterable[tuple[datetime, Number]]) -> dict[datetime, Number]:
    """Return the sum of the numbers of every instant."""
    total: dict[datetime, Number] = {}
    for start, count in pairs:
        total[start] = total[start] + count if start in total else count
    return total


def _latest(pairs: Iterable[tuple[datetime, datetime | None]]) -> dict[datetime, datetime]:
    latest: dict[datetime, datetime] = {}
    for start, event in pairs:
        if event is not None:
            latest[start] = max(event, latest.get(start, event))
    return latest
