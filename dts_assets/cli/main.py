"""The ``dts-assets`` command: its subcommands, how it speaks, and how it ends.

An error is one sentence on stderr and an exit code (``dts_assets.errors`` lists them), never a traceback, whatever it is.
Results go to stdout, so that they can be piped (``output.py``).

A subcommand that needs heavy imports lives in a module of its own and is named in ``COMMANDS_IN_MODULES``. It is imported when it
is called, so that checking a configuration starts in less than a second. Other packages add commands by the entry-point group
``dts_assets.commands``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dts_assets.cli.output import take_over_output
from dts_assets.errors import ConfigErrors, DtsAssetsError
from dts_assets.errors.machine import MissingPackageError
from dts_assets.errors.unexpected import without_values
from dts_assets.flows.preflight import find_troubles, unfetched_jars
from dts_assets.flows.source_preflight import all_findings
from dts_assets.model.failures import Failure, exit_code_of, sentences_of
from dts_assets.settings import Settings, Subscription, config_file, json_schema, load_settings
from dts_assets.settings.environment import shows_tracebacks
from dts_assets.settings.values import duration_of, duration_text
from dts_assets.store.contention import explained_trouble

COMMANDS_IN_MODULES = {
    "as-of": "dts_assets.cli.as_of:as_of",
    "capture": "dts_assets.cli.capture:capture",
    "copies": "dts_assets.cli.copies:copies",
    "copy": "dts_assets.cli.copies:copy",
    "inspect": "dts_assets.cli.inspect:inspect",
    "keys": "dts_assets.cli.keys:keys",
    "maintain": "dts_assets.cli.maintain:maintain_command",
    "prove": "dts_assets.cli.prove:prove_command",
    "rules": "dts_assets.cli.rules:rules",
    "run": "dts_assets.cli.run:run",
    "redrive": "dts_assets.cli.redrive:redrive",
    "resync": "dts_assets.cli.copies:resync",
    "schema": "dts_assets.cli.schema:schema",
    "size": "dts_assets.cli.size:size",
    "sniff": "dts_assets.cli.sniff:sniff_command",
    "statements": "dts_assets.cli.statements:statements",
    "spark-server": "dts_assets.cli.spark_server:spark_server",
    "tables": "dts_assets.cli.tables:tables",
    "verify": "dts_assets.cli.verify:verify_command",
}

COMMAND_GROUP = "dts_assets.commands"
"""The entry-point group in which other packages name their commands. The product itself imports none of these packages."""

CHECK_FAILED = 3
"""The exit code where all was done, and something is not as it should be.

A window is incomplete, or a table differs.
"""

NOT_COMPARED = 4
"""The exit code where no table differs, and something could not be compared."""

EXIT_CODES = """\b
Exit codes: 0 done, 1 something failed or was stopped, 2 configuration or usage, 3 a check failed,
4 nothing differs and something could not be compared, 10 source, 11 lake,
12 not ready, 13 this machine or Spark (Java, port, executors), 14 wire format"""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Commands(click.Group):
    """The group of all commands. It loads some of them when they are called, and turns errors into sentences and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *COMMANDS_IN_MODULES, *entry_points(group=COMMAND_GROUP).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, and import its module if it lives in one."""
        if cmd_name not in self.list_commands(ctx) or cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in COMMANDS_IN_MODULES:
            return _command_of(entry_points(group=COMMAND_GROUP)[cmd_name])
        command: click.Command = EntryPoint(cmd_name, COMMANDS_IN_MODULES[cmd_name], COMMAND_GROUP).load()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command, and end with the sentence and the exit code of an error for people.

        Raises:
            MissingParameter: The command was given no subscription.
        """
        try:
            return super().invoke(ctx)
        except Exception as found:
            if isinstance(found, click.MissingParameter) and found.param and found.param.name == "subscription":
                raise click.MissingParameter(_there_are(found.ctx), found.ctx, found.param) from None
            if isinstance(found, click.ClickException | click.exceptions.Exit | click.Abort):
                raise
            error = explained_trouble(found)
            if error is not None or not shows_tracebacks():
                ctx.exit(_told(found, error, f"dts-assets {ctx.invoked_subcommand}"))
            bare = without_values(found)
        raise bare  # here, where no error is handled whose text Python would print before


