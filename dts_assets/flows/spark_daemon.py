"""The process that Python workers are forked from: Spark's own daemon with all imports of tasks.

A worker that imports them for itself spends a second of processor time before its first row, and Spark lets idle workers go
after a minute. Named by ``spark.python.daemon.module`` (store/session.py).

On a cluster the daemon comes with the rest of dts-assets in an archive. It imports what it can: where a package is missing, or
Python is another one, each task says so for itself, and the small job that looks at executors tells a person.

Before each task a worker reads the table of contents of each archive on its path again (``importlib.invalidate_caches`` in
``pyspark.worker_util``), and after it collects garbage. Where pyspark is installed, its archives hold nothing else, and objects
of imported modules are no garbage: without both a task costs a hundredth of a second instead of a sixth.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath

_OURS = "dts_assets.zip"
"""The name of our own archive on a cluster (store/package.py)."""

_ARCHIVES = ("pyspark.zip", "py4j-*-src.zip", "spark-core_*.jar")
_IMPORTED = ("ingest_tasks", "redelivered_tasks", "snapshot_tasks", "spark_tasks", "tables_tasks")


def without_archives(path: Sequence[str]) -> list[str]:
    """Return a module search path without the archives that Spark puts on it: ``["pyspark.zip", "lib"]`` gives ``["lib"]``."""
    return [place for place in path if not any(fnmatch(PurePath(place).name, archive) for archive in _ARCHIVES)]


def prefer_installed() -> None:
    """Import pyspark from where it is installed; from its archives if it is not."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    if not all(map(find_spec, ("pyspark", "py4j"))):
        sys.path[:] = given
    for place in set(given) - set(sys.path):
        sys.path_importer_cache.pop(place, None)


def import_tasks() -> None:
    """Import every module that a task may come from.

    Errors are those of imports.
    """
    for name in _IMPORTED:
        import_module(f"dts_assets.flows.{name}")


def forget_archive() -> None:
    """Let go of the readers of our own archive, one for each package in it.

    Most modules are imported by now, and each reader would read the archive's table of contents again before each task.
    """
    for place in [one for one in sys.path_importer_cache if _OURS in one]:
        del sys.path_importer_cache[place]


def main() -> None:
    """Import all that tasks need, then fork workers until Spark ends the process."""
    prefer_installed()
    with suppress(Exception):
        import_tasks()
        from dts_assets.store.package import package_digest  # an older Python cannot import it

        package_digest()
    forget_archive()
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
