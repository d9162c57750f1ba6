"""The command ``dts-assets verify``: snapshots compared with the source database at one moment."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import (
    NOT_COMPARED,
    config_option,
    duration,
    end,
    say,
    settings_of,
    subscription_of,
    table_of,
)
from dts_assets.cli.tables import table_named
from dts_assets.errors import MissingSettingError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.verdict_words import difference_lines, left_out_lines, verdict_words
from dts_assets.flows.verification import Verification, verify
from dts_assets.model.database_places import DatabasePlace
from dts_assets.settings import Subscription


@click.command("verify")
@click.argument("subscription")
@click.option(
    "--table", "names", multiple=True, help="A table at the source, shopdb.orders; several times. Default: all."
)
@click.option("--show-values", is_flag=True, help="Show the values of cells that differ, which may be secrets.")
@click.option(
    "--timeout",
    callback=duration,
    help="How long to wait for the lake to reach the source's position: 90s, 10m. Default: as configured.",
)
@click.option("--repair", is_flag=True, help="Take the rows that differ from the source, as changes of the changelog.")
@click.option(
    "--server-is-right",
    is_flag=True,
    help="With --repair: answer for a database that cannot be checked to be the server of the messages.",
)
@config_option
def verify_command(
    subscription: str,
    names: tuple[str, ...],
    show_values: bool,
    timeout: timedelta | None,
    repair: bool,
    server_is_right: bool,
    config: Path | None,
) -> None:
    """Compare the snapshots of a SUBSCRIPTION with the source database, all tables at one moment.

    The source adds up its rows by one statement for each table, and the lake adds up its files. The sum that a snapshot carries
    is compared, too. Writes may go on. Where sums differ, the rows and columns that differ are named. Nothing is changed
    unless they are to be repaired. A database that is not the server of the messages is refused.
    Exit code 3 if a table differs, 4 if none differs and some table could not be compared.
    """
    settings = settings_of(config)
    place = _place(subscription_of(settings, subscription))
    pipeline = open_pipeline(settings, subscription)
    known = tuple(known_tables(pipeline))
    chosen = {table_named(name, known, subscription) for name in names} or None
    seconds = None if timeout is None else timeout.total_seconds()
    found = verify(
        pipeline, place, tables=chosen, timeout=seconds, repair=repair, server_is_right=server_is_right, progress=say
    )
    shown = table_of(f"{subscription} at {found.position}", texts=["table", "verdict"], numbers=["lake", "source"])
    for table, one in sorted(found.verdicts.items()):
        shown.add_row(str(table), verdict_words(one), f"{one.lake.rows:,}", f"{one.source.rows:,}")
    Console(highlight=False, markup=False).print(shown)
    for table in found.unequal:
        for line in difference_lines(table, found.verdicts[table].differences, server="source", values=show_values):
            click.echo(line)
    _say_left_out(found)
    for table, copied in found.repaired.items():
        say(
            f"{table}: {copied.rows:,} rows are repaired by the next run of the window whose cut reaches {found.position}"
        )
    for table, reason in found.not_repaired.items():
        say(f"{table} is not repaired: {reason}")
    end(found.failures.values(), failed_checks=bool(found.unequal))
    sys.exit(NOT_COMPARED if found.refused else 0)


def _place(subscription: Subscription) -> DatabasePlace:
    """Return where the source of a subscription is reached.

    Raises:
        MissingSettingError: The configuration does not say it.
    """
    place = subscription.verify.place
    if place is None:
        hint = "write verify: jdbc: with url, user and password (docs/verifying.md)"
        raise MissingSettingError(subscription.name, "source database to compare with", hint)
    return place


def _say_left_out(found: Verification) -> None:
    for table, one in sorted(found.verdicts.items()):
        for line in left_out_lines(table, one.left_out):
            say(line)
        if one.lake.misfits or one.source.misfits:
            say(
                f"{table}: values that do not fit their columns are NULL on both sides: {one.lake.misfits:,} in the lake, "
                f"{one.source.misfits:,} at the source"
            )
