"""The command ``dts-assets maintain``: the files of tables are put in order, and old ones go."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_option, say, settings_of, subscription_of, table_of
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.model.byte_sizes import rounded_size
from dts_assets.model.maintenance import Step, StepReport

_DETAILS = 10


@click.command("maintain")
@click.argument("subscription")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([str(one) for one in Step]),
    help="A step; several times. Default: those of maintenance.steps.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each step, a line each.")
@config_option
def maintain_command(
    subscription: str, only: tuple[str, ...], dry_run: bool, as_json: bool, config: Path | None
) -> None:
    """Put the files of a SUBSCRIPTION's tables in order, and remove old ones.

    The steps are retention, tags, compaction, sorting, expiry and orphans. No row of a source table is another one by them. A run
    that writes is waited for. Exit code 1 if a part of a step was not done.
    """
    settings = settings_of(config)
    subscription_of(settings, subscription)
    pipeline = open_pipeline(settings, subscription)
    reports = []
    # No Spark: files are read and written in this process, so that the command needs no Java.
    steps = [Step(one) for one in only]
    for report in maintain(pipeline, only=steps, dry_run=dry_run, spark=this_process, progress=say):
        reports.append(report)
        if as_json:
            click.echo(json.dumps(_json(report)))
        else:
            for line in (*report.details[:_DETAILS], *_more(report), *report.failed):
                say(f"{report.step}: {line}")
    if not as_json:
        _show(reports, dry_run=dry_run)
    sys.exit(1 if any(report.failed for report in reports) else 0)


def _more(report: StepReport) -> tuple[str, ...]:
    more = len(report.details) - _DETAILS
    return (f"and {more:,} more",) if more > 0 else ()


def _show(reports: list[StepReport], *, dry_run: bool) -> None:
    title = "What maintenance would do" if dry_run else "What maintenance did"
    shown = table_of(title, texts=["step", "what"], numbers=["tables", "freed"])
    for one in reports:
        what = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in one.numbers.items())
        shown.add_row(str(one.step), what, f"{one.tables:,}", rounded_size(one.freed_bytes))
    Console(highlight=False).print(shown)


def _json(report: StepReport) -> dict[str, object]:
    return {
        "step": str(report.step),
        "tables": report.tables,
        "freed_bytes": report.freed_bytes,
        **report.numbers,
        "details": list(report.details),
        "failed": list(report.failed),
    }
