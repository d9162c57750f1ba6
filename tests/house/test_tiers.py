"""Every test belongs to one tier and to one part of ``make test-all``; one that is long has a smaller one beside it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tiers import FIRST, MORE, MOST_CASES, PARTS, marks_of_module, may_hold, part_of

HOUSE = Path(__file__).parents[2]

SMALLER_ELSEWHERE = {
    "tests/remote/test_two_runs.py": "tests/flows/test_interleaved.py",
    # Moments of a lake in a real store: the same of a lake on a disk.
    "tests/remote/test_remote_damage.py": "tests/flows/test_damaged_files.py",
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


def test_every_promise_names_a_test_that_continuous_integration_runs() -> None:
    table = (HOUSE / "docs" / "trust.md").read_text().partition("## Promised")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 30
    named = {row[0].removeprefix("| "): re.findall(r"`(tests/[^`]+)`", row[1]) for row in rows}
    only_long = {
        promise for promise, paths in named.items() if not any(has_tests_of_two_tiers(HOUSE / path) for path in paths)
    }
    assert {promise for promise in only_long if "MySQL" not in promise} == set()


def has_tests_of_two_tiers(path: Path) -> bool:
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return any(may_hold(file, tier) and not all(named_in(file).values()) for file in files for tier in (FIRST, MORE))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pytestmark = pytest.mark.more\n", {"more"}),
        ("X = 1\n\npytestmark = [pytest.mark.spark, pytest.mark.long]\n", {"spark", "long"}),
        ("pytestmark = [\n    pytest.mark.spark,\n    pytest.mark.more,\n]\nX = pytest.mark.long\n", {"spark", "more"}),
        ("@pytest.mark.more\ndef test_one() -> None: ...\n", set()),
        ("", set()),
    ],
)
def test_marks_of_a_module_are_read_without_importing_it(text: str, found: set[str]) -> None:
    assert marks_of_module(text) == found


def test_each_file_has_a_part_for_its_long_tests_and_one_for_the_others() -> None:
    names = [path.relative_to(HOUSE).as_posix() for path in (HOUSE / "tests").rglob("test_*.py")]
    assert names
    assert not any(part_of(name, is_long=False).is_long for name in names)
    assert all(part_of(name, is_long=True).is_long for name in names)


def test_parts_are_numbered_and_no_room_is_in_two() -> None:
    assert [part.number for part in PARTS] == list(range(1, len(PARTS) + 1))
    for is_long in (False, True):
        rooms = [room for part in PARTS if part.is_long is is_long for room in part.rooms]
        assert len(rooms) == len(set(rooms))


def collected(*options: str, tier: str = "") -> list[str]:
    """The names of the tests that pytest would run in a tier."""
    environment = {**os.environ, "DTS_ASSETS_TESTS": tier}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    done = subprocess.run(command, cwd=HOUSE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def functions(names: Iterable[str]) -> set[str]:
    return {name.partition("[")[0] for name in names}


@pytest.mark.more
def test_every_test_is_in_one_tier_and_in_one_part() -> None:
    """By what pytest itself collects for each target."""
    first, more, mysql = collected(), collected(tier="more"), collected("tests/mysql", "-m", "mysql")
    everything, long = collected(tier="all"), collected("-m", "long", tier="all")
    assert first
    assert more
    assert mysql
    assert not set(first) & set(more)
    assert not (set(first) | set(more)) & (set(long) | set(mysql))
    assert functions(everything) == functions(first) | functions(more) | functions(long)
    cases = Counter(name.partition("[")[0] for name in more if name.startswith("tests/flows/"))
    assert max(cases.values()) == MOST_CASES
    assert not functions(everything) & functions(mysql)
    parts = [
        collected("--part", str(part.number), "-m", "long" if part.is_long else "not long", tier="all")
        for part in PARTS
    ]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(everything)
    assert set().union(*parts) == set(everything)


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
