"""The work for the snapshot of one table: the first looks, the files to read, and the tasks.

A table with few changes is a task, or a few that share the files of its snapshot. Many changes are shared out to tasks by the
hashes of their keys, so that a task's memory is bounded whatever a table holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np

from dts_assets.flows.followed_histories import FollowedHistory
from dts_assets.flows.following import Following
from dts_assets.flows.known_tables import filter_of_rows, filtered_sources, screen_of
from dts_assets.flows.layers import CHANGELOG, Layer
from dts_assets.flows.merged_table import MergedTable
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_files import HeldFile
from dts_assets.flows.snapshot_tasks import Looked
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.columns import Column, has_key, matched_by
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.planning.history_retention import versions_stay_from
from dts_assets.planning.snapshot_plans import SnapshotPlan, SnapshotState, may_reach
from dts_assets.planning.task_shares import by_size
from dts_assets.stages.change_columns import NO_TIME, Counted, Truncation, microsecond
from dts_assets.stages.keys import DistinctKeys, Hashes
from dts_assets.stages.row_patterns import RowPatterns
from dts_assets.stages.snapshot_in_arrow import linked_keys, with_linked
from dts_assets.store.columns import flat_name
from dts_assets.store.files import WriteTarget
from dts_assets.store.planned_fields import PlannedSchema
from dts_assets.store.schemas import POSITION_COLUMNS
from dts_assets.store.stored_files import StoredFile, last_position

SHARE_ROWS = 500_000
SHARE_BYTES = 24 << 20
"""The most stored bytes that the changes of one task may have.

With :data:`SHARE_ROWS` it keeps a task's memory small; more changes are shared out over several tasks.
"""

_CHANGES_OF_A_KEY = 16
"""The changes that are reckoned for a key that is computed again.

A task takes more of them, and holds more then.
"""

_TASK_BYTES = 128 << 20
"""Stored bytes of a snapshot that one task looks through."""

_ALONE_BYTES = 512 << 20
"""Stored bytes of a table that one task looks through where changed rows need those that stand.

Several tasks would have to exchange the rows that they find, which costs some CPU seconds however few they are.
"""

_SMALL_BYTES = 8 << 20
_MOST_SMALL = 8
"""The number of small files above which a snapshot has them written as one.

