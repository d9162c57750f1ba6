"""One run at a time of a subscription's tables, on one host: Dagster's pool says so too, but only to runs that it queues."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dts_assets.store.catalog import LakeLocation


@contextmanager
def turn(lake: LakeLocation, name: str, *, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of ``name`` in the lake; ``on_wait`` is called if somebody else holds it first.

    The kernel frees the lock when its holder dies. On a warehouse that is no local folder there is none: there the pool alone
    keeps runs apart, and a commit that lost the race is refused by the catalog.
    """
    folder = lake.local_path
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
