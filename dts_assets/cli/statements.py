"""The command ``dts-assets statements``, which prints changes as statements of SQL in the order of the source."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

from dts_assets.cli.inspect import window_start
from dts_assets.cli.left_out import left_out_statements
from dts_assets.cli.main import CHECK_FAILED, config_option, say, settings_of, subscription_of
from dts_assets.cli.output import nobody_reads
from dts_assets.flows.bare_capture import make_changelogs, open_capture
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.statement_export import Exported, Wanted, export_statements
from dts_assets.settings import Settings, Subscription
from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.settings.values import zone_name
from dts_assets.stages.sql_dialects import DIALECTS, dialect_of


@click.command("statements")
@click.argument("subscription", required=False)
@click.option(
    "--capture",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Read this capture instead of the lake; without a subscription --format says how it is encoded.",
)
@click.option("--format", "wire_format", type=click.Choice(registered_formats()), help="The format of a bare capture.")
@click.option(
    "--schema", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The schema file of an Avro format."
)
@click.option("--time-zone", help="The zone of values of a bare capture that carry none: +00:00. Default: +08:00.")
@click.option("--table", "tables", multiple=True, help="Only tables that match a glob, shopdb.*; may be given again.")
@click.option("--from", "since", callback=window_start, help="The first window, by its start: 2026-01-05T10:00.")
@click.option("--to", "until", callback=window_start, help="The first window that is left out.")
@click.option(
    "--dialect", type=click.Choice(sorted(DIALECTS)), help="The dialect; else that of the settings, else mysql."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write into this file instead of stdout.")
@config_option
def statements(
    subscription: str | None,
    capture: Path | None,
    wire_format: str | None,
    schema: Path | None,
    time_zone: str | None,
    tables: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    dialect: str | None,
    out: Path | None,
    config: Path | None,
) -> None:
    """Print row changes as INSERT, UPDATE and DELETE, with DDL between them, in the order of the source.

    Changes come from the changelogs of SUBSCRIPTION, or from a bare capture. Copies that were delivered again are left out.
    """
    with ExitStack() as opened:
        if capture is None:
            _refuse_of_captures(wire_format, schema, time_zone)
            pipeline = _of_lake(settings_of(config), subscription)
        else:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dts-assets-")))
            settings = None if subscription is None else subscription_of(settings_of(config), subscription)
            pipeline = open_capture(capture, folder, **_settings(settings, wire_format, schema, time_zone))
            make_changelogs(pipeline, progress=say)
        chosen = dialect_of(dialect or pipeline.settings.sql.dialect)
        exported = Exported()
        pieces = export_statements(pipeline, Wanted(chosen, tables, since, until), exported, progress=say)
        if not _write(pieces, out):
            return
    _say_result(exported)
    sys.exit(0 if exported.whole else CHECK_FAILED)


def _refuse_of_captures(*options: object) -> None:
    """Refuse options that describe a bare capture.

    Raises:
        click.UsageError: There is such an option.
    """
    if any(one is not None for one in options):
        raise click.UsageError("--format, --schema and --time-zone describe a bare capture; name it by --capture")


def _of_lake(settings: Settings, subscription: str | None) -> Pipeline:
    """Return the pipeline of a subscription.

    Raises:
        click.UsageError: The configuration has several subscriptions, and none is named.
    """
    if subscription is None and len(settings.subscriptions) > 1:
        raise click.UsageError(f"Say which subscription: one of {', '.join(settings.subscriptions)}.")
    name = subscription or next(iter(settings.subscriptions))
    subscription_of(settings, name, hint="SUBSCRIPTION")
    return open_pipeline(settings, name, only_read=True)


def _settings(
    settings: Subscription | None, wire_format: str | None, schema: Path | None, time_zone: str | None
) -> dict[str, Any]:
    """Return the keys of a subscription for a bare capture.

    Raises:
        click.UsageError: Nothing says how the capture is encoded, or a schema is missing or not needed.
        click.BadParameter: There is no such time zone.
    """
    zone = {} if time_zone is None else {"source_time_zone": _zone(time_zone)}
    if settings is not None:
        names = (
            "format",
            "source_time_zone",
            "tables",
            "types",
            "columns",
            "rows",
            "sql",
            "partitions",
            "rename",
            "merge",
        )
        given = settings.model_dump(include=set(names))
        return {**given, **({} if settings.schema_file is None else {"schema": settings.schema_file}), **zone}
    if wire_format is None:
        raise click.UsageError("Say how the capture is encoded: --format, or a subscription of the configuration.")
    if traits_of(wire_format).needs_schema != (schema is not None):
        needs = "with a schema file: --schema" if schema is None else "without a schema file"
        raise click.UsageError(f"Messages in {wire_format} are read {needs}.")
    return {"format": wire_format, **({} if schema is None else {"schema": schema.resolve()}), **zone}


def _zone(text: str) -> str:
    """Return a time zone as the settings write it.

    Raises:
        click.BadParameter: There is no such time zone.
    """
    try:
        return zone_name(text)
    except ValueError:
        raise click.BadParameter(
            f"{text} is no time zone; write +08:00 or Asia/Shanghai", param_hint="--time-zone"
        ) from None


def _write(pieces: Iterable[str], out: Path | None) -> bool:
    """Write a script to a file or to stdout, and return whether all of it was taken."""
    with _opened(out) as file:
        for piece in pieces:
            file.write(piece)
            if out is None and nobody_reads():  # such as head, which has what it wanted
                return False
        file.flush()
    return True


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[str]]:
    """Open the place for a script. A file has its name once it is whole."""
    if out is None:
        yield sys.stdout
        return
    part = out.with_name(f"{out.name}.part")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        yield file
    part.replace(out)


def _say_result(exported: Exported) -> None:
    say(
        f"statements: {exported.changes:,} changes and {exported.ddl:,} statements of DDL of {exported.windows:,} windows"
    )
    for line in left_out_statements(exported):
        say(line)
    if exported.refused:
        say(f"{exported.refused:,} of the changes have no statement; a comment in their place says why")
    if exported.quarantined:
        say(f"{exported.quarantined:,} changes are in quarantine, and not among the statements")
    if exported.collections:
        say(f"collections of documents have no statements: {', '.join(map(str, sorted(exported.collections)))}")
    if exported.merged:
        say(f"merged tables have no statements: {', '.join(map(str, sorted(exported.merged)))}")
    if exported.lacking:
        say(f"some windows lack tables that are paused or removed: {', '.join(map(str, sorted(exported.lacking)))}")
