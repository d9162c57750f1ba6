"""Changelogs whose columns become another type: every file is written anew, and one commit brings files and columns.

Each new file stands in the folder of the run that wrote the old one, and its name tells which file that was. So for the ledger,
and for the snapshots made from a changelog, no row has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.flows.apart import do_apart
from dts_assets.flows.compaction import CompactionTask, compact_files
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.rewritten_files import rewrite_files
from dts_assets.model.columns import Column
from dts_assets.model.refreshes import run_of
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.store.columns import changelog_columns
from dts_assets.store.commit import stands_at
from dts_assets.store.converted_columns import PlannedColumns


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The files of a changelog that are written anew, as the table stands at an Iceberg snapshot."""

    head: int
    tasks: tuple[CompactionTask, ...]
    columns: PlannedColumns


def to_convert(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns that had several types at the source.

    Tables that have them may still have to be converted. Others are never converted: a rule that makes text of a stored number
    would show the number.
    """
    return tuple(column for column in columns if column.own_types)


def convert_changelogs(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]], *, spark: SparkProvider, progress: Progress
) -> Mapping[TableId, Fault]:
    """Convert the columns of changelogs to the types that the registry has, and return the faults.

    These are columns that Iceberg cannot widen. It is the caller's turn in the tables.
    """
    asked = {table: some for table, columns in tables.items() if (some := to_convert(columns))}
    planned = do_apart(CHANGELOG.name, asked, lambda table: _planned(pipeline, table, asked[table]))
    work = {table: one for table, one in planned.results.items() if one is not None}
    if not work:
        return planned.faults
    progress(f"changelog: {len(work)} tables have columns that became another type; their files are written anew")
    rewritten = rewrite_files(spark, {table: one.tasks for table, one in work.items()}, compact_files)

    def commit(table: TableId) -> None:
        one = work[table]
        pipeline.lake.replace(
            pipeline.table_path(CHANGELOG.name, table),
            {},
            rewritten.files[table],
            base=[path for task in one.tasks for path in task.paths],
            assertion=stands_at(one.head),
            same_rows=True,
            columns=one.columns,
        )

    committed = do_apart(CHANGELOG.name, rewritten.files, commit)
    return {**planned.faults, **rewritten.faults, **committed.faults}


def _planned(pipeline: Pipeline, table: TableId, columns: Sequence[Column]) -> _Conversion | None:
    """Return the work on a changelog; None where there is none. One without a commit is made anew when it is opened."""
    path = pipeline.table_path(CHANGELOG.name, table)
    conversion = pipeline.lake.conversion(path, changelog_columns(columns), "")
    if conversion is None:
        return None
    target, planned = conversion
    state = pipeline.lake.state(path)
    if state is None:
        pipeline.lake.drop(path)
        return None
    files = pipeline.lake.data_files(path, snapshot_id=state.snapshot_id)
    tasks = (
        CompactionTask((file.path,), tuple(file.partition.values()), file.bytes, replace(target, run=run_of(file.path)))
        for file in files
    )
    return _Conversion(state.snapshot_id, tuple(tasks), planned)
