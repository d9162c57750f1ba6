"""Files of the lake that a table outside of it names, and that have left the lake since.

A table of a moment begins as a version of the lake's own table, which nothing keeps from expiring.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyiceberg.table import Table

from dts_assets.errors import LakeTableError

_SIDE_BY_SIDE = 8
_LEFT = "its rows are those of a version of the lake's table, which has expired since, and its files have gone with it"
_WAY_OUT = "ask for the moment again; rows that dts-assets as-of writes stay"


@contextmanager
def explained_absence(table: Table) -> Iterator[None]:
    """Explain an error of a reader that comes from files that are gone.

    Raises:
        LakeTableError: The table has failed, and files that it names are gone.
        Exception: It has failed for another reason.
    """
    try:
        yield
    except Exception as error:
        if files_are_there(table):
            raise
        raise LakeTableError(".".join(table.name()), _LEFT, _WAY_OUT) from error


def require_files(table: Table) -> None:
    """Refuse a table that names files that are gone.

    Raises:
        LakeTableError: Such files are gone.
    """
    if not files_are_there(table):
        raise LakeTableError(".".join(table.name()), _LEFT, _WAY_OUT)


def files_are_there(table: Table) -> bool:
    """Return whether all files of a table's present version are there.

    Each is asked for, and none is read but manifests.
    """
    try:
        tasks = list(table.scan().plan_files())
    except FileNotFoundError:
        return False
    paths = {one.file_path for task in tasks for one in (task.file, *task.delete_files)}
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return all(pool.map(lambda path: table.io.new_input(path).exists(), sorted(paths)))
