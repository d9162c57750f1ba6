"""The command ``dts-assets inspect``, which shows one message, entry, transaction or window without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from dts_assets.cli.inspect_found import CaptureStock, LakeStock, Stock
from dts_assets.cli.inspect_shown import Shown
from dts_assets.cli.main import config_option, settings_of, subscription_of
from dts_assets.errors import NothingFoundError
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import file_number
from dts_assets.model.spans import partition_of_key
from dts_assets.model.windows import KEY_FORMAT, Window
from dts_assets.settings import Settings
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store.ledger import Ledger

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WIDTH = 160
"""The width of output that is no terminal: lines are for reading and for ``grep``."""


def _partition(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    try:
        return int(value) if value.isdigit() else partition_of_key(value)
    except ValueError:
        raise click.BadParameter(f"{value} is no Kafka partition; write p02 or 2") from None


def _window_start(_context: click.Context, _parameter: click.Parameter, value: str) -> datetime:
    for form in (KEY_FORMAT, "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"):
        with contextlib.suppress(ValueError):
            return datetime.strptime(value, form).replace(tzinfo=UTC)
    raise click.BadParameter(f"{value} is no window; write its start in UTC, 2026-01-05T10:00")


def _places(command: _Function) -> _Function:
    """Add the options that say where to look, and whether values may be seen."""
    for option in (
        config_option,
        click.option("--values", is_flag=True, help="Show values. Without it, only their type and length are shown."),
        click.option(
            "--capture",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="Look into this capture instead of the lake.",
        ),
        click.option("--subscription", help="The subscription. Needed where the configuration has several."),
    ):
        command = option(command)
    return command


@click.group("inspect")
def inspect() -> None:
    """Look at one message, entry, transaction or window."""


@inspect.command("message")
@click.argument("partition", callback=_partition)
@click.argument("offset", type=click.IntRange(min=0))
@_places
def message(
    partition: int, offset: int, subscription: str | None, capture: Path | None, values: bool, config: Path | None
) -> None:
    """Show a message.

    Shown are its envelope, its headers, and the entries of its entry set.
    """
    pipeline, stock = _stock(settings_of(config), subscription, capture)
    wire = pipeline.format
    found = stock.message(partition, offset)
    shown = _shown(values)
    shown.message(pipeline.name, partition, found, wire)
    entries = stock.entries_at(partition, offset)
    if entries.num_rows:
        shown.entries(entries)
    else:
        click.echo("No entries: its entry set is not whole here, or is in quarantine.")


@inspect.command("entry")
@click.argument("partition", callback=_partition)
@click.argument("offset", type=click.IntRange(min=0))
@click.argument("number", type=click.IntRange(min=0))
@_places
def entry(
    partition: int,
    offset: int,
    number: int,
    subscription: str | None,
    capture: Path | None,
    values: bool,
    config: Path | None,
) -> None:
    """Show an entry, with its fields and its rows.

    NUMBER is its number in the entry set of the message at OFFSET.
    """
    pipeline, stock = _stock(settings_of(config), subscription, capture)
    _shown(values).entry(_find_entry(stock, partition, offset, number), stock, pipeline.format)


@inspect.command("transaction")
@click.argument("gtid")
@_places
def transaction(gtid: str, subscription: str | None, capture: Path | None, values: bool, config: Path | None) -> None:
    """Show all entries with a GTID.

    They come from all Kafka partitions, in the order of the source.
    """
    _, stock = _stock(settings_of(config), subscription, capture)
    entries = stock.transaction(gtid)
    rows = entries.select(["file_name", "position", "kafka_partition", "last_offset", "entry_number"]).to_pylist()
    order = sorted(range(len(rows)), key=lambda at: _place(rows[at]))
    partitions = sorted({row["kafka_partition"] for row in rows})
    named = ", ".join(f"p{one:02d}" for one in partitions)
    click.echo(f"transaction {gtid}: {len(rows)} {'entry' if len(rows) == 1 else 'entries'} in {named}")
    _shown(values).entries(entries.take(order))


@inspect.command("window")
@click.argument("start", callback=_window_start)
@_places
def window(start: datetime, subscription: str | None, capture: Path | None, values: bool, config: Path | None) -> None:
    """Show the evidence of a window.

    START is its start in UTC. Shown are counts, equations, completeness, problems, CHECKPOINTs and the cut.
    """
    ledger, chosen, rows = _find_window(settings_of(config), subscription, start, capture)
    cuts = ledger.cuts([chosen])
    _shown(values).window(rows, ledger.window_tables([chosen]), cuts[0] if cuts else None)


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


def _find_window(
    settings: Settings, subscription: str | None, start: datetime, capture: Path | None
) -> tuple[Ledger, Window, list[IngestWindow]]:
    """Return the ledger, the window that starts at `start`, and its rows in the ledger.

    Raises:
        click.UsageError: The place to look is a capture, which has no ledger.
        NothingFoundError: No window starts then, or the ledger has no row of the window.
    """
    if capture is not None:
        raise click.UsageError("A capture has no ledger: windows are in the lake.")
    pipeline, _ = _stock(settings, subscription, None)
    chosen = pipeline.grid.containing(start)
    if chosen is None or chosen.start != start:
        every = pipeline.grid.every
        raise NothingFoundError(
            f"Subscription {pipeline.name}",
            f"window that starts at {start:%Y-%m-%dT%H:%M}",
            f"its windows start every {every} from {pipeline.grid.start:%Y-%m-%dT%H:%M}",
        )
    ledger = pipeline.ledger
    rows = ledger.windows([chosen])
    if not rows:
        known = sorted({row.window for row in ledger.windows()})
        there = f"there are {known[0]} to {known[-1]}" if known else "none has been materialized yet"
        raise NothingFoundError("The ledger", f"window {chosen}", there)
    return ledger, chosen, rows


def _stock(settings: Settings, name: str | None, capture: Path | None) -> tuple[Pipeline, Stock]:
    """Return the pipeline of a subscription and the place to look: its lake, or a capture.

    Raises:
        click.UsageError: The configuration has several subscriptions, and none is named.
    """
    if name is None and len(settings.subscriptions) > 1:
        raise click.UsageError(
            f"Say which subscription: --subscription with one of {', '.join(settings.subscriptions)}."
        )
    chosen = name or next(iter(settings.subscriptions))
    subscription_of(settings, chosen, hint="--subscription")
    pipeline = open_pipeline(settings, chosen)
    if capture is None:
        return pipeline, LakeStock(pipeline)
    source = CaptureSource(str(capture), pipeline.settings.partitions)
    return pipeline, CaptureStock(source, pipeline.format)


def _place(row: dict[str, Any]) -> tuple[int, ...]:
    """Return the sort key of an entry: its source position as numbers, then its place in Kafka."""
    return (
        file_number(row["file_name"] or ""),
        row["position"] or 0,
        row["kafka_partition"],
        row["last_offset"],
        row["entry_number"],
    )


def _shown(values: bool) -> Shown:
    console = Console(highlight=False, markup=False)
    return Shown(
        console if console.is_terminal else Console(highlight=False, markup=False, width=_WIDTH), values=values
    )
