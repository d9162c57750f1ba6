"""The command ``dts-assets run``: it materializes every closed window that is missing or stale, through Dagster.

The command does what a person would do in the UI: it makes runs of the two jobs over rectangles of partitions, on the same
Dagster instance, so that the UI shows them all. It asks again after each round until nothing is left, because new entries make
new tables ready.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.closing import close
from dts_assets.cli.dagster_runs import Dagster, Request, open_dagster
from dts_assets.cli.idle import AS_NAMED, UP_TO_DATE, idle_sentence
from dts_assets.cli.main import config_of, config_option, say
from dts_assets.defs.assemble import assemble
from dts_assets.defs.checks import SCHEMA
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.defs.policies import asset_key
from dts_assets.defs.table_assets import graph_tables
from dts_assets.errors import DtsAssetsError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.one_by_one import failure_of
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.preflight import require_spark
from dts_assets.model.failures import Failure, exit_code_of, sentences_of
from dts_assets.planning.work import Work
from dts_assets.settings import Settings, load_settings

_LONGEST = 250
"""The most windows in one run.

Each run of the tables merges every snapshot once, some ten seconds for a handful of tables, however few
its windows are. The windows that a killed run has not committed are done again by the next run.
"""


@dataclass(slots=True)
class Outcome:
    """The number of runs, the failures of runs and checks, and the number of failed checks.

    ``idle`` says of subscriptions without work why they are not done.
    """

    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    failed_checks: int = 0
    idle: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The exit code of the first failure; without one, whether a check failed."""
        return exit_code_of(self.failures, failed_checks=bool(self.failed_checks))


@click.command("run")
@config_option
def run(config: Path | None) -> None:
    """Materialize every closed window that is missing or stale, through Dagster."""
    sys.exit(run_all(config_of(config), Console(highlight=False)).exit_code)


def run_all(path: Path, console: Console) -> Outcome:
    """Run all subscriptions of a configuration, whatever becomes of one of them."""
    outcome = Outcome()
    settings = load_settings(path)
    with open_dagster(path) as dagster:
        for name in settings.subscriptions:
            try:
                _run_and_close(settings, name, path, dagster, console, outcome)
            except Exception as error:
                outcome.failures.append(failure_of(error, f"The run of {name}", exit_code=DtsAssetsError.exit_code))
    for line in (*outcome.idle, *_summary(outcome)):
        console.print(line, markup=False, soft_wrap=True)
    for sentence in sentences_of(outcome.failures):
        say(sentence)
    return outcome


def _run_and_close(
    settings: Settings, name: str, path: Path, dagster: Dagster, console: Console, outcome: Outcome
) -> None:
    before = outcome.runs
    failure = _run_subscription(settings, name, path, dagster, console, outcome)
    if failure is not None:
        outcome.failures.append(failure)
        return
    pipeline = open_pipeline(settings, name)
    closing = close(pipeline, console, path)
    outcome.failures += closing.failures
    outcome.failed_checks += closing.failed_checks
    unproven = {asset_key(name, SNAPSHOT.name, *table.path) for table in closing.unproven}
    for one in dagster.failed_checks:
        # All others are about the lake as it stands, which the lines before have looked at.
        if one.check_name == SCHEMA and one.asset_key.path[0] == name and one.asset_key not in unproven:
            outcome.failed_checks += 1
            said = f"{one.asset_key.to_user_string()}: the check {SCHEMA} of window {one.partition} failed; its page says why"
            console.print(said, markup=False, soft_wrap=True)
    if outcome.runs == before and not closing.has_another_format and (idle := idle_sentence(pipeline)):
        outcome.idle.append(idle)


def _summary(outcome: Outcome) -> tuple[str, ...]:
    """Return the last line of a command without a run; none where subscriptions are not done."""
    if outcome.runs or outcome.failures:
        return ()
    return (AS_NAMED,) if outcome.failed_checks else () if outcome.idle else (UP_TO_DATE,)


def _run_subscription(
    settings: Settings, name: str, path: Path, dagster: Dagster, console: Console, outcome: Outcome
) -> Failure | None:
    """Do the work of a subscription until nothing is left; return the failure that ended it."""
    pipeline = open_pipeline(settings, name)
    asked: set[str] = set()
    while True:
        work = find_work(pipeline).without_live
        requests = [request for request in _requests(name, work) if request.key not in asked]
        if not requests:
            return None
        if requests[0].job == tables_job_name(name) and not graph_tables(settings.subscriptions[name]):
            return None  # Dagster has no job of tables before the first table is known
        require_spark(settings)  # before Dagster starts a run, which would take as long as Spark to say it
        # Anew, because entries may have found tables since; alone, because another one's registry may not be readable.
        definitions = assemble(
            settings.model_copy(update={"subscriptions": {name: settings.subscriptions[name]}}), path
        )
        for request in requests:
            asked.add(request.key)
            console.print(f"[bold]{request.job}[/bold] {request.key}")
            outcome.runs += 1
            failure = dagster.execute(definitions, request)
            if failure is not None:
                return replace(failure, sentence=f"{request.job} {request.key} failed: {failure.sentence}")


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
