"""Files of a store, opened to be read or written.

Each process has one client for a store's properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from dts_assets.store.damage import damage_named
from dts_assets.store.file_stores import FileStore, prepare_clients


@contextmanager
def open_parquet(store: FileStore, path: str) -> Iterator[pq.ParquetFile]:
    """Open a file of a store for the length of the block, in which it is read.

    Raises:
        ExpiredCredentialsError: The vended credentials of the store have expired.
        DamagedFileError: The file is damaged or missing.
    """
    source = file_io(store, path).new_input(path)
    with (
        store.explained(),
        damage_named(source),
        source.open() as stream,
        pq.ParquetFile(stream, page_checksum_verification=True) as opened,
    ):
        yield opened


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
