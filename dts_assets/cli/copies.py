"""The commands ``dts-assets copy``, ``resync`` and ``copies``: tables copied beside the stream, through the job of the UI."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.dagster_runs import Request, open_dagster
from dts_assets.cli.main import config_of, config_option, keep_names_whole, say, settings_of, subscription_of, table_of
from dts_assets.cli.tables import table_named
from dts_assets.defs.assemble import assemble
from dts_assets.defs.copying import copy_job_name, copy_op_name
from dts_assets.flows.copies import bootstrap_of, cancel_copies
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.preflight import require_spark
from dts_assets.flows.server_identity import SAID
from dts_assets.model.copied_tables import CopyKind
from dts_assets.settings import load_settings

_TABLE = click.option("--table", "tables", multiple=True, help="A table, shopdb.orders; may be given several times.")

_IS_RIGHT = click.option(
    "--server-is-right",
    is_flag=True,
    help="Answer for a database that cannot be checked to be the server of the messages.",
)


@click.command("copy")
@click.argument("subscription")
@_TABLE
@_IS_RIGHT
@config_option
def copy(subscription: str, tables: tuple[str, ...], config: Path | None, *, server_is_right: bool) -> None:
    """Copy the tables of a SUBSCRIPTION from the place that bootstrap names.

    Its messages go on meanwhile.
    Tables that were copied before are passed over. A copy that was stopped goes on with the chunks that are left.
    A database that is not the server of the messages is refused.
    """
    _run(subscription, tables, CopyKind.BOOTSTRAP, config, server_is_right=server_is_right)


@click.command("resync")
@click.argument("subscription")
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@_IS_RIGHT
@config_option
def resync(subscription: str, tables: tuple[str, ...], config: Path | None, *, server_is_right: bool) -> None:
    """Copy tables of a SUBSCRIPTION anew, in the place of all that they have.

    All other tables go on. It ends what is not proven of these tables, and their pauses.
    """
    _run(subscription, tables, CopyKind.RESYNC, config, server_is_right=server_is_right)


def _run(
    subscription: str, tables: tuple[str, ...], kind: CopyKind, config: Path | None, *, server_is_right: bool
) -> None:
    path = config_of(config)
    settings = load_settings(path)
    subscription_of(settings, subscription)
    bootstrap_of(open_pipeline(settings, subscription))
    require_spark(settings)
    asked = {"tables": list(tables), "kind": kind.value, "server_is_right": server_is_right}
    ops = {copy_op_name(subscription): {"config": asked}}
    with open_dagster(path) as dagster:
        request = Request(copy_job_name(subscription), subscription, {}, ops=ops)
        failure = dagster.execute(assemble(settings, path), request)
    _show(config, subscription)
    if failure is not None:
        say(f"{kind} failed: {failure.sentence}")
        sys.exit(failure.exit_code)


@click.command("copies")
@click.argument("subscription")
@click.option("--cancel", "tables", metavar="TABLE", multiple=True, help="Give up the copy of a table that is read.")
@config_option
def copies(subscription: str, tables: tuple[str, ...], config: Path | None) -> None:
    """List the copies of a SUBSCRIPTION: what was read of each, and which window has it."""
    settings = settings_of(config)
    subscription_of(settings, subscription)
    if tables:
        pipeline = open_pipeline(settings, subscription)
        copied = {one.table for one in pipeline.ledger.copied_tables()}
        given_up = cancel_copies(pipeline, [table_named(name, copied, subscription) for name in tables])
        say(f"{len(given_up)} copies were given up.")
    _show(config, subscription)


def _show(config: Path | None, subscription: str) -> None:
    pipeline = open_pipeline(settings_of(config), subscription)
    shown = table_of(
        f"{subscription}: copies",
        texts=["table", "kind", "state", "from", "as of", "window"],
        numbers=["chunks", "rows"],
    )
    copied = pipeline.ledger.copied_tables()
    keep_names_whole(shown, (str(one.table) for one in copied))
    for one in copied:
        window = "waits" if one.is_input else ""
        if one.window_start is not None:
            window = pipeline.grid.of_start(one.window_start).key
        chunks = f"{len(one.chunks) - len(one.left)} of {len(one.chunks)}"
        at = "" if one.high is None else str(one.high)
        origin = f"{one.origin}, {SAID}" if one.server.startswith(SAID) else one.origin
        state = one.state if one.gone_at is None else f"left on {one.gone_at:%Y-%m-%d}"
        shown.add_row(str(one.table), one.kind, state, origin, at, window, chunks, f"{one.rows:,}")
    Console(highlight=False).print(shown)
