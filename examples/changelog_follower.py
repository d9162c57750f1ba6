"""A copy of a changelog that follows its commits, read with pyiceberg alone.

Take this file as it is, or as a model for an engine of your own: docs/following-a-changelog.md explains the rule behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

REPLACED_WINDOWS = "dts-assets.replaced-windows"
"""The entry of a commit's summary with the starts of the windows whose rows were replaced."""


@dataclass(frozen=True)
class Step:
    """The way from one version of a changelog to the present one.

    Remove the rows of the windows ``replaced`` (None: all rows) from your copy, add ``rows``, and remember ``version``. A window
    is told by its start, the value of the column ``window_start``, in UTC.
    """

    version: int | None
    replaced: frozenset[datetime] | None
    rows: pa.Table


def step_from(table: Table, version: int | None) -> Step:
    """Return the step from a version to the current one.

    A version is the id of an Iceberg snapshot; None stands for an empty copy.

    A version that has expired, or that a window was replaced since without a word on which one, gives a step from nothing.
    """
    table = table.refresh()
    head = table.current_snapshot()
    if head is None:
        return Step(None, frozenset(), _as_declared(table.scan().to_arrow(), table))
    if version == head.snapshot_id:
        return Step(version, frozenset(), _as_declared(table.scan(limit=0).to_arrow(), table))
    replaced = None if version is None else _replaced(list(_commits_since(table, version)), version)
    if replaced is None:
        return Step(head.snapshot_id, None, _as_declared(table.scan().to_arrow(), table))
    added = table.incremental_append_scan(from_snapshot_id_exclusive=version)
    if not replaced:
        return Step(head.snapshot_id, replaced, _as_declared(added.to_arrow(), table))
    starts = ", ".join(f"'{one.isoformat()}'" for one in sorted(replaced))
    others = added.filter(f"window_start not in ({starts})").to_arrow()
    again = table.scan(row_filter=f"window_start in ({starts})").to_arrow()
    return Step(head.snapshot_id, replaced, pa.concat_tables([_as_declared(one, table) for one in (others, again)]))


def _as_declared(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows with the types of the table.

    pyiceberg reads texts of files as one type, and of no file as another.
    """
    return rows.cast(table.schema().as_arrow())


def _commits_since(table: Table, version: int | None) -> Iterator[Snapshot]:
    """Yield the commits behind a version, the latest first, as far as the table remembers."""
    commit = table.current_snapshot()
    while commit is not None and commit.snapshot_id != version:
        yield commit
        commit = None if commit.parent_snapshot_id is None else table.snapshot_by_id(commit.parent_snapshot_id)


def _replaced(commits: list[Snapshot], version: int) -> frozenset[datetime] | None:
    """Return the windows that commits replaced; None if that is not known."""
    if commits[-1].parent_snapshot_id != version:
        return None  # the version has expired
    found: set[datetime] = set()
    for commit in commits:
        summary = commit.summary
        if summary is None:
            return None
        if summary.operation in (Operation.APPEND, Operation.REPLACE):
            continue  # new rows, and files that were put together
        told = summary.additional_properties.get(REPLACED_WINDOWS)
        if told is None:
            return None
        found.update(map(datetime.fromisoformat, told.split(",")))
    return frozenset(found)
