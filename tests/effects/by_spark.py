"""Effects of a real Spark: its jobs of tasks, and its merges of snapshots."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from dts_assets.flows import snapshots, spark_tasks
from tests.effects.effects import EffectFailed, Effects, Way

_GOES_ON_AFTER = (1, 2, 10_000)
"""Calls of the catalog after which a merge that was given up goes on: before its branch is removed, or when all is done."""


def catch_spark(effects: Effects, patch: pytest.MonkeyPatch, catalog: Path) -> None:
    """Have jobs and merges counted; ``catalog`` is the database of Spark's catalog."""
    run, write = spark_tasks._run_job, snapshots._write

    def job(spark: Any, slots: Sequence[Sequence[int]], tasks: Any, work: Any) -> Any:
        way = effects.way_of("job of tasks")
        some = slots[: len(slots) // 2] if way is Way.CUT else slots
        results = run(spark, some, tasks, work) if some and way is not Way.REFUSED else {}
        if way is not None:
            raise EffectFailed("the results of the tasks were lost")
        return results

    def merge(pipeline: Any, planned: Any, spark: Any, branch: str) -> None:
        way = effects.way_of(f"merge by Spark of {planned.table}")
        if way is Way.CUT:
            after = Random(effects.fails).choice(_GOES_ON_AFTER)
            effects.later(lambda: write(pipeline, planned, spark, branch), after)
            raise EffectFailed("Spark does not answer")
        if way is Way.REFUSED:
            with _refusing(catalog):
                write(pipeline, planned, spark, branch)
            raise AssertionError("Spark's commit was not refused")
        write(pipeline, planned, spark, branch)
        if way is Way.UNHEARD:
            raise CommitStateUnknownException("504")

    patch.setattr(spark_tasks, "_run_job", job)
    patch.setattr(snapshots, "_write", merge)


@contextmanager
def _refusing(catalog: Path) -> Iterator[None]:
    """Have the database refuse each commit, after all files of it were written."""
    with closing(sqlite3.connect(catalog, timeout=60)) as database:
        database.execute(
            "CREATE TRIGGER refusing BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'made up for a test'); END"
        )
        database.commit()
        try:
            yield
        finally:
            database.execute("DROP TRIGGER refusing")
            database.commit()
