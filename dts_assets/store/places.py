"""The places of a lake, looked at before anything is made there. Only the standard library is needed.

The looks change nothing. A folder is tried by a file without a name, because permissions alone do not show a read-only or full
disk, and a superuser has all permissions.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from dts_assets.errors import UnwritableLakeError

_NOT_IN_LOCATIONS = "#?%"
"""Characters of a path that the location of an Iceberg table cannot carry."""


def require_lake_folder(folder: Path) -> None:
    """Raise an error unless a lake can be made and written in a folder. The folder need not exist yet.

    Raises:
        UnwritableLakeError: The path cannot be used, or it or the folder above it cannot be written.
    """
    if any(sign in str(folder) for sign in _NOT_IN_LOCATIONS):
        raise UnwritableLakeError(str(folder), "its path has one of # ? %, which table locations cannot carry")
    if (trouble := folder_trouble(folder)) is not None:
        raise UnwritableLakeError(str(folder), trouble)


def require_catalog_file(file: Path) -> None:
    """Raise an error unless a SQLite catalog can be made or written in a file.

    A database that another process has locked is fine.

    Raises:
        UnwritableLakeError: The file or its folder cannot be written, or the file is no database.
    """
    require_lake_folder(file.parent)
    if not file.exists():
        return
    if not os.access(file, os.W_OK):
        raise UnwritableLakeError(str(file), "permission denied")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=0)) as opened:
            opened.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        if "locked" not in str(error):
            raise UnwritableLakeError(str(file.parent), f"its catalog {file.name} cannot be opened") from None


def folder_trouble(folder: Path) -> str | None:
    """Return the reason why a folder cannot be made or written; None without one."""
    try:
        return _trouble(folder)
    except OSError as error:
        return clause_of(error)


def _trouble(folder: Path) -> str | None:
    for place in (folder, *folder.parents):
        try:
            place.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not place.is_dir():
            return "there is a file of that name" if place == folder else f"{place} is a file"
        with tempfile.TemporaryFile(dir=place):
            return None
    return "there is no such place"


def clause_of(error: OSError) -> str:
    """Return the system's words for an error as a clause."""
    return (error.strerror or "it cannot be made").lower()
