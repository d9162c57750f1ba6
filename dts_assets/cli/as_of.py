"""The command ``dts-assets as-of``: tables as they were at a moment of the source, as Parquet files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_option, say, settings_of, subscription_of, table_of
from dts_assets.cli.tables import table_named
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.moments_export import export_table
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.lake import Lake, LakeTables, Plan, TableCost
from dts_assets.lake.moments import moment_given
from dts_assets.model.byte_sizes import rounded_size

NOT_ALL = 3
"""The exit code if a table stands still and is left out, or is not proven then."""


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
    count. A table begins as the nearest version that the lake still has, or as its whole changelog. The lake is not changed.
    Exit code 3 if a table stands still and is left out, or is not proven at that moment.
    """
    given = {"gtid": gtid, "position": position, "time": time, "window": window}
    _require_one_moment(given)
    settings = settings_of(config)
    subscription_of(settings, subscription)
    lake = Lake(open_pipeline(settings, subscription, only_read=True))
    known = tuple(known_tables(lake.pipeline))
    chosen = {table_named(name, known, subscription) for name in names} or None
    _require_empty(out)
    plan = lake.plan(**given, tables=chosen)
    _say_costs(plan)
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as folder:
        found = lake.make(plan, folder=folder, progress=say)
        shown = table_of(f"{subscription} {found.where}", texts=["table", "made from"], numbers=["rows"])
        for name in found.ids:
            rows = export_table(name, found[str(name)].iceberg, out)
            shown.add_row(str(name), _made_from(plan.costs[name]), f"{rows:,}")
    Console(highlight=False).print(shown)
    sys.exit(_end(found))


def _require_one_moment(given: Mapping[str, str | None]) -> None:
    """Refuse a moment that is not one.

    Raises:
        click.UsageError: None or several were given.
        click.BadParameter: The text is no such moment.
    """
    told = [kind for kind, text in given.items() if text is not None]
    if len(told) != 1:
        raise click.UsageError("Name one moment: --gtid, --position, --time or --window.")
    try:
        moment_given(**given)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"--{told[0]}") from None


def _say_costs(plan: Plan) -> None:
    """Say what each table is made from, and what is read for it, before anything is."""
    for name, cost in sorted(plan.tables.items()):
        begins = (
            "nothing" if cost.begins_at is None else f"version {cost.version} of {cost.begins_at:%Y-%m-%d %H:%M} UTC"
        )
        way = "goes back" if cost.goes_back else "begins"
        say(f"{name} {way} from {begins} and reads {_amount(cost.changes, cost.bytes)}")
    say(f"all {len(plan.tables)} tables {plan.where}: {_amount(plan.changes, plan.bytes)} of changelogs to read")


def _made_from(cost: TableCost) -> str:
    if cost.version is None:
        return "its changelog"
    return "a later version" if cost.goes_back else "a stored version"


def _amount(changes: int, size: int) -> str:
    return f"{changes:,} changes ({rounded_size(size)})"


def _require_empty(out: Path) -> None:
    """Make the folder for the files.

    Raises:
        click.BadParameter: It has files already.
    """
    if out.exists() and any(out.iterdir()):
        raise click.BadParameter(f"{out} is not empty; name a new folder", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)


def _end(found: LakeTables) -> int:
    """Name the tables that are not among the files, or not proven, and return the exit code."""
    _say_names("not there at that moment", found.absent)
    _say_names("left out, since they stand still", [f"{table} ({reason})" for table, reason in found.paused.items()])
    _say_names("failed", [f"{table} ({reason})" for table, reason in found.failed.items()])
    _say_names("not proven at that moment", [f"{table} (since {said})" for table, said in found.unproven.items()])
    return 1 if found.failed else NOT_ALL if found.paused or found.unproven else 0


def _say_names(title: str, names: Sequence[str]) -> None:
    if names:
        say(f"{title}: {', '.join(names)}")
