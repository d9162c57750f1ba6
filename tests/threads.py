"""No test leaves a thread running: one that a test started once wrote to a table of the next test."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

SECONDS = 10.0
"""How long a thread may take to end after its test: only a thread that never ends takes as long."""

PERMITTED = {
    "dts-assets-leases": "renews the leases of the process; another fixture makes it forget the lakes of a test",
    "pydevd": "belongs to a debugger",
}
"""Beginnings of the names of threads that live as long as the process, each with the reason."""


def started_since(before: Collection[threading.Thread]) -> list[threading.Thread]:
    """Return threads that run and did not before, less those that may live as long as the process."""
    permitted = {*before, *_of_shared_pools()}
    return [thread for thread in threading.enumerate() if thread not in permitted and not _lives_on(thread)]


def still_running(before: Collection[threading.Thread], seconds: float = SECONDS) -> list[str]:
    """Return the names of threads that were started and still run after some seconds; nothing as soon as all have ended."""
    end = time.monotonic() + seconds
    while (found := started_since(before)) and time.monotonic() < end:
        try:
            found[0].join(min(0.1, seconds))
        except RuntimeError:  # another thread is just starting it
            time.sleep(0.001)
    return [thread.name for thread in found]


def _lives_on(thread: threading.Thread) -> bool:
    """Whether a thread lives as long as the process: by its name, one of Spark's session, or one that Python did not start."""
    owner = getattr(getattr(thread, "_target", None), "__self__", thread)
    return (
        thread.name.startswith(tuple(PERMITTED))
        or isinstance(thread, threading._DummyThread)
        or type(owner).__module__.startswith(("py4j.", "pyspark."))
    )


def _of_shared_pools() -> set[threading.Thread]:
    """Threads of the pool that pyiceberg keeps for the whole process. They wait for work."""
    from pyiceberg.utils.concurrent import ExecutorFactory

    pool = ExecutorFactory._instance
    return set(pool._threads) if isinstance(pool, ThreadPoolExecutor) else set()
