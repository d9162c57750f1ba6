"""Files of metadata in a table's folder that the table does not name.

They are its own, or those of tables of other catalogs.

Two catalogs may have tables in one place: a second lake of the same warehouse, or a catalog that was lost and made anew. A file
of metadata says by an id which table it is of, and which files that table has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from dts_assets.errors import LakeTableError
from dts_assets.store.table_files import named_places
from dts_assets.store.table_folders import location_of

_METADATA = re.compile(r"metadata/\d+-[0-9a-f-]{36}\.metadata\.json")


def is_metadata(table: Table, place: str) -> bool:
    """Return whether a file below a table's location is named as files of metadata are."""
    location = location_of(table)
    return place.startswith(location) and _METADATA.fullmatch(place.removeprefix(location)) is not None


def told_apart(table: Table, places: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return which files of metadata are the table's own, and all files of the other tables.

    A file that is damaged is neither, and a table whose files are gone has none.

    Raises:
        LakeTableError: The newest metadata of another table name a file that is there and cannot be read.
    """
    ours, others = set[str](), dict[str, TableMetadata]()
    theirs = set[str]()
    for place in places:
        found = _read(table, place)
        if found is None or found.table_uuid != table.metadata.table_uuid:
            theirs.add(place)
        else:
            ours.add(place)
        if found is not None and place in theirs:
            known = others.get(str(found.table_uuid))
            if known is None or known.last_updated_ms < found.last_updated_ms:
                others[str(found.table_uuid)] = found
    for metadata in others.values():
        try:
            theirs |= named_places(Table(table.name(), metadata, "", table.io, table.catalog))
        except FileNotFoundError:  # it was removed, and only this is left of it
            continue
        except Exception as error:  # whatever a damaged or foreign file makes its reader raise
            raise LakeTableError(
                ".".join(table.name()),
                "a table of another catalog lies in its folder, and its files are not known, so none can be removed",
                "give one of the two tables a folder of its own",
            ) from error
    return ours, theirs


def _read(table: Table, place: str) -> TableMetadata | None:
    scheme, _, _ = PyArrowFileIO.parse_location(table.location(), table.io.properties)
    path = place if scheme == "file" else f"{scheme}://{place}"
    try:
        return FromInputFile.table_metadata(table.io.new_input(path))
    except Exception:  # whatever a damaged file makes its reader raise
        return None
