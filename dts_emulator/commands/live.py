"""``dts-assets live``: a live pipeline on this machine, and in the terminal how fresh its tables are."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from dts_emulator.commands.laboratory import laboratory_command


@click.command("live")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("live"),
    show_default=True,
    help="Where everything lies; emptied.",
)
@click.option("--rate", type=click.IntRange(1), default=500, show_default=True, help="Row changes per second.")
@click.option("--tables", type=click.IntRange(2), default=20, show_default=True, help="Tables in the database.")
@click.option("--window", "every", default="5m", show_default=True, help="The length of a window: 1m, 5m, 1h.")
@click.option(
    "--format", "chosen", default="dts-protobuf", show_default=True, help="The wire format of the topic: drs-json."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=3000, show_default=True, help="Of the Dagster UI; 0: any."
)
@click.option("--seconds", type=float, help="End by itself after so long.")
@laboratory_command
def live(folder: Path, rate: int, tables: int, every: str, chosen: str, port: int, seconds: float | None) -> None:
    """Follow a busy database from its commits to its snapshots, until Ctrl-C."""
    from dts_emulator.live.live_stack import LiveOptions  # needs the packages of the extra
    from dts_emulator.live.live_view import run_live

    _require_format(chosen)
    options = LiveOptions(folder, rate=rate, tables=tables, every=every, port=port, format=chosen)
    run_live(options, Console(highlight=False), seconds=seconds)


def _require_format(chosen: str) -> None:
    """Refuse a format that no task writes.

    Raises:
        click.BadParameter: No task writes it.
    """
    from dts_emulator.tasks.vendor_tasks import FORMATS

    if chosen not in FORMATS:
        raise click.BadParameter(f"write one of {', '.join(FORMATS)}", param_hint="--format")
