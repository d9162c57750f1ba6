"""``dts-assets freshness``: how long row changes took from their commit until the snapshots held them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_option, settings_of
from dts_emulator.commands.laboratory import laboratory_command


@click.command("freshness")
@click.argument("commits", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--subscription", help="Default: the first one of the configuration.")
@click.option("--last", type=click.FloatRange(0, min_open=True), help="Only commits of the last so many seconds.")
@config_option
@laboratory_command
def freshness(commits: Path, subscription: str | None, last: float | None, config: Path | None) -> None:
    """Say how long row changes took until the snapshots held them.

    COMMITS is the file that the workload writes with --log.
    """
    from dts_emulator.live.freshness_report import freshness_lines  # the lake's library takes its time to load

    settings = settings_of(config)
    name = _name_of(subscription, list(settings.subscriptions))
    console = Console(highlight=False)
    for line in freshness_lines(settings, name, commits, last=last):
        console.print(line, soft_wrap=True, markup=False)


def _name_of(asked: str | None, known: Sequence[str]) -> str:
    """Return the subscription that was asked for, else the first one.

    Raises:
        click.BadParameter: There is no such subscription.
    """
    if asked is not None and asked not in known:
        raise click.BadParameter(
            f"there is no subscription {asked}; there are {', '.join(known)}", param_hint="--subscription"
        )
    return asked or known[0]