def _there_are(ctx: click.Context | None) -> str:
    """Return the subscriptions of the configuration for a command that was given none.

    It is empty where the configuration cannot be read.
    """
    given = None if ctx is None else ctx.params.get("config")
    try:
        names = ", ".join(settings_of(given).subscriptions)
    except DtsAssetsError:
        return ""
    return f"The configuration has {names}."


def _told(found: Exception, error: DtsAssetsError | None, subject: str) -> int:
    """Say an error, or that nobody expected it, and return the exit code."""
    if error is None:
        from dts_assets.flows.one_by_one import failure_of  # Arrow takes its time to load

        failure = failure_of(found, subject, exit_code=DtsAssetsError.exit_code)
        say(failure.sentence)
        return failure.exit_code
    say(str(error))
    if isinstance(error, ConfigErrors) and len(error.mistakes) > 1:
        say(f"{len(error.mistakes)} mistakes.")
    return error.exit_code


def _command_of(entry: EntryPoint) -> click.Command:
    """Return another package's command; if it cannot be imported, a command that says so when it is called."""
    try:
        command = entry.load()
    except ImportError as error:
        missing = MissingPackageError(entry.name, entry.value, str(error))

        @click.command(entry.name, short_help="Not available: a package is missing.", add_help_option=False)
        @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        def unavailable(arguments: tuple[str, ...]) -> None:
            raise missing

        unavailable.ignore_unknown_options = True
        return unavailable
    assert isinstance(command, click.Command), f"{entry.value} is no command"
    return command


def say(sentence: str) -> None:
    """Write a sentence to stderr without markup and without line breaks, so that paths can be copied."""
    Console(stderr=True, soft_wrap=True, markup=False, highlight=False).print(sentence)


def end(failures: Iterable[Failure], *, failed_checks: bool = False) -> None:
    """Say the sentences of failures, and end the command if there are any, or if a check failed."""
    failures = tuple(failures)
    for sentence in sentences_of(failures):
        say(sentence)
    if code := exit_code_of(failures, failed_checks=failed_checks):
        sys.exit(code)


_WHOLE_NAME = 40
"""Characters of a name that a narrow screen shows, at the cost of other columns."""


def keep_names_whole(shown: Table, names: Iterable[str]) -> None:
    """Keep a narrow screen from cutting the first column of a table, whose cells are ``names``."""
    shown.columns[0].min_width = min(_WHOLE_NAME, max((len(name) for name in names), default=0))


def table_of(title: str, *, texts: Sequence[str] = (), numbers: Sequence[str]) -> Table:
    """Return a table without rows: its columns of texts, then its columns of numbers."""
    table = Table(*texts, title=title, title_justify="left")
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def subscription_of(settings: Settings, name: str, *, hint: str | None = None) -> Subscription:
    """Return the subscription that a command was given.

    Raises:
        click.BadParameter: The configuration has no subscription of this name.
    """
    if name not in settings.subscriptions:
        there = ", ".join(settings.subscriptions)
        raise click.BadParameter(f"there is no subscription {name}; there are {there}", param_hint=hint)
    return settings.subscriptions[name]


def duration(context: click.Context, parameter: click.Parameter, text: str | None) -> timedelta | None:
    """Return the duration in an option, None without the option.

    Raises:
        click.BadParameter: The text is no duration.
    """
    if text is None:
        return None
    try:
        return duration_of(text)
    except ValueError:
        raise click.BadParameter(f"{text} is no duration; write 30m, 12h or 14d") from None


