"""Rectangles: the least number of contiguous spans that cover some cells, since one run covers one contiguous rectangle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import Window


def window_runs(windows: Iterable[Window], *, longest: int | None = None) -> tuple[tuple[Window, ...], ...]:
    """Return windows grouped into runs without a hole, each at most ``longest`` windows long."""
    runs: list[list[Window]] = []
    for window in sorted(set(windows)):
        full = longest is not None and bool(runs) and len(runs[-1]) >= longest
        if runs and not full and runs[-1][-1].end == window.start:
            runs[-1].append(window)
        else:
            runs.append([window])
    return tuple(tuple(run) for run in runs)


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
    spans = []
    for run, group in groupby(sorted(runs), key=lambda pair: pair[0]):
        for partitions in _neighbours([partition for _, partition in group]):
            spans.append(Span(partitions, run))
    return tuple(sorted(spans, key=lambda span: (span.windows[0], span.kafka_partitions)))


def _neighbours(partitions: Sequence[int]) -> list[tuple[int, ...]]:
    groups: list[list[int]] = []
    for partition in partitions:
        if groups and groups[-1][-1] + 1 == partition:
            groups[-1].append(partition)
        else:
            groups.append([partition])
    return [tuple(group) for group in groups]
