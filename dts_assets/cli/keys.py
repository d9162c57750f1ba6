"""The command ``dts-assets keys``, which looks whether a snapshot has a key in more than one row."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_of, config_option, end, subscription_of, table_of
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.settings import load_settings


@click.command("keys")
@click.argument("subscription")
@config_option
def keys(subscription: str, config: Path | None) -> None:
    """Look whether every snapshot of a SUBSCRIPTION has one row for each key; exit code 3 if not.

    All key columns are read, with eight bytes of memory for each row of the largest table. A snapshot that has a key twice was
    written by another program, or by a version of this one with a fault: drop its table and materialize a window again, which
    makes it anew from its changelog.
    """
    settings = load_settings(config_of(config))
    subscription_of(settings, subscription)
    found = find_repeated_keys(open_pipeline(settings, subscription, only_read=True))
    table = table_of(f"{subscription}: keys in more than one row", texts=["table"], numbers=["keys"])
    for name, count in sorted(found.results.items()):
        table.add_row(str(name), f"{count:,}")
    Console(highlight=False).print(table)
    end(found.failures.values(), failed_checks=any(found.results.values()))