def config_option(command: _Function) -> _Function:
    """Add ``--config FILE`` to a command; its function gets ``config: Path | None`` for :func:`settings_of`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The configuration file. Default: DTS_ASSETS_CONFIG, else pipeline.yaml here, else the project's.",
    )(command)


def config_of(config: Path | None) -> Path:
    """Return the configuration file that a command was given before or after its name; else the default file."""
    context = click.get_current_context(silent=True)
    given = context.find_root().params.get("config") if context else None
    return config_file(config or given)


def settings_of(config: Path | None) -> Settings:
    """Return the settings for a command; the command group turns ConfigErrors into sentences."""
    return load_settings(config_of(config))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(package_name="dts-assets", message="%(version)s")
@config_option
def cli(config: Path | None) -> None:
    """Change streams of cloud databases, turned into lake tables."""


@cli.group("config")
def config_commands() -> None:
    """Check the configuration file, or print its schema."""


@config_commands.command("check")
@click.option(
    "--connect",
    is_flag=True,
    help="Also ask Kafka brokers, source databases, a Spark master and catalogs that are servers, and look at messages.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Also look whether Dagster's UI can listen on this port.")
@config_option
def check(config: Path | None, *, connect: bool, port: int | None) -> None:
    """Name every mistake in the configuration, and what is missing for a run.

    Looked at are the file, the paths that it names, the lake, Dagster's home and Java. Without a mistake, the meaning of the file
    is shown, and what source databases do not tell in their binlogs: exit code 3 if rows are missing or wrong for that reason.
    With several troubles the exit code is that of the first.
    """
    file = config_of(config)
    settings = load_settings(file)
    found, unasked = all_findings(settings) if connect else ([], [])
    if troubles := [*find_troubles(settings, file, port=port, connect=connect), *unasked]:
        for trouble in troubles:
            say(str(trouble))
        sys.exit(troubles[0].exit_code)
    console = Console(highlight=False)
    console.print(f"{file}: no mistakes", soft_wrap=True, markup=False)
    table = Table.grid(padding=(0, 2))
    table.add_row("lake", Text(f"{settings.lake.warehouse} ({settings.lake.catalog.type} catalog)", overflow="fold"))
    table.add_row("spark", Text(settings.spark.master or "Spark Connect"))  # a remote's address may hold a token
    for name, subscription in settings.subscriptions.items():
        table.add_row(name, Text("\n".join(_summary(subscription)), overflow="fold"))
    console.print(table)
    if (jars := unfetched_jars(settings)) is not None:
        console.print(f"Before the first run: {jars}", soft_wrap=True, markup=False)
    for name, finding in found:
        console.print(f"{name}: {finding.sentence}", soft_wrap=True, markup=False)
    if any(finding.is_wrong for _, finding in found):
        sys.exit(CHECK_FAILED)


def _summary(subscription: Subscription) -> tuple[str, ...]:
    window, tables = subscription.window, subscription.tables
    end = "" if window.end is None else f" to {window.end:%Y-%m-%d %H:%M}"
    without = f" without {', '.join(tables.exclude)}" if tables.exclude else ""
    return (
        f"{subscription.format} from {_source(subscription)}",
        f"{subscription.partitions} Kafka partitions, windows of {duration_text(window.every)} "
        f"from {window.start:%Y-%m-%d %H:%M}{end} UTC",
        f"tables {', '.join(tables.include)}{without}",
    )


def _source(subscription: Subscription) -> str:
    capture, kafka = subscription.source.capture, subscription.source.kafka
    if kafka is None:
        if capture is None:
            return ""
        topics = f" of {', '.join(capture.topics)}" if capture.topics else ""
        return f"the {'' if capture.complete else 'growing '}capture {capture.path}{topics}"
    protocol = kafka.config.get("security.protocol", "plaintext").lower()
    return f"the Kafka topic{'s' * (len(kafka.topics) > 1)} {', '.join(kafka.topics)} at {kafka.bootstrap_servers} ({protocol})"


@config_commands.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))


def main() -> None:
    """Run the command."""
    take_over_output()
    cli(prog_name="dts-assets")
