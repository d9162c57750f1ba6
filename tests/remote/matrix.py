"""``python -m tests.remote.matrix``: the example on every Spark with every catalog and store, each judged by the database.

    python -m tests.remote.matrix --master local --master connect --store sqlite

A cell is a lake of its own with servers of its own, and the demo in a process of its own; the changes of every snapshot are
shared out over tasks (``--tasks-merge`` leaves them to single tasks, as the demo does by itself). A cell that is not equal to the
database shows the sentence that it ended with, and the command exits with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from dts_emulator.machine import rest_lake, stores
from dts_emulator.machine.rest_lake import WAREHOUSE, private_rest_catalog, private_rest_lake
from tests.flows.over_connect import server_process
from tests.remote.standalone import StandaloneCluster

HOUSE = Path(__file__).resolve().parents[2]
LOCAL, LOCAL_CLUSTER = "local[2]", "local-cluster[2,1,1024]"
EQUAL = "equal to the database"

_EQUAL = re.compile(r"^(\d+) of \1 snapshots equal the database row by row\.$", re.MULTILINE)
_SECONDS = 1200
"""The longest that a cell may take."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A Spark, and a catalog with its store, by their names in :data:`MASTERS` and :data:`STORES`."""

    master: str
    store: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell: ``equal to the database``, or the sentence that it ended with, and the seconds of the demo."""

    sentence: str
    seconds: float

    @property
    def is_equal(self) -> bool:
        return self.sentence == EQUAL


@contextmanager
def _on_disk(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"warehouse": str(folder / "lake")}


@contextmanager
def _rest(folder: Path) -> Iterator[dict[str, Any]]:
    (folder / "lake").mkdir()
    with private_rest_catalog(folder / "lake") as properties:
        yield {"warehouse": str(folder / "lake"), "catalog": dict(properties)}


def _rest_and_s3(*, vends: bool) -> Callable[[Path], AbstractContextManager[dict[str, Any]]]:
    @contextmanager
    def store(_: Path) -> Iterator[dict[str, Any]]:
        with private_rest_lake(strict=True, vends=vends) as properties:
            yield {"warehouse": WAREHOUSE, "catalog": dict(properties)}

    return store


@contextmanager
def _sqlite_and_s3(folder: Path) -> Iterator[dict[str, Any]]:
    (folder / "store").mkdir()
    with stores.private_store(folder / "store", strict=True) as properties:
        yield {"warehouse": WAREHOUSE, "catalog": {"type": "sqlite", "uri": str(folder / "catalog.db"), **properties}}


STORES: Mapping[str, Callable[[Path], AbstractContextManager[dict[str, Any]]]] = {
    "sqlite": _on_disk,
    "rest": _rest,
    "rest+s3": _rest_and_s3(vends=False),
    "rest+s3 vended": _rest_and_s3(vends=True),
    "sqlite+s3": _sqlite_and_s3,
}
"""The catalogs and stores, each a block with the settings under ``lake``. The S3 store checks signatures."""


@contextmanager
def _standalone(folder: Path, _: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    with StandaloneCluster(folder / "cluster") as master:
        yield {"master": master}


@contextmanager
def _connect(folder: Path, configuration: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    config = _written(folder / "server.yaml", {**configuration, "spark": {"master": LOCAL}})
    with server_process(config, folder / "server.log") as address:
        yield {"remote": address}


MASTERS: Mapping[str, Callable[[Path, Mapping[str, Any]], AbstractContextManager[dict[str, str]]]] = {
    "local": lambda *_: nullcontext({"master": LOCAL}),
    "local-cluster": lambda *_: nullcontext({"master": LOCAL_CLUSTER}),
    "standalone": _standalone,
    "connect": _connect,
}
"""The Sparks, each a block with the settings under ``spark``: two cores, or two workers of one core."""


def fetch_servers(wanted: Collection[str]) -> None:
    """Fetch the parts of the servers that some stores need, if they are not there."""
    needed = {"rest": any("rest" in one for one in wanted), "store": any("s3" in one for one in wanted)}
    there = {"rest": rest_lake.JARS.is_dir(), "store": stores.can_start(strict=True)}
    for part in needed:
        if needed[part] and not there[part]:
            subprocess.run([sys.executable, "scripts/fetch_broker.py", part], cwd=HOUSE, check=True)


def run_cell(cell: Cell, *, by_spark: bool = True) -> Outcome:
    """Make the example's tables in a lake of the cell's own, and compare them with the database's dump."""
    fetch_servers({cell.store})
    with tempfile.TemporaryDirectory(prefix="dts-assets-matrix-") as name, ExitStack() as servers:
        folder = Path(name)
        configuration = yaml.safe_load((HOUSE / "pipeline.yaml").read_text())
        configuration["lake"] = servers.enter_context(STORES[cell.store](folder))
        _checkout(folder)
        configuration["spark"] = servers.enter_context(MASTERS[cell.master](folder, configuration))
        config = _written(folder / "pipeline.yaml", configuration)
        began = time.monotonic()
        sentence = _demo(config, by_spark=by_spark)
        return Outcome(sentence, time.monotonic() - began)


