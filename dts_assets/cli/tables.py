"""The command ``dts-assets tables``, which lists tables, pauses, resumes, removes and adds them, and rebuilds them.

A pause or resumption is written to the ledger alone: the next run of the tables sees it, whoever starts that run.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from dts_assets.cli.main import (
    config_of,
    config_option,
    end,
    keep_names_whole,
    say,
    settings_of,
    subscription_of,
    table_of,
)
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.pauses import paused_by_person, resume_tables, table_standings
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.preflight import require_spark
from dts_assets.flows.rebuild import RebuildFrom
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Standing, add_command
from dts_assets.settings import Settings, load_settings

_Function = TypeVar("_Function", bound=Callable[..., Any])

_TABLES = click.argument("tables", metavar="TABLE...", nargs=-1, required=True)


def _subscription_option(command: _Function) -> _Function:
    return click.option("--subscription", help="Needed where the configuration has several.")(command)


@click.group("tables", invoke_without_command=True)
@config_option
@click.pass_context
def tables(context: click.Context, config: Path | None) -> None:
    """List all tables; pause a table, resume it, remove it, add it again, or rebuild it.

    A paused table stands still in all its layers, and all others go on. A removed table is no longer in the lake.
    """
    if context.invoked_subcommand is not None:
        return
    settings = settings_of(config)
    shown = one_by_one(
        settings.subscriptions,
        lambda name: _show(name, table_standings(open_pipeline(settings, name, only_read=True))),
        named=lambda name: f"The list of the tables of {name}",
    )
    end(shown.failures.values())


def _show(name: str, standings: Sequence[Standing]) -> None:
    shown = table_of(f"{name}: tables", texts=["table", "state", "since (UTC)", "reason"], numbers=["windows behind"])
    keep_names_whole(shown, (str(one.table) for one in standings))
    for one in standings:
        since, reason = ("", "") if one.paused is None else (f"{one.paused.since:%Y-%m-%d %H:%M}", one.paused.reason)
        shown.add_row(Text(str(one.table)), one.state, since, Text(reason), f"{len(one.lacking):,}")
    Console(highlight=False).print(shown)


@tables.command("pause")
@_TABLES
@click.option("--reason", required=True, help="Words for the people who find the table standing still.")
@_subscription_option
@config_option
def pause(tables: tuple[str, ...], reason: str, subscription: str | None, config: Path | None) -> None:
    """Let tables stand still from the next run on: TABLE is its name at the source, shopdb.orders."""
    pipeline, found = _chosen(settings_of(config), subscription, tables)
    _refuse_left_out(found)
    added = {row.table for row in paused_by_person(pipeline, [one.table for one in found], reason=reason)}
    for one in found:
        if one.table in added:
            _say(f"{one.table} stands still from the next run on; a run that is going on may still bring it forward.")
        elif _is_removed(one):
            _say(f"{_removed_words(one)}.")
        else:
            _say(f"{one.table} is paused already; its first reason stays.")


@tables.command("resume")
@_TABLES
@_subscription_option
@config_option
def resume(tables: tuple[str, ...], subscription: str | None, config: Path | None) -> None:
    """Let paused tables go on: the next run first makes the windows that lack them."""
    pipeline, found = _chosen(settings_of(config), subscription, tables)
    removed = {row.table for row in resume_tables(pipeline, [one.table for one in found if one.paused is not None])}
    for one in found:
        if one.table in removed:
            count = len(one.lacking)
            _say(
                f"{one.table} goes on with the next run; {count} {'window lacks' if count == 1 else 'windows lack'} it."
            )
        elif _is_removed(one):
            _say(f"{_removed_words(one)}.")
        else:
            _say(f"{one.table} is not paused.")


@tables.command("remove")
@_TABLES
@_subscription_option
@config_option
def remove(tables: tuple[str, ...], subscription: str | None, config: Path | None) -> None:
    """Take tables out of the lake: changelogs, snapshots and histories are dropped with all their files.

    Entries stay, so that a table can be added again. Until then its changes are not decoded, and the graph does not show it.
    """
    pipeline, found = _chosen(settings_of(config), subscription, tables)
    remove_tables(pipeline, [one.table for one in found], progress=_say)
    for one in found:
        _say(f"{_removed_words(one)}.")


@tables.command("add")
@_TABLES
@_subscription_option
@config_option
def add(tables: tuple[str, ...], subscription: str | None, config: Path | None) -> None:
    """Bring removed tables back: the next runs make them again in all windows, from stored entries."""
    pipeline, found = _chosen(settings_of(config), subscription, tables)
    windows = add_tables(pipeline, [one.table for one in found], progress=_say)
    for one in found:
        if _is_removed(one):
            lack = "window lacks" if windows == 1 else "windows lack"
            _say(f"{one.table} comes back with the next run; {windows:,} {lack} it.")
        else:
            _say(f"{one.table} is not removed.")


@tables.command("rebuild")
@_TABLES
@click.option(
    "--from",
    "source",
    type=click.Choice([source.value for source in RebuildFrom]),
    default=RebuildFrom.CHANGELOG.value,
    show_default=True,
    help="The rows to begin with; entries make the changelog again, too.",
)
@_subscription_option
@config_option
def rebuild(tables: tuple[str, ...], source: str, subscription: str | None, config: Path | None) -> None:
    """Make all rows of tables again, in their snapshots and histories.

    Readers see the old rows until the new ones are committed. No other table changes.
    """
    # Only this command starts a run; the others need not wait for Dagster to be imported.
    from dts_assets.cli.dagster_runs import Request, open_dagster
    from dts_assets.defs.assemble import assemble
    from dts_assets.defs.rebuild import rebuild_job_name, rebuild_op_name

    path = config_of(config)
    settings = load_settings(path)
    pipeline, found = _chosen(settings, subscription, tables)
    _refuse_paused(found)
    require_spark(settings)
    name = pipeline.name
    ops = {rebuild_op_name(name): {"config": {"tables": [one.table.exact_name for one in found], "source": source}}}
    with open_dagster(path) as dagster:
        failure = dagster.execute(assemble(settings, path), Request(rebuild_job_name(name), name, {}, ops=ops))
    if failure is not None:
        say(f"rebuild failed: {failure.sentence}")
        sys.exit(failure.exit_code)
    for one in table_standings(pipeline):
        if one.table in {each.table for each in found}:
            _say(
                f"{one.table} was rebuilt from its {source}."
                if one.paused is None
                else f"{one.table} failed and is paused: {one.paused.reason}"
            )


def _is_removed(one: Standing) -> bool:
    return one.paused is not None and one.paused.is_removed


def _removed_words(one: Standing) -> str:
    return f"{one.table} is removed; {add_command(one.table)} brings it back"


def _refuse_left_out(found: Iterable[Standing]) -> None:
    """Refuse tables that the settings leave out.

    Raises:
        click.UsageError: One of them is left out.
    """
    for one in found:
        if one.left_out:
            raise click.UsageError(f"{one.table} is left out by the settings and stays in the lake as it is")


def _refuse_paused(found: Iterable[Standing]) -> None:
    """Refuse tables that stand still.

    Raises:
        click.UsageError: One of them is paused.
    """
    _refuse_left_out(found)
    for one in found:
        if _is_removed(one):
            raise click.UsageError(_removed_words(one))
        if one.paused is not None:
            raise click.UsageError(f"{one.table} is paused and stands still; dts-assets tables resume lets it go on")


def _chosen(
    settings: Settings, subscription: str | None, names: Sequence[str]
) -> tuple[Pipeline, tuple[Standing, ...]]:
    """Return the pipeline and the tables that a command was given.

    Raises:
        click.UsageError: There is no such subscription or table, or the name could be that of several.
    """
    subscription = chosen_subscription(settings, subscription)
    pipeline = open_pipeline(settings, subscription)
    known = {one.table: one for one in table_standings(pipeline)}
    return pipeline, tuple(known[table_named(name, known, subscription)] for name in dict.fromkeys(names))


def chosen_subscription(settings: Settings, subscription: str | None) -> str:
    """Return the subscription that a command was given, or the only one that there is.

    Raises:
        click.UsageError: There is no such subscription, or none was named of several.
    """
    if subscription is None:
        if len(settings.subscriptions) > 1:
            there = ", ".join(settings.subscriptions)
            raise click.UsageError(f"the configuration has several subscriptions ({there}); name one by --subscription")
        subscription = next(iter(settings.subscriptions))
    subscription_of(settings, subscription, hint="--subscription")
    return subscription


def table_named(name: str, known: Iterable[TableId], subscription: str) -> TableId:
    """Return the one known table that a person may mean by a name.

    Raises:
        click.BadParameter: There is none, or several may be meant.
    """
    known = list(known)
    found = [one for one in known if one.is_called(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise click.BadParameter(
            f"{name} may be {' or '.join(one.exact_name for one in found)}; write one of these", param_hint="TABLE"
        )
    close = difflib.get_close_matches(name, map(str, known), n=1)
    hint = f"did you mean {close[0]}?" if close else f"dts-assets tables lists the {len(known)} tables that there are"
    raise click.BadParameter(f"{subscription} has no table {name}; {hint}", param_hint="TABLE")


def _say(line: str) -> None:
    Console(highlight=False, soft_wrap=True, markup=False).print(line)
