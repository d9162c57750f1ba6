"""The versions of a table: whether it stands at the newest one that it ever had.

The ledger says what each table holds. A table that somebody sets back to an earlier Iceberg snapshot holds less, no mark knows
of it, and the next commit would stand on the earlier rows. So a table that was set back is refused, until it is set forward.
"""

from __future__ import annotations

from pyiceberg.table import Table

from dts_assets.errors import SetBackTableError


def refuse_set_back(table: Table) -> Table:
    """Return the table as it is, if it stands at its newest version.

    Iceberg logs each Iceberg snapshot that a table stood at. Those that were only staged, or committed to another branch, are not
    in that log. It is part of the metadata that a table is loaded with, so nothing is read.

    Raises:
        SetBackTableError: The table stands at an earlier version.
    """
    current = table.current_snapshot()
    if current is None:
        return table
    known = {one.snapshot_id: one.sequence_number or 0 for one in table.metadata.snapshots}
    stood_at = [entry.snapshot_id for entry in table.metadata.snapshot_log if entry.snapshot_id in known]
    newest = max(stood_at, key=lambda one: known[one], default=current.snapshot_id)
    if known[newest] > (current.sequence_number or 0):
        raise SetBackTableError(".".join(table.name()), current=current.snapshot_id, newest=newest)
    return table
