"""Two processes on a lake with a real REST catalog and S3, where no lock of a disk keeps them apart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dts_emulator.machine.rest_lake import WAREHOUSE, can_start, private_rest_lake
from tests.flows.history import border
from tests.flows.short import SECOND, items, three_windows
from tests.flows.source import Source, write_capture
from tests.flows.test_interleaved import marks_and_files
from tests.remote.runs import open_remote, run_once

pytestmark = pytest.mark.long
AT = border(1) + 75 * SECOND


@pytest.fixture(scope="module")
def servers() -> Iterator[Mapping[str, str]]:
    if not can_start():  # 146 MB, which only these tests need
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "rest"], check=True)
    with private_rest_lake() as properties:
        yield properties


@pytest.fixture(scope="module")
def source() -> Source:
    return three_windows(items("one"), items("two"))


@pytest.fixture(scope="module")
def undisturbed(source: Source, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    _prepare(folder, {}, "undisturbed", str(folder / "lake"))
    write_capture(folder / "capture", source.messages)
    return rows_of(folder)


def _prepare(folder: Path, properties: Mapping[str, str], name: str, warehouse: str = WAREHOUSE) -> None:
    lake = {"warehouse": warehouse, "properties": dict(properties), "name": name}
    (folder / "lake.json").write_text(json.dumps(lake))


def rows_of(folder: Path) -> dict[str, list[str]]:
    """Do what is left, alone, and return the rows that do not depend on how they came."""
    harness = open_remote(folder)
    for _ in range(3):
        run_once(harness, live=True)
    marks_and_files(harness)
    found = harness.everything()
    kept = {name: rows for name, rows in found.items() if name.startswith(("changelog", "snapshot"))}
    return kept | {name: found[name] for name in ("raw_envelopes", "quarantine", "ddl")}


def started(folder: Path, *, rounds: int = 1, behind: float = 0.0, kill_at: int = -1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.remote.runs", str(folder), str(rounds), str(behind), str(kill_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    output, errors = process.communicate(timeout=500)
    assert process.returncode == code, errors[-3000:]
    return output


@pytest.mark.parametrize("behind", [0.0, 86_400.0], ids=["clocks agree", "clocks a day apart"])
def test_two_runs_together(
    behind: float, servers: Mapping[str, str], source: Source, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    _prepare(tmp_path, servers, f"together{int(behind)}")
    write_capture(tmp_path / "capture", source.messages)
    both = [started(tmp_path, rounds=2), started(tmp_path, rounds=2, behind=behind)]
    (tmp_path / "go").touch()
    outputs = [ended(process) for process in both]
    assert sum("waiting for" in output for output in outputs) >= 1, "one of them waited for the other"
    assert not any("REFUSED" in output for output in outputs), "leases keep work from being done twice"
    marks_and_files(open_remote(tmp_path))
    assert rows_of(tmp_path) == undisturbed


def test_a_run_beside_the_live_run(
    servers: Mapping[str, str], source: Source, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    _prepare(tmp_path, servers, "beside")
    write_capture(tmp_path / "capture", [one for one in source.messages if one.time < AT])
    live = started(tmp_path, rounds=6)
    (tmp_path / "go").touch()
    beside = started(tmp_path, rounds=2)
    write_capture(tmp_path / "capture", [one for one in source.messages if one.time >= AT], name="late")
    ended(beside)
    ended(live)
    assert rows_of(tmp_path) == undisturbed


# Before a snapshot is committed: to make its windows again takes a Spark (tests/flows/test_killed.py kills there).
@pytest.mark.parametrize("kill_at", [4, 9, 14, 19])
def test_one_of_two_runs_is_killed(
    kill_at: int, servers: Mapping[str, str], source: Source, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    _prepare(tmp_path, servers, f"killed{kill_at}")
    write_capture(tmp_path / "capture", source.messages)
    dying, other = started(tmp_path, kill_at=kill_at), started(tmp_path, rounds=2)
    (tmp_path / "go").touch()
    ended(dying, -9)
    ended(other)
    marks_and_files(open_remote(tmp_path))
    assert rows_of(tmp_path) == undisturbed
