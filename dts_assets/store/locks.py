"""Locks of one host.

They keep apart runs that would disturb each other (Dagster's pool does so, too, but only for runs that it queues), and commits
of one table.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from dts_assets.store.catalog import LakeLocation


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file, which is made; ``on_wait`` is called if another holds it.

    The kernel frees it when its holder dies.
    """
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def hold_lock(lake: LakeLocation, name: str, *, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
    """Return the lock of ``name`` in the lake; ``on_wait`` is called if another run holds it.

    On a warehouse that is no local folder there is no lock: there the pool alone keeps runs apart, and a commit that lost the
    race is refused by the catalog.
    """
    folder = lake.local_path
    if folder is None:
        return nullcontext()
    folder.mkdir(parents=True, exist_ok=True)
    return locked(folder / f".{name}.lock", on_wait)


def table_lock(table: Table) -> AbstractContextManager[None]:
    """Return a lock under which the writers of one machine commit one after another.

    Without it three writers of one table kept a fourth waiting for up to 20 s; with it for 1 to 2.5 s. Correctness does not
    rest on it.
    """
    scheme, separator, path = table.location().rpartition("://")
    local = not separator or scheme == "file"
    return locked(Path(path) / "metadata" / ".commit-lock") if local else nullcontext()
