"""The command ``dts-assets size``: bytes, files and rows by layer and table, and what settings would free."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dts_assets.cli.main import (
    config_option,
    duration,
    end,
    keep_names_whole,
    say,
    settings_of,
    subscription_of,
    table_of,
)
from dts_assets.cli.tables import table_named
from dts_assets.flows.known_tables import stored_tables
from dts_assets.flows.lake_size import LakeBytes, Supposed, TableBytes, lake_bytes
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.byte_sizes import rounded_size


@click.command("size")
@click.argument("subscription")
@click.option(
    "--table", "names", multiple=True, help="A table at the source, shopdb.orders; several times. Default: all."
)
@click.option(
    "--expire-after",
    callback=duration,
    help="Suppose that old versions go from this age on: 12h. Default: as set.",
)
@click.option("--raw", callback=duration, help="Suppose that messages go from this age on: 14d.")
@click.option("--entries", callback=duration, help="Suppose that entries go from this age on: 30d.")
@click.option("--no-orphans", is_flag=True, help="List no folders: orphans are not looked for.")
@click.option("--by-table", is_flag=True, help="Show each table, not each layer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all tables.")
@config_option
def size(
    subscription: str,
    names: tuple[str, ...],
    expire_after: timedelta | None,
    raw: timedelta | None,
    entries: timedelta | None,
    no_orphans: bool,
    by_table: bool,
    as_json: bool,
    config: Path | None,
) -> None:
    """Show how large the tables of a SUBSCRIPTION are, and what settings would free.

    The sizes are of the present version of each table, of what older versions alone hold, and of orphans: files that no version
    names. Nothing is changed.
    """
    settings = settings_of(config)
    subscription_of(settings, subscription)
    pipeline = open_pipeline(settings, subscription, only_read=True)
    known = stored_tables(pipeline)
    chosen = {table_named(name, known, subscription) for name in names} or None
    supposed = Supposed(expire_after, raw, entries)
    found = lake_bytes(pipeline, tables=chosen, supposed=supposed, orphans=not no_orphans)
    if as_json:
        click.echo(json.dumps(_json(found)))
    else:
        _show(found, subscription, by_table=by_table or chosen is not None)
        if not (found.tables or found.failures):
            say(f"the lake has no table of {subscription} yet")
    end(found.failures)


def _show(found: LakeBytes, subscription: str, *, by_table: bool) -> None:
    numbers = ["rows", "files", "now", "older versions", "orphans", "all"]
    shown = table_of(subscription, texts=["table" if by_table else "layer"], numbers=numbers)
    sizes = list(found.tables) if by_table else list(found.by_layer().values())
    names = [".".join(one.path[1:] if by_table else one.path) for one in sizes]
    keep_names_whole(shown, names)
    for number, (name, one) in enumerate(zip([*names, "total"], [*sizes, found.total()], strict=True)):
        shown.add_row(name, *_cells(one), end_section=number == len(sizes) - 1)
    console = Console(highlight=False)
    console.print(shown)
    freed = table_of("What settings would free", texts=["setting"], numbers=["rows", "bytes"])
    for setting in found.freed:
        freed.add_row(setting.setting, f"{setting.rows:,}" if setting.rows else "", rounded_size(setting.bytes))
    console.print(freed)
    mergeable = found.total().mergeable_files
    if mergeable:
        say(f"{mergeable:,} files of windows would become few by compaction")


def _cells(one: TableBytes) -> tuple[str, ...]:
    sizes = map(rounded_size, (one.bytes, one.older_bytes, one.orphan_bytes, one.all_bytes))
    return (f"{one.rows:,}", f"{one.files:,}", *sizes)


def _json(found: LakeBytes) -> dict[str, Any]:
    tables = [{**_numbers(one), "path": ".".join(one.path), "layer": one.layer} for one in found.tables]
    return {"tables": tables, "total": _numbers(found.total()), "freed": [asdict(one) for one in found.freed]}


def _numbers(one: TableBytes) -> dict[str, Any]:
    numbers = {name: value for name, value in asdict(one).items() if name != "path"}
    return {**numbers, "all_bytes": one.all_bytes}
