"""A meter of the time from a change's commit in the database until the snapshots hold it.

The workload writes down where the binlog stood after its commits. The ledger's ``cuts`` say where all snapshots of a subscription
stand, and each of its commits has a time: the mark of a window is written last, when every table of it is there, so a table
without changes, which is not committed, counts as being as far as the others. A change is visible from the first such commit on
whose cut is at or behind its own position.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.positions import SourcePosition, file_number
from dts_assets.planning.cuts import WindowCut, frontier

Place: TypeAlias = tuple[int, int]
"""A position in the binlog of the one server that is followed: file number and byte, ``(12, 812345)``."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The source right after a commit: the time, all row changes so far, the binlog's end.

    The time is in seconds since the epoch.
    """

    time: float
    rows: int
    place: Place


@dataclass(frozen=True, slots=True)
class Sighting:
    """All snapshots stood at ``place`` from this time on."""

    time: float
    place: Place


@dataclass(frozen=True, slots=True)
class Freshness:
    """The row changes of a stretch of time: all, those that are visible, and their seconds.

    ``p50``, ``p95`` and ``worst`` are None while nothing is visible. ``since`` is the time from which changes are not visible
    yet, None if all are.
    """

    rows: int
    visible: int
    p50: float | None
    p95: float | None
    worst: float | None
    since: float | None


def freshness(
    commits: Sequence[Commit],
    sightings: Iterable[Sighting],
    *,
    begin: float = float("-inf"),
    end: float = float("inf"),
) -> Freshness:
    """Return the freshness of row changes committed between two times, percentiles over row changes.

    Rows of a commit count from the commit before it, so from a little too early and never too late. ``commits`` are in the order
    of time; sightings need no order, and a snapshot does not go back.
    """
    reached = _reached(sightings)
    taken: list[tuple[float, int]] = []
    rows, since = 0, None
    for before, commit in itertools.pairwise(commits):
        changes = commit.rows - before.rows
        if not changes or before.time < begin or commit.time > end:
            continue
        rows += changes
        number = bisect_left(reached, commit.place, key=lambda sighting: sighting.place)
        if number < len(reached):
            taken.append((reached[number].time - before.time, changes))
        elif since is None:
            since = before.time
    taken.sort()
    return Freshness(
        rows,
        sum(changes for _, changes in taken),
        _percentile(taken, 0.5),
        _percentile(taken, 0.95),
        taken[-1][0] if taken else None,
        since,
    )


def visible_rows(commits: Sequence[Commit], place: Place | None) -> int:
    """Return the number of row changes committed so far that snapshots at ``place`` hold."""
    number = 0 if place is None else bisect_right(commits, place, key=lambda commit: commit.place)
    return commits[number - 1].rows if number else 0


def _reached(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return the sightings at which the snapshots moved on, by time and thus by place, too."""
    reached: list[Sighting] = []
    for sighting in sorted(sightings, key=lambda sighting: sighting.time):
        if not reached or sighting.place > reached[-1].place:
            reached.append(sighting)
    return reached


def _percentile(taken: Sequence[tuple[float, int]], share: float) -> float | None:
    """Return the least seconds within which a share of the rows was visible, of (seconds, rows) in order."""
    wanted, seen = share * sum(rows for _, rows in taken), 0
    for seconds, rows in taken:
        seen += rows
        if seen >= wanted:
            return seconds
    return None


class CommitLog:
    """The workload's file, read as it grows. ``commits`` are all commits read so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.commits: list[Commit] = []

    def read(self) -> list[Commit]:
        """All commits up to now. A line that is being written is left for the next time."""
        if self._path.exists():
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                whole, end, _ = stream.read().rpartition(b"\n")
            self._offset += len(whole) + len(end)
            self.commits += [_commit(json.loads(line)) for line in whole.splitlines() if line]
        return self.commits


def _commit(said: dict[str, Any]) -> Commit:
    return Commit(said["time"], said["rows"], (file_number(said["file"]), said["position"]))


class CutLog:
    """The commits of a subscription's ``cuts``, each read once. ``sightings`` are all read so far."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._seen: set[int] = set()
        self.sightings: list[Sighting] = []

    @property
    def place(self) -> Place | None:
        """The place of the snapshots as far as was read; None before the first cut."""
        return max((sighting.place for sighting in self.sightings), default=None)

    def read(self) -> list[Sighting]:
        """All sightings up to now, by time.

        The time is the one in the commit itself, some milliseconds before the catalog has it. Windows that apply all of their
        changes because they have no cut move nothing here: what they show counts as visible with the next cut.
        """
        table = self._pipeline.lake.table(self._pipeline.path("cuts"))
        for snapshot in () if table is None else table.metadata.snapshots:
            if snapshot.snapshot_id not in self._seen:
                self._seen.add(snapshot.snapshot_id)
                cut = self._frontier(snapshot.snapshot_id).cut
                if cut is not None:
                    self.sightings.append(Sighting(snapshot.timestamp_ms / 1000, (cut.file, cut.position)))
        self.sightings.sort(key=lambda sighting: sighting.time)
        return self.sightings

    def _frontier(self, snapshot_id: int) -> Frontier:
        columns = ("window_start", "window_end", "cut", "consistency", "open_in")
        found = self._pipeline.lake.scan(self._pipeline.path("cuts"), columns=columns, snapshot_id=snapshot_id)
        assert found is not None
        cuts = {row["window_start"]: self._cut(row) for row in found.to_pylist()}
        return frontier(cuts, self._pipeline.grid, first=self._pipeline.first_window())

    def _cut(self, row: dict[str, Any]) -> WindowCut:
        cut = None if row["cut"] is None else SourcePosition(**row["cut"])
        window = self._pipeline.grid.of_start(row["window_start"])
        return WindowCut(window, cut, Consistency(row["consistency"]), still_open=bool(row["open_in"]))
