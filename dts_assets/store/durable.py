"""Files of a local lake, brought to the disk before a commit names them.

A power failure leaves no commit without its files then. A catalog in SQLite is on the disk when a commit is answered, and
without this the files were in memory for half a minute more. They are synced by the process that commits, whichever process
wrote them: the kernel keeps one copy of a file for all processes. They are synced side by side and once for each commit, so that
a file system with a journal writes it few times. Other stores do so by themselves.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

_SIDE_BY_SIDE = 8

_MOST_FOLDERS = 100_000
_FOLDERS: set[tuple[str, int]] = set()
"""Folders that are known to be on the disk, each with its number in the file system."""

_NO_SYNC = (errno.EACCES, errno.EPERM, errno.EINVAL)
"""The errors of folders that nobody may open, or that a file system does not sync."""


def bring_to_disk(paths: Iterable[str]) -> None:
    """Sync files of a local disk, and the folders by which they are found.

    Folders above that this process has synced before are left out, and so are paths in other stores.

    Raises:
        OSError: The disk is full or broken, or a file is gone.
    """
    files = [Path(one.removeprefix("file://")) for one in paths if one.startswith(("file://", "/"))]
    new = {key: folder for file in files for key, folder in _unknown(file.parent)}
    folders = {*(file.parent for file in files), *(folder.parent for folder in new.values())}
    _do([*(partial(sync, one) for one in files), *(partial(sync_folder, one) for one in folders)])
    if len(_FOLDERS) > _MOST_FOLDERS:
        _FOLDERS.clear()
    _FOLDERS.update(new)


def _do(steps: Sequence[Callable[[], None]]) -> None:
    """Do steps side by side, or one after the other in a process that ends.

    Such a process begins no thread any more.
    """
    if not steps:
        return
    with ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(steps))) as pool:
        try:
            begun = [pool.submit(one) for one in steps]
        except RuntimeError:
            begun = []
    for one in begun:
        one.result()
    if not begun:
        for step in steps:
            step()


def bring_folder_to_disk(folder: Path) -> None:
    """Sync the entries by which a new folder is found."""
    new = dict(_unknown(folder))
    for one in new.values():
        sync_folder(one.parent)
    _FOLDERS.update(new)


def _unknown(folder: Path) -> Iterator[tuple[tuple[str, int], Path]]:
    """Yield a folder and those above it, up to one that is known to be on the disk."""
    for one in (folder, *folder.parents):
        key = (str(one), one.stat().st_ino)
        if key in _FOLDERS or one == one.parent:
            return
        yield key, one


def sync_folder(folder: Path) -> None:
    """Sync a folder, if its file system does so and it may be opened.

    Raises:
        OSError: The disk is broken, or the folder is gone.
    """
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync(path: Path) -> None:
    """Sync a file or folder, and wait until it is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
