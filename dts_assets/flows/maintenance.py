"""Maintenance of a subscription's tables: steps, one after the other, each with a report.

A step that fails does not keep the next ones from being done: no row is another one by any of them, and the next run tries again.
Steps that write tables take the turn of the tables, so that they wait for a run that is writing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial

from dts_assets.flows.apart import fault_at
from dts_assets.flows.kept_copies import keep_copies
from dts_assets.flows.known_tables import known_tables, stored_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.maintained_files import compact_everything
from dts_assets.flows.maintained_tables import Path, copies_paths, made_paths, maintained_paths, system_paths
from dts_assets.flows.message_retention import last_gone, remove_old_rows, what_goes
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.orphans import find_orphans, folders_of_tables, orphan_rule, remove_orphans
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.snapshot_sorting import sort_snapshot
from dts_assets.flows.tag_retention import remove_old_tags
from dts_assets.flows.turns import tables_turn
from dts_assets.model.columns import Column
from dts_assets.model.lake_layers import layer_at
from dts_assets.model.maintenance import Step, StepReport
from dts_assets.model.tables import TableId
from dts_assets.store import expiry
from dts_assets.store.expiry import NOTHING_EXPIRED, Expired, expire, files_left


@dataclass(frozen=True, slots=True)
class _Doing:
    """The arguments that all steps share."""

    pipeline: Pipeline
    dry_run: bool
    spark: SparkProvider
    progress: Progress
    now: datetime

    def tables(self) -> dict[TableId, Sequence[Column]]:
        """Return the known tables that do not stand still."""
        still = paused_here(self.pipeline)
        return {table: columns for table, columns in known_tables(self.pipeline).items() if table not in still}


def maintain(
    pipeline: Pipeline,
    *,
    only: Collection[Step] = (),
    dry_run: bool = False,
    spark: SparkProvider,
    progress: Progress,
    now: datetime | None = None,
) -> Iterator[StepReport]:
    """Do the steps of maintenance, and yield the report of each when it is done.

    They are those in ``only``, none standing for those of the settings. A ``dry_run`` changes nothing and says what would be
    done.

    Raises:
        LakeFormatError: Another version of dts-assets made the lake.
    """
    chosen = frozenset(only or pipeline.settings.maintenance.steps)
    doing = _Doing(pipeline, dry_run, spark, progress, now or datetime.now(UTC))
    if pipeline.lake.identity(pipeline.name) is None:
        return
    for step, function in _STEPS.items():
        if step not in chosen:
            continue
        progress(f"maintenance: {step}{' (dry run)' if dry_run else ''}")
        try:
            if dry_run or step is Step.ORPHANS:
                yield function(doing)
                continue
            with tables_turn(pipeline, progress):
                report = function(doing)
            yield report
        except Exception as error:
            yield StepReport(step, failed=(fault_at(str(step), error).reason,))


def _retention(doing: _Doing) -> StepReport:
    """Remove messages and entries that are too old, or too many."""
    pipeline = doing.pipeline
    before = {(row.layer, row.since, row.kafka_partitions) for row in pipeline.ledger.removed_rows() if row.gone_at}
    if doing.dry_run:
        rows = what_goes(pipeline, doing.progress)
    else:
        remove_old_rows(pipeline, doing.progress)
        keep_copies(pipeline, spark=doing.spark, progress=doing.progress)
        rows = [
            row
            for row in pipeline.ledger.removed_rows()
            if row.gone_at and (row.layer, row.since, row.kafka_partitions) not in before
        ]
    by_layer = {layer: [row for row in rows if row.layer == layer] for layer in sorted({row.layer for row in rows})}
    details = tuple(
        f"{layer}: {sum(row.rows for row in some):,} rows in windows before {max(row.until for row in some):%Y-%m-%d %H:%M} UTC"
        for layer, some in by_layer.items()
    )
    numbers = {"rows": sum(row.rows for row in rows), "bytes": sum(row.bytes for row in rows)}
    # Their files go with the last version that reaches them, by the expiry.
    return StepReport(Step.RETENTION, len(by_layer), 0, numbers, details)


def _tags(doing: _Doing) -> StepReport:
    """Remove tags of moments that are too old, or that hold too many bytes."""
    settings = doing.pipeline.settings.maintenance
    still = paused_here(doing.pipeline)
    paths = [
        doing.pipeline.table_path(SNAPSHOT.name, table) for table in stored_tables(doing.pipeline) if table not in still
    ]
    removed = remove_old_tags(
        doing.pipeline, paths, after=settings.tags_after, most=settings.tags_size, now=doing.now, dry_run=doing.dry_run
    )
    details = tuple(f"{name}: {len(tables)} tables" for name, tables in removed.items())
    tables = {table for some in removed.values() for table in some}
    numbers = {"moments": len(removed), "tags": sum(map(len, removed.values()))}
    return StepReport(Step.TAGS, len(tables), 0, numbers, details)


def _compaction(doing: _Doing) -> StepReport:
    """Write many small files of closed windows, and worn files of snapshots, as few."""
    return compact_everything(
        doing.pipeline, doing.tables(), dry_run=doing.dry_run, spark=doing.spark, progress=doing.progress
    )


def _sorting(doing: _Doing) -> StepReport:
    """Write snapshots in the order of their keys, where that is worth it."""
    found, failed = {}, dict[str, str]()
    for table, columns in sorted(doing.tables().items()):
        try:
            done = sort_snapshot(doing.pipeline, table, columns, dry_run=doing.dry_run)
        except Exception as error:
            failed[str(table)] = fault_at(str(Step.SORTING), error).reason
            continue
        if done is not None:
            found[table] = done
            doing.progress(f"sorting: {table}: {done.files_before} files became {done.files_after}")
    numbers = {
        "files_before": sum(one.files_before for one in found.values()),
        "files_after": sum(one.files_after for one in found.values()),
        "bytes": sum(one.bytes_before for one in found.values()),
    }
    details = tuple(f"{table}: {one.files_before} files, {one.bytes_before:,} bytes" for table, one in found.items())
    return StepReport(Step.SORTING, len(found), 0, numbers, details, _each_reason(failed))


def _expiry(doing: _Doing) -> StepReport:
    """Expire old versions of all tables, with the files that they alone hold."""
    found: dict[Path, Expired] = {}
    failed: dict[str, str] = {}
    for path, expire_table in _expiries(doing):
        try:
            done = expire_table()
        except Exception as error:
            failed[".".join(path)] = fault_at(str(Step.EXPIRY), error).reason
            continue
        if done != NOTHING_EXPIRED:
            found[path] = done
    details = tuple(
        f"{'.'.join(path)}: {one.versions} versions, {one.bytes:,} bytes{_left(one.left)}"
        for path, one in found.items()
    )
    numbers = {
        "versions": sum(one.versions for one in found.values()),
        "files": sum(one.files for one in found.values()),
        "left": sum(one.left for one in found.values()),
    }
    freed = sum(one.bytes for one in found.values())
    return StepReport(Step.EXPIRY, len(found), freed, numbers, details, _each_reason(failed))


def _left(count: int) -> str:
    return f"; {files_left(count)}" if count else ""


def _expiries(doing: _Doing) -> Iterator[tuple[Path, Callable[[], Expired]]]:
    """Yield the expiry of each table, which respects the versions that the next run needs."""
    pipeline, settings = doing.pipeline, doing.pipeline.settings.maintenance
    usual = expiry.KEEP_FOR_LIVE if pipeline.settings.window.live else expiry.KEEP_FOR
    keep_for = usual if settings.expire_after is None else settings.expire_after
    gone, others = last_gone(pipeline), pipeline.other_tables()

    def expiry_of(path: Path, needed: Collection[int] = ()) -> Expired:
        layer = layer_at(path)
        return expire(
            pipeline.lake.catalog, pipeline.lake.identifier(path), needed=needed, keep_for=keep_for,
            none_before=gone.get(layer.name), now=doing.now, warn=doing.progress,
            keep=0 if layer.only_present else settings.keep_versions, others=others, dry_run=doing.dry_run,
        )  # fmt: skip

    for path in (*system_paths(pipeline), *copies_paths(pipeline)):
        yield path, lambda path=path: expiry_of(path)  # type: ignore[misc]
    for table in stored_tables(pipeline):
        needed_of = cache(partial(_needed_versions, pipeline, table))
        for path in made_paths(pipeline, table):
            yield path, lambda path=path, needed_of=needed_of: expiry_of(path, needed_of())  # type: ignore[misc]


def _needed_versions(pipeline: Pipeline, table: TableId) -> set[int]:
    return {version for layer in pipeline.layers for version in layer.needed_versions(pipeline, table)}


def _orphans(doing: _Doing) -> StepReport:
    """Remove files of ours that no version names and that no run can be about to commit."""
    pipeline = doing.pipeline
    rule = orphan_rule(pipeline, doing.now - pipeline.settings.maintenance.orphans_after)
    opened = one_by_one(
        maintained_paths(pipeline), pipeline.lake.table, named=lambda path: f"The table {'.'.join(path)}"
    )
    tables = {path: table for path, table in opened.results.items() if table is not None}
    others, details = folders_of_tables(tables), list[str]()
    failed = {".".join(path): failure.sentence for path, failure in opened.failures.items()}
    files = freed = touched = left = 0
    naming = pipeline.other_tables()
    for path in tables:
        try:
            found = find_orphans(pipeline, path, rule, others=others, naming=naming)
            gone = found.files if doing.dry_run else remove_orphans(pipeline, path, found)
        except Exception as error:
            failed[".".join(path)] = fault_at(str(Step.ORPHANS), error).reason
            continue
        if gone:
            files, freed, touched = files + len(gone), freed + sum(one.bytes for one in gone), touched + 1
        if gone or found.left:
            left += found.left
            size = sum(one.bytes for one in gone)
            details.append(f"{'.'.join(path)}: {len(gone)} files, {size:,} bytes{_left(found.left)}")
    numbers = {"files": files, "left": left}
    return StepReport(Step.ORPHANS, touched, freed, numbers, tuple(details), _each_reason(failed))


def _each_reason(failed: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each reason of failures by table.

    One table that cannot be read may keep a thousand from their turn.
    """
    tables: dict[str, list[str]] = {}
    for name, reason in failed.items():
        tables.setdefault(reason, []).append(name)
    return tuple(
        f"{first}{f' and {len(more):,} tables more' if more else ''}: {reason}"
        for reason, (first, *more) in tables.items()
    )


_STEPS: Mapping[Step, Callable[[_Doing], StepReport]] = {
    Step.RETENTION: _retention,
    Step.TAGS: _tags,
    Step.COMPACTION: _compaction,
    Step.SORTING: _sorting,
    Step.EXPIRY: _expiry,
    Step.ORPHANS: _orphans,
}
