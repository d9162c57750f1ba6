"""How the parts of ``make test-all`` ended: which results count, which parts are left, and which random examples failed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.tiers import PARTS, Part

LONGEST = 2 * 60 * 60
"""Seconds that a part may take."""

_FALSIFYING = re.compile(r"^((?:Failing test case|Falsifying example): .*?^\))", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Result:
    """How a part ended, on which commit."""

    part: int
    commit: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    seed: int
    exit_code: int

    @property
    def is_good(self) -> bool:
        """Whether it passed, in its time."""
        return self.exit_code == 0 and self.seconds <= LONGEST

    def sentence(self) -> str:
        """What a person reads."""
        minutes = f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02} min"
        counted = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        mark = "" if self.is_good else f"  ✗ exit code {self.exit_code}" if self.exit_code else "  ✗ too long"
        return f"part {self.part} of {len(PARTS)} on {self.commit[:12]}: {counted}, {minutes}, seed {self.seed}{mark}"


def kept(stored: Sequence[Result], commit: str) -> list[Result]:
    """Return the results that count: those of this commit."""
    return [result for result in stored if result.commit == commit]


def left(stored: Sequence[Result], numbers: Sequence[int]) -> list[int]:
    """Return which parts have not passed yet, in their order."""
    passed = {result.part for result in stored if result.is_good}
    return [number for number in numbers if number not in passed]


def command(part: Part, *, seed: int, workers: int, report: Path) -> list[str]:
    """Return the command that runs a part."""
    shared = [] if part.is_long else ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    chosen = ["--part", str(part.number), "-m", "long" if part.is_long else "not long"]
    return [
        sys.executable, "-m", "pytest", *shared, *chosen, f"--hypothesis-seed={seed}", f"--junitxml={report}",
    ]  # fmt: skip


def found_examples(report: Path) -> list[tuple[str, str]]:
    """Return the tests of a report that failed with an example that was drawn, and each example."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for failure in (*case.findall("failure"), *case.findall("error")):
            text = re.sub(r"^E {7}", "", failure.text or "", flags=re.M)
            found += [(f"{case.get('classname')}.{case.get('name')}", example) for example in _FALSIFYING.findall(text)]
    return found


def counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests of a report passed, failed and were skipped."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def commit_of(root: Path) -> tuple[str, bool]:
    """Return the commit that is checked out, and whether the checkout has nothing else."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "HEAD"), not git("status", "--porcelain")


def load(path: Path) -> list[Result]:
    """Return the stored results."""
    return [Result(**one) for one in json.loads(path.read_text())] if path.is_file() else []


def store(path: Path, results: Sequence[Result]) -> None:
    """Replace the stored results."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
