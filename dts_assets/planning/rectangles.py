"""Rectangles: the least number of contiguous spans that cover some cells, since one run covers one contiguous rectangle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import Window

Item = TypeVar("Item")


def window_runs(windows: Iterable[Window], *, longest: int | None = None) -> tuple[tuple[Window, ...], ...]:
    """Return windows grouped into runs without a hole, each at most ``longest`` windows long."""
    return tuple(_stretches(sorted(set(windows)), lambda one, other: one.end == other.start, longest=longest))


def rectangles(cells: Iterable[Cell], *, longest: int | None = None) -> tuple[Span, ...]:
    """Return contiguous spans that hold exactly ``cells``, each once.

    ``longest`` bounds the windows of one span. Neighbouring Kafka partitions that lack the same run of windows share a span:
    after an outage that is one span for all.
    """
    by_partition: dict[int, list[Window]] = {}
    for cell in sorted(set(cells)):
        by_partition.setdefault(cell.kafka_partition, []).append(cell.window)
    runs = [
        (run, partition) for partition, windows in by_partition.items() for run in window_runs(windows, longest=longest)
    ]
    spans: list[Span] = []
    for run, group in groupby(sorted(runs), key=lambda pair: pair[0]):
        partitions = [partition for _, partition in group]
        spans += [Span(some, run) for some in _stretches(partitions, lambda one, other: one + 1 == other)]
    return tuple(sorted(spans, key=lambda span: (span.windows[0], span.kafka_partitions)))


def _stretches(
    ascending: Iterable[Item], meet: Callable[[Item, Item], bool], *, longest: int | None = None
) -> Iterator[tuple[Item, ...]]:
    """Yield items in groups without a hole: each meets the one before it."""
    stretch: list[Item] = []
    for item in ascending:
        if stretch and (len(stretch) == longest or not meet(stretch[-1], item)):
            yield tuple(stretch)
            stretch = []
        stretch.append(item)
    if stretch:
        yield tuple(stretch)
