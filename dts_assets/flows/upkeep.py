"""The upkeep behind a run of the tables: files are put in order, old files go.

No row of a source table is another one by it, so it may wait: a run that follows a source does it when there is time before the
next refresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from dts_assets.flows.apart import fault_at
from dts_assets.flows.compaction import compact_changelogs
from dts_assets.flows.kept_copies import keep_copies, lack_care
from dts_assets.flows.kept_windows import Place, name_kept_windows
from dts_assets.flows.maintained_tables import Path, copies_paths, system_paths
from dts_assets.flows.message_retention import last_gone, remove_old_rows
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.turns import tables_turn
from dts_assets.model.columns import Column
from dts_assets.model.lake_layers import layer_at
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.store import expiry
from dts_assets.store.expiry import expire_snapshots


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The upkeep that a run of the tables leaves.

    ``scattered`` are the windows whose changelogs lie in many files, ``closed`` says that a window has closed, and ``written``
    are the tables that were written. Tables that stand ``still`` are left as they are.
    """

    scattered: frozenset[Window] = frozenset()
    closed: bool = False
    written: Mapping[TableId, Sequence[Column]] = field(default_factory=dict)
    still: frozenset[TableId] = frozenset()

    def and_then(self, later: Upkeep) -> Upkeep:
        """Return the upkeep of this run and of a later one together."""
        return Upkeep(
            self.scattered | later.scattered,
            self.closed or later.closed,
            {**self.written, **later.written},
            later.still,
        )


NO_UPKEEP = Upkeep()


def keep_up(pipeline: Pipeline, upkeep: Upkeep, *, spark: SparkProvider, progress: Progress) -> None:
    """Do the upkeep of earlier runs, in a turn of its own.

    Another run of the tables is waited for.
    """
    with tables_turn(pipeline, progress):
        keep_up_in_turn(pipeline, upkeep, spark=spark, progress=progress)


def keep_up_in_turn(pipeline: Pipeline, upkeep: Upkeep, *, spark: SparkProvider, progress: Progress) -> None:
    """Compact changelogs and, once a window has closed, the layers behind; remove old messages, and expire Iceberg snapshots.

    It is the caller's turn in the tables.
    """
    written = {table: columns for table, columns in upkeep.written.items() if table not in upkeep.still}
    if upkeep.scattered:
        marks = pipeline.ledger.cuts(upkeep.scattered)
        counts = pipeline.ledger.window_tables(upkeep.scattered)
        moving = sorted({row.table for row in counts if row.table not in upkeep.still})
        compact_changelogs(pipeline, marks, moving, spark=spark, progress=progress)
    for layer in pipeline.layers if upkeep.closed else ():
        if layer.compact is not None:
            mine = {table: columns for table, columns in written.items() if layer.takes(pipeline.settings, table)}
            layer.compact(pipeline, mine, spark, progress)
    if upkeep.closed:
        remove_old_rows(pipeline, progress)
        keep_copies(pipeline, spark=spark, progress=progress)
        name_kept_windows(pipeline, Place.LOG, progress)
    _expire_old_snapshots(pipeline, written, progress)


def mend_copies(pipeline: Pipeline, *, spark: SparkProvider, progress: Progress) -> None:
    """Take care of copies that an earlier code has left, where no window has closed since.

    Nothing but a property is read where this version has done so.
    """
    if not lack_care(pipeline):
        return
    with tables_turn(pipeline, progress):
        keep_copies(pipeline, spark=spark, progress=progress)
        _expire_own(pipeline, (pipeline.path("copied_tables"), *copies_paths(pipeline)), progress)


def _keep_for(pipeline: Pipeline) -> timedelta:
    return expiry.KEEP_FOR_LIVE if pipeline.settings.window.live else expiry.KEEP_FOR


def _expire_own(pipeline: Pipeline, paths: Iterable[Path], progress: Progress) -> None:
    """Expire superfluous Iceberg snapshots of tables that are not made of changes."""
    gone, others = last_gone(pipeline), pipeline.other_tables()
    for path in paths:
        layer = layer_at(path)
        expire_snapshots(
            pipeline.lake.catalog,
            pipeline.lake.identifier(path),
            keep_for=_keep_for(pipeline),
            none_before=gone.get(layer.name),
            only_present=layer.only_present,
            warn=progress,
            others=others,
        )


def _expire_old_snapshots(pipeline: Pipeline, tables: Iterable[TableId], progress: Progress) -> None:
    """Expire superfluous Iceberg snapshots, so that metadata does not grow with the number of commits.

    The subscription's own tables are looked at, and all layers of ``tables``. An Iceberg snapshot that the next run
    of some layer will read stays. Those that still reach removed messages or entries go as soon as they are not young.
    """
    catalog, keep_for, others = pipeline.lake.catalog, _keep_for(pipeline), pipeline.other_tables()
    _expire_own(pipeline, (*system_paths(pipeline), *copies_paths(pipeline)), progress)

    def expire(table: TableId) -> None:
        # A table that no longer has a layer may get it back, and then goes on from where it stood.
        needed = {version for layer in pipeline.layers for version in layer.needed_versions(pipeline, table)}
        for layer in pipeline.layers:
            if not layer.takes(pipeline.settings, table):
                continue
            identifier = pipeline.lake.identifier(pipeline.table_path(layer.name, table))
            expire_snapshots(catalog, identifier, needed=needed, keep_for=keep_for, warn=progress, others=others)

    for table in tables:
        try:
            expire(table)
        except Exception as error:  # nothing of the table is wrong by it: the next run tries again
            progress(f"expiry: the old versions of {table} stay for now: {fault_at('expiry', error).reason}")
