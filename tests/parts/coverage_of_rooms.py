"""Which lines of the product the first tier of tests runs, room by room.

``make test-all`` begins with it and fails below :data:`LEAST` percent of the rooms that decide what rows are. Processes that
tests start are measured, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parts.commands import call

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "coverage"
LEAST = 80.0
"""Percent of lines."""

ROOMS = ("planning", "wire", "stages", "settings")
"""Rooms whose lines the first tier must run. The others are printed."""

NOT_MEASURED = (
    "tests/flows/test_spark_tasks.py::test_workers_read_no_archive_before_a_task_and_look_at_no_module_after_it",
)
"""Tests that cannot pass where coverage itself starts in each process."""

FAILED = 1


def covered(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the percentage of lines of each room of the product that ran, from the report of coverage in JSON."""
    lines: dict[str, tuple[int, int]] = {}
    for path, file in report["files"].items():
        parts = Path(path).parts
        room = parts[1] if len(parts) > 2 else "top level"
        ran, all_of_them = lines.get(room, (0, 0))
        summary = file["summary"]
        lines[room] = (ran + summary["covered_lines"], all_of_them + summary["num_statements"])
    return {room: 100 * ran / count for room, (ran, count) in sorted(lines.items()) if count}


def too_low(percentages: Mapping[str, float]) -> list[str]:
    """Return the rooms whose share of lines is below the least, or that were not measured at all."""
    return [room for room in ROOMS if percentages.get(room, 0.0) < LEAST]


def first_tier_under_coverage(*, workers: int, report: Path | None = None, chosen: Sequence[str] = ()) -> int:
    """Run the first tier and print the percentages. Return pytest's exit code, or 1 where a room has too little."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob(".coverage*"):
        old.unlink()
    settings = FOLDER / "coveragerc"
    settings.write_text(
        "[run]\nsource = dts_assets\nparallel = true\nsigterm = true\n"
        f"patch = subprocess\ndata_file = {FOLDER / '.coverage'}\nomit = */dts_assets/protocol/*\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("DTS_ASSETS_TESTS", None)
    tool = [sys.executable, "-m", "coverage"]
    tests = ["-m", "pytest", "-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder", *chosen]
    tests += [f"--deselect={name}" for name in NOT_MEASURED]
    if report is not None:
        tests.append(f"--junitxml={report}")
    code = call([*tool, "run", f"--rcfile={settings}", *tests], environment, folder=ROOT)
    found = FOLDER / "coverage.json"
    for step in (["combine", "-q"], ["json", "-q", "-o", str(found)]):
        subprocess.run([*tool, step[0], f"--rcfile={settings}", *step[1:]], cwd=ROOT, check=True)
    percentages = covered(json.loads(found.read_text()))
    for room, percent in percentages.items():
        _say(f"  {room:12} {percent:5.1f} % of lines" + ("  ✗" if room in too_low(percentages) else ""))
    if low := too_low(percentages):
        _say(f"The first tier runs less than {LEAST:.0f} % of the lines of {', '.join(low)}.")
    return code or (FAILED if low else 0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