Each refresh of a table that only gets rows adds a file.
"""


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """The work of one table in a layer, its snapshot or its history.

    ``current`` is the present Iceberg snapshot of its table there, None before the first; ``truncating`` are the windows with
    truncations of the table. ``laid_out`` says that files have another layout from this run on. ``columns`` say which of them are
    the primary key by which changes find their rows. Where the key changes amid the changes the work is done in steps: ``since``
    and ``until`` bound the changes of a step, ``stands`` are the files that the step before has left (None: those of the table).
    ``following`` says how a snapshot that follows statements gets its columns, ``history`` how a history follows them.
    ``tags`` come with the commit.
    """

    layer: Layer
    table: TableId
    columns: tuple[Column, ...]
    before: SnapshotState
    plan: SnapshotPlan
    current: int | None
    truncating: frozenset[datetime]
    turn: Turn
    laid_out: bool = False
    since: SourcePosition | None = None
    until: SourcePosition | None = None
    stands: tuple[StoredFile, ...] | None = None
    following: Following | None = None
    history: FollowedHistory | None = None
    tags: TagChange | None = None

    @property
    def planned(self) -> PlannedSchema | None:
        """The columns that the table gets in the commit; None where it has them."""
        return None if self.following is None else self.following.planned

    @property
    def has_news(self) -> bool:
        """True if there is anything to commit.

        A statement of a window that was made again may also say that the table is not proven.
        """
        return not self.plan.nothing or self.plan.state.doubt != self.before.doubt

    @property
    def has_own_columns(self) -> bool:
        """True if the table has no version yet, and its columns are not those that events told."""
        return self.current is None and self.following is not None

    @property
    def has_steps(self) -> bool:
        """True if the primary key changes amid the changes."""
        return len(self.plan.spans) > 1 or (self.following is not None and len(self.following.parts) > 1)

    def steps(self) -> Iterator[SnapshotJob]:
        """Yield a job for each key; what stands before the later ones is still to be told."""
        if self.following is not None:
            for one in self.following.parts:
                mine = replace(self.following, changes=one.changes, held=one.held, target=one.target, added=None)
                yield replace(self, columns=one.columns, since=one.part.since, until=one.part.until, following=mine)
            return
        for span in self.plan.spans:
            yield replace(self, columns=matched_by(self.columns, span.columns), since=span.since, until=span.until)

    def holds(self, position: SourcePosition) -> bool:
        """Tell whether changes at a position belong to the step."""
        return (self.since is None or self.since < position) and (self.until is None or position <= self.until)


@dataclass(frozen=True, slots=True)
class Merge:
    """A job whose changes were looked through: the files to read, and those that may lose rows.

    ``applied`` are the delete files of the snapshot, ``rows`` bounds the changes that count. ``linked`` has the keys between
    which rows move without all columns, ``patterns`` those of the rows that changes may mean which send a part of them. They are
    None where such changes were not searched for.
    """

    job: SnapshotJob
    merged: MergedTable
    changelog: tuple[StoredFile, ...]
    groups: tuple[tuple[HeldFile, ...], ...]
    applied: frozenset[str]
    rows: int
    linked: Mapping[str, Hashes] | None = None
    patterns: RowPatterns | None = None

    @property
    def shares(self) -> int:
        """The number of tasks that the changes are shared out to."""
        size = sum(file.bytes for file in self.changelog)
        whole = sum(file.rows for file in self.changelog)
        if self.merged.shape.is_bag and (self.merged.eras or (self.merged.sends_parts and self.patterns is None)):
            return 1  # a row without a key is another one once a statement or a partial change has filled a column
        counted = size * self.rows // whole if whole else 0
        return max(1, -(-self.rows // SHARE_ROWS), -(-counted // SHARE_BYTES))

    @property
    def has_few_changes(self) -> bool:
        """True if one task can read all changes."""
        return self.shares == 1 and sum(file.bytes for file in self.changelog) <= 2 * SHARE_BYTES

    @property
    def is_small(self) -> bool:
        """True if the task that writes rows can read whatever it needs."""
        return self.has_few_changes and not (self.merged.needs_rows and len(self.groups) > 1)


def are_many(changelog: Collection[StoredFile]) -> bool:
    """Tell whether the changes in some files of a changelog may be shared out."""
    return sum(file.rows for file in changelog) > SHARE_ROWS or sum(file.bytes for file in changelog) > SHARE_BYTES


def merged_of_job(pipeline: Pipeline, job: SnapshotJob, counted: Counted, run: str) -> MergedTable:
    """Return what tasks need to know of a job's table, for the changes that count."""
    mine, frontier = job.following, job.plan.state.frontier
    target, origins = (None, ()) if mine is None else (replace(mine.target, run=run), mine.origins)
    whole = merged_table(
        pipeline, job.layer, job.table, job.columns, counted, run, target=target,
        changelogs=filtered_sources(pipeline, origins, job.table),
    )  # fmt: skip
    history = _of_history(pipeline, job)
    arrived = (one for some in history.get("arrivals", {}).values() for one in some)
    return replace(
        whole,
        fold_absent=job.plan.fold_absent,
        unfit=job.plan.state.unfit,
        followed=(None if job.history is None else job.history.changes) if mine is None else mine.changes,
        held_columns=None if mine is None else mine.held,
        added_columns=None if mine is None else mine.added,
        between_steps=mine is not None and job.until is not None,
        row_filter=filter_of_rows(pipeline, job.table, job.columns, frontier) if job.plan.fold_absent else None,
        screen=screen_of(
            pipeline, job.table, job.columns, (*whole.changelogs, *arrived), frontier, is_history=job.layer.has_versions
        ),
        **history,
    )


def _of_history(pipeline: Pipeline, job: SnapshotJob) -> dict[str, Any]:
    """Return what tasks need to know of a history that statements change, in a job's step."""
    found = job.history
    if found is None or not found.eras:
        return {}
    path = pipeline.table_path(CHANGELOG.name, job.table)
    table = pipeline.lake.table(path)  # a table that had rows of other names alone has none
    own = () if table is None else (ChangesSource(table.location(), pipeline.lake.file_store(path)),)
    # Versions end by the key of before, and rows that come are found by their own.
    eras = tuple(one for one in found.eras if job.holds(one.position.previous if one.ends else one.position))
    arrivals = {number: filtered_sources(pipeline, some, job.table) for number, some in found.origins.items()}
    return {"eras": eras, "arrivals": arrivals, "changelogs": own}


