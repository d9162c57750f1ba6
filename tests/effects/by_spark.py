"""Effects of a real Spark: its jobs of tasks, and its jobs that share changes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dts_assets.flows import snapshot_merges, spark_tasks
from tests.effects.effects import EffectFailed, Effects, Way


def catch_spark(effects: Effects, patch: pytest.MonkeyPatch) -> None:
    """Have jobs counted."""
    run, share = spark_tasks._run_job, spark_tasks.run_shuffled

    def job(spark: Any, slots: Sequence[Sequence[int]], tasks: Any, work: Any) -> Any:
        way = effects.way_of("job of tasks")
        some = slots[: len(slots) // 2] if way is Way.CUT else slots
        results = run(spark, some, tasks, work) if some and way is not Way.REFUSED else {}
        if way is not None:
            raise EffectFailed("the results of the tasks were lost")
        return results

    def shares(spark: Any, tasks: Sequence[Any], split: Any, merge: Any, **more: Any) -> Any:
        way = effects.way_of("job that shares changes out")
        some = tasks[: len(tasks) // 2] if way is Way.CUT else tasks
        results = share(spark, some, split, merge, **more) if some and way is not Way.REFUSED else []
        if way is not None:
            raise EffectFailed("the results of the tasks were lost")
        return results

    patch.setattr(spark_tasks, "_run_job", job)
    patch.setattr(snapshot_merges, "run_shuffled", shares)
