"""Orphans of a subscription's tables: files in their folders that no version names, found and removed.

The order protects commits that are under way. The folders are listed first and the table is read afterwards, so a file that was
committed in between is named. Files that nobody has committed yet are young, in a young folder, or of a run that holds a lease.
Before anything is removed the table is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from dts_assets.flows.maintained_tables import Path
from dts_assets.flows.pipeline import Pipeline
from dts_assets.planning.orphans import OrphanRule, orphans_among
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.strange_metadata import is_metadata, told_apart
from dts_assets.store.table_files import LyingFile, lying_files, named_places
from dts_assets.store.table_folders import location_of, wrote


@dataclass(frozen=True, slots=True)
class Orphans:
    """The orphans of a table, oldest first, as the table stood in the file of metadata ``read_from``.

    ``left`` is the number of files beside them that are as old and that no version names: they stay, since another table names
    them, or since no run of this project wrote them there.
    """

    read_from: str = ""
    files: tuple[LyingFile, ...] = ()
    left: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return sum(one.bytes for one in self.files)


def orphan_rule(pipeline: Pipeline, before: datetime) -> OrphanRule:
    """Return the rule for files that were written before an instant; runs that hold leases now are respected."""
    leases, _ = pipeline.ledger.leases()
    return OrphanRule(before, tuple(one.since for one in leases if one.held))


def folders_of_tables(tables: Mapping[Path, Table]) -> frozenset[str]:
    """Return the folders of some tables, as :func:`dts_assets.store.expiry.folders_of` writes them."""
    return frozenset(map(location_of, tables.values()))


def find_orphans(
    pipeline: Pipeline,
    path: Path,
    rule: OrphanRule,
    *,
    others: Collection[str] = (),
    naming: OtherTables | None = None,
) -> Orphans:
    """Return the orphans of a table.

    They are files that a run of this project wrote below the table's location, and that nobody names.

    There is none without a table, and none where its properties forbid that files are removed. ``others`` are the folders of
    tables, whose files are not looked at but for its own. ``naming`` are the tables that may name files of this one (None: all).

    Raises:
        LakeTableError: Another table, or one whose metadata lie there, cannot be read, so that nobody can say what it names.
    """
    table = pipeline.lake.table(path)
    if table is None or table.properties.get("gc.enabled", "true").lower() == "false":
        return Orphans()
    own = location_of(table)
    lying = list(lying_files(table, without=[one for one in others if one.startswith(own) and one != own]))
    table = pipeline.lake.table(path)  # what was committed since is named by it
    if table is None:
        return Orphans()
    named = named_places(table)
    old = {one.place: one for one in orphans_among(lying, named, rule)}
    mine = {place for place in old if wrote(table, place)}
    strange = [one.place for one in lying if is_metadata(table, one.place) and one.place not in named]
    ours, theirs = told_apart(table, strange) if mine or not old.keys().isdisjoint(strange) else (set(), set())
    mine = (mine | ours.intersection(old)) - theirs
    mine -= (naming or pipeline.other_tables()).naming(table, mine)
    found = sorted((old[place] for place in mine), key=lambda one: (one.written_at, one.place))
    return Orphans(table.metadata_location, tuple(found), len(old) - len(found))


def remove_orphans(pipeline: Pipeline, path: Path, found: Orphans) -> Sequence[LyingFile]:
    """Remove orphans that the table still does not name, and return the files that were removed.

    A file that cannot be removed stays an orphan.
    """
    table = pipeline.lake.table(path) if found.files else None
    if table is None:
        return ()
    named = named_places(table) if table.metadata_location != found.read_from else frozenset[str]()
    scheme, netloc, _ = PyArrowFileIO.parse_location(table.location(), table.io.properties)
    store = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, netloc)
    removed = []
    for one in found.files:
        if one.place not in named:
            with suppress(OSError):
                store.delete_file(one.place)
                removed.append(one)
    return removed
