"""The folders of tables, and which files in them a run of this project wrote.

Folders are shared: a property may name one for several tables, and other programs write into a table's location. So a file is
known as ours by its name, and never by its folder alone.
"""

from __future__ import annotations

import re

from pyiceberg.table import Table

OWN_SIGN = "dts-assets-"
"""The sign in the names of the manifests, and lists of manifests, that this project writes."""

FOLDER_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""The properties that name folders of a table beside its location."""

_DATA = re.compile(r"data/[^/]+/[^/]+-[0-9a-f]{32}(-deletes)?\.parquet")
_METADATA = re.compile(rf"metadata/[^/]*{OWN_SIGN}[^/]+\.avro")


def place_of(path: str) -> str:
    """Return a path without its scheme, which engines write differently: ``file:/lake``, ``file:///lake``; ``s3``, ``s3a``."""
    return re.sub(r"^(file:/*(?=/)|[a-z0-9]+://)", "", path)


def location_of(table: Table) -> str:
    """Return the place of a table's location, with a slash at the end."""
    return place_of(table.location()).rstrip("/") + "/"


def folders_of(table: Table) -> tuple[str, ...]:
    """Return the folders of a table: its location, and those that its properties name.

    They are written as :func:`place_of` does, with a slash at the end.
    """
    named = (table.properties[name] for name in FOLDER_PROPERTIES if name in table.properties)
    return (location_of(table), *(place_of(one).rstrip("/") + "/" for one in named))


def wrote(table: Table, place: str) -> bool:
    """Return whether a run of this project wrote a file, by its place below a table's location.

    Files of metadata have the names that Iceberg's catalogs give them, so they are not known by their names.
    """
    location = location_of(table)
    name = place.removeprefix(location)
    return place.startswith(location) and (_DATA.fullmatch(name) or _METADATA.fullmatch(name)) is not None


def may_go(table: Table, place: str, *, metadata: bool) -> bool:
    """Return whether a file that versions of a table name may go with the last of them.

    ``metadata`` says that it is one by which versions name others: a manifest or list, which stands for this table alone.
    """
    return place.startswith(folders_of(table)) if metadata else wrote(table, place)
