"""Tags of Iceberg tables at closed cuts, set and removed with a commit of rows or alone.

A tag keeps its version, and the version's files, from expiring. Tags and branches of other people are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from dts_assets.model.cut_tags import TagChange, is_cut_tag


def cut_tags(table: Table) -> dict[str, int]:
    """Return the tags of closed cuts that a table has, with the versions that they name."""
    return {
        name: one.snapshot_id
        for name, one in table.metadata.refs.items()
        if one.snapshot_ref_type == SnapshotRefType.TAG and is_cut_tag(name)
    }


def tag_updates(table: Table, change: TagChange | None, *, new: int | None = None) -> tuple[TableUpdate, ...]:
    """Return the updates by which a table gets its tags in the commit of the version ``new``.

    Without it the commit brings no version.
    """
    return () if change is None else tuple(_updates(table, change, new))


def _updates(table: Table, change: TagChange, new: int | None) -> Iterator[TableUpdate]:
    there, head = cut_tags(table), table.metadata.current_snapshot_id
    if change.moves:
        for name, version in there.items():
            if version == head and new is not None:
                yield _set(name, new)
        return
    for name in there:
        if name not in {*change.stay, *change.before, *change.after}:
            yield RemoveSnapshotRefUpdate(ref_name=name)
    taken = table.metadata.refs.keys() - there.keys()  # a branch of that name is another person's
    for name in change.before:
        if head is not None and name not in taken and (name not in there or name not in change.stay):
            yield _set(name, head)
    for name in change.after:
        if new is not None and name not in taken:
            yield _set(name, new)


def _set(name: str, version: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        snapshot_id=version,
        ref_name=name,
        type=SnapshotRefType.TAG,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def change_tags(catalog: Catalog, identifier: Identifier, version: int, change: TagChange) -> bool:
    """Change the tags of a table that stands at a version, and return whether that was done.

    A table that stands elsewhere by now, or that somebody else is committing to, is left alone.
    """
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return False
    updates = tag_updates(table, change)
    if not updates or table.metadata.current_snapshot_id != version:
        return False
    same = (AssertRefSnapshotId(ref=name, snapshot_id=one) for name, one in cut_tags(table).items())
    at = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=version)
    try:
        table._do_commit(updates, (AssertTableUUID(uuid=table.metadata.table_uuid), at, *same))
    except CommitFailedException:
        return False
    return True
