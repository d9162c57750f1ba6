"""A table in a lake from a topic's DRS JSON-C messages, compared with Flink; fresh processes of both.

``python -m benchmarks.flink`` prints a table and, as its last line, one JSON object. Costs are CPU seconds of each process and of
all that it starts, from the command to the end of the last one.

- Ours: ``dts-assets run`` on a capture of the messages, with an empty lake and an empty instance of Dagster. It makes raw
  envelopes, entries, changelog and snapshot.
- Flink's: a file of the same messages as lines, the format ``canal-json``, and an ``INSERT`` into an Iceberg table with upserts
  (format version 2, equality deletes), which is all that it makes. Parallelism is 1, since files of lines keep no order else.

The case ``1r`` has one row in a message, ``20r`` has twenty. A ratio is Flink's CPU seconds by ours. At the end of each case both
tables are compared row by row, in Spark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.command import Options, finish, load, say
from benchmarks.json_stream import COLUMNS, GROUP, TABLE, write_stream
from benchmarks.processor_time import cost_of_command
from benchmarks.traffic import START
from dts_emulator.machine.flink import JARS, private_flink, run_statement

HOUSE = Path(__file__).resolve().parent.parent
_THIS = (sys.executable, "-W", "ignore", "-m", "benchmarks.flink")
CASES = {"1r": 1, f"{GROUP}r": GROUP}

_CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: drs-json-c
    source: {{capture: {{path: {capture}, complete: true}}}}
    partitions: 1
    window: {{every: 1h, start: {start}, end: {end}}}
    tables: {{include: ["{database}.*"]}}
"""
_FLINK_TYPES = {"bigint": "BIGINT", "int": "BIGINT", "varchar": "STRING", "decimal": "STRING", "datetime": "TIMESTAMP"}
"""Types of Flink's SQL that hold our values. A decimal is a text, since JSON-C does not tell its digits."""


def load_with_flink(folder: Path) -> None:
    """Insert the lines of ``folder/lines`` into the table ``shop.orders`` of the warehouse ``folder/flink``."""
    types = {name: _FLINK_TYPES[kind] for name, kind in COLUMNS.items()}
    read, kept = (
        ", ".join(f"`{name}` {kind}{digits if kind == 'TIMESTAMP' else ''}" for name, kind in types.items())
        for digits in ("(0)", "(6)")
    )
    with private_flink() as tables:
        for statement in (
            # With its key told, Flink holds no rows of its own before the sink.
            f"CREATE TABLE changes ({read}, PRIMARY KEY (id) NOT ENFORCED) WITH "
            f"('connector' = 'filesystem', 'path' = '{(folder / 'lines').as_uri()}', 'format' = 'canal-json')",
            "CREATE CATALOG lake WITH "
            f"('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{(folder / 'flink').as_uri()}')",
            "CREATE DATABASE lake.shop",
            f"CREATE TABLE lake.shop.orders ({kept}, PRIMARY KEY (id) NOT ENFORCED) WITH "
            "('format-version' = '2', 'write.upsert.enabled' = 'true')",
            "INSERT INTO lake.shop.orders SELECT * FROM changes",
        ):
            run_statement(tables, statement)


def measure(rows: int, *, changes: int, turns: int, seed: int) -> Mapping[str, float]:
    """Return the least CPU seconds and wall seconds of both, the ways in turns.

    Raises:
        SystemExit: A process failed, or the tables differ.
    """
    with tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        live = write_stream(folder, changes=changes, rows=rows, seed=seed)
        best: dict[str, float] = {}
        for turn in range(turns):
            of_turn = folder / f"turn-{turn}"
            of_turn.mkdir()
            for name in ("lines", "capture"):
                (of_turn / name).symlink_to(folder / name)
            peer = [*_THIS, "--load-with-flink", str(of_turn)]
            ours = [str(Path(sys.executable).parent / "dts-assets"), "run"]
            for name, command in (("flink", peer), ("ours", ours)):
                found = cost_of_command(command, folder=HOUSE, environment=_environment(of_turn))
                for kind, seconds in zip(("", "_wall"), found, strict=True):
                    best[name + kind] = min(best.get(name + kind, seconds), seconds)
        # In a process of its own: this one may have no children while it measures.
        subprocess.run([*_THIS, "--compare", str(of_turn), str(live)], cwd=HOUSE, check=True)
    return best


