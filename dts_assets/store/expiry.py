"""The expiry of old Iceberg snapshots: they leave a table's metadata, and their files leave the disk.

Every commit reads and writes the metadata whole, and a table that is refreshed three times a minute has four thousand versions
a day. A file is removed once every Iceberg snapshot that holds it has gone; files of a version that stays, for instance one with
a tag, are never touched. pyiceberg forgets Iceberg snapshots and leaves their files where they are, so this module finds these
files: linear history makes that easy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

KEEP_SNAPSHOTS = 100
"""The number of newest Iceberg snapshots that always stay."""

KEEP_FOR = timedelta(days=2)
"""The least time for which an Iceberg snapshot stays.

It is longer than any run that reads a table as it stood when the run began.
"""

KEEP_FOR_LIVE = timedelta(minutes=30)
"""The least time for which an Iceberg snapshot stays where open windows are refreshed all the time.

Every version of a table of 5 MB kept for two days would be 40 GB.
"""

AT_ONCE = 50
"""The number of superfluous Iceberg snapshots below which a table is left alone.

Each expiry is a commit of its own.
"""


def expire_snapshots(
    catalog: Catalog,
    identifier: Identifier,
    *,
    needed: Collection[int] = (),
    keep_for: timedelta = KEEP_FOR,
    now: datetime | None = None,
) -> int:
    """Expire old Iceberg snapshots of a table with their files, and return the number of expired snapshots.

    The newest snapshots stay, and so do snapshots younger than ``keep_for``, the ``needed`` snapshots (ids), and those of
    branches and tags. A file that another Iceberg snapshot holds stays. A table that is not there, or that somebody else is
    committing to, is left alone.
    """
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return 0
    before = ((now or datetime.now(UTC)) - keep_for).timestamp() * 1000
    held = {reference.snapshot_id for reference in table.metadata.refs.values()} | set(needed)
    ordered = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    superfluous = [
        one.snapshot_id
        for one in ordered[:-KEEP_SNAPSHOTS]
        if one.timestamp_ms < before and one.snapshot_id not in held
    ]
    if len(superfluous) < AT_ONCE:
        return 0
    unused = _held_by_these_alone(table, ordered, frozenset(superfluous))
    with suppress(CommitFailedException):
        table.maintenance.expire_snapshots().by_ids(superfluous).commit()
        for path in unused:
            with suppress(OSError):  # a file that cannot be removed is an orphan, which harms nothing
                table.io.delete(path)
        return len(superfluous)
    return 0


def _held_by_these_alone(table: Table, ordered: Sequence[Snapshot], gone: frozenset[int]) -> list[str]:
    """Return the paths that no Iceberg snapshot needs once the snapshots ``gone`` have gone.

    ``ordered`` are all Iceberg snapshots of the table, each the parent of the next. A data file that one of them deleted is
    needed only by earlier ones, so it can go if all earlier ones go.
    """
    stay = [one for one in ordered if one.snapshot_id not in gone]
    kept = {manifest.manifest_path for one in stay for manifest in one.manifests(table.io)}
    found: list[str] = []
    all_before_go = True
    for snapshot in ordered:
        manifests = snapshot.manifests(table.io)
        if all_before_go and snapshot is not ordered[0]:
            found += [
                entry.data_file.file_path
                for manifest in manifests
                if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.deleted_files_count
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id == snapshot.snapshot_id
            ]
        if snapshot.snapshot_id not in gone:
            all_before_go = False
            continue
        found += [one.manifest_path for one in manifests if one.manifest_path not in kept]
        if snapshot.manifest_list:
            found.append(snapshot.manifest_list)
    return list(dict.fromkeys(found))
