"""The command ``dts-assets prove``: changelogs run as SQL in a scratch server, and compared with the snapshots."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.left_out import left_out_statements
from dts_assets.cli.main import NOT_COMPARED, config_option, end, say, settings_of, subscription_of, table_of
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.proof import Proof, prove
from dts_assets.flows.proof_comparison import TableProof
from dts_assets.flows.proof_replay import Existing
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.flows.verdict_words import difference_lines, left_out_lines, proof_words
from dts_assets.model.tables import TableId
from dts_assets.settings.environment import variables_of

PASSWORD_VARIABLE = "DTS_ASSETS_SCRATCH_PASSWORD"
"""The variable that has the password, if no other one is named."""


@click.command("prove")
@click.argument("subscription")
@click.option(
    "--into",
    "url",
    required=True,
    help="The scratch server: mysql://user@host:3306/, or mysql://user@localhost/?socket=/run/mysqld.sock.",
)
@click.option("--table", "tables", multiple=True, help="Only tables that match a glob, shopdb.*; may be given again.")
@click.option(
    "--existing",
    type=click.Choice([str(one) for one in Existing]),
    default=str(Existing.REFUSE),
    help="What to do about databases that have tables already. Default: refuse.",
)
@click.option(
    "--password-env", default=PASSWORD_VARIABLE, help=f"The variable with the password. Default: {PASSWORD_VARIABLE}."
)
@click.option(
    "--option-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of options as the servers' own clients read it, with the group [client].",
)
@click.option("--show-values", is_flag=True, help="Show the values that differ; they are hidden otherwise.")
@config_option
def prove_command(
    subscription: str,
    url: str,
    tables: tuple[str, ...],
    existing: str,
    password_env: str,
    option_file: Path | None,
    show_values: bool,
    config: Path | None,
) -> None:
    """Prove that the snapshots of SUBSCRIPTION are what its changelogs make in a scratch server.

    The statements that the changelogs stand for are run in MariaDB or MySQL, with the source's DDL between them, up to the moment
    of the snapshots. Then each snapshot is compared with the server's table, row by row. What was run stays in the server.
    Exit code 0 if all is equal, 3 if a table differs, 4 if no table differs and something could not be compared.
    """
    address = _address(url)
    settings = settings_of(config)
    subscription_of(settings, subscription)
    login = Login(variables_of([password_env]).get(password_env, ""), option_file)
    with scratch_server(address, login) as server:
        proof = prove(
            open_pipeline(settings, subscription, only_read=True),
            server,
            tables=tables,
            existing=Existing(existing),
            progress=say,
        )
    if proof.tables:
        _show(proof.tables, values=show_values)
    _say_run(proof)
    end(proof.failures, failed_checks=not proof.equal)
    sys.exit(0 if proof.whole else NOT_COMPARED)


def _address(url: str) -> ScratchAddress:
    """Return the address of the scratch server.

    Raises:
        click.BadParameter: The text is no address, or it has a password.
    """
    try:
        return ScratchAddress.of_url(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--into") from None


def _show(tables: Mapping[TableId, TableProof], *, values: bool) -> None:
    shown = table_of("", texts=["table", "verdict", "matched by"], numbers=["lake", "server", "differ"])
    for name, one in tables.items():
        matched = ", ".join(one.keys) or "whole rows"
        counts = (f"{count:,}" for count in (one.rows_lake, one.rows_server, one.differences.total))
        shown.add_row(str(name), proof_words(one), matched, *counts)
    Console(highlight=False, markup=False).print(shown)
    for name, one in tables.items():
        for column in one.columns.lacking:
            click.echo(f"{name}: the server alone has the column {column}")
        for column in one.columns.extra:
            click.echo(f"{name}: the lake alone has the column {column}")
        lines = difference_lines(name, one.differences, server="server", values=values)
        for line in [*lines, *left_out_lines(name, one.columns.left_out)]:
            click.echo(line)
        if one.doubt:
            click.echo(f"{name}: schema not proven: {one.doubt}")


def _say_run(proof: Proof) -> None:
    replayed, exported = proof.replayed, proof.exported
    say(f"prove: {replayed.changes:,} changes and {replayed.ddl:,} statements of DDL were run")
    for line in left_out_statements(exported):
        say(line)
    if replayed.refused:
        first = ", ".join(map(str, replayed.first_refused))
        say(f"the server refused {replayed.refused:,} statements: {first}")
    if replayed.missed:
        say(f"{replayed.missed:,} changes found no row")
    if exported.refused:
        say(f"{exported.refused:,} changes have no statement")
    if exported.quarantined:
        say(f"{exported.quarantined:,} changes are in quarantine")
    if exported.lacking:
        say(f"some windows lack tables: {', '.join(map(str, sorted(exported.lacking)))}")
    for table, reason in sorted(proof.not_compared.items()):
        say(f"{table} was not compared: {reason}")
