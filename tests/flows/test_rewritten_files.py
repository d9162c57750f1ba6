"""Files of several tables are written by tasks that run together, and a task that fails concerns its table alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dts_assets.flows.rewritten_files import RewrittenFiles, rewrite_files
from dts_assets.flows.this_process import this_process
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.store.files import WrittenFile

ORDERS, ITEMS, EMPTY = (TableId("shopdb", "", name) for name in ("orders", "items", "empty"))
FAULT = Fault("changelog", "ValueError at line 1")


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    fails: bool = False
    bytes: int = 1


def write(task: Task, attempt: str) -> tuple[WrittenFile, ...] | Fault:
    return FAULT if task.fails else (WrittenFile(task.name, (), 1, task.bytes),)


def names(found: RewrittenFiles) -> dict[TableId, list[str]]:
    return {table: [one.path for one in files] for table, files in found.files.items()}


def test_a_table_with_a_failed_task_has_a_fault_and_no_files() -> None:
    work = {
        ORDERS: [Task("a", bytes=1), Task("b", bytes=9)],
        ITEMS: [Task("c"), Task("d", fails=True), Task("e")],
        EMPTY: [],
    }
    found = rewrite_files(this_process, work, write)
    assert names(found) == {ORDERS: ["a", "b"], EMPTY: []}
    assert found.faults == {ITEMS: FAULT}


def test_without_a_task_no_session_is_asked_for() -> None:
    def spark() -> Any:
        raise AssertionError("no session is needed")

    assert rewrite_files(spark, {EMPTY: list[Task]()}, write) == RewrittenFiles({EMPTY: ()}, {})
