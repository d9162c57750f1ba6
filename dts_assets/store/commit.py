"""The commit of files to a table: a rectangle of partitions is replaced in one Iceberg snapshot.

Exact: every data file inside the rectangle goes and the new files come, even if there are none; a new file that does not lie
wholly inside is refused. Atomic: readers see the old generation or the new one. Several writers are serialized by the catalog's
compare and swap, each try planned anew from the table as it then is: pyiceberg's own retry keeps the old plan, and two
replacements of an empty rectangle would then both stay. A replacement works alike on every catalog and needs no Spark.

Beyond pyiceberg's documented interface are ``Table._do_commit``, its manifest and snapshot writers in
:mod:`dts_assets.store.new_version`, and the footer functions in :mod:`dts_assets.store.data_files`; a test pins them. pyiceberg's
snapshot producers are not used: they copy the table's whole metadata some 20 times a commit (300 ms at 300 snapshots) and never
merge manifests.

A catalog may give no answer, and commit later. So files belong to a try: those of a try are removed only if the catalog refused
that try, and after no answer nothing is removed (a file that no version holds harms nobody). Every try asks first whether an
earlier one landed, by the Iceberg snapshot's id, which all tries of a replacement share: a catalog takes an id once.

Single rows can go by delete files; :mod:`dts_assets.store.new_deletes` says what keeps them from coming back. Delete files that
concern no data file any more go with the last one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Snapshot,
    ancestors_of,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier
from requests.exceptions import RequestException

from dts_assets.errors import ForeignDeletesError, LakeChangeError, LakeTableError, StaleGenerationError
from dts_assets.model.cut_tags import TagChange
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.data_files import data_files, partition_value
from dts_assets.store.delete_files import WrittenDeletes
from dts_assets.store.files import WrittenFile
from dts_assets.store.iceberg_tables import TRIED_AGAIN
from dts_assets.store.locks import table_lock
from dts_assets.store.new_deletes import NewDeletes, RowRemovals, new_deletes
from dts_assets.store.new_version import NewVersion
from dts_assets.store.replacement_plan import Plan, field_names, lies_inside, plan_replacement
from dts_assets.store.staged_tables import PlannedChange, StagedTable, as_planned
from dts_assets.store.tags import tag_updates

Rectangle: TypeAlias = Mapping[str, Collection[Any]]
"""The values of partition fields: ``{"kafka_partition": {0, 1}, "window_start": {...}}``.

A field left out is unbounded, so an empty mapping is the whole table.
"""

_NO_ANSWER = (RequestException, ServerError, ServiceUnavailableError, TooManyRequestsError)
"""The errors besides pyiceberg's own that leave open whether a commit was made: time-outs, cut connections, 503."""

