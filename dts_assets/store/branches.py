"""Branches on which another engine commits, before all of it becomes the table's current state in one commit.

Spark asserts what its own statement read, or nothing at all where it appends. So it gets a branch that begins at the Iceberg
snapshot that the work was planned on. When Spark is done the main branch is set to the end of it, which the catalog does only
if main still stands where the branch began. A commit of Spark whose outcome nobody knows changes nothing that readers see.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from dts_assets.errors import OvertakenError
from dts_assets.model.turns import TABLES_TURN
from dts_assets.store.commit import ask_catalog, stands_at
from dts_assets.store.contention import until_it_gets_through

_PREFIX = "dts_assets_"

_TOTALS_OF_NOTHING = dict.fromkeys(
    ("total-records", "total-files-size", "total-data-files", "total-delete-files", "total-position-deletes",
     "total-equality-deletes"), "0",
)  # fmt: skip
"""The totals of an empty Iceberg snapshot. Engines add to totals that are there, and begin none behind a snapshot without."""


@contextmanager
def branched(catalog: Catalog, identifier: Identifier, snapshot_id: int | None) -> Iterator[str]:
    """Yield the name of a branch that begins at an Iceberg snapshot.

    Behind the block the branch becomes the table.
    The branches of killed runs are removed on the way. None stands for a table to which nothing was ever committed.

    Raises:
        StaleGenerationError: The table does not stand at the Iceberg snapshot any more; nothing was changed.
        OvertakenError: Somebody removed the branch, as the next run does after it has taken over.
        LakeChangeError: Other writers were in the way all the time, or the catalog gave no answer.
    """
    name = f"{_PREFIX}{uuid.uuid4().hex[:12]}"
    begin = _begin(catalog, identifier, name, snapshot_id)
    try:
        yield name
        _finish(catalog, identifier, name, begin, snapshot_id)
    except BaseException:
        with suppress(Exception):  # one that stays is removed by the next run
            _commit(catalog.load_table(identifier), (RemoveSnapshotRefUpdate(ref_name=name),), ())
        raise


def _begin(catalog: Catalog, identifier: Identifier, name: str, snapshot_id: int | None) -> int:
    """Make the branch and return the Iceberg snapshot that it begins at."""
    on_main = AssertRefSnapshotId(snapshot_id=snapshot_id, ref=MAIN_BRANCH)

    def attempt() -> int:
        table = catalog.load_table(identifier)
        stands_at(snapshot_id)(table)
        if name in table.metadata.refs:
            return table.metadata.refs[name].snapshot_id  # a commit whose answer was lost
        begin = snapshot_id
        if begin is None:  # a branch needs an Iceberg snapshot, and a requirement about a branch a table that has some
            empty = _empty_snapshot(table)
            begin = empty.snapshot_id
            _commit(table, (AddSnapshotUpdate(snapshot=empty),), (on_main,))
            table = catalog.load_table(identifier)
        old = [RemoveSnapshotRefUpdate(ref_name=one) for one in table.metadata.refs if one.startswith(_PREFIX)]
        # A request to make the branch that lands late would set it back to where it began.
        unmade = AssertRefSnapshotId(snapshot_id=None, ref=name)
        _commit(table, (*old, _set_branch(name, begin)), (on_main, unmade))
        return begin

    return until_it_gets_through(
        ".".join(identifier), attempt, lost=(CommitFailedException, CommitStateUnknownException)
    )


def _finish(catalog: Catalog, identifier: Identifier, name: str, begin: int, snapshot_id: int | None) -> None:
    """Set the main branch to the end of a branch, and remove the branch."""

    def attempt() -> None:
        table = catalog.load_table(identifier)
        head, branch = table.current_snapshot(), table.metadata.refs.get(name)
        if branch is None and head is not None and head.snapshot_id in ends:
            return  # a commit whose answer was lost
        stands_at(snapshot_id)(table)
        if branch is None:
            raise OvertakenError(identifier[0], TABLES_TURN)
        if branch.snapshot_id == begin:  # the other engine found nothing to commit
            _commit(table, (RemoveSnapshotRefUpdate(ref_name=name),), ())
            return
        ends.add(branch.snapshot_id)
        _commit(
            table,
            (_set_branch(MAIN_BRANCH, branch.snapshot_id), RemoveSnapshotRefUpdate(ref_name=name)),
            (
                AssertRefSnapshotId(snapshot_id=snapshot_id, ref=MAIN_BRANCH),
                AssertRefSnapshotId(snapshot_id=branch.snapshot_id, ref=name),
            ),
        )

    ends: set[int] = set()
    until_it_gets_through(".".join(identifier), attempt, lost=(CommitFailedException, CommitStateUnknownException))


def _set_branch(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=name, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id,
        max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
    )  # fmt: skip


def _empty_snapshot(table: Table) -> Snapshot:
    """Return an Iceberg snapshot without a file and without a parent, whose manifest list is written."""
    snapshot_id, number = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    path = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(
        format_version=table.metadata.format_version,
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        sequence_number=number,
        avro_compression="deflate",
    ):
        pass
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        manifest_list=path,
        sequence_number=number,
        timestamp_ms=int(datetime.now(UTC).timestamp() * 1000),
        summary=Summary(operation=Operation.APPEND, **_TOTALS_OF_NOTHING),
        schema_id=table.metadata.current_schema_id,
    )


def _commit(table: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]) -> None:
    ask_catalog(table, updates, (AssertTableUUID(uuid=table.metadata.table_uuid), *requirements))
