"""Old Iceberg snapshots leave a table's metadata, which every commit reads and writes whole.

Only the metadata: data files, manifests and manifest lists of expired snapshots stay where they are. Rows that a current snapshot
holds are never touched.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.typedef import Identifier

KEEP_SNAPSHOTS = 100
"""Snapshots that always stay, the newest ones."""

KEEP_FOR = timedelta(days=2)
"""How long a snapshot stays at least: longer than any run that reads a table as it stood when the run began."""

AT_ONCE = 50
"""Snapshots that must have become superfluous before a table is touched: each expiry is a commit of its own."""


def expire_snapshots(
    catalog: Catalog, identifier: Identifier, *, needed: Collection[int] = (), now: datetime | None = None
) -> int:
    """Expire what is neither among the newest, nor young, nor ``needed`` (snapshot ids); how many snapshots went.

    Branches and tags keep theirs. A table that is not there, or that somebody else is committing to, is left alone.
    """
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return 0
    before = ((now or datetime.now(UTC)) - KEEP_FOR).timestamp() * 1000
    held = {reference.snapshot_id for reference in table.metadata.refs.values()} | set(needed)
    ordered = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    superfluous = [
        one.snapshot_id
        for one in ordered[:-KEEP_SNAPSHOTS]
        if one.timestamp_ms < before and one.snapshot_id not in held
    ]
    if len(superfluous) < AT_ONCE:
        return 0
    with suppress(CommitFailedException):
        table.maintenance.expire_snapshots().by_ids(superfluous).commit()
        return len(superfluous)
    return 0
