"""The command ``dts-assets redrive``, which reads quarantine again through the job that the UI has, too."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.dagster_runs import Request, open_dagster
from dts_assets.cli.main import config_of, config_option, say, subscription_of, table_of
from dts_assets.defs.assemble import assemble
from dts_assets.defs.redrive import RedriveConfig, chosen_by, redrive_job_name
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.preflight import require_spark
from dts_assets.model.problems import Reason
from dts_assets.settings import load_settings

_TIMES = click.DateTime(formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"])


@click.command("redrive")
@click.argument("subscription")
@click.option("--from", "start", type=_TIMES, help="Windows that start at this time or later (UTC).")
@click.option("--to", "end", type=_TIMES, help="Windows that start before this time (UTC).")
@click.option(
    "--partition", "partitions", type=int, multiple=True, help="A Kafka partition; may be given several times."
)
@click.option(
    "--reason", "reasons", type=click.Choice([reason.value for reason in Reason]), multiple=True, help="A reason code."
)
@config_option
def redrive(
    subscription: str,
    start: datetime | None,
    end: datetime | None,
    partitions: tuple[int, ...],
    reasons: tuple[str, ...],
    config: Path | None,
) -> None:
    """Read the quarantine of a SUBSCRIPTION again with the code and settings of now.

    Rows that can be used now move on, the others stay in quarantine.
    """
    path = config_of(config)
    settings = load_settings(path)
    subscription_of(settings, subscription)
    first, last = ("" if time is None else time.replace(tzinfo=UTC).isoformat() for time in (start, end))
    asked = RedriveConfig(start=first, end=last, kafka_partitions=list(partitions), reasons=list(reasons))
    chosen = chosen_by(asked)
    pipeline = open_pipeline(settings, subscription)
    before = [row for row in pipeline.ledger.quarantine() if chosen.holds(row)]
    console = Console(highlight=False)
    if not before:
        console.print("No such row is in quarantine.")
        return
    ops = {f"{subscription}_read_quarantine_again": {"config": dict(asked)}}
    request = Request(redrive_job_name(subscription), subscription, {}, ops=ops)
    require_spark(settings)
    with open_dagster(path) as dagster:
        failure = dagster.execute(assemble(settings, path), request)
    if failure is not None:
        say(f"redrive failed: {failure.sentence}")
        sys.exit(failure.exit_code)
    after = [row for row in pipeline.ledger.quarantine() if chosen.holds(row)]
    title = f"{subscription}: quarantine driven again"
    table = table_of(title, texts=["stage", "reason"], numbers=["were there", "are there"])
    for stage, reason in sorted({(row.stage, row.reason) for row in before}):
        counts = (sum((row.stage, row.reason) == (stage, reason) for row in rows) for rows in (before, after))
        table.add_row(stage, reason.value, *(f"{count:,}" for count in counts))
    console.print(table)
