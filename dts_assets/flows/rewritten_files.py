"""Files of several tables that Spark tasks write.

A task that fails concerns its table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dts_assets.flows.pipeline import SparkProvider
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.store.files import WrittenFile


class FileTask(Protocol):
    """A task that reads files of one table and writes others in their place."""

    @property
    def bytes(self) -> int:
        """The bytes that it reads."""
        ...


Task = TypeVar("Task", bound=FileTask)


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """The files of the tables whose tasks all succeeded, and a fault of each other table."""

    files: Mapping[TableId, tuple[WrittenFile, ...]]
    faults: Mapping[TableId, Fault]


def rewrite_files(
    spark: SparkProvider,
    work: Mapping[TableId, Sequence[Task]],
    write: Callable[[Task, str], tuple[WrittenFile, ...] | Fault],
) -> RewrittenFiles:
    """Run the tasks of all tables together, and return the files that they wrote.

    Without any task no session of Spark is asked for. Files of a table with a fault are in no commit: they are orphans.
    """
    tasks = [(table, task) for table, some in work.items() for task in some]
    done = run_tasks(spark(), [task for _, task in tasks], write, weight=lambda task: task.bytes) if tasks else ()
    files: dict[TableId, tuple[WrittenFile, ...]] = dict.fromkeys(work, ())
    faults = dict[TableId, Fault]()
    for (table, _), written in zip(tasks, done, strict=True):
        if isinstance(written, Fault):
            faults[table] = written
        else:
            files[table] += written
    return RewrittenFiles({table: some for table, some in files.items() if table not in faults}, faults)