def _environment(folder: Path) -> Mapping[str, str]:
    """Return the environment that names a configuration and an instance below a folder, made if need be."""
    home, config = folder / "home", folder / "pipeline.yaml"
    if not config.exists():
        home.mkdir()
        (home / "dagster.yaml").write_text((HOUSE / "dagster_home" / "dagster.yaml").read_text())
        config.write_text(
            _CONFIGURATION.format(
                capture=folder / "capture", start=f"{START:%Y-%m-%dT%H:00Z}", end=f"{START:%Y-%m-%d}T{START.hour + 1:02}:00Z",
                database=TABLE.database,
            )
        )  # fmt: skip
    return {**os.environ, "DAGSTER_HOME": str(home), "DTS_ASSETS_CONFIG": str(config)}


def compare(folder: Path, live: int) -> None:
    """Compare the rows of both tables in Spark.

    Raises:
        SystemExit: They differ, or there are not ``live`` of them.
    """
    from dts_assets.flows.pipeline import lake_location, open_pipeline
    from dts_assets.settings import load_settings
    from dts_assets.store.session import open_session

    settings = load_settings(folder / "pipeline.yaml")
    pipeline = open_pipeline(settings, "shop")
    spark = open_session(lake_location(settings), {"spark.log.level": "ERROR"}, master="local[2]", name="flink")
    try:
        tables = {
            "ours": spark.table(pipeline.lake.spark_name(pipeline.table_path("snapshot", TABLE))),
            "flink": spark.read.format("iceberg").load((folder / "flink" / "shop" / "orders").as_uri()),
        }
        texts = ", ".join(f"cast({name} AS string)" for name in COLUMNS)
        sums = {
            name: table.selectExpr("count(*)", f"sum(cast(xxhash64({texts}) AS decimal(38, 0)))").first()
            for name, table in tables.items()
        }
    finally:
        spark.stop()
    if sums["ours"] != sums["flink"] or sums["ours"] is None or sums["ours"][0] != live:
        raise SystemExit(f"the tables differ: rows and their sums are {sums}, {live} rows are expected")


def main() -> int:
    """Run the command."""
    options = Options("flink", __doc__)
    options.add_cases(CASES)
    options.add_turns(2)
    options.add_seed()
    options.add_argument("--changes", type=int, default=1_500_000, help="row changes (default 1,500,000)")
    options.add_argument("--load-with-flink", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options.add_argument("--compare", nargs=2, metavar=("FOLDER", "ROWS"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.load_with_flink:
        load_with_flink(chosen.load_with_flink)
        return 0
    if chosen.compare:
        compare(Path(chosen.compare[0]), int(chosen.compare[1]))
        return 0
    if not JARS.is_dir():
        say("flink: its jars are fetched, a minute")
        subprocess.run(
            [sys.executable, "scripts/fetch_broker.py", "flink"], cwd=HOUSE, stdout=subprocess.DEVNULL, check=True
        )
    say(f"flink: {chosen.changes:,} changes, CPU seconds, least of {chosen.turns}, seed {chosen.seed}, load {load()}")
    say(f"{'case':>6} {'flink':>8} {'ours':>8} {'ratio':>7}   wall seconds: {'flink':>6} {'ours':>6}")
    figures = {}
    for case, rows in CASES.items():
        if not chosen.case or case in chosen.case:
            one = figures[case] = measure(rows, changes=chosen.changes, turns=chosen.turns, seed=chosen.seed)
            ratio = one["flink"] / one["ours"]
            say(
                f"{case:>6} {one['flink']:8.1f} {one['ours']:8.1f} {ratio:6.2f}x {'':16} "
                f"{one['flink_wall']:6.1f} {one['ours_wall']:6.1f}"
            )
    ratios = {case: round(one["flink"] / one["ours"], 3) for case, one in figures.items()}
    finish("flink", ratios, {case: {name: round(it, 2) for name, it in one.items()} for case, one in figures.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