Assertion: TypeAlias = Callable[[Table], Mapping[str, str]]
"""A check of the table as each try of a commit finds it.

It raises an error if the table is not as it was when the work was planned, and returns further properties for the commit.
"""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The outcome of a replacement.

    ``added`` and ``removed`` are paths of data files. ``snapshot_id`` is None where there was no file to remove or add and no
    property to set.
    """

    snapshot_id: int | None
    added: tuple[str, ...]
    removed: tuple[str, ...]


def replace(
    catalog: Catalog,
    identifier: Identifier,
    rectangle: Rectangle,
    files: Sequence[WrittenFile],
    *,
    properties: Mapping[str, str] | None = None,
    base: Collection[str] | None = None,
    keep: Callable[[DataFile], bool] | None = None,
    assertion: Assertion | None = None,
    same_rows: bool = False,
    deletes: Sequence[WrittenDeletes] = (),
    applied: Collection[str] | None = None,
    columns: PlannedChange | None = None,
    tags: TagChange | None = None,
) -> Replaced:
    """Make ``files`` all that the table holds inside ``rectangle``, in one Iceberg snapshot that carries ``properties``.

    ``base`` are the paths that the rectangle must hold now, the kept ones and none at all included; None lets the last writer
    win. ``keep`` says of a file inside whether it stays nevertheless, beside the new files. ``same_rows`` says that the new
    files hold the rows of the removed ones.

    ``deletes`` take rows out of files that are kept, in the same Iceberg snapshot. ``applied`` are the paths of all delete files
    that were applied when the removed files, and those that lose rows, were read; None says that whole files were read.

    ``columns`` is a change of the table's columns that comes in the same commit, even without a file. The new files have them.
    ``tags`` are set and removed in that commit, too.

    Raises:
        StaleGenerationError: The rectangle holds other files than ``base``, a file that loses rows is gone, there is a
            delete file that was not ``applied``, or the table has other columns than ``columns`` was planned on.
        LakeTableError: A new file is not as its writer reported, lies outside, or is there already.
        ForeignDeletesError: Whole files were read, and one of them has delete files.
        LakeChangeError: Other writers were in the way all the time, the catalog gave no answer, or a new file is gone.
    """
    name = ".".join(identifier)
    wanted = _wanted(rectangle)
    removals = RowRemovals(name, tuple(deletes), _frozen(applied))
    attempt = _Attempt(
        name, removals, wanted, properties or {}, _frozen(base), keep, assertion, same_rows, columns, tags
    )
    return until_it_gets_through(
        name,
        lambda: attempt.run(catalog, identifier, files),
        lost=TRIED_AGAIN,
    )


def _frozen(paths: Collection[str] | None) -> frozenset[str] | None:
    return None if paths is None else frozenset(paths)


def ask_catalog(table: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]) -> None:
    """Ask the catalog for one commit of some updates.

    It makes the commit only if the table meets the requirements.

    Raises:
        CommitFailedException: The catalog has refused.
        CommitStateUnknownException: The catalog gave no answer; it may have made the commit, or may make it later.
    """
    try:
        table._do_commit(updates=updates, requirements=requirements)
    except _NO_ANSWER as error:
        raise CommitStateUnknownException(str(error)) from error


def stands_at(snapshot_id: int | None) -> Assertion:
    """Return the assertion that a table's current Iceberg snapshot is the one that the work was planned on.

    None stands for a table to which nothing was ever committed.
    """

    def check(table: Table) -> Mapping[str, str]:
        head = table.current_snapshot()
        found = None if head is None else head.snapshot_id
        if found != snapshot_id:
            raise StaleGenerationError(".".join(table.name()), expected=_version(snapshot_id), found=_version(found))
        return {}

    return check


def _version(snapshot_id: int | None) -> str:
    return "an empty table" if snapshot_id is None else f"version {snapshot_id}"


def files_in(table: Table, rectangle: Rectangle, *, snapshot_id: int | None = None) -> list[DataFile]:
    """Return the live data files of an Iceberg snapshot (None: the current one) inside a rectangle.

    Raises:
        ForeignDeletesError: Rows of these files are deleted.
    """
    found = files_with_deletes(table, rectangle, snapshot_id=snapshot_id)
    if any(deletes for _, deletes in found):
        raise ForeignDeletesError(".".join(table.name()))
    return [file for file, _ in found]


def files_with_deletes(
    table: Table, rectangle: Rectangle, *, snapshot_id: int | None = None
) -> list[tuple[DataFile, list[DataFile]]]:
    """Return the live data files inside a rectangle, each with the delete files that may concern it.

    Raises:
        ForeignDeletesError: The table has a kind of deletes there that is not read here.
    """
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    plan = plan_replacement(table, snapshot, _wanted(rectangle))
    return [(entry.data_file, plan.deletes.of(entry)) for entry in plan.removed]


def files_apart(table: Table, one: int, other: int) -> tuple[list[DataFile], list[DataFile]]:
    """Return the live files of each of two Iceberg snapshots, without the manifests that both have.

    Delete files are among them: where they differ, rows do. A file may still be in both lists, where its manifest was rewritten.
    A commit of a few files leaves nearly all manifests as they were, so the cost grows with the changes and not with the table.
    """
    manifests = [
        {manifest.manifest_path: manifest for manifest in (snapshot.manifests(table.io) if snapshot else ())}
        for snapshot in (table.snapshot_by_id(one), table.snapshot_by_id(other))
    ]
    first, second = (
        [
            entry.data_file
            for path, manifest in mine.items()
            if path not in others
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        ]
        for mine, others in (manifests, manifests[::-1])
    )
    return first, second


def _wanted(rectangle: Rectangle) -> dict[str, frozenset[Any]]:
    return {name: frozenset(map(partition_value, values)) for name, values in rectangle.items()}


def generation_of(paths: Iterable[str]) -> str:
    """Return a short digest of a set of files: equal exactly if the files are."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:12]