def merged_table(
    pipeline: Pipeline,
    layer: Layer,
    table: TableId,
    columns: tuple[Column, ...],
    counted: Counted,
    run: str,
    *,
    target: WriteTarget | None = None,
    changelogs: tuple[ChangesSource, ...] = (),
) -> MergedTable:
    """Return what tasks need to know of a table whose changes send every column, and whose keys fit.

    Its new files go to ``target``; None stands for that of ``run``. ``changelogs`` are those of a table that had another name.
    """
    target = target or pipeline.lake.target(pipeline.table_path(layer.name, table), run)
    keys = tuple(flat_name(column.name) for column in columns if column.is_key)
    return MergedTable(
        layer=layer.name,
        table=table,
        columns=columns,
        counted=counted,
        target=replace(target, distinct=keys if len(keys) == 1 else ()),
        changelogs=changelogs
        or (ChangesSource("", pipeline.lake.file_store(pipeline.table_path(CHANGELOG.name, table))),),
        versions=layer.has_versions,
        added=layer.added(pipeline.settings, table),
        shards=pipeline.settings.routes.shard_columns(table),
        changed_only=pipeline.settings.traits.changed_only,
    )


def expired_versions(pipeline: Pipeline, layer: Layer, frontier: Frontier) -> int:
    """Return the microseconds since 1970 before which ended versions of a layer's tables have expired.

    :data:`NO_TIME` if none expires.
    """
    stay_from = versions_stay_from(frontier, pipeline.settings.history_retention) if layer.has_versions else None
    return NO_TIME if stay_from is None else microsecond(stay_from)


def changelog_files(
    pipeline: Pipeline,
    job: SnapshotJob,
    starts: Collection[datetime] | None,
    version: int | None,
    least: SourcePosition | None = None,
    *,
    reached: datetime | None = None,
) -> list[StoredFile]:
    """Return the changelog files of some windows (None: all that the frontier reaches), in an Iceberg snapshot.

    Files without a change at or behind the ``least`` position are left out, but not those of newer windows. ``reached`` is
    another last window than that of the frontier.
    """
    reached, origins = reached or job.plan.state.frontier.window, () if job.following is None else job.following.origins
    # A table may have had its name before, too: then its changelog is among the origins twice.
    logs = {one.table: version if one.changelog is None else one.changelog for one in origins} or {job.table: version}
    if starts is None and job.history is not None:  # of rows that came from other names all changes count
        least = None
        others = {one.table: one.changelog for some in job.history.origins.values() for one in some}
        logs = {**others, **logs}
    rectangle: dict[str, set[Any]] = {} if starts is None else {"window_start": set(starts)}
    bounds = () if least is None else POSITION_COLUMNS
    return [
        file
        for table, log in logs.items()
        if log is not None and reached is not None
        for file in pipeline.lake.data_files(
            pipeline.table_path(CHANGELOG.name, table), rectangle, snapshot_id=log, bounds=bounds
        )
        if file.partition["window_start"] <= reached
        and (least is None or file.partition["window_start"] in job.plan.newer or may_reach(last_position(file), least))
    ]


def origin_files(
    pipeline: Pipeline, job: SnapshotJob, table: TableId, version: int | None, rectangle: dict[str, set[Any]]
) -> list[StoredFile]:
    """Return the changelog files of an origin of rows that the frontier reaches."""
    version, reached = version or job.plan.state.changelog_snapshot, job.plan.state.frontier.window
    files = pipeline.lake.data_files(pipeline.table_path(CHANGELOG.name, table), rectangle, snapshot_id=version)
    return [file for file in files if reached is not None and file.partition["window_start"] <= reached]


