"""What a tables run writes once its tasks have ended: changelogs, the system rows beside them, and what was counted."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from dts_assets.flows.growing import Growing
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.open_windows import Keep, kept
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress, rate
from dts_assets.flows.tables_tasks import TablesResult, TableTally, TallyKey
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.spans import partition_key
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import WrittenFile

_COMMITS_SIDE_BY_SIDE = 4


def commit_changelogs(
    pipeline: Pipeline,
    windows: Sequence[Window],
    tables: Mapping[TableId, tuple[Column, ...]],
    results: Sequence[TablesResult],
    growing: Growing,
    progress: Progress,
    began: float,
) -> None:
    """Put the changelog files of all tables into place, in one commit a table; windows that are growing keep what they have."""
    files: dict[TableId, list[WrittenFile]] = {}
    for result in results:
        for table, some in result.files.items():
            files.setdefault(table, []).extend(some)
    parts = _whole_and_growing(windows, growing)

    def commit(table: TableId) -> bool:
        path = pipeline.table_path(CHANGELOG.name, table)
        made = [
            pipeline.lake.replace(path, {"window_start": starts}, _of_windows(files.get(table, ()), starts), keep=keep)
            for starts, keep in parts
        ]
        return any(one.snapshot_id is not None for one in made)

    with ThreadPoolExecutor(_COMMITS_SIDE_BY_SIDE) as pool:
        committed = sum(pool.map(commit, tables))
    seconds = time.monotonic() - began
    rows = rate(sum(tally.changes for result in results for tally in result.tallies.values()), "row changes", seconds)
    progress(f"changelog: stored {committed} tables with rows, of {len(tables)}, {rows}")


def _whole_and_growing(windows: Iterable[Window], growing: Growing) -> list[tuple[set[datetime], Keep | None]]:
    """Starts of the windows that are replaced, and of those that are added to, with what stays there."""
    whole = {window.start for window in windows} - growing.onto.keys()
    parts: list[tuple[set[datetime], Keep | None]] = [(whole, None), (set(growing.onto), kept([growing.made_by]))]
    return [(starts, keep) for starts, keep in parts if starts]


def _of_windows(files: Iterable[WrittenFile], starts: Collection[datetime]) -> list[WrittenFile]:
    """Changelog files of some windows."""
    return [file for file in files if file.partition[0] in starts]


def commit_system_rows(
    pipeline: Pipeline, windows: Sequence[Window], results: Sequence[TablesResult], growing: Growing
) -> None:
    """What runs of whole windows put into quarantine, and their statements. These rows stand under no one table, so a run of
    some tables leaves them be."""
    for starts, keep in _whole_and_growing(windows, growing):
        inside: Rectangle = {"window_start": starts, "stage": {"tables"}}
        for name, files in (
            ("quarantine", [file for result in results for file in result.quarantine_files]),
            ("ddl", [file for result in results for file in result.ddl_files]),
        ):
            mine = [file for file in files if file.partition[1] in starts]
            pipeline.lake.replace(pipeline.path(name), inside, mine, keep=keep)


def tallies_of(results: Iterable[TablesResult]) -> dict[TallyKey, TableTally]:
    """What all tasks counted together."""
    tallies: dict[TallyKey, TableTally] = {}
    for result in results:
        for key, tally in result.tallies.items():
            tallies.setdefault(key, TableTally()).merge(tally)
    return tallies


def window_tables_of(
    tallies: Mapping[TallyKey, TableTally], before: Mapping[TallyKey, int], runs: Mapping[datetime, str]
) -> list[WindowTable]:
    """The ledger's rows of what was counted; ``before`` counts the changes that were delivered before. ``runs`` has, by window
    start, the run whose count the next one may add to."""
    found = {key: tallies.get(key, TableTally()) for key in tallies.keys() | before.keys()}
    return [
        WindowTable(
            kafka_partition=partition,
            window_start=start,
            table=table,
            changes=tally.announced,
            kept=tally.changes,
            redelivered=before.get((start, partition, table), 0),
            quarantined=tally.quarantined,
            truncations=tally.truncations,
            row_hash=tally.row_hash,
            absent_rows=tally.absent_rows,
            invalid_values=tally.invalid_values,
            first_position=tally.first,
            last_position=tally.last,
            run=runs.get(start, ""),
        )
        for (start, partition, table), tally in sorted(found.items())
    ]


def unbalanced_tables(rows: Iterable[WindowTable]) -> dict[datetime, tuple[str, ...]]:
    """Tables whose changes did not all go somewhere, by window start."""
    found: dict[datetime, tuple[str, ...]] = {}
    for row in rows:
        if not row.balanced:
            name = f"{partition_key(row.kafka_partition)} {row.table}"
            found[row.window_start] = (*found.get(row.window_start, ()), name)
    return found
