"""Two versions in turns: which figures are compared, what counts as worse, and that the base's own code runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import NAMES, TABLE
from benchmarks.pairs import (
    OWN_FIGURES,
    SPEEDS,
    WHOLE,
    Better,
    Compared,
    FailedRunError,
    Line,
    Measured,
    better_ratio,
    compare,
    compared,
    exit_code,
    last_line,
    own_costs,
    require_names,
    table,
    turns,
)
from benchmarks.worktrees import Version, worktree

HOUSE = Path(__file__).parents[2]


def decoded(ours: float, ratio: float, *, cpu: float = 9.0) -> Measured:
    figures = {"1t-5c-1r": {"megabytes": 1.5, "seconds": {"loop": 2.0, "ours": ours}}}
    return Measured({"1t-5c-1r": ratio}, figures, cpu)


def by_name(lines: list[Line]) -> dict[str, Line]:
    return {line.name: line for line in lines}


def test_our_own_seconds_are_compared_and_not_those_of_the_peer() -> None:
    found = by_name(compare("decode", [decoded(0.4, 5.0)], [decoded(0.5, 4.0)]))
    assert found.keys() == {"1t-5c-1r/seconds/ours", "ratio 1t-5c-1r"}
    cost, ratio = found.values()
    assert (cost.base, cost.present, cost.change, cost.better) == (0.4, 0.5, 1.25, Better.SMALLER)
    assert (ratio.base, ratio.present, ratio.change, ratio.better) == (5.0, 4.0, 0.8, Better.LARGER)
    assert cost.is_worse
    assert ratio.is_worse


def test_the_least_cost_and_the_median_ratio_of_several_runs_count() -> None:
    found = by_name(compare("decode", [decoded(0.4, 5.0), decoded(0.6, 5.4)], [decoded(0.9, 4.0), decoded(0.41, 6.6)]))
    assert [found["1t-5c-1r/seconds/ours"].base, found["1t-5c-1r/seconds/ours"].present] == [0.4, 0.41]
    assert found["ratio 1t-5c-1r"].base == pytest.approx(5.2)
    assert found["ratio 1t-5c-1r"].present == pytest.approx(5.3)
    assert not any(line.is_worse for line in found.values())


def test_of_speeds_the_greatest_counts_and_a_lower_one_is_worse() -> None:
    def joined(speed: float) -> Measured:
        return Measured({"split": 0.8}, {"split": {"transport": 900.0, "joined": speed}}, 1.0)

    line = by_name(compare("reassembly", [joined(500.0), joined(600.0)], [joined(510.0), joined(480.0)]))[
        "split/joined"
    ]
    assert (line.base, line.present, line.better) == (600.0, 510.0, Better.LARGER)
    assert line.is_worse


def test_without_seconds_of_our_own_the_processes_are_counted() -> None:
    def run(cpu: float) -> Measured:
        return Measured({"chunk-16": 0.8}, {"chunk-16": {"raw": 300, "entries": 400}}, cpu)

    found = by_name(compare("memory", [run(20.0), run(19.0)], [run(21.0), run(25.0)]))
    assert found[WHOLE] == Line(WHOLE, 19.0, 21.0, Better.SMALLER)
    assert found[WHOLE].is_worse
    assert not found["ratio chunk-16"].is_worse


def test_cases_of_one_version_alone_are_left_out() -> None:
    old = Measured({"clean": 1.1}, {"seconds": {"with": 3.0}}, 5.0)
    new = Measured({"clean": 1.1, "redelivered": 1.3}, {"seconds": {"with": 3.0, "redelivered": 4.0}}, 9.0)
    assert by_name(compare("truth", [old], [new])).keys() == {"seconds/with", "ratio clean"}


@pytest.mark.parametrize(
    ("base", "present", "better", "worse"),
    [
        (1.0, 1.05, Better.SMALLER, False),
        (1.0, 1.06, Better.SMALLER, True),
        (1.0, 0.5, Better.SMALLER, False),
        (1.05, 1.0, Better.LARGER, False),
        (1.06, 1.0, Better.LARGER, True),
        (0.5, 1.0, Better.LARGER, False),
        (0.0, 0.0, Better.SMALLER, False),
        (0.0, 0.1, Better.SMALLER, True),
        (1.0, 9.0, Better.UNKNOWN, False),
    ],
)
def test_more_than_five_percent_is_worse(base: float, present: float, better: Better, *, worse: bool) -> None:
    line = Line("any", base, present, better)
    assert line.is_worse is worse
    (_, shown) = table(Compared("decode", (line,)))
    assert ("✗" in shown) is worse
    assert better.value in shown


def test_the_direction_is_that_of_the_promise() -> None:
    assert better_ratio("window", "plain") is Better.LARGER
    assert better_ratio("window", "floor") is Better.SMALLER
    assert better_ratio("window", "canal-json") is Better.SMALLER
    assert better_ratio("freshness", "p95") is Better.SMALLER
    assert better_ratio("freshness", "p5") is Better.UNKNOWN


def test_without_a_promise_the_direction_is_in_the_words_of_the_table() -> None:
    assert better_ratio("startup", "assets-20") is Better.LARGER
    assert better_ratio("snapshot", "many") is Better.LARGER
    assert better_ratio("pipeline", "work") is Better.SMALLER
    assert better_ratio("definitions", "tables-1000-described") is Better.SMALLER
    assert better_ratio("moments", "pyiceberg") is Better.SMALLER
    against = ""
    for row in TABLE:
        against = against if row.against == "the same" else row.against
        if row.promised != "-":
            assert against.endswith(("by ours", "speed by its speed")) is row.promised.startswith(">="), row.what


def test_every_declared_benchmark_is_one_and_speeds_are_declared() -> None:
    assert OWN_FIGURES.keys() <= set(NAMES)
    assert set(SPEEDS) <= OWN_FIGURES.keys()


def test_figures_are_found_in_objects_and_lists() -> None:
    figures = {"read": {"seconds": {"loads": 1.0, "ours": 2.0}}, "patches": {"cpu": [3.0, 4.0]}, "load": [9.0]}
    assert own_costs("documents", figures) == {"read/seconds/ours": 2.0, "patches/cpu/0": 3.0, "patches/cpu/1": 4.0}
    assert own_costs("freshness", figures) == {}


@pytest.mark.parametrize(("times", "order"), [(1, "01"), (2, "0110"), (3, "011001")])
def test_the_versions_take_turns(times: int, order: str) -> None:
    assert "".join(str(int(one)) for one in turns(times)) == order


def made_version(folder: Path, name: str, *benchmarks: str) -> Version:
    (folder / name / "benchmarks").mkdir(parents=True)
    for one in benchmarks:
        (folder / name / "benchmarks" / f"{one}.py").write_text("")
    return Version(folder / name, name)


def test_runs_are_shared_out_to_the_versions(tmp_path: Path) -> None:
    versions = made_version(tmp_path, "old", "decode"), made_version(tmp_path, "new", "decode")
    ran: list[str] = []

    def run(benchmark: str, version: Version) -> Measured:
        ran.append(version.name)
        return decoded(0.4 if version.name == "old" else 0.5, 5.0)

    found = compared("decode", versions, times=2, run=run)
    assert ran == ["old", "new", "new", "old"]
    assert found.lines[0].change == 1.25
    assert exit_code([found], strict=False) == 0
    assert exit_code([found], strict=True) == 1


def test_a_benchmark_that_the_base_lacks_is_a_sentence(tmp_path: Path) -> None:
    def run(benchmark: str, version: Version) -> Measured:
        raise AssertionError("nothing is run")

    versions = made_version(tmp_path, "old"), made_version(tmp_path, "new", "decode")
    found = compared("decode", versions, times=2, run=run)
    assert table(found) == ["decode: old has no such benchmark."]
    assert exit_code([found], strict=True) == 0


def test_a_benchmark_that_fails_is_a_sentence_and_a_failure(tmp_path: Path) -> None:
    def run(benchmark: str, version: Version) -> Measured:
        if version.name == "old":
            raise FailedRunError("exit code 3")
        return decoded(0.4, 5.0)

    versions = made_version(tmp_path, "old", "decode"), made_version(tmp_path, "new", "decode")
    found = compared("decode", versions, times=1, run=run)
    assert table(found) == ["decode: it failed in old: exit code 3"]
    assert exit_code([found], strict=False) == 1


def test_an_unknown_benchmark_is_a_sentence_with_the_names_that_exist() -> None:
    require_names(NAMES)
    with pytest.raises(SystemExit) as refused:
        require_names(["decode", "decoed"])
    assert str(refused.value) == f"There is no benchmark decoed; there are {', '.join(NAMES)}."


def test_the_last_object_is_found_among_warnings() -> None:
    line = json.dumps({"benchmark": "decode", "ratios": {"a": 1}, "figures": {}})
    assert last_line(f"text\n{line}\nWARN a thread has not ended\n") == json.loads(line)
    assert last_line("text\n") is None


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two commits whose one benchmark prints what its commit says: 0.2 and then 0.3 seconds."""
    folder = tmp_path_factory.mktemp("repository")
    for package in ("dts_assets", "dts_emulator", "benchmarks"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    for seconds in (0.2, 0.3):
        (folder / "dts_assets" / "cost.py").write_text(f"SECONDS = {seconds}\n")
        (folder / "benchmarks" / "decode.py").write_text(FAKE)
        git(folder, "add", ".")
        git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", str(seconds))
    return folder


FAKE = """
import json, sys
from dts_assets.cost import SECONDS
# options.add_seed()
if "--fail" in sys.argv:
    sys.exit("it cannot")
figures = {"1t-5c-1r": {"seconds": {"ours": SECONDS}, "arguments": sys.argv[1:]}}
print(json.dumps({"benchmark": "decode", "ratios": {"1t-5c-1r": 1 / SECONDS}, "figures": figures}))
print("a warning", file=sys.stderr)
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_own_process(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """``python -m benchmarks.pairs`` as it would run in a repository, with the runner of this checkout."""
    program = (
        "import sys; from pathlib import Path; from benchmarks import pairs, worktrees; house = Path(sys.argv.pop(1)); "
        "pairs.WORKING_TREE = worktrees.Version(house, 'the working tree'); made = pairs.worktree; "
        "pairs.worktree = lambda commit: made(commit, house=house); sys.exit(pairs.main(sys.argv[1:]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), *arguments],
        cwd=HOUSE, env={**os.environ, "PYTHONPATH": str(HOUSE)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


@pytest.fixture
def _nothing_is_left(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary folders go into ``tmp_path``; no worktree stays there, nor in the repository's list."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert not list(tmp_path.glob("dts-assets-worktree-*"))
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.usefixtures("_nothing_is_left")
def test_each_version_runs_its_own_code(repository: Path) -> None:
    code, output = ended(in_own_process(repository, "HEAD~1", "decode", "window", "--times", "1", "--strict"))
    assert code == 1, output
    assert "window: " in output
    assert "has no such benchmark" in output
    assert "More than 5% worse: decode 1t-5c-1r/seconds/ours, decode ratio 1t-5c-1r.\n" in output
    last: Mapping[str, Any] = json.loads(output.splitlines()[-1])
    assert last["benchmark"] == "pairs"
    assert last["ratios"] == {"decode 1t-5c-1r/seconds/ours": 1.5, "decode ratio 1t-5c-1r": 0.667}
    assert last["figures"]["lines"]["decode 1t-5c-1r/seconds/ours"] == {
        "base": 0.2, "present": 0.3, "better": "smaller", "worse": True,
    }  # fmt: skip
    assert last["figures"]["not_compared"].keys() == {"window"}


@pytest.mark.usefixtures("_nothing_is_left")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("HEAD~9", "decode"), 1, "There is no commit HEAD~9 in this repository."),
        (("HEAD", "decoed"), 1, "There is no benchmark decoed; there are decode, "),
        (("HEAD", "decode", "--options=--fail"), 1, "decode: it failed in "),
    ],
    ids=["no commit", "no benchmark", "a benchmark that fails"],
)
def test_what_cannot_be_compared_is_a_sentence(
    repository: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    found, output = ended(in_own_process(repository, *arguments))
    assert (found, sentence in output) == (code, True), output
    assert "Traceback" not in output


@pytest.mark.usefixtures("_nothing_is_left")
def test_both_versions_get_the_same_seed(repository: Path) -> None:
    asked = []
    with worktree("HEAD~1", house=repository) as base:
        for version in (base, Version(repository, "present")):
            command = [sys.executable, "-c", _ONE_RUN, str(version.folder)]
            done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=True)
            asked.append(done.stdout.splitlines()[-1])
    assert asked == ["['--turns', '1', '--seed', '7'] 0.2", "['--turns', '1', '--seed', '7'] 0.3"]


_ONE_RUN = """
import sys
from pathlib import Path
from benchmarks.pairs import runner
from benchmarks.worktrees import Version
found = runner(["--turns", "1"], seed=7)("decode", Version(Path(sys.argv[1]), "any")).figures["1t-5c-1r"]
print(found["arguments"], found["seconds"]["ours"])
"""


@pytest.mark.usefixtures("_nothing_is_left")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_removes_the_worktree(end: signal.Signals, repository: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    # Bytecode of a file that was changed within a second, to another text of equal length, would still count.
    shutil.rmtree(repository / "benchmarks" / "__pycache__", ignore_errors=True)
    (repository / "benchmarks" / "decode.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(100)\n"
    )
    try:
        with in_own_process(repository, "HEAD", "decode", "--options=") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("decode, "):
                    break
            assert git(repository, "worktree", "list").count("\n") == 2
            while not begun.exists():
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, end)  # as a terminal does with INT
            assert process.wait(60) != 0
    finally:
        git(repository, "checkout", "--quiet", "benchmarks/decode.py")


def test_a_package_of_another_folder_is_refused(tmp_path: Path) -> None:
    class Strange(Version):
        """A version whose processes do not find its folder."""

        def environment(self) -> dict[str, str]:
            return {**os.environ, "PYTHONPATH": str(HOUSE), "PYTHONSAFEPATH": "1"}

    (tmp_path / "dts_assets").mkdir()
    with pytest.raises(SystemExit, match=r"strange: dts_assets is imported from .* and not from"):
        Strange(tmp_path, "strange").require_own_code()
    Version(HOUSE, "ours").require_own_code()


@pytest.mark.more
def test_a_real_pair(tmp_path: Path) -> None:
    if not (HOUSE / ".git").exists():
        pytest.skip("not a git checkout")
    options = "--options=--case 2t-30c-20r --megabytes 1 --turns 1"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pairs", "HEAD", "decode", "--times", "1", options],
        cwd=HOUSE, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["ratios"].keys() == {
        "decode 2t-30c-20r/seconds/ours", "decode 2t-30c-20r/seconds/our_rows", "decode ratio 2t-30c-20r",
    }  # fmt: skip
    assert not list(tmp_path.glob("dts-assets-worktree-*"))