def plan_merge(pipeline: Pipeline, job: SnapshotJob, looked: Sequence[Looked], run: str) -> Merge:
    """Return what is to be done for a table, by what its changes touch."""
    plan, before, after = job.plan, job.before.frontier, job.plan.state.frontier
    version = plan.state.changelog_snapshot
    linked = linked_keys(one.moves for one in looked if one.moves is not None) if plan.follow_moves else None
    stored = pipeline.lake.data_files(pipeline.table_path(job.layer.name, job.table), applies_deletes=True)
    stands = job.stands if job.stands is not None else [] if plan.rebuilds else stored
    least = None if plan.rebuilds else _decided_from(job, looked)
    truncations = sorted({one for found in looked if found.arrival is None for one in found.truncations})
    # Where rows stay behind a truncation, changes before it count, too.
    keeps = job.layer.has_versions or DELETED_AT in plan.state.added
    if plan.rebuilds:
        shards = [one for one in truncations if one.shard and not keeps]
        emptied = [] if keeps else [one.position for one in truncations if not one.shard]
        emptied_at = max([*emptied, *([] if job.since is None else [job.since])], default=None)
        files = changelog_files(pipeline, job, None, version, emptied_at)
        names = pipeline.settings.routes.shard_columns(job.table)
        counted = Counted(after, emptied_at=emptied_at, until=job.until, shard_names=names, emptied=tuple(shards))
    elif plan.recomputes:
        again = np.unique(np.concatenate([keys.hashes for one in looked for keys in (one.keys, one.former_keys)]))
        again = again if linked is None else with_linked(again, linked)
        files = changelog_files(pipeline, job, None, version, least)
        counted = Counted(after, before, again=again, newer=frozenset(plan.newer))
    else:
        files = changelog_files(pipeline, job, plan.newer, version)
        counted = Counted(after, before, emptied_at=job.since, until=job.until)
    rows = sum(file.rows for file in files)
    if counted.again is not None:
        newer = sum(file.rows for file in files if file.partition["window_start"] in counted.newer)
        rows = min(rows, newer + len(counted.again) * _CHANGES_OF_A_KEY)
    applied = frozenset(path for file in stored for path in file.deletes)
    of_step = tuple(one for one in truncations if job.holds(one.position))
    merged = merged_of_job(pipeline, job, counted, run)
    merged = replace(
        merged,
        knows_again=least is not None,
        truncations=of_step,
        touches_all=bool(of_step or merged.eras) and keeps and bool(stands),
        eras=tuple(replace(era, truncations=_arrived(looked, era.arrival)) for era in merged.eras),
        expired_before=expired_versions(pipeline, job.layer, after),
    )
    rows += sum(file.rows for file in stands) if merged.touches_all else 0
    # Files of an earlier step are in no commit, so rows leave files of steps by new files. Where statements have changed rows
    # that no event tells, all rows are written anew.
    rewrite = job.has_steps or (job.following is not None and job.following.held is not None)
    groups = tuple(
        tuple(replace(file, rewrite=file.rewrite or rewrite) for file in some) for some in file_groups(stands)
    )
    found = [one.patterns for one in looked if one.patterns is not None]
    patterns = RowPatterns.joined(found) if found else None
    merge = Merge(job, merged, tuple(files), groups, applied, rows, linked, patterns)
    if merged.needs_rows and merge.has_few_changes and sum(file.bytes for file in stands) <= _ALONE_BYTES:
        return replace(merge, groups=(tuple(chain.from_iterable(groups)),))
    return merge


def _arrived(looked: Iterable[Looked], arrival: int | None) -> tuple[Truncation, ...]:
    """Return the truncations of the tables from which rows came by a statement."""
    told = (one for one in looked if arrival is not None and one.arrival == arrival)
    return tuple(sorted({cut for one in told for cut in one.truncations}))


def _decided_from(job: SnapshotJob, looked: Sequence[Looked]) -> SourcePosition | None:
    """Return a position at or behind which the last change of every key stands that is computed again.

    None if it is not known: where changes lack columns, in a bag, and where keys of changes that are no longer there have none in
    their place. Then any change may count, as in a history, where every change of such a key does.
    """
    keys = DistinctKeys.of([one.keys.hashes for one in looked], [one.keys.twins for one in looked])
    former = DistinctKeys.of([one.former_keys.hashes for one in looked], [one.former_keys.twins for one in looked])
    if job.layer.has_versions or job.plan.fold_absent or not has_key(job.columns) or not former.all_among(keys):
        return None
    return min((one.least for one in looked if one.least is not None), default=None)


def file_groups(files: Collection[StoredFile]) -> list[tuple[HeldFile, ...]]:
    """Return files of a snapshot as tasks take them.

    The first group has the smallest files; its task adds the new rows. Where a partition has many small files they are written
    as one.
    """
    small = Counter(_partition(file) for file in files if file.bytes < _SMALL_BYTES)
    return [
        tuple(
            HeldFile(
                file.path,
                file.bytes < _SMALL_BYTES and small[_partition(file)] > _MOST_SMALL,
                file.bytes,
                file.deletes,
                file.shared_deletes,
                _partition(file),
            )
            for file in group
        )
        for group in by_size(files, _TASK_BYTES)
    ] or [()]


def _partition(file: StoredFile) -> tuple[Any, ...]:
    return tuple(file.partition.values())
