"""Backfills of rectangles and ragged sets, and a run that is killed: the same tables, one event a partition."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dts_assets.flows.pipeline import open_pipeline
from dts_assets.settings import load_settings
from tests.flows.harness import table_id
from tests.flows.history import END, EVERY, PARTITIONS, START, WINDOWS, bank_history
from tests.flows.source import write_capture

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("accounts", "seats", "journal", "goods")
HISTORY = bank_history(1, long_set=True)

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def names() -> Sequence[str]:
    return ("once", "pieces")


@pytest.fixture
def config(tmp_path: Path, names: Sequence[str]) -> Path:
    """Subscriptions over one capture, and a home whose runs start in the process that launches them."""
    write_capture(tmp_path / "capture", HISTORY.source.messages)
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": "./capture", "complete": True}},
        "partitions": PARTITIONS,
        "window": {
            "every": f"{EVERY.seconds // 60}m", "start": START.isoformat(), "end": END.isoformat(),
        },
    }  # fmt: skip
    config = tmp_path / "pipeline.yaml"
    config.write_text(
        yaml.safe_dump({"lake": {"warehouse": "./lake"}, "subscriptions": dict.fromkeys(names, subscription)})
    )
    home = tmp_path / "home"
    home.mkdir()
    asked = yaml.safe_load((ROOT / "dagster_home" / "dagster.yaml").read_text())
    launcher = {"module": "dagster._core.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"}
    coordinator = {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"}  # no queue
    values = {"storage": asked["storage"], "run_launcher": launcher, "run_coordinator": coordinator}
    (home / "dagster.yaml").write_text(yaml.safe_dump({**values, "telemetry": {"enabled": False}}))
    return config


def environment(config: Path) -> dict[str, str]:
    return {
        **os.environ, "DAGSTER_HOME": str(config.parent / "home"), "DTS_ASSETS_CONFIG": str(config),
        "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "COLUMNS": "120",
    }  # fmt: skip


def cells() -> set[str]:
    return {f"p{partition:02d}|{key}" for partition in range(PARTITIONS) for key in windows()}


def cell_before(key: str) -> str | None:
    """The cell of the window before, in the same Kafka partition."""
    partition, _, window = key.partition("|")
    place = sorted(windows()).index(window)
    return f"{partition}|{sorted(windows())[place - 1]}" if place else None


def windows() -> set[str]:
    return {(START + number * EVERY).strftime("%Y-%m-%d-%H:%M") for number in range(WINDOWS)}


def assert_each_partition_has(count: int, events: Mapping[str, Mapping[str, int]], name: str) -> None:
    for table in ("raw_envelopes", "entries"):
        assert events[f"{name}/{table}"] == dict.fromkeys(cells(), count)
    tables = {key: counted for key, counted in events.items() if key.split("/")[1] in ("changelog", "snapshot")}
    assert len(tables) == 2 * len(TABLES)
    for key, counted in tables.items():
        assert counted == dict.fromkeys(windows(), count), key


@pytest.mark.parametrize("names", [["once"]])
def test_a_run_fills_the_lake_and_a_second_one_finds_nothing_to_do(config: Path) -> None:
    command = [sys.executable, "-m", "dts_assets", "run"]
    where: dict[str, Any] = {"env": environment(config), "cwd": config.parent, "text": True, "timeout": 600}
    first = subprocess.run(command, capture_output=True, check=False, **where)
    assert first.returncode in (0, 3), first.stdout + first.stderr
    second = subprocess.run(command, capture_output=True, check=False, **where)
    assert "Nothing to do" in second.stdout
    lake = open_pipeline(load_settings(config), "once")
    found = {name: lake.lake.scan(lake.table_path("snapshot", table_id(name))) for name in HISTORY.final()}
    assert {name: rows and rows.num_rows for name, rows in found.items()} == {
        name: len(rows) for name, rows in HISTORY.final().items()
    }
    assert all(row.counts.balanced for row in lake.ledger.windows())


@pytest.mark.long
def test_ragged_sets_from_graphql_make_one_event_a_partition_and_settle_at_the_tables_of_one_run(config: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.backfills", str(config)],
        env=environment(config), cwd=ROOT, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # Dagster's code server may say good-bye after the report.
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    report: dict[str, Any] = json.loads(line)
    assert report["rows"]["window_tables"] > WINDOWS
    assert report["differ"] == []
    assert report["ingest_0"]["runs"] > 1, "stairs are no rectangle"
    for name in ("once", "pieces"):
        assert_each_partition_has(1, report["events"][name], name)
    assert report["differ_again"] == []
    for key, counted in report["events_again"].items():
        assert counted == {one: count + 1 for one, count in report["events_settled"][key].items()}, key
    made = report["events_settled"]["pieces/entries"]
    assert set(made.values()) <= {1, 2}
    remade = {key for key, count in made.items() if count == 2}
    assert remade >= set(report["stale"]), "what is stale is made again"
    for key in remade - set(report["stale"]):  # its set is open in the window before, which was made again
        assert cell_before(key) in remade, f"{key} is made again, and nothing it needs is another"
    assert report["events_settled"]["pieces/raw_envelopes"] == dict.fromkeys(cells(), 1)


@pytest.mark.long
def test_a_killed_run_is_finished_by_asking_again(config: Path) -> None:
    command = [sys.executable, "-m", "dts_assets", "run"]
    where: dict[str, Any] = {"env": environment(config), "cwd": config.parent, "text": True}
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, **where)
    assert killed.stdout is not None
    for line in killed.stdout:
        if "entries: joining" in line:  # raw of the first subscription is there, its entries are not
            time.sleep(1)
            os.killpg(killed.pid, signal.SIGKILL)
            break
    assert killed.wait(60) == -signal.SIGKILL
    killed.stdout.close()
    again = subprocess.run(command, capture_output=True, timeout=600, check=False, **where)
    assert again.returncode in (0, 3), again.stdout + again.stderr
    nothing = subprocess.run(command, capture_output=True, timeout=600, check=False, **where)
    assert "Nothing to do" in nothing.stdout
    compared = subprocess.run(
        [sys.executable, "-c", COMPARE, str(config)], capture_output=True, timeout=600, check=False,
        **{**where, "cwd": ROOT},
    )  # fmt: skip
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout) == []


COMPARE = """
import json, sys
from pathlib import Path
from tests.e2e.backfills import Session
session = Session(Path(sys.argv[1]), None)
once, pieces = session.everything("once"), session.everything("pieces")
assert once["snapshot.bank.goods"] and once["cuts"]
print(json.dumps([name for name in once if once[name] != pieces.get(name)]))
"""
