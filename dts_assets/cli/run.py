"""``dts-assets run``: everything that has closed and is missing or stale, materialized through Dagster in this process.

What it does is what a person would do in the UI: runs of the two jobs over rectangles of partitions, on the same instance, so
that they all show there. It asks again after each round until nothing is left, because new entries make new tables ready.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import dagster as dg
from rich.console import Console
from rich.table import Table

from dts_assets.cli.main import config_of, config_option
from dts_assets.defs.assemble import assemble
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.problems import Completeness
from dts_assets.planning.work import Work
from dts_assets.settings import Settings, load_settings
from dts_assets.settings.load import dagster_home, enter_dagster_home

FAILED, CHECK_FAILED = 1, 3
"""Exit codes: a partition failed; all partitions are there, but a check of some failed."""

SPARK_LOG = "spark.log"
"""Where Spark's own messages of this command go, in Dagster's home."""

_LONGEST = 250
"""Windows in one run. Each run of the tables merges every snapshot once, some ten seconds for a handful of tables, however few
its windows are; what a killed run had not committed is done again by the next."""


@dataclass(slots=True)
class Outcome:
    """What a call of ``run`` did: runs that were made, and the messages of those that failed."""

    runs: int = 0
    failures: list[str] = field(default_factory=list)


@click.command("run")
@config_option
def run(config: Path | None) -> None:
    """Materialize every closed window that is missing or stale, through Dagster."""
    path = config_of(config)
    console = Console(highlight=False)
    outcome, failed_checks = run_all(path, console)
    if outcome.failures:
        sys.exit(FAILED)
    if failed_checks:
        sys.exit(CHECK_FAILED)


def run_all(path: Path, console: Console) -> tuple[Outcome, int]:
    """Run all subscriptions of a configuration; what was done and how many partitions fail a check."""
    outcome, failed_checks = Outcome(), 0
    settings = load_settings(path)
    home = enter_dagster_home(path)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for name in settings.subscriptions:
            _run_subscription(settings, name, path, instance, console, outcome)
            if not outcome.failures:
                failed_checks += _closing(open_pipeline(settings, name), console)
    if not outcome.runs:
        console.print("Nothing to do: every closed window is there and up to date.")
    for failure in outcome.failures:
        Console(stderr=True, soft_wrap=True, markup=False, highlight=False).print(failure)
    return outcome, failed_checks


def _run_subscription(
    settings: Settings, name: str, path: Path, instance: dg.DagsterInstance, console: Console, outcome: Outcome
) -> None:
    pipeline = open_pipeline(settings, name)
    asked: set[str] = set()
    while True:
        requests = [
            request for request in _requests(name, find_work(pipeline).without_live) if request.key not in asked
        ]
        if not requests:
            return
        definitions = assemble(settings, path)  # anew, because entries may have found tables since
        for request in requests:
            asked.add(request.key)
            console.print(f"[bold]{request.job}[/bold] {request.key}")
            outcome.runs += 1
            failure = execute(definitions, request, instance, dagster_home(path) / SPARK_LOG)
            if failure is not None:
                outcome.failures.append(f"{request.job} {request.key} failed: {failure}")
                return


@dataclass(frozen=True, slots=True)
class Request:
    """A run: its job, its tags, the assets of it (None: all), its ops' configuration, and what tells it from others."""

    job: str
    key: str
    tags: Mapping[str, str]
    selection: tuple[dg.AssetKey, ...] | None = None
    ops: Mapping[str, Any] = field(default_factory=dict)


def _requests(name: str, work: Work) -> Sequence[Request]:
    """The next runs: first what brings messages in, and only when nothing of that is left, the tables."""
    requests = []
    for run in work.ingest_runs(longest=_LONGEST):
        inputs = {text for cell in run.span.cells() for text in work.entries_inputs.get(cell, ())}
        tags = span_tags(run.span)
        key = " to ".join(tags.values()) + (f" ({len(inputs)} inputs changed)" if inputs else "")
        selection = (dg.AssetKey([name, "entries"]),) if run.entries_only else None
        requests.append(Request(ingest_job_name(name), key, tags, selection))
    return requests or [
        Request(tables_job_name(name), f"{windows[0].key} to {windows[-1].key}", window_tags(windows))
        for windows in work.tables_runs(longest=_LONGEST)
    ]


def execute(definitions: dg.Definitions, request: Request, instance: dg.DagsterInstance, log: Path) -> str | None:
    """Run one request; what it failed with, if it did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        job = definitions.resolve_job_def(request.job)
        with _stderr_in(log):
            result = job.execute_in_process(
                instance=instance,
                tags=dict(request.tags),
                asset_selection=None if request.selection is None else list(request.selection),
                raise_on_error=False,
                run_config={"loggers": {"progress": {"config": {}}}, "ops": dict(request.ops)},
            )
    if result.success:
        return None
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            return "unknown" if error is None else _sentence(error.message)
    return "see the run in the Dagster UI"


def _sentence(message: str) -> str:
    """What Dagster keeps of an error, without the class name that it puts before an error meant for people."""
    return re.sub(r"^dts_assets\.errors\.\w+: ", "", message.strip())


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Send what this process and the JVM that it starts write to stderr into a file: Spark talks there for as long as it runs."""
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)


def _closing(pipeline: Pipeline, console: Console) -> int:
    """The closing table of a subscription; how many partitions fail a check."""
    rows = pipeline.ledger.windows()
    cuts = {row.window.start: row for row in pipeline.ledger.cuts()}
    table = Table(title=f"{pipeline.name}: {len(rows)} partitions of {len(cuts)} windows", title_justify="left")
    for column in ("table", "changelog rows", "snapshot rows"):
        table.add_column(column, justify="left" if column == "table" else "right")
    changes: dict[object, int] = {}
    for row in pipeline.ledger.window_tables():
        changes[row.table] = changes.get(row.table, 0) + row.kept
    for name, columns in known_tables(pipeline).items():
        snapshot = pipeline.lake.state(pipeline.table_path("snapshot", name))
        shown = f"{int(snapshot.properties['total-records']):,}" if snapshot is not None else "-"
        if not any(column.is_key for column in columns):
            shown = "no key"
        table.add_row(str(name), f"{changes.get(name, 0):,}", shown)
    console.print(table)
    failing = [row for row in rows if row.completeness is Completeness.INCOMPLETE or not row.counts.balanced]
    for cell in failing:
        problems = ", ".join(problem.code.value for problem in cell.problems)
        console.print(f"incomplete: {cell.cell} ({problems})")
    return len(failing)
