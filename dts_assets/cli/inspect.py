"""The command ``dts-assets inspect``, which shows one message, entry, transaction or window without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dts_assets.cli.inspect_found import CaptureStock, LakeStock, Stock
from dts_assets.cli.inspect_shown import Shown
from dts_assets.cli.main import config_option, settings_of, subscription_of
from dts_assets.errors import NothingFoundError
from dts_assets.flows.known_moments import windows_clause
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import file_number
from dts_assets.model.spans import partition_of_key
from dts_assets.model.windows import KEY_FORMAT, Window
from dts_assets.sources.capture_source import CaptureSource

_WIDTH = 160
"""The width of output that is no terminal: lines are for reading and for ``grep``."""


def _partition(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    try:
        return int(value) if value.isdigit() else partition_of_key(value)
    except ValueError:
        raise click.BadParameter(f"{value} is no Kafka partition; write p02 or 2") from None


def window_start(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """Return the start, in UTC, of the window that an option or an argument names.

    It is None where the option is not given.

    Raises:
        click.BadParameter: The text is no instant.
    """
    if value is None:
        return None
    for form in (KEY_FORMAT, "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"):
        with contextlib.suppress(ValueError):
            return datetime.strptime(value, form).replace(tzinfo=UTC)
    raise click.BadParameter(f"{value} is no window; write its start in UTC, 2026-01-05T10:00")


@dataclass(frozen=True)
class _Place:
    """The options that say where to look, and whether values may be seen."""

    subscription: str | None
    capture: Path | None
    values: bool
    config: Path | None

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline of the subscription.

        Raises:
            click.UsageError: The configuration has several subscriptions, and none is named.
        """
        settings = settings_of(self.config)
        if self.subscription is None and len(settings.subscriptions) > 1:
            raise click.UsageError(
                f"Say which subscription: --subscription with one of {', '.join(settings.subscriptions)}."
            )
        name = self.subscription or next(iter(settings.subscriptions))
        subscription_of(settings, name, hint="--subscription")
        return open_pipeline(settings, name, only_read=True)

    @cached_property
    def stock(self) -> Stock:
        """The place to look: the capture that was named, else the lake."""
        if self.capture is None:
            return LakeStock(self.pipeline)
        configured = self.pipeline.settings.source.capture
        topics = () if configured is None else tuple(configured.topics.items())
        source = CaptureSource(str(self.capture), self.pipeline.settings.partitions, topics=topics)
        return CaptureStock(source, self.pipeline.format)

    @property
    def shown(self) -> Shown:
        """The writer to the terminal, or to lines of a fixed width."""
        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console = Console(highlight=False, markup=False, width=_WIDTH)
        return Shown(console, values=self.values)


