"""The retention of tags: moments that are too old, or hold too many bytes, lose all tags.

A tag of a moment is named ``cut-...``. Tags and branches with other names are people's own, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from dts_assets.flows.maintained_tables import Path
from dts_assets.flows.pipeline import Pipeline
from dts_assets.planning.tag_retention import TaggedMoment, moments_that_go
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.iceberg_tables import TRIED_AGAIN
from dts_assets.store.table_files import HeldFiles

PREFIX = "cut-"
"""The beginning of the names of tags that are removed."""


def remove_old_tags(
    pipeline: Pipeline,
    paths: Sequence[Path],
    *,
    after: timedelta | None,
    most: int | None,
    now: datetime,
    dry_run: bool = False,
) -> Mapping[str, Sequence[Path]]:
    """Remove tags of old moments, and of the oldest ones while too much is held for tags.

    Old is what was made longer ago than ``after``; too much are more than ``most`` bytes. None stands for no bound. The tables
    that lose each tag are returned. The versions go by the next expiry.
    """
    if after is None and most is None:
        return {}
    tables = {path: table for path in paths if (table := pipeline.lake.table(path)) is not None}
    moments = _moments(tables, sized=most is not None)
    going = moments_that_go(moments, before=None if after is None else now - after, most=most)
    found = {name: [path for path, table in tables.items() if name in table.metadata.refs] for name in going}
    if not dry_run:
        for path, table in tables.items():
            _remove(pipeline, path, [name for name in going if name in table.metadata.refs])
    return found


def _moments(tables: Mapping[Path, Table], *, sized: bool) -> list[TaggedMoment]:
    """Return the tagged moments of some tables, each with the files that versions hold for its tags."""
    times: dict[str, list[datetime]] = {}
    files: dict[str, dict[str, int]] = {}
    for table in tables.values():
        tagged = _tagged(table)
        held = HeldFiles(table)
        others = {one.snapshot_id for one in tagged.values()}
        free = held.of(one for one in table.metadata.snapshots if one.snapshot_id not in others) if sized else {}
        for name, snapshot in tagged.items():
            times.setdefault(name, []).append(datetime.fromtimestamp(snapshot.timestamp_ms / 1000).astimezone())
            mine = files.setdefault(name, {})
            if sized and snapshot.snapshot_id != table.metadata.current_snapshot_id:
                mine |= {place: one.bytes for place, one in held.of([snapshot]).items() if place not in free}
    return [TaggedMoment(name, max(some), files[name]) for name, some in times.items()]


def _tagged(table: Table) -> dict[str, Snapshot]:
    """Return the versions that tags of moments name."""
    refs = table.metadata.refs.items()
    names = {name: ref.snapshot_id for name, ref in refs if ref.snapshot_ref_type == SnapshotRefType.TAG}
    found = {name: table.snapshot_by_id(number) for name, number in names.items() if name.startswith(PREFIX)}
    return {name: snapshot for name, snapshot in found.items() if snapshot is not None}


def _remove(pipeline: Pipeline, path: Path, names: Iterable[str]) -> None:
    names = list(names)
    if not names:
        return

    def attempt() -> None:
        table = pipeline.lake.table(path)
        there = [] if table is None else [name for name in names if name in table.metadata.refs]
        if table is None or not there:
            return
        manager = table.manage_snapshots()
        for name in there:
            manager = manager.remove_tag(name)
        manager.commit()

    until_it_gets_through(".".join(path), attempt, lost=TRIED_AGAIN)
