"""The command ``dts-assets capture``, which records the topic of a subscription into a capture folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.main import config_option, settings_of, subscription_of, table_of
from dts_assets.flows.pipeline import open_source, topics_of
from dts_assets.model.byte_sizes import rounded_size
from dts_assets.sources.recorder import Recorded, record


def _offset_or_time(context: click.Context, option: click.Parameter, value: str | None) -> int | datetime | None:
    """Return ``1200`` as an offset, ``2026-01-05T08:00`` as a time, in UTC unless it names another zone.

    Raises:
        click.BadParameter: The value is neither.
    """
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter("write an offset, 1200, or a time, 2026-01-05T08:00Z") from None
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant


@click.command("capture")
@click.argument("subscription")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--from", "since", callback=_offset_or_time, help="An offset or a time (UTC). Default: the first message."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=0.0,
    help="Record for so many seconds. Default: until now.",
)
@config_option
def capture(subscription: str, folder: Path, since: int | datetime | None, seconds: float, config: Path | None) -> None:
    """Record the topics of a SUBSCRIPTION into FOLDER.

    A recording that FOLDER holds already is continued at its end.
    """
    chosen = subscription_of(settings_of(config), subscription)
    source = open_source(chosen)
    topics = topics_of(chosen, source)
    several = topics if len(topics) > 1 else ()
    recorded = record(source, chosen.partitions, folder, topics=several, since=since, seconds=seconds)
    _show(recorded, folder, several)


def _show(recorded: Recorded, folder: Path, topics: tuple[tuple[str, int], ...]) -> None:
    console = Console(highlight=False)
    for number, offsets in recorded.gone.items():
        console.print(
            f"Kafka partition {number}: offsets {offsets} were deleted before they could be recorded", markup=False
        )
    if not recorded.messages:
        console.print("Nothing new to record.")
        return
    table = table_of(f"recorded into {folder}", numbers=["Kafka partition", "messages", "values"])
    for number in sorted(recorded.messages):
        table.add_row(str(number), f"{recorded.messages[number]:,}", rounded_size(recorded.bytes[number]))
    console.print(table)
    if topics:
        written = ", ".join(f"{json.dumps(name)}: {partitions}" for name, partitions in topics)
        line = f"To read it, write below capture: topics: {{{written}}}"
        console.print(line, markup=False, soft_wrap=True)
