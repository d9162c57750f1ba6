"""The command ``dts-assets run``: it materializes every closed window that is missing or stale, through Dagster.

The command does what a person would do in the UI: it makes runs of the two jobs over rectangles of partitions, on the same
Dagster instance, so that the UI shows them all. It asks again after each round until nothing is left, because new entries make
new tables ready.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.dagster_runs import Dagster, Request, RunFailure, open_dagster
from dts_assets.cli.main import CHECK_FAILED, config_of, config_option, say, table_of
from dts_assets.defs.assemble import assemble
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.defs.policies import asset_key
from dts_assets.defs.table_assets import graph_tables
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.preflight import require_spark
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.model.tables import TableId
from dts_assets.planning.column_types import converted_columns
from dts_assets.planning.message_retention import removed_lines
from dts_assets.planning.pauses import resume_command
from dts_assets.planning.work import Work
from dts_assets.settings import Settings, load_settings

_LONGEST = 250
"""The most windows in one run.

Each run of the tables merges every snapshot once, some ten seconds for a handful of tables, however few
its windows are. The windows that a killed run has not committed are done again by the next run.
"""


_KEYS_LOOKED_AT = 200_000
"""The rows of snapshots whose keys are looked at in the end.

That takes a fraction of a second; `dts-assets keys` looks at all of them.
"""


@dataclass(slots=True)
class Outcome:
    """The number of runs, the failures of runs, and the number of partitions that fail a check."""

    runs: int = 0
    failures: list[RunFailure] = field(default_factory=list)
    failed_checks: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of the first failed run; without one, whether a check failed."""
        if self.failures:
            return self.failures[0].exit_code
        return CHECK_FAILED if self.failed_checks else 0


@click.command("run")
@config_option
def run(config: Path | None) -> None:
    """Materialize every closed window that is missing or stale, through Dagster."""
    sys.exit(run_all(config_of(config), Console(highlight=False)).exit_code)


def run_all(path: Path, console: Console) -> Outcome:
    """Run all subscriptions of a configuration."""
    outcome = Outcome()
    settings = load_settings(path)
    with open_dagster(path) as dagster:
        for name in settings.subscriptions:
            _run_subscription(settings, name, path, dagster, console, outcome)
            if not outcome.failures:
                outcome.failed_checks += _closing(open_pipeline(settings, name), console)
    if not outcome.runs:
        console.print("Nothing to do: every closed window is there and up to date.")
    for failure in outcome.failures:
        say(failure.sentence)
    return outcome


def _run_subscription(
    settings: Settings, name: str, path: Path, dagster: Dagster, console: Console, outcome: Outcome
) -> None:
    pipeline = open_pipeline(settings, name)
    asked: set[str] = set()
    while True:
        work = find_work(pipeline).without_live
        requests = [request for request in _requests(name, work) if request.key not in asked]
        if not requests:
            return
        if requests[0].job == tables_job_name(name) and not graph_tables(settings.subscriptions[name]):
            # Dagster has no job of tables before the first table is known.
            console.print(
                f"{name}: {len(work.tables)} closed windows hold no table that is taken; nothing is made of them."
            )
            return
        require_spark(settings)  # before Dagster starts a run, which would take as long as Spark to say it
        definitions = assemble(settings, path)  # anew, because entries may have found tables since
        for request in requests:
            asked.add(request.key)
            console.print(f"[bold]{request.job}[/bold] {request.key}")
            outcome.runs += 1
            failure = dagster.execute(definitions, request)
            if failure is not None:
                said = f"{request.job} {request.key} failed: {failure.sentence}"
                outcome.failures.append(replace(failure, sentence=said))
                return


def _requests(name: str, work: Work) -> Sequence[Request]:
    """Return the next runs: runs that bring messages in; when none is left, runs of the tables."""
    requests = []
    for run in work.ingest_runs(longest=_LONGEST):
        inputs = {text for cell in run.span.cells() for text in work.entries_inputs.get(cell, ())}
        tags = span_tags(run.span)
        key = " to ".join(tags.values()) + (f" ({len(inputs)} inputs changed)" if inputs else "")
        selection = (asset_key(name, "entries"),) if run.entries_only else None
        requests.append(Request(ingest_job_name(name), key, tags, selection))
    return requests or [
        Request(tables_job_name(name), f"{windows[0].key} to {windows[-1].key}", window_tags(windows))
        for windows in work.tables_runs(longest=_LONGEST)
    ]


def _closing(pipeline: Pipeline, console: Console) -> int:
    """Print the closing table of a subscription; return the number of partitions that fail a check."""
    rows = pipeline.ledger.windows()
    cuts = {row.window.start for row in pipeline.ledger.cuts()}
    title = f"{pipeline.name}: {len(rows)} partitions of {len(cuts)} windows"
    known = known_tables(pipeline)
    layers = [
        layer for layer in pipeline.layers if layer.make and any(layer.takes(pipeline.settings, name) for name in known)
    ] or [SNAPSHOT]
    table = table_of(title, texts=["table"], numbers=["changelog rows", *(f"{layer.name} rows" for layer in layers)])
    changes: Counter[TableId] = Counter()
    counted = pipeline.ledger.window_tables()
    for row in counted:
        changes[row.table] += row.kept
    pauses = paused_here(pipeline)
    paused = {name: pause for name, pause in pauses.items() if not pause.is_removed}
    for name in (one for one in known if one in paused or one not in pauses):  # others were removed
        if name in paused:  # its tables may be the reason why, and are not opened
            table.add_row(str(name), f"{changes[name]:,}", *("paused" for _ in layers))
            continue
        sizes = [
            pipeline.lake.size(pipeline.table_path(layer.name, name)) if layer.takes(pipeline.settings, name) else None
            for layer in layers
        ]
        shown = [f"{size.rows:,}" if size is not None else "-" for size in sizes]
        table.add_row(str(name), f"{changes[name]:,}", *shown)
    console.print(table)
    for name, columns in known.items():
        for column in converted_columns(columns):
            console.print(f"{name}: {column}", markup=False)
    for line in removed_lines(pipeline.ledger.removed_rows()):
        console.print(line, markup=False, soft_wrap=True)
    failing = [judged for judged in judge_ledger(pipeline) if judged.sentence]
    for judged in failing:
        console.print(f"{judged.partition}: {judged.sentence}")
    repeated = {name: count for name, count in find_repeated_keys(pipeline, most_rows=_KEYS_LOOKED_AT).items() if count}
    for name, count in repeated.items():
        console.print(f"{name}: {count:,} keys stand in its snapshot more than once; see dts-assets keys --help")
    for name, pause in paused.items():
        console.print(
            f"{name} stands still since {pause.since:%Y-%m-%d %H:%M} UTC, paused by a {pause.by.value}: {pause.reason}; mend it, "
            f"then {resume_command(name)}",
            markup=False,
            soft_wrap=True,
        )
    return len(failing) + len(repeated) + len(paused)
