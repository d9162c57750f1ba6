"""Files of a store, opened to be read or written.

Each process has one client for a store's properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from dts_assets.errors.damage import DamagedFileError, FileOwner, remember_folders
from dts_assets.store.damage import damage_named
from dts_assets.store.file_stores import FileStore, prepare_clients

_JOINED = re.compile("_x([0-9a-f]{2})_|__")
"""An escape, or the joint of two parts."""


@contextmanager
def open_parquet(store: FileStore, path: str) -> Iterator[pq.ParquetFile]:
    """Open a file of a store for the length of the block, in which it is read.

    Raises:
        ExpiredCredentialsError: The vended credentials of the store have expired.
        DamagedFileError: The file is damaged or missing.
    """
    source = file_io(store, path).new_input(path)
    try:
        with (
            store.explained(),
            damage_named(source),
            source.open() as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as opened,
        ):
            yield opened
    except DamagedFileError:
        if store.table and not FileOwner.of(path).is_of_one_table:  # a task has opened no table
            remember_folders(_key_of(store.table), [path.rpartition("/")[0]])
        raise


def _key_of(name: str) -> list[str]:
    """Return the asset key of a table by its name in a catalog; see ``table_identifier``."""
    subscription, *parts = name.replace("~", "%").split(".")
    if len(parts) == 1 and "__" in parts[0]:
        apart = _JOINED.sub(lambda found: f"%{found[1]}" if found[1] else "/", parts[0])
        parts = [unquote(part) for part in apart.split("/")]
    return [subscription, *parts]


def file_io(store: FileStore, location: str) -> FileIO:
    """Return the client of a store for a location, local or remote.

    There is one for each process and set of properties.
    """
    scheme = location.partition("://")[0] if "://" in location else ""
    return _file_io(tuple(sorted(store.properties.items())), scheme)


@lru_cache(maxsize=64)  # a catalog that vends credentials names others for each table
def _file_io(properties: tuple[tuple[str, str], ...], scheme: str) -> FileIO:
    prepare_clients(dict(properties))
    return load_file_io(dict(properties), f"{scheme}://" if scheme else None)
