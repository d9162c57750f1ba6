"""The command ``dts-assets verify``: snapshots compared with the source database, and files read whole."""

from __future__ import annotations

import json
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
from dts_assets.flows.file_check import FileCheck, check_files
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.verdict_words import difference_lines, left_out_lines, verdict_words
from dts_assets.flows.verification import Verification, verify
from dts_assets.model.byte_sizes import rounded_size
from dts_assets.model.database_places import DatabasePlace
from dts_assets.settings import Subscription


class _Kinds(click.Group):
    """The kinds of verification. Without a kind the source is meant: ``verify shop`` is ``verify source shop``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the kind before arguments that have none."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["source", *args])


@click.group("verify", cls=_Kinds)
def verify_command() -> None:
    """Compare snapshots with the source database, or read all files of the lake.

    `verify shop` is `verify source shop`.
    """


@verify_command.command("files")
@click.argument("subscription", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each subscription, a line each.")
@config_option
def verify_files(subscription: str | None, as_json: bool, config: Path | None) -> None:
    """Read every file that the present versions of a SUBSCRIPTION's tables name, and list those that are damaged.

    All subscriptions are read if none is named. Rows, lists of deleted rows and metadata are read whole, and pages are compared
    with their checksums. Nothing is changed. Exit code 3 if a file is damaged or missing.
    """
    settings = settings_of(config)
    if subscription is not None:
        subscription_of(settings, subscription)
    names = settings.subscriptions if subscription is None else (subscription,)
    checked = one_by_one(
        names,
        lambda name: check_files(open_pipeline(settings, name), say),
        named=lambda name: f"The look at the files of {name}",
    )
    for name, found in checked.results.items():
        _show_files(name, found, as_json=as_json)
    end(checked.failures.values(), failed_checks=any(one.damaged for one in checked.results.values()))


def _show_files(name: str, found: FileCheck, *, as_json: bool) -> None:
    if as_json:
        damaged = [
            {"path": path, "what": one.what, "way_out": one.owner.way_out, "partition": found.partitions.get(path)}
            for path, one in found.damaged.items()
        ]
        numbers = {"tables": found.tables, "files": found.files, "bytes": found.bytes}
        click.echo(json.dumps({"subscription": name, **numbers, "damaged": damaged}))
        return
    for path, one in found.damaged.items():
        partition = f" Its partition is {found.partitions[path]}." if path in found.partitions else ""
        click.echo(f"{one}{partition}")
    click.echo(
        f"{name}: {found.files:,} files of {found.tables:,} tables were read ({rounded_size(found.bytes)}), "
        f"{len(found.damaged) or 'none'} {'is' if len(found.damaged) < 2 else 'are'} damaged"
    )


@verify_command.command("source")
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
def verify_source(
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
    for table in found.proven:
        say(
            f"{table}: its rows are as at the source; the next run of the window whose cut reaches {found.position} notes it"
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
