"""``dts-assets demo``: all tables of the example, compared with the database's own dump."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dts_assets.cli.main import config_of, config_option
from dts_emulator.commands.laboratory import laboratory_command


@click.command("demo")
@config_option
@laboratory_command
def demo(config: Path | None) -> None:
    """Build all tables of the example and compare them with the database."""
    from dts_emulator.commands.demo_run import run_demo  # Dagster takes its time to load

    sys.exit(run_demo(config_of(config)))
