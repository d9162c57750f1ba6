"""The commands ``dts-assets rules check`` and ``rules apply``: plain values in columns with a rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import CHECK_FAILED, config_option, say, settings_of, subscription_of, table_of
from dts_assets.flows.known_tables import registered_columns
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.plain_values import PlainColumn, find_plain_values, replace_plain_values
from dts_assets.flows.this_process import this_process
from dts_assets.model.tables import TableId


@click.group("rules")
def rules() -> None:
    """Find plain values in stored columns that have a rule, and replace them."""


@rules.command("check")
@click.argument("subscription")
@click.argument("tables", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each column, a line each.")
@config_option
def check(subscription: str, tables: tuple[str, ...], as_json: bool, config: Path | None) -> None:
    """Name the columns of a SUBSCRIPTION, or of its TABLES, in which values look plain.

    All changelogs, snapshots and histories with a rule are read; copies have noted which rules they lack. A value counts unless
    it looks as if its rule had made it. Exit code 3 if there is one.
    """
    pipeline = _pipeline(config, subscription)
    found = find_plain_values(pipeline, _chosen(pipeline, tables))
    _show(found, as_json=as_json)
    if found:
        sys.exit(CHECK_FAILED)


@rules.command("apply")
@click.argument("subscription")
@click.argument("tables", nargs=-1)
@config_option
def apply(subscription: str, tables: tuple[str, ...], config: Path | None) -> None:
    """Replace plain values of a SUBSCRIPTION, or of some of its TABLES, as their rules say.

    Changelogs are written anew, other layers are made anew from them, and earlier versions expire. No message and no entry is
    read. Exit code 3 if plain values are left, as in columns that are stored as numbers.
    """
    pipeline = _pipeline(config, subscription)
    chosen = _chosen(pipeline, tables)
    # No Spark: files are read and written in this process, so that the command needs no Java.
    for fault in replace_plain_values(pipeline, chosen, spark=this_process, progress=say).values():
        say(fault.reason)
    left = find_plain_values(pipeline, chosen)
    _show(left, as_json=False)
    if left:
        sys.exit(CHECK_FAILED)


def _pipeline(config: Path | None, subscription: str) -> Pipeline:
    settings = settings_of(config)
    subscription_of(settings, subscription)
    return open_pipeline(settings, subscription)


def _chosen(pipeline: Pipeline, names: Sequence[str]) -> list[TableId]:
    """Return the tables of some names.

    Raises:
        click.BadParameter: No known table has such a name.
    """
    known = registered_columns(pipeline)
    found = []
    for name in names:
        some = [table for table in known if table.is_called(name)]
        if not some:
            raise click.BadParameter(f"there is no table {name}")
        found += some
    return found


def _show(found: Sequence[PlainColumn], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(json.dumps({**asdict(one), "table": str(one.table)}))
    elif not found:
        say("no plain value in a column with a rule")
    else:
        shown = table_of("plain values", texts=["table", "layer", "column", "rule"], numbers=["values"])
        for one in found:
            shown.add_row(str(one.table), one.layer, one.column, one.rule, f"{one.values:,}")
        Console(highlight=False).print(shown)
