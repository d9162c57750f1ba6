"""Every test that is long has a smaller one in its module, or in a place that is named here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HOUSE = Path(__file__).parents[2]

SMALLER_ELSEWHERE = {
    "tests/remote/test_two_runs.py": "tests/flows/test_interleaved.py",
    # Moments of a lake in a real store: the same of a lake on a disk.
    "tests/remote/test_remote_maintenance.py": "tests/flows/test_maintenance.py",
    "tests/remote/test_remote_moments.py": "tests/flows/test_moments.py",
    # Clusters of real processes: the look at them with stand-ins, which say what Spark says.
    "tests/remote/test_clusters.py": "tests/flows/test_executors.py",
    # A real store and a real catalog: what their clients are told, and which keys go to tasks.
    "tests/remote/test_strict_store.py": "tests/store/test_file_stores.py",
    # The example through Dagster, judged by its dump: a smaller lake is made by the same command.
    "tests/e2e/test_demo.py": "tests/e2e/test_backfills.py",
    # Readers of live changelogs: the same readers between the runs of a pipeline.
    "tests/live/test_followers.py": "tests/flows/test_following.py",
    # Huawei DRS followed live: the same topic from a recording, in any order.
    "tests/live/test_other_format.py": "tests/flows/test_drs_json_c.py",
    # Random days whose old rows leave: days that are told, and every table compared with those of a lake that keeps all.
    "tests/flows/test_message_retention_random.py": "tests/flows/test_message_retention.py",
    # A live pipeline under faults: what a fault is, and a live pipeline that is interrupted.
    "tests/live/test_soak.py": "tests/live/test_live.py",
    # A busy database and its content at every cut: the same database followed by a task.
    "tests/e2e/test_at_gtid.py": "tests/dts_emulator/tasks/test_follow.py",
    # Tables as of random transactions of a busy database: those of a recorded source, judged by its model.
    "tests/e2e/test_moments_of_a_database.py": "tests/flows/test_moments.py",
    # A lake whose old Iceberg snapshots have gone goes on: which of them go, and which are pinned.
    "tests/flows/test_upkeep.py": "tests/store/test_expiry.py",
    # Spark's engine for snapshots, the judge of the one in Arrow: the latter against a model.
    "tests/oracles/test_absent_in_spark.py": "tests/stages/test_row_folds.py",
    "tests/oracles/test_snapshot_in_spark.py": "tests/stages/test_snapshot_in_arrow.py",
    "tests/oracles/test_both_engines.py": "tests/stages/test_row_folds.py",
    # A broker that restarts under the group's questions: one that goes away under a reader.
    "tests/sources/test_kafka_group.py": "tests/sources/test_kafka_faults.py",
}


def is_long(node: ast.AST) -> bool:
    """Whether an expression is ``pytest.mark.long``."""
    return isinstance(node, ast.Attribute) and node.attr == "long"


def named_in(path: Path) -> dict[str, bool]:
    """The tests of a module, and whether each is long: ``{"test_a_killed_run": True}``."""
    found = {}
    tree = ast.parse(path.read_text())
    everywhere = any(
        is_long(part)
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "pytestmark" for one in node.targets)
        for part in ast.walk(node.value)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = everywhere or any(map(is_long, node.decorator_list))
    return found


def test_every_long_test_has_a_smaller_one() -> None:
    modules = {path.relative_to(HOUSE).as_posix(): named_in(path) for path in (HOUSE / "tests").rglob("test_*.py")}
    alone = {name for name, tests in modules.items() if tests and all(tests.values())}
    assert alone == SMALLER_ELSEWHERE.keys()
    assert any(any(tests.values()) for name, tests in modules.items() if name not in alone)
    for elsewhere in SMALLER_ELSEWHERE.values():
        assert not all(modules[elsewhere].values())


def test_all_tests_of_a_file_are_given_to_one_process() -> None:
    """As ``make test`` shares them out: otherwise each process makes the fixtures of every module."""
    (options,) = re.findall(r"^SHARED_OUT = -n \$\(WORKERS\) (.*)$", (HOUSE / "Makefile").read_text(), re.M)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", "2", *options.split()]
    done = subprocess.run([*command, "tests/errors"], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    workers = defaultdict(set)
    for worker, file in re.findall(r"^\[(gw\d)\].* PASSED (.*?)::", done.stdout, re.M):
        workers[file].add(worker)
    assert len(workers) > 1
    assert all(len(some) == 1 for some in workers.values())
    assert len(set().union(*workers.values())) == 2
