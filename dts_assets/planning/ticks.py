"""The requests of a sensor at one tick, and the cursor that it leaves.

All is pure, so that every case can be tested without Dagster. Two sensors follow a subscription. The one at the edge maps
closed windows to runs of raw and entries, and remembers how far it has asked; the other reads the ledger and asks for the
tables of windows that are ready. Run keys are remembered by Dagster for ever, so they carry what decides the result: offsets
for raw and entries, a digest of the inputs for tables and stale entries.

A request that Dagster remembers may have come to nothing: its run was cancelled or deleted, or a later run took the result back.
So both sensors look back every half hour, and ask for all that is left under keys that carry the time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dts_assets.model.spans import Cell, Span, partition_key
from dts_assets.model.windows import Window
from dts_assets.planning.latches import LONGEST_PAUSE, Latch
from dts_assets.planning.rectangles import rectangles
from dts_assets.planning.staleness import generation

if TYPE_CHECKING:  # sensors are defined in every process of Dagster, and need no row of the ledger for that
    from dts_assets.planning.work import Work

MOST_REQUESTS = 25
"""The most runs asked for at one tick: each costs a process start."""

LONGEST_RUN = 24
"""The most windows in one run.

It is a day of hours, so that a failure costs a day and not a month.
"""

LOOK_BACK_EVERY = LONGEST_PAUSE
"""The time between two requests for one piece of work that nothing distinguishes.

It is that of runs which fail again and again.
"""

_CURSOR_VERSION = 1
_AT_THE_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """The start of the first window that was not asked for yet, by Kafka partition.

    ``looked_back`` is the time (UTC) at which everything before these windows was last asked for again; None before the first
    tick.
    """

    next: Mapping[int, datetime] = field(default_factory=dict)
    looked_back: datetime | None = None

    def to_text(self) -> str:
        """Return small versioned JSON, as Dagster stores it."""
        marks = {partition_key(partition): start.isoformat() for partition, start in sorted(self.next.items())}
        looked = {} if self.looked_back is None else {"looked_back": self.looked_back.isoformat()}
        return json.dumps({"v": _CURSOR_VERSION, "next": marks, **looked})

    def looks_back(self, now: datetime) -> bool:
        """Return whether it is time to look back; at once where the clock was set back."""
        before = self.looked_back
        return before is not None and (before > now or now - before >= LOOK_BACK_EVERY)

    @classmethod
    def of_text(cls, text: str | None) -> Cursor:
        """Return the cursor that a text holds; an empty cursor for None and for an unknown version."""
        raw = json.loads(text) if text else {}
        if raw.get("v") != _CURSOR_VERSION:
            return cls()
        marks = {int(key[1:]): datetime.fromisoformat(start) for key, start in raw["next"].items()}
        looked = raw.get("looked_back")  # cursors of earlier versions have none
        return cls(marks, looked and datetime.fromisoformat(looked))


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
    asked for. A cell whose run has failed waits for its latch. When it is time to look back, every cell is asked for that is
    still lacking and that no run is working on.
    """
    busy = {cell.kafka_partition for cell in runs.unfinished}
    looks_back = cursor.looks_back(runs.now)
    fresh = [
        cell
        for cell in work.ingest
        if cell.kafka_partition not in cursor.next or cell.window.start >= cursor.next[cell.kafka_partition]
    ]
    closed = set(fresh)
    behind = [cell for cell in work.ingest if cell not in closed and (looks_back or cell in runs.latches)]
    again = [cell for cell in behind if runs.may_run(cell)]
    followed = [cell for cell in work.live if cell.kafka_partition not in busy and runs.may_run(cell)]
    # By the look before: a tick that Dagster repeats, because the daemon was killed, gives the same keys.
    back = _at(cursor.looked_back) if looks_back and cursor.looked_back is not None else ""
    requests = [
        SpanRequest(span, f"ingest:{_span_text(span)}:{_offsets_text(span, work.ends)}{_after(span, runs)}{apart}")
        for cells, apart in (([*fresh, *followed], ""), (again, back))
        for span in rectangles(cells, longest=LONGEST_RUN)
    ]
    requests += [
        SpanRequest(
            span,
            f"entries:{_span_text(span)}:{_digest(span, work.entries_inputs)}{_after(span, runs)}{back}",
            entries_only=True,
        )
        for span in rectangles(filter(runs.may_run, work.stale_entries), longest=LONGEST_RUN)
    ]
    asked = requests[:MOST_REQUESTS]
    return IngestTick(tuple(asked), _cursor_after(cursor, requests, closed, now=runs.now))


def _cursor_after(
    cursor: Cursor, requests: Sequence[SpanRequest], closed: Collection[Cell], *, now: datetime
) -> Cursor:
    """Return the cursor after a tick that asked for the first of ``requests``.

    ``closed`` are the cells that move the cursor. Looking back goes on at the next tick if there were too many requests.
    """
    marks = dict(cursor.next)
    for request in requests[:MOST_REQUESTS]:
        for cell in () if request.entries_only else request.span.cells():
            if cell in closed:
                marks[cell.kafka_partition] = max(marks.get(cell.kafka_partition, cell.window.end), cell.window.end)
    if cursor.looked_back is not None and not cursor.looks_back(now):
        return Cursor(marks, cursor.looked_back)
    goes_on = cursor.looked_back is not None and len(requests) > MOST_REQUESTS
    return Cursor(marks, now - LOOK_BACK_EVERY if goes_on else now)


def tables_tick(
    work: Work, *, latches: Mapping[datetime, Latch] = {}, now: datetime = _AT_THE_END_OF_TIME
) -> tuple[WindowsRequest, ...]:
    """Return the requests for windows whose tables are missing or stale.

    ``latches`` are those that failed runs of a window have left, by window start. A run waits for the last of its windows'. A
    request comes at most once in half an hour: no run may be going on when this is asked.
    """
    requests = []
    for run in work.tables_runs(longest=LONGEST_RUN):
        left = [latches[window.start] for window in run if window.start in latches]
        if any(latch.holds(now) for latch in left):
            continue
        digest = generation([text for window in run for text in work.tables_inputs[window.start]], code_version="")
        since = now - (now - _EPOCH) % LOOK_BACK_EVERY
        key = f"tables:{run[0].key}..{run[-1].key}:{digest}{_after_latest(left)}{_at(since)}"
        requests.append(WindowsRequest(run, key))
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


def _at(instant: datetime) -> str:
    """Return the end of a run key that no request of another time has."""
    return f":at-{instant:%Y-%m-%dT%H:%M:%S}"


def _digest(span: Span, inputs: Mapping[Cell, Iterable[str]]) -> str:
    return generation([text for cell in span.cells() for text in inputs[cell]], code_version="")
