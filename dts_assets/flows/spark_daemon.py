"""The process that Python workers are forked from: Spark's own daemon with all imports of tasks.

A worker that imports them for itself spends a second of processor time before its first row, and Spark lets idle workers go
after a minute. Named by ``spark.python.daemon.module`` (store/session.py).
"""

from __future__ import annotations

from pyspark.daemon import manager

from dts_assets.flows import (  # noqa: F401
    ingest_tasks,
    redelivered_tasks,
    snapshot_tasks,
    spark_tasks,
    tables_tasks,
)

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
