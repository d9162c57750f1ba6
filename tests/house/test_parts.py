"""``make test-all`` counts results of one commit, goes on where it was interrupted, and keeps the examples that failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers

from tests.parts.coverage_of_rooms import covered, too_low
from tests.parts.results import LONGEST, Result, command, commit_of, counts, found_examples, kept, left, load, store
from tests.threads import PERMITTED, still_running
from tests.tiers import PARTS, TIER, tier_of

HOUSE = Path(__file__).parents[2]
GOOD = Result(part=2, commit="a" * 40, passed=9, failed=0, skipped=1, seconds=61.5, seed=7, exit_code=0)


def test_what_passed_on_this_commit_is_not_run_again() -> None:
    failed, slow = replace(GOOD, part=3, exit_code=1, failed=1), replace(GOOD, part=4, seconds=LONGEST + 1)
    assert left([GOOD, failed, slow], [1, 2, 3, 4, 5]) == [1, 3, 4, 5]


def test_results_of_another_commit_do_not_count() -> None:
    assert kept([GOOD, replace(GOOD, part=3, commit="b" * 40)], "a" * 40) == [GOOD]


def test_a_result_is_stored_and_says_its_part_its_commit_and_its_time(tmp_path: Path) -> None:
    file = tmp_path / "build" / "test-all.json"
    assert load(file) == []
    store(file, [GOOD])
    assert load(file) == [GOOD]
    assert GOOD.sentence() == f"part 2 of {len(PARTS)} on aaaaaaaaaaaa: 9 passed, 0 failed, 1 skipped, 1:01 min, seed 7"
    assert replace(GOOD, exit_code=2).sentence().endswith("✗ exit code 2")
    assert replace(GOOD, seconds=LONGEST + 1).sentence().endswith("✗ too long")


def test_long_tests_run_one_by_one_and_all_parts_draw_from_the_seed(tmp_path: Path) -> None:
    for part in PARTS:
        words = command(part, seed=5, workers=2, report=tmp_path / "report.xml")
        assert ("-n" in words) is not part.is_long
        assert "--hypothesis-seed=5" in words


FAILING = """\
from hypothesis import given, strategies as st

@given(st.integers())
def test_small(number: int) -> None:
    assert number < 100

def test_right() -> None: ...
"""


def test_an_example_that_fails_is_taken_from_the_report(tmp_path: Path) -> None:
    (tmp_path / "test_drawn.py").write_text(FAILING)
    report = tmp_path / "report.xml"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_drawn.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert counts(report) == (1, 1, 0)
    ((test, example),) = found_examples(report)
    assert test == "test_drawn.test_small"
    assert "number=100" in example.replace(" ", "")


def test_a_checkout_with_changes_is_noticed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    commit, is_clean = commit_of(tmp_path)
    assert (len(commit), is_clean) == (40, True)
    (tmp_path / "new").write_text("")
    assert commit_of(tmp_path) == (commit, False)


RUNNER = """
import sys
from pathlib import Path
from tests.parts import __main__ as runner
folder = Path(sys.argv[1])
runner.BUILD, runner.RESULTS = folder, folder / "test-all.json"
runner.commit_of = lambda root: ("c" * 40, True)
program = Path(sys.argv[2]).read_text()
runner.command = lambda part, **_: [sys.executable, "-c", program, str(part.number)]
sys.exit(runner.main(sys.argv[3:]))
"""
WAITS = "import time; print('it runs', flush=True); time.sleep(600)"
FAILS_IN_PART_3 = "import sys; sys.exit(sys.argv[1] == '3')"


def runner(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    """``make test-all`` with another program in the place of pytest."""
    (folder / "program.py").write_text(program)
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder), str(folder / "program.py"), *arguments],
        cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_part_that_is_interrupted_does_not_count_and_no_other_one_is_run(tmp_path: Path) -> None:
    with runner(tmp_path, WAITS, "--part", "2") as process:
        assert process.stdout is not None
        assert any("it runs" in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "Interrupted: part 2 does not count" in rest
    assert "Traceback" not in rest.partition("Interrupted")[2]
    assert load(tmp_path / "test-all.json") == []


def test_a_part_that_failed_is_run_again_and_what_passed_is_not(tmp_path: Path) -> None:
    numbers = [part.number for part in PARTS]
    store(tmp_path / "test-all.json", [replace(GOOD, part=number, commit="c" * 40) for number in (0, 1, 2)])
    first, _ = runner(tmp_path, FAILS_IN_PART_3).communicate(timeout=60)
    assert [result.part for result in load(tmp_path / "test-all.json")] == [0, *numbers]
    assert "parts that have not passed on this commit: 3\n" in first
    again, _ = runner(tmp_path, "").communicate(timeout=60)
    assert again.count("part 3 of") == 3, "when it begins, when it ends, and in the list"
    assert again.count("part 4 of") == 1
    assert again.endswith("all parts passed\n")


def test_lines_are_counted_room_by_room_and_a_room_that_was_not_measured_is_too_low() -> None:
    def lines(ran: int, count: int) -> dict[str, dict[str, int]]:
        return {"summary": {"covered_lines": ran, "num_statements": count}}

    report = {
        "files": {
            "dts_assets/planning/a.py": lines(70, 100),
            "dts_assets/planning/b/c.py": lines(100, 100),
            "dts_assets/wire/d.py": lines(79, 100),
            "dts_assets/stages/e.py": lines(8, 10),
            "dts_assets/definitions.py": lines(1, 2),
        }
    }
    found = covered(report)
    assert found == {"planning": 85.0, "wire": 79.0, "stages": 80.0, "top level": 50.0}
    assert too_low(found) == ["wire", "settings"]


def test_a_thread_that_still_runs_is_named_and_one_that_ends_is_not() -> None:
    before = set(threading.enumerate())
    end = threading.Event()
    running = threading.Thread(target=end.wait, name="writes-later")
    running.start()
    try:
        assert still_running(before, seconds=0.05) == ["writes-later"]
    finally:
        end.set()
    assert still_running(before) == []


def test_a_thread_of_the_process_may_go_on() -> None:
    before, end = set(threading.enumerate()), threading.Event()
    (name, *_) = PERMITTED
    allowed = threading.Thread(target=end.wait, name=name)
    allowed.start()
    try:
        assert still_running(before, seconds=0.05) == []
    finally:
        end.set()
        allowed.join()


def test_a_test_that_leaves_a_thread_fails(tmp_path: Path) -> None:
    """With the fixture that all tests have."""
    (tmp_path / "conftest.py").write_text(
        "from tests import threads\nthreads.SECONDS = 0.1\nthreads.still_running.__defaults__ = (0.1,)\n"
        "from tests.conftest import _no_thread_survives_its_test\n"
    )
    (tmp_path / "test_leaves.py").write_text(
        "import threading\nEND = threading.Event()\n"
        "def test_leaves() -> None:\n    threading.Thread(target=END.wait, name='left', daemon=True).start()\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={HOUSE}", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "threads that this test started still run: left" in done.stdout


@pytest.mark.parametrize(
    ("marks", "tier"),
    [
        ((), "first"),
        (("spark",), "first"),
        (("more", "spark"), "more"),
        (("more", "long"), "long"),
        (("mysql",), "mysql"),
    ],
)
def test_a_test_has_one_tier(marks: tuple[str, ...], tier: str) -> None:
    assert tier_of(marks) == tier


@pytest.mark.skipif(TIER == "all", reason="make test-all draws by chance")
def test_the_first_tiers_draw_the_same() -> None:
    assert not providers._get_local_constants(), "constants of modules that another test imported change what is drawn"