@dataclass(slots=True)
class _Attempt:
    """A replacement through all its tries.

    Its snapshot id stays the same, so that a landed try is recognized.
    """

    _name: str
    _removals: RowRemovals
    _wanted: Mapping[str, frozenset[Any]]
    _properties: Mapping[str, str]
    _base: frozenset[str] | None
    _keep: Callable[[DataFile], bool] | None
    _assertion: Assertion | None = None
    _same_rows: bool = False
    _columns: PlannedChange | None = None
    _tags: TagChange | None = None
    _snapshot_id: int | None = None
    _made: list[DataFile] | None = None
    _looked_at: list[NewDeletes] | None = None
    _made_for: tuple[int, int] | None = None
    _removed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _unsure: bool = False

    def run(self, catalog: Catalog, identifier: Identifier, files: Sequence[WrittenFile]) -> Replaced:
        """Try once, from the table as it is now.

        Raises:
            CommitFailedException: Another writer was faster; nothing was changed.
            CommitStateUnknownException: The catalog gave no answer.
        """
        table = catalog.load_table(identifier)
        added = tuple(file.path for file in files)
        # After a change of columns that landed, the table is no longer as the change was planned on.
        if self._columns is not None and (landed := self._landed(table)) is not None:
            return Replaced(self._snapshot_id, added, landed)
        staged = as_planned(table, self._columns, unsure=self._unsure)
        made = self._data_files(staged.table, files)  # footers are read before the lock
        if self._looked_at is None:
            self._looked_at = new_deletes(table, self._removals.written)
        with table_lock(table):
            table = catalog.load_table(identifier)
            if (landed := self._landed(table)) is not None:
                return Replaced(self._snapshot_id, added, landed)
            kept: list[str] = []
            staged = as_planned(table, self._columns, unsure=self._unsure)
            table = staged.table
            plan = plan_replacement(table, table.current_snapshot(), self._wanted, self._noting(kept))
            self._check(table, plan, made, kept)
            asserted = self._assertion(table) if self._assertion is not None else {}
            self._removals.check(plan, unsure=self._unsure)
            deletes = self._removals.delete_files(plan, self._looked_at)
            properties = {**self._properties, **asserted}
            if not made and not plan.removed and not deletes and not properties and not staged.updates:
                return Replaced(None, (), ())
            if plan.removed or deletes:  # an append removes nothing
                plan.drop_deletes({path for one in self._removals.written for path in one.instead_of})
            removed = tuple(entry.data_file.file_path for entry in plan.removed)
            self._snapshot_id = self._snapshot_id or table.metadata.new_snapshot_id()
            version = NewVersion(table, self._snapshot_id, self._same_rows)
            snapshot = version.write(plan, made, properties, deletes=deletes)
            self._removed[snapshot.manifest_list] = removed
            try:
                self._ask(table, snapshot, staged)
            except CommitFailedException:
                # Refused, unless a proxy sent the request twice, and this answers the second one.
                table = catalog.load_table(identifier)
                if (landed := self._landed(table)) is None:
                    version.remove()
                    raise
                if not self._is_there(table, snapshot):
                    version.remove()
                return Replaced(self._snapshot_id, added, landed)
            return Replaced(self._snapshot_id, added, removed)

    def _data_files(self, table: Table, files: Sequence[WrittenFile]) -> list[DataFile]:
        current = (table.metadata.current_schema_id, table.metadata.default_spec_id)
        if self._made is None or self._made_for != current:
            self._made, self._made_for = data_files(table, files), current
        return self._made

    def _landed(self, table: Table) -> tuple[str, ...] | None:
        """Return the paths that an earlier try has removed, None if none is known to have landed.

        Raises:
            LakeChangeError: A try landed, and somebody has set the table back since: its rows are not there.
        """
        if not self._removed:
            return None
        found = table.snapshot_by_id(self._snapshot_id) if self._snapshot_id is not None else None
        if found is None and all(one.snapshot_id != self._snapshot_id for one in table.metadata.snapshot_log):
            return None
        if all(one.snapshot_id != self._snapshot_id for one in ancestors_of(table.current_snapshot(), table.metadata)):
            raise LakeChangeError(
                self._name, "its new version was taken back by another program as soon as it was made"
            )
        return self._removed.get(found.manifest_list if found is not None else "", ())

    @staticmethod
    def _is_there(table: Table, snapshot: Snapshot) -> bool:
        """Return whether the table's Iceberg snapshot of this id is this one, not another try's."""
        found = table.snapshot_by_id(snapshot.snapshot_id)
        return found is not None and found.manifest_list == snapshot.manifest_list

    def _noting(self, kept: list[str]) -> Callable[[DataFile], bool] | None:
        """Return the rule for kept files, which notes their paths. It is asked of files inside the rectangle alone."""
        keep = self._keep
        if keep is None:
            return None

        def noting(file: DataFile) -> bool:
            if not keep(file):
                return False
            kept.append(file.file_path)
            return True

        return noting

    def _check(self, table: Table, plan: Plan, made: Sequence[DataFile], kept: Sequence[str]) -> None:
        names = field_names(table)
        old = {entry.data_file.file_path for entry in plan.removed}
        found = old.union(kept)
        if self._base is not None and found != self._base:
            expected, there = generation_of(self._base), generation_of(found)
            raise StaleGenerationError(self._name, expected=expected, found=there, unsure=self._unsure)
        for file in made:
            if not lies_inside(names[file.spec_id], file, self._wanted):
                raise LakeTableError(
                    self._name, f"its new file {file.file_path} lies outside the partitions that are being replaced"
                )
        paths = [file.file_path for file in made]
        if found & set(paths) or len(set(paths)) < len(paths):
            raise LakeTableError(self._name, "a new file was given twice or is part of it already")

    def _ask(self, table: Table, snapshot: Snapshot, staged: StagedTable) -> None:
        """Ask the catalog to make an Iceberg snapshot the table's newest, with its new columns.

        Raises:
            CommitFailedException: The catalog has refused.
            CommitStateUnknownException: The catalog gave no answer.
        """
        updates = (
            *staged.updates,
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(
                snapshot_id=snapshot.snapshot_id,
                ref_name=MAIN_BRANCH,
                type=SnapshotRefType.BRANCH,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
            *tag_updates(table, self._tags, new=snapshot.snapshot_id),
        )
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            *staged.requirements,
            AssertRefSnapshotId(snapshot_id=snapshot.parent_snapshot_id, ref=MAIN_BRANCH),
        )
        try:
            ask_catalog(table, updates, requirements)
        except CommitFailedException:
            raise
        except BaseException:
            self._unsure = True
            raise