def _places(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a place to a command; its function gets them as ``place``."""

    @click.option("--subscription", help="The subscription. Needed where the configuration has several.")
    @click.option(
        "--capture",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Look into this capture instead of the lake.",
    )
    @click.option("--values", is_flag=True, help="Show values. Without it, only their type and length are shown.")
    @config_option
    @wraps(command)
    def placed(
        subscription: str | None, capture: Path | None, values: bool, config: Path | None, **arguments: Any
    ) -> None:
        command(place=_Place(subscription, capture, values, config), **arguments)

    return placed


@click.group("inspect")
def inspect() -> None:
    """Look at one message, entry, transaction or window."""


@inspect.command("message")
@click.argument("partition", callback=_partition)
@click.argument("offset", type=click.IntRange(min=0))
@_places
def message(place: _Place, partition: int, offset: int) -> None:
    """Show a message.

    Shown are its envelope, its headers, and the entries of its entry set.
    """
    pipeline, shown = place.pipeline, place.shown
    shown.message(pipeline.name, partition, place.stock.message(partition, offset), pipeline.format)
    entries = place.stock.entries_at(partition, offset)
    if entries.num_rows:
        shown.entries(entries)
    else:
        click.echo("No entries: its entry set is not whole here, or is in quarantine.")


@inspect.command("entry")
@click.argument("partition", callback=_partition)
@click.argument("offset", type=click.IntRange(min=0))
@click.argument("number", type=click.IntRange(min=0))
@_places
def entry(place: _Place, partition: int, offset: int, number: int) -> None:
    """Show an entry, with its fields and its rows.

    NUMBER is its number in the entry set of the message at OFFSET.
    """
    row = _find_entry(place.stock, partition, offset, number)
    place.shown.entry(row, place.stock, place.pipeline.format)


@inspect.command("transaction")
@click.argument("gtid")
@_places
def transaction(place: _Place, gtid: str) -> None:
    """Show all entries with a GTID.

    They come from all Kafka partitions, in the order of the source.
    """
    entries = place.stock.transaction(gtid)
    rows = entries.select(["file_name", "position", "kafka_partition", "last_offset", "entry_number"]).to_pylist()
    order = sorted(range(len(rows)), key=lambda at: _sort_key(rows[at]))
    partitions = sorted({row["kafka_partition"] for row in rows})
    named = ", ".join(f"p{one:02d}" for one in partitions)
    click.echo(f"transaction {gtid}: {len(rows)} {'entry' if len(rows) == 1 else 'entries'} in {named}")
    place.shown.entries(entries.take(order))


@inspect.command("window")
@click.argument("start", callback=window_start)
@_places
def window(place: _Place, start: datetime) -> None:
    """Show the evidence of a window.

    START is its start in UTC. Shown are counts, equations, completeness, problems, CHECKPOINTs and the cut.
    """
    chosen, rows = _find_window(place, start)
    ledger = place.pipeline.ledger
    cuts = ledger.cuts([chosen])
    removed = place.pipeline.unmakeable().removed
    place.shown.window(rows, ledger.window_tables([chosen]), cuts[0] if cuts else None, removed=removed)


def _find_entry(stock: Stock, partition: int, offset: int, number: int) -> dict[str, Any]:
    """Return the row of one entry.

    Raises:
        NothingFoundError: The entry set has no entry of this number.
    """
    stock.message(partition, offset)
    rows: list[dict[str, Any]] = stock.entries_at(partition, offset, payload=True).to_pylist()
    row = next((one for one in rows if one["entry_number"] == number), None)
    if row is None:
        numbers = [one["entry_number"] for one in rows]
        there = f"its entries are {min(numbers)} to {max(numbers)}" if numbers else "it has none that could be decoded"
        raise NothingFoundError(f"The entry set at offset {offset}", f"entry {number}", there)
    return row


def _find_window(place: _Place, start: datetime) -> tuple[Window, list[IngestWindow]]:
    """Return the window that starts at `start`, and its rows in the ledger.

    Raises:
        click.UsageError: The place to look is a capture, which has no ledger.
        NothingFoundError: No window starts then, or the ledger has no row of the window.
    """
    if place.capture is not None:
        raise click.UsageError("A capture has no ledger: windows are in the lake.")
    pipeline = place.pipeline
    chosen = pipeline.grid.containing(start)
    if chosen is None or chosen.start != start:
        raise NothingFoundError(
            f"Subscription {pipeline.name}",
            f"window that starts at {start:%Y-%m-%dT%H:%M}",
            windows_clause(pipeline.grid),
        )
    rows = pipeline.ledger.windows([chosen])
    if not rows:
        known = sorted({row.window for row in pipeline.ledger.windows()})
        there = f"there are {known[0]} to {known[-1]}" if known else "none has been materialized yet"
        raise NothingFoundError("The ledger", f"window {chosen}", there)
    return chosen, rows


def _sort_key(row: dict[str, Any]) -> tuple[int, ...]:
    """Return the sort key of an entry: its source position as numbers, then its place in Kafka."""
    return (
        file_number(row["file_name"] or ""),
        row["position"] or 0,
        row["kafka_partition"],
        row["last_offset"],
        row["entry_number"],
    )