def _checkout(folder: Path) -> None:
    """Put what the demo reads beside its configuration."""
    (folder / "examples").symlink_to(HOUSE / "examples")
    (folder / "dagster_home").mkdir()
    shutil.copy(HOUSE / "dagster_home" / "dagster.yaml", folder / "dagster_home")


def _written(path: Path, configuration: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(configuration))
    return path


def _demo(config: Path, *, by_spark: bool) -> str:
    """Run the demo in a process of its own, and return its verdict."""
    command = ["-m", "tests.remote.example", str(config), "share"] if by_spark else ["-m", "dts_assets", "demo"]
    environment = {**os.environ, "DTS_ASSETS_CONFIG": str(config), "COLUMNS": "200"}
    for unwanted in ("DAGSTER_HOME", "SPARK_REMOTE"):
        environment.pop(unwanted, None)
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=HOUSE, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {_SECONDS} s"
    if done.returncode == 0 and _EQUAL.search(done.stdout):
        return EQUAL
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return f"exit {done.returncode}: {lines[-1] if lines else 'without a word'}"


def shown(outcomes: Mapping[Cell, Outcome]) -> Table:
    """Return the cells as a table, a row for each Spark."""
    columns = list(dict.fromkeys(cell.store for cell in outcomes))
    table = Table(title="The example on every Spark, catalog and store", title_justify="left")
    for name in ("Spark", *columns):
        table.add_column(name)
    for master in dict.fromkeys(cell.master for cell in outcomes):
        of_row = [outcomes.get(Cell(master, store)) for store in columns]
        table.add_row(master, *("" if one is None else f"{one.sentence}, {one.seconds:.0f} s" for one in of_row))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.remote.matrix", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--master", action="append", choices=MASTERS, help="a Spark; all if it is left out")
    parser.add_argument("--store", action="append", choices=STORES, help="a catalog and store; all if it is left out")
    parser.add_argument("--tasks-merge", action="store_true", help="leave merging to tasks, where changes are few")
    asked = parser.parse_args(arguments)
    cells = [Cell(*pair) for pair in product(asked.master or MASTERS, asked.store or STORES)]
    console, outcomes = Console(highlight=False), dict[Cell, Outcome]()
    for number, cell in enumerate(cells, start=1):
        outcome = outcomes[cell] = run_cell(cell, by_spark=not asked.tasks_merge)
        said = f"{number} of {len(cells)}: {cell.master}, {cell.store}: {outcome.sentence}, {outcome.seconds:.0f} s"
        console.print(said, markup=False, soft_wrap=True)
    console.print(shown(outcomes))
    return 0 if all(one.is_equal for one in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
