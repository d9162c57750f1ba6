"""The partitions of assets as Dagster knows them, and the way back to spans and windows.

Assets in Kafka's own order are partitioned by Kafka partition and window, tables by window alone.
"""

from __future__ import annotations

from datetime import UTC, timedelta

import dagster as dg

from dts_assets.errors import NothingFoundError
from dts_assets.model.spans import Cell, Span, partition_key, partition_of_key
from dts_assets.model.windows import KEY_FORMAT, Window, WindowGrid
from dts_assets.settings.models import Subscription

KAFKA_PARTITION = "kafka_partition"
WINDOW = "window"
"""The names of the two dimensions. Dagster writes keys in the order of the names: never rename them."""

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Run tags that make one run of a whole rectangle: the range of each dimension, crossed."""


def window_partitions(subscription: Subscription) -> dg.TimeWindowPartitionsDefinition:
    """Return partitions that are windows; with ``live`` the open window is one of them."""
    grid = subscription.grid
    return dg.TimeWindowPartitionsDefinition(
        start=grid.start.astimezone(UTC).replace(tzinfo=None),
        end=None if grid.end is None else grid.end.astimezone(UTC).replace(tzinfo=None),
        fmt=KEY_FORMAT,
        cron_schedule=cron_of(grid.every),
        timezone="UTC",
        end_offset=1 if subscription.window.live and grid.end is None else 0,
    )


def cell_partitions(subscription: Subscription) -> dg.MultiPartitionsDefinition:
    """Return partitions that are cells, ``p00|2026-01-05-00:00``.

    Kafka partitions are static keys: their number only ever grows.
    """
    keys = [partition_key(number) for number in range(subscription.partitions)]
    return dg.MultiPartitionsDefinition(
        {KAFKA_PARTITION: dg.StaticPartitionsDefinition(keys), WINDOW: window_partitions(subscription)}
    )


def cron_of(every: timedelta) -> str:
    """Return the cron schedule of windows: ``*/15 * * * *`` for a quarter of an hour.

    Raises:
        ValueError: The windows divide neither an hour nor a day.
    """
    minutes = every // timedelta(minutes=1)
    if every == timedelta(days=1):
        return "0 0 * * *"
    if minutes % 60 == 0:
        return "0 * * * *" if minutes == 60 else f"0 */{minutes // 60} * * *"
    if 60 % minutes == 0:
        return "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"
    raise ValueError(
        f"windows of {every} do not fit a cron schedule; use minutes that divide an hour or hours that divide a day"
    )


def span_of(keys: list[str], grid: WindowGrid) -> Span:
    """Return the rectangle of some partition keys of cells.

    Raises:
        NothingFoundError: There is no key: Dagster gives none to the run of a range that ends before it begins.
        ValueError: The cells are no whole rectangle; Dagster gives a run nothing else.
    """
    _require_keys(keys)
    cells = {_cell(key, grid) for key in keys}
    partitions = tuple(sorted({cell.kafka_partition for cell in cells}))
    windows = tuple(sorted({cell.window for cell in cells}))
    span = Span(partitions, windows)
    if len(cells) != len(partitions) * len(windows):
        raise ValueError(f"{len(cells)} partitions are no rectangle of Kafka partitions and windows")
    return span


def span_of_range(first: str, last: str, grid: WindowGrid) -> Span:
    """Return the rectangle between two keys of cells: the ranges of both dimensions, crossed."""
    start, end = _cell(first, grid), _cell(last, grid)
    partitions = tuple(range(start.kafka_partition, end.kafka_partition + 1))
    return Span(partitions, windows_of_range(start.window.key, end.window.key, grid))


def windows_of_range(first: str, last: str, grid: WindowGrid) -> tuple[Window, ...]:
    """Return the windows between two keys of windows, both included."""
    start, end = (grid.number(grid.of_key(key).start) for key in (first, last))
    return tuple(grid.at(number) for number in range(start, end + 1))


def windows_of(keys: list[str], grid: WindowGrid) -> tuple[Window, ...]:
    """Return the windows of some partition keys of tables, in order.

    Raises:
        NothingFoundError: There is no key: Dagster gives none to the run of a range that ends before it begins.
    """
    _require_keys(keys)
    return tuple(sorted(grid.of_key(key) for key in keys))


def span_tags(span: Span) -> dict[str, str]:
    """Return the run tags that ask for a contiguous rectangle in one run."""
    partitions, windows = span.kafka_partitions, span.windows
    return {
        RANGE_START: f"{partition_key(partitions[0])}|{windows[0].key}",
        RANGE_END: f"{partition_key(partitions[-1])}|{windows[-1].key}",
    }


def window_tags(windows: tuple[Window, ...]) -> dict[str, str]:
    """Return the run tags that ask for windows that follow each other in one run."""
    return {RANGE_START: windows[0].key, RANGE_END: windows[-1].key}


def _require_keys(keys: list[str]) -> None:
    if not keys:
        hint = "it ends before it begins: write the lower Kafka partition and the earlier window first"
        raise NothingFoundError("The range of the run", "partition", hint)


def _cell(key: str, grid: WindowGrid) -> Cell:
    partition, _, window = key.partition("|")
    return Cell(partition_of_key(partition), grid.of_key(window))
