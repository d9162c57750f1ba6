"""The requests of a sensor at one tick, and the cursor that it leaves.

All is pure, so that every case can be tested without Dagster. Two sensors follow a subscription. The one at the edge maps
closed windows to runs of raw and entries, and remembers how far it has asked; the other reads the ledger and asks for the
tables of windows that are ready. Run keys are remembered by Dagster for ever, so they carry what decides the result: offsets
for raw and entries, a digest of the inputs for tables and stale entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dts_assets.model.spans import Cell, Span, partition_key
from dts_assets.model.windows import Window
from dts_assets.planning.latches import Latch
from dts_assets.planning.rectangles import rectangles
from dts_assets.planning.staleness import generation
from dts_assets.planning.work import Work

MOST_REQUESTS = 25
"""The most runs asked for at one tick: each costs a process start."""

LONGEST_RUN = 24
"""The most windows in one run.

It is a day of hours, so that a failure costs a day and not a month.
"""

_CURSOR_VERSION = 1
_AT_THE_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Runs:
    """The state of the runs of a job.

    ``unfinished`` are the cells of runs that have not ended, ``latches`` the latches that failed runs of a cell have left;
    ``now`` is in UTC.
    """

    unfinished: frozenset[Cell] = frozenset()
    latches: Mapping[Cell, Latch] = field(default_factory=dict)
    now: datetime = _AT_THE_END_OF_TIME

    def may_run(self, cell: Cell) -> bool:
        """Return whether no run of a cell is going on, and no latch holds it."""
        return cell not in self.unfinished and not self.is_latched(cell)

    def is_latched(self, cell: Cell) -> bool:
        """Return whether the next try of a cell has to wait."""
        return cell in self.latches and self.latches[cell].holds(self.now)


NO_RUNS = Runs()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The start of the first window that was not asked for yet, by Kafka partition."""

    next: Mapping[int, datetime] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return small versioned JSON, as Dagster stores it."""
        marks = {partition_key(partition): start.isoformat() for partition, start in sorted(self.next.items())}
        return json.dumps({"v": _CURSOR_VERSION, "next": marks})

    @classmethod
    def of_text(cls, text: str | None) -> Cursor:
        """Return the cursor that a text holds; an empty cursor for None and for an unknown version."""
        raw = json.loads(text) if text else {}
        if raw.get("v") != _CURSOR_VERSION:
            return cls()
        return cls({int(key[1:]): datetime.fromisoformat(start) for key, start in raw["next"].items()})


@dataclass(frozen=True, slots=True)
class SpanRequest:
    """A run of raw and entries, or of entries alone, for one span."""

    span: Span
    run_key: str
    entries_only: bool = False


@dataclass(frozen=True, slots=True)
class WindowsRequest:
    """A run of the tables for some windows that follow each other."""

    windows: tuple[Window, ...]
    run_key: str


@dataclass(frozen=True, slots=True)
class IngestTick:
    """The requests of the edge sensor, and the cursor that it leaves."""

    requests: tuple[SpanRequest, ...]
    cursor: Cursor


def ingest_tick(cursor: Cursor, work: Work, *, runs: Runs = NO_RUNS) -> IngestTick:
    """Return the requests for raw and entries.

    They are for closed cells that were not asked for before or whose run has failed, for open cells that are followed live,
    and for stale entries. A Kafka partition that an unfinished run is reading waits for its end before its open window is
    asked for. A cell whose run has failed waits for its latch.
    """
    busy = {cell.kafka_partition for cell in runs.unfinished}
    fresh = [
        cell
        for cell in work.ingest
        if cell.kafka_partition not in cursor.next or cell.window.start >= cursor.next[cell.kafka_partition]
    ]
    closed = set(fresh)
    again = [cell for cell in work.ingest if cell not in closed and cell in runs.latches and runs.may_run(cell)]
    followed = [cell for cell in work.live if cell.kafka_partition not in busy and runs.may_run(cell)]
    requests = [
        SpanRequest(span, f"ingest:{_span_text(span)}:{_offsets_text(span, work.ends)}{_after(span, runs)}")
        for cells in ([*fresh, *followed], again)
        for span in rectangles(cells, longest=LONGEST_RUN)
    ]
    requests += [
        SpanRequest(
            span,
            f"entries:{_span_text(span)}:{_digest(span, work.entries_inputs)}{_after(span, runs)}",
            entries_only=True,
        )
        for span in rectangles(filter(runs.may_run, work.stale_entries), longest=LONGEST_RUN)
    ]
    asked = requests[:MOST_REQUESTS]
    marks = dict(cursor.next)
    for request in asked:
        if not request.entries_only:
            for cell in request.span.cells():
                if cell in closed:
                    marks[cell.kafka_partition] = max(marks.get(cell.kafka_partition, cell.window.end), cell.window.end)
    return IngestTick(tuple(asked), Cursor(marks))


def tables_tick(
    work: Work, *, latches: Mapping[datetime, Latch] = {}, now: datetime = _AT_THE_END_OF_TIME
) -> tuple[WindowsRequest, ...]:
    """Return the requests for windows whose tables are missing or stale.

    ``latches`` are those that failed runs of a window have left, by window start. A run waits for the last of its windows'.
    """
    requests = []
    for run in work.tables_runs(longest=LONGEST_RUN):
        left = [latches[window.start] for window in run if window.start in latches]
        if any(latch.holds(now) for latch in left):
            continue
        digest = generation([text for window in run for text in work.tables_inputs[window.start]], code_version="")
        requests.append(WindowsRequest(run, f"tables:{run[0].key}..{run[-1].key}:{digest}{_after_latest(left)}"))
    return tuple(requests[:MOST_REQUESTS])


def _span_text(span: Span) -> str:
    partitions, windows = span.kafka_partitions, span.windows
    return f"{partition_key(partitions[0])}..{partition_key(partitions[-1])}|{windows[0].key}..{windows[-1].key}"


def _offsets_text(span: Span, ends: Mapping[Cell, int]) -> str:
    last = span.windows[-1]
    return ",".join(str(ends[Cell(partition, last)]) for partition in span.kafka_partitions)


def _after(span: Span, runs: Runs) -> str:
    return _after_latest(runs.latches[cell] for cell in span.cells() if cell in runs.latches)


def _after_latest(latches: Iterable[Latch]) -> str:
    """Return the end of a run key that no earlier try has; empty without a failure."""
    latest = max(latches, key=lambda latch: latch.ended, default=None)
    return "" if latest is None else f":after-{latest.run[:8]}"


def _digest(span: Span, inputs: Mapping[Cell, Iterable[str]]) -> str:
    return generation([text for cell in span.cells() for text in inputs[cell]], code_version="")
