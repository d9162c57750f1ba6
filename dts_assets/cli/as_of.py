"""The command ``dts-assets as-of``: tables as they were at a moment of the source, as Parquet files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_option, say, settings_of, subscription_of, table_of
from dts_assets.cli.tables import table_named
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.moments import TablesAt, tables_at
from dts_assets.flows.moments_export import export_table
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.planning.source_moments import AtGtid, AtPosition, AtTime, AtWindow, Moment, moment_of

TABLES_LACK = 3
"""The exit code if a table stands still and is not among the files."""

_KINDS = {"gtid": AtGtid, "position": AtPosition, "time": AtTime, "window": AtWindow}


@click.command("as-of")
@click.argument("subscription")
@click.option("--gtid", help="The end of a transaction: uuid:5, or 0-1-5 of MariaDB.")
@click.option("--position", help="A position of the source: 0:4:1187 or mysql-bin.000004:1187. It counts itself.")
@click.option("--time", help="A time in UTC, 2026-01-05T07:30: what was committed up to it, that second included.")
@click.option("--window", help="The end of a window, by its key: 2026-01-05-07:00.")
@click.option(
    "--table", "names", multiple=True, help="A table at the source, shopdb.orders; several times. Default: all."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="An empty or new folder for the files.",
)
@config_option
def as_of(
    subscription: str,
    gtid: str | None,
    position: str | None,
    time: str | None,
    window: str | None,
    names: tuple[str, ...],
    out: Path,
    config: Path | None,
) -> None:
    """Write the tables of a SUBSCRIPTION as they were at a moment, all at the same one.

    The files are OUT/<database>.<table>/*.parquet. A moment is a transaction, a position, a time or a window; its own changes
    count. A table begins as the nearest version that the lake still has, or else as its whole changelog. The lake is not changed.
    Exit code 3 if a table stands still and is left out.
    """
    moment = _moment({"gtid": gtid, "position": position, "time": time, "window": window})
    settings = settings_of(config)
    subscription_of(settings, subscription)
    pipeline = open_pipeline(settings, subscription)
    known = tuple(known_tables(pipeline))
    chosen = {table_named(name, known, subscription) for name in names} or None
    _require_empty(out)
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as folder:
        found = tables_at(pipeline, moment, Path(folder), tables=chosen, progress=say)
        shown = table_of(f"{subscription} {found.where}", texts=["table", "made from"], numbers=["rows"])
        for name, table in sorted(found.tables.items()):
            rows = export_table(name, table, out)
            shown.add_row(str(name), "a stored version" if name in found.begun else "its changelog", f"{rows:,}")
    Console(highlight=False).print(shown)
    sys.exit(_end(found))


def _moment(given: dict[str, str | None]) -> Moment:
    """Return the one moment that was given.

    Raises:
        click.UsageError: None or several were given.
        click.BadParameter: The text is no such moment.
    """
    told = [(kind, text) for kind, text in given.items() if text is not None]
    if len(told) != 1:
        raise click.UsageError("Name one moment: --gtid, --position, --time or --window.")
    ((kind, text),) = told
    try:
        moment = moment_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"--{kind}") from None
    if not isinstance(moment, _KINDS[kind]):
        raise click.BadParameter(f"{text} is no {kind}", param_hint=f"--{kind}")
    return moment


def _require_empty(out: Path) -> None:
    """Make the folder for the files.

    Raises:
        click.BadParameter: It has files already.
    """
    if out.exists() and any(out.iterdir()):
        raise click.BadParameter(f"{out} is not empty; name a new folder", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)


def _end(found: TablesAt) -> int:
    """Name the tables that are not among the files, and return the exit code."""
    _say_names("not there at that moment", [str(one) for one in found.absent])
    _say_names("left out, since they stand still", [f"{table} ({reason})" for table, reason in found.paused.items()])
    _say_names("failed", [f"{table} ({fault.reason})" for table, fault in found.failed.items()])
    return 1 if found.failed else TABLES_LACK if found.paused else 0


def _say_names(title: str, names: Sequence[str]) -> None:
    if names:
        say(f"{title}: {', '.join(names)}")
