"""Tables that leave the catalog, with those of their files that are theirs alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from dts_assets.errors import LakeTableError
from dts_assets.errors.damage import DamagedFileError
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.table_folders import may_go, place_of


@dataclass(frozen=True, slots=True)
class Dropped:
    """The outcome of a removal: the files that went with the table, and the named ones that stay."""

    files: int = 0
    left: int = 0


def drop_table(catalog: Catalog, identifier: Identifier, others: OtherTables | None = None) -> Dropped | None:
    """Remove a table from the catalog with the files that are its own; None without a table.

    Files stay that one of the ``others`` names (None: all tables of the catalog are asked), that lie in no folder of the table,
    or that another program wrote. All of them stay where the table forbids it, and where another table cannot be read, since
    nobody can say then. A table whose metadata are damaged leaves the catalog, and all its files stay.
    """
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return None
    except DamagedFileError:  # nobody can say which files are its own
        catalog.drop_table(identifier)
        return Dropped()
    named = dict(_named(table))
    mine = {path for path, metadata in named.items() if may_go(table, place_of(path), metadata=metadata)}
    try:
        asked = others or OtherTables(catalog, near=not table.metadata.snapshots)
        theirs = asked.naming(table, set(map(place_of, mine)))
    except LakeTableError:
        mine, theirs = set(), set()
    if table.properties.get("gc.enabled", "true").lower() == "false":
        mine = set()
    catalog.drop_table(identifier)
    files = 0
    for path in sorted(mine):
        if place_of(path) not in theirs:
            with suppress(OSError):
                table.io.delete(path)
                files += 1
    return Dropped(files, len(named) - files)


def _named(table: Table) -> Iterator[tuple[str, bool]]:
    """Yield the files that versions and metadata name, and whether they are files of metadata.

    A damaged file of metadata is among them; what it names is not known.
    """
    metadata = table.metadata
    for path in (table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)):
        yield path, True
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path, True
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list, True
        with suppress(Exception):  # whatever a damaged file makes its reader raise
            for manifest in snapshot.manifests(table.io):
                yield manifest.manifest_path, True
                with suppress(Exception):
                    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                        yield entry.data_file.file_path, False
