"""The example from its messages to its tables through Dagster, and then the judge.

The judge is the database itself: its content at the end of the recorded stream was dumped by ``SELECT`` when the capture was
made, and every snapshot is compared with it row by row.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dts_assets.cli.main import CHECK_FAILED
from dts_assets.cli.run import run_all
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.settings import load_settings
from dts_emulator.judge.comparison import Verdict, compare
from dts_emulator.judge.dump_format import dump_file

SUBSCRIPTION = "shop"


def run_demo(path: Path) -> int:
    """Run, judge and say how to go on; the exit code."""
    console = Console(highlight=False)
    began = time.monotonic()
    outcome = run_all(path, console)
    if outcome.failures:
        return outcome.exit_code
    settings = load_settings(path)
    pipeline = open_pipeline(settings, SUBSCRIPTION)
    verdicts = judge(pipeline, path.parent / "examples" / f"{SUBSCRIPTION}.expected")
    _show(verdicts, console)
    catalog = settings.lake.catalog_file
    console.print(f"\nDone in {time.monotonic() - began:.0f} s.")
    console.print("Look at it:  make dev   then open http://127.0.0.1:3000")
    if catalog is not None:
        console.print("Query it:    " + query_line(path.parent, catalog), soft_wrap=True, markup=False)
    if not all(verdict.equal for verdict in verdicts):
        return CHECK_FAILED
    return outcome.exit_code


def judge(pipeline: Pipeline, expected: Path) -> list[Verdict]:
    """Every snapshot against the database's own content."""
    verdicts = []
    for table in known_tables(pipeline):
        rows = pipeline.lake.scan(pipeline.table_path("snapshot", table))
        assert rows is not None, f"{table} has no snapshot"
        verdicts.append(compare(rows, expected / dump_file(table)))
    return verdicts


def query_line(folder: Path, catalog: Path) -> str:
    """One line that reads a snapshot with pyiceberg and DuckDB-like ease, from the project's folder."""
    where = catalog.relative_to(folder) if catalog.is_relative_to(folder) else catalog
    return (
        f'.venv/bin/python -c "from pyiceberg.catalog.sql import SqlCatalog; '
        f"print(SqlCatalog('lake', uri='sqlite:///{where}').load_table('shop.snapshot.shopdb.orders')"
        f'.scan(limit=5).to_pandas())"'
    )


def _show(verdicts: list[Verdict], console: Console) -> None:
    table = Table(title="Rows of each snapshot against the database's own content", title_justify="left")
    for column in ("table", "database", "snapshot", "differing", "verdict"):
        table.add_column(
            column, justify="left" if column in ("table", "verdict") else "right", no_wrap=column == "table"
        )
    for verdict in verdicts:
        word = "[green]equal[/green]" if verdict.equal else f"[red]{verdict}[/red]"
        numbers = (verdict.rows_expected, verdict.rows_found, verdict.differing_rows)
        table.add_row(str(verdict.table), *(f"{number:,}" for number in numbers), word)
    console.print(table)
    equal = sum(verdict.equal for verdict in verdicts)
    console.print(f"{equal} of {len(verdicts)} snapshots equal the database row by row.")
