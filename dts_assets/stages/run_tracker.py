"""Entries become runs, which end where source positions go back in a Kafka partition and window.

In columns: a clean window is one run, found by comparing neighbours. Python looks at the places alone where positions go back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.positions import SourcePosition, file_number
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.runs import LSN, Run, SeenCheckpoint, SeenStatement, ServerRange
from dts_assets.model.witnesses import MIXING, Witness, join_witnesses
from dts_assets.stages.entry_columns import BEGIN, CHECKPOINT, DDL, DML, EntryColumns, Numbers
from dts_assets.stages.log_places import LogPlaces
from dts_assets.wire.columns.buffers import rows_by_code

MOST_RUNS = 64
"""Runs kept of one Kafka partition and window.

After them a re-read widens the last run instead of making another.
"""

MOST_RUNS_WITH_BREAKS = 2 * MOST_RUNS
"""Runs kept of one Kafka partition and window if other binlogs begin in it.

After them the begin of another binlog widens the last run, too, and is a problem. Every break may be a lineage of its own, and
a few hundred kilobytes of messages could name thousands.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Open:
    """A run being collected, and the numbers that the next batch is compared with."""

    first_offset: int
    last_offset: int
    first: tuple[int, int]
    last: tuple[int, int]
    first_time: int
    last_time: int
    server_id: int
    gtid: str | None
    begins: bool
    broken: bool = False
    repeats: int = 0
    servers: dict[str, tuple[int, int]] = field(default_factory=dict)
    begun: dict[str, tuple[int, int]] = field(default_factory=dict)
    witnesses: dict[str, tuple[Witness, ...]] = field(default_factory=dict)
    in_last: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Shard:
    """The facts of one shard.

    ``seen`` has the greatest GTID number of every server, ``begun`` the place of its BEGIN. ``origin`` has the server of the
    last entry's GTID, and its server id.
    """

    runs: list[_Open] = field(default_factory=list)
    checkpoints: list[SeenCheckpoint] = field(default_factory=list)
    highest: tuple[int, int] = (-1, -1)
    previous: tuple[int, int] = (-1, -1)
    latest: int = -(1 << 62)
    seen: dict[str, int] = field(default_factory=dict)
    begun: dict[str, tuple[int, int]] = field(default_factory=dict)
    origin: tuple[str, int] | None = None


@dataclass(slots=True)
class RunTracker:
    """Finds the runs of one Kafka partition and window. Feed it every batch of entries in offset order.

    Its fields are all that it knows.
    """

    shards: dict[str, _Shard] = field(default_factory=dict)
    seen_statements: list[SeenStatement] = field(default_factory=list)
    log_places: dict[str, LogPlaces] = field(default_factory=dict)

    def see(self, entries: EntryColumns, *, order: ChangeOrder = ChangeOrder.BINLOG_POSITION) -> None:
        """Take note of the entries of a decoded batch.

        Of entries that stand where they came nothing but statements is noted, unless they tell their place without a file.
        """
        for checkpoint in entries.checkpoints:
            shard, offset = entries.shard(checkpoint.index), int(entries.offsets[checkpoint.index])
            position = SourcePosition(0, file_number(checkpoint.file_name), checkpoint.position)
            seen = SeenCheckpoint(shard, offset, position, checkpoint.gtid_set, checkpoint.fake_gtid)
            self._see_checkpoint(self.shards.setdefault(shard, _Shard()), seen)
        for row in np.flatnonzero(entries.kinds == DDL).tolist():
            gtid, time = entries.gtids.text(int(entries.gtids.codes[row])), _instant(int(entries.times[row]))
            statement = SeenStatement(entries.shard(row), int(entries.offsets[row]), entries.position(row), gtid, time)
            self.seen_statements.append(statement)
        if order is ChangeOrder.ARRIVAL:  # places in a file are made here, and tell nothing of the source
            told = (entries.files == 0) & (entries.positions > 0) & np.isin(entries.kinds, (DML, DDL))
            if not told.any():
                return
            entries = entries.take(np.flatnonzero(told))
        for shard, mine in entries.of_shards():
            if order is ChangeOrder.MESSAGE_ID:
                own = mine.take(np.flatnonzero((mine.kinds == DML) | (mine.kinds == DDL)))
                if len(own):
                    _see_ids(self.shards.setdefault(shard, _Shard()), own)
                continue
            own = mine.take(np.flatnonzero((mine.kinds < CHECKPOINT) & mine.placed))
            if own.goes_on.any():  # one message is enough of an event: the others have its position, too
                first = ~own.goes_on
                first[:1] |= shard not in self.shards
                own = own.take(np.flatnonzero(first))
            if len(own):
                self._see(self.shards.setdefault(shard, _Shard()), _Entries(own))
                if own.by_lsn.any():
                    self.log_places.setdefault(shard, LogPlaces()).see(own)

    def repeated(self, entries: EntryColumns, rows: npt.NDArray[np.int64]) -> None:
        """Count entries of the last batch that repeat a neighbour with the same id."""
        for row in rows.tolist():
            self.shards[entries.shard(row)].runs[-1].repeats += 1

    def runs(self) -> tuple[Run, ...]:
        """Return the runs by shard and offset."""
        return tuple(_frozen(shard, one) for shard, known in sorted(self.shards.items()) for one in known.runs)

    def statements(self) -> tuple[SeenStatement, ...]:
        """Return the DDL entries by offset."""
        return tuple(self.seen_statements)

    def checkpoints(self) -> tuple[SeenCheckpoint, ...]:
        """Return the greatest CHECKPOINT of every stretch, by shard and offset."""
        return tuple(one for _, known in sorted(self.shards.items()) for one in known.checkpoints)

    def problems(self) -> Iterator[Problem]:
        """Yield where binlogs begin too often to be followed: behind it changes may be taken for copies.

        Then what places in PostgreSQL's log do not order.
        """
        for shard, places in sorted(self.log_places.items()):
            yield from places.problems(shard)
        for shard, known in sorted(self.shards.items()):
            if len(known.runs) >= MOST_RUNS_WITH_BREAKS:
                of = f" of shard {shard}" if shard else ""
                detail = f"binlogs{of} begin too often in this window to tell from here on which changes are the same"
                yield Problem(ProblemCode.LINEAGES, known.runs[-1].first_offset, known.runs[-1].last_offset, detail)

    @staticmethod
    def _see_checkpoint(known: _Shard, seen: SeenCheckpoint) -> None:
        goes_on = bool(known.checkpoints) and seen.position >= known.checkpoints[-1].position
        if goes_on or len(known.checkpoints) >= MOST_RUNS:
            known.checkpoints.pop()
        known.checkpoints.append(seen)

    def _see(self, known: _Shard, entries: _Entries) -> None:
        """Take note of entries of one shard: stretch by stretch, in each of which positions only grow."""
        keys = entries.columns.keys
        goes_back = np.flatnonzero(keys[1:] < keys[:-1]) + 1
        starts = sorted(
            {
                0,
                *goes_back.tolist(),
                *entries.first_of_servers(known.seen),
                *entries.begun_again(known.seen),
                *entries.first_of_ids(),
            }
        )
        equal = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        begun = 0
        for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
            before = known.runs[-1] if known.runs else None
            passed = self._stretch(known, entries, start, end)
            if before is not None and known.runs[-1] is not before:
                _put_transactions(before, entries, begun, start)
                begun = start
            if len(equal):  # behind those that were passed, which are counted already
                new = start + max(1, passed)
                known.runs[-1].repeats += int(np.searchsorted(equal, end) - np.searchsorted(equal, new))
        _put_transactions(known.runs[-1], entries, begun, len(keys))

    def _stretch(self, known: _Shard, entries: _Entries, start: int, end: int) -> int:
        """Take note of a stretch; return the number of entries at positions held before."""
        first, last = entries.columns.place(start), entries.columns.place(end - 1)
        columns = entries.columns
        time, latest = int(columns.times[start]), int(columns.times[start:end].max())
        numbered, back = entries.numbered(start), first < known.previous
        by_lsn = bool(columns.by_lsn[start]) and not numbered
        passed = entries.passed(start, end, known.highest)
        # One binlog holds no new transactions at positions that were passed, and none of those seen at others. Without GTIDs
        # only the clock can tell.
        again = bool(entries.begins[start]) and numbered and not entries.any_new(start, start + 1, known.seen)
        elsewhere = again and known.begun.get(entries.server(start), first) != first
        copied = (again and first > known.highest) or (elsewhere and entries.tells_last(start, known.seen))
        later = back and not numbered and not by_lsn and time > known.latest
        broken = later or copied or entries.any_new(start, start + passed, known.seen)
        unknown_server = numbered and entries.server(start) not in known.seen
        run = known.runs[-1] if known.runs else None
        origin = entries.origin(start)
        another = known.origin is not None and origin[0] == known.origin[0] and origin[1] != known.origin[1]
        # In PostgreSQL's log a transaction may begin before others end, so that nothing begins where places go back.
        fresh = run is None or broken or another or unknown_server or (back and not by_lsn and first < run.first)
        most = MOST_RUNS_WITH_BREAKS if broken or another else MOST_RUNS
        if run is None or (fresh and len(known.runs) < most):
            server_id, begins = int(columns.server_ids[start]), bool(entries.begins[start])
            gtid = LSN if by_lsn else entries.gtid(start)
            run = _Open(int(columns.offsets[start]), 0, first, last, time, latest, server_id, gtid, begins, broken)
            known.runs.append(run)
            if broken:
                known.highest, passed = (-1, -1), 0
        run.first, run.last = min(run.first, first), max(run.last, last)
        run.last_time = max(run.last_time, latest)
        run.repeats += passed
        known.highest, known.previous = max(known.highest, last), last
        known.latest = max(known.latest, latest)
        for server, (least, greatest), place in entries.servers(start, end):
            before = run.servers.get(server, (least, greatest))
            run.servers[server] = (min(before[0], least), max(before[1], greatest))
            _put_begun(run.begun, server, place, before=before[1], number=greatest)
            _put_begun(known.begun, server, place, before=known.seen.get(server, -1), number=greatest)
            known.seen[server] = max(known.seen.get(server, -1), greatest)
        known.origin = entries.origin(end - 1)
        return passed


def _put_transactions(run: _Open, entries: _Entries, start: int, end: int) -> None:
    """Put down the witnesses and the last numbers of a run's entries in a batch.

    Once for each run and batch, not for each stretch: in what is told again every BEGIN begins a stretch.
    """
    if start == end:  # another run begins with the batch
        return
    if (last_offset := int(entries.columns.offsets[end - 1])) != run.last_offset:
        run.last_offset, run.in_last = last_offset, {}
    for server, greatest in entries.in_last(start, end):
        run.in_last[server] = max(run.in_last.get(server, -1), greatest)
    for server, witnesses in entries.witnesses(start, end):
        run.witnesses[server] = join_witnesses(witnesses, run.witnesses.get(server, ()))


def _see_ids(known: _Shard, entries: EntryColumns) -> None:
    """Take note of entries of one shard that carry ids: each place where ids fall begins a run.

    If there are too many, the last run is ``broken``: ids fall inside it.
    """
    ids = entries.positions
    falls = (np.flatnonzero(ids[1:] < ids[:-1]) + 1).tolist()
    for start, end in zip([0, *falls], [*falls, len(ids)], strict=True):
        first, last = entries.place(start), entries.place(end - 1)
        latest = int(entries.times[start:end].max())
        back = bool(known.runs) and first < known.previous
        if not known.runs or (back and len(known.runs) < MOST_RUNS):
            time = int(entries.times[start])
            known.runs.append(_Open(int(entries.offsets[start]), 0, first, last, time, latest, 0, None, False))
            back = False
        run = known.runs[-1]
        run.broken |= back
        run.last_offset = int(entries.offsets[end - 1])
        run.first, run.last = min(run.first, first), max(run.last, last)
        run.last_time = max(run.last_time, latest)
        known.previous = last


class _Entries:
    """Entries of one shard. ``numbers`` are those of GTIDs, -1 without one; ``servers`` index ``names``."""

    def __init__(self, columns: EntryColumns) -> None:
        self.columns = columns
        self.begins = columns.kinds == BEGIN
        self.numbers, self.codes = columns.gtids.row_numbers()
        self.names = columns.gtids.names

    def passed(self, start: int, end: int, highest: tuple[int, int]) -> int:
        """Return the number of a stretch's entries at positions up to ``highest``."""
        return bisect_right(range(start, end), highest, key=self.columns.place)

    def any_new(self, start: int, end: int, seen: Mapping[str, int]) -> bool:
        """Tell whether any of some entries has a GTID greater than all of its server before."""
        return any(
            int(self.numbers[rows].max()) > seen.get(name, -1) for name, rows in self._by_server(slice(start, end))
        )

    def first_of_servers(self, seen: Mapping[str, int]) -> Iterator[int]:
        """Yield the first rows of servers that were never seen before."""
        codes, first = np.unique(self.codes, return_index=True)
        for code, row in zip(codes.tolist(), first.tolist(), strict=True):
            if code >= 0 and self.names[code] not in seen:
                yield row

    def first_of_ids(self) -> Iterator[int]:
        """Yield the rows at which the server id changes although the GTIDs name the same server, or none."""
        ids = self.columns.server_ids
        yield from (np.flatnonzero((ids[1:] != ids[:-1]) & (self.codes[1:] == self.codes[:-1])) + 1).tolist()

    def tells_last(self, row: int, seen: Mapping[str, int]) -> bool:
        """Tell whether an entry is of the last transaction seen of its server."""
        return int(self.numbers[row]) == seen.get(self.server(row), -1)

    def begun_again(self, seen: Mapping[str, int]) -> Iterator[int]:
        """Yield the rows that begin a transaction not newer than all of its server before."""
        for name, rows in self._by_server(slice(None)):
            numbers = self.numbers[rows]
            before = np.maximum.accumulate(np.concatenate(([seen.get(name, -1)], numbers)))[:-1]
            yield from rows[self.begins[rows] & (numbers <= before)].tolist()

    def servers(self, start: int, end: int) -> Iterator[tuple[str, tuple[int, int], tuple[int, int] | None]]:
        """Yield the least and the greatest GTID number of each server among some entries.

        With them comes the place of the last BEGIN of the greatest one, None without a BEGIN.
        """
        for name, rows in self._by_server(slice(start, end)):
            numbers = self.numbers[rows]
            greatest = int(numbers.max())
            begun = rows[(numbers == greatest) & self.begins[rows]]
            yield name, (int(numbers.min()), greatest), self.columns.place(int(begun[-1])) if len(begun) else None

    def in_last(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        """Yield the greatest GTID number of each server among those of some entries that have the last offset."""
        offsets = self.columns.offsets
        first = int(np.searchsorted(offsets[start:end], offsets[end - 1]))
        yield from ((name, int(self.numbers[rows].max())) for name, rows in self._by_server(slice(start + first, end)))

    def witnesses(self, start: int, end: int) -> Iterator[tuple[str, list[Witness]]]:
        """Yield the witnesses of each server among some entries."""
        yield from ((name, self._witnesses(rows)) for name, rows in self._by_server(slice(start, end)))

    def _witnesses(self, rows: Numbers) -> list[Witness]:
        """Return the witnesses of some entries of one server; a statement outside a transaction begins one, too."""
        first = rows[self.begins[rows] | (self.columns.kinds[rows] == DDL)]
        numbers = self.numbers[first]
        if (numbers[1:] <= numbers[:-1]).any():
            numbers, places = np.unique(numbers, return_index=True)
            first = first[places]
        kept = witnesses_among(numbers)
        began = map(self.columns.place, first[kept].tolist())
        return [(number, *place) for number, place in zip(numbers[kept].tolist(), began, strict=True)]

    def _by_server(self, some: slice) -> Iterator[tuple[str, Numbers]]:
        """Yield each server that some entries have a GTID of, with their rows, ascending.

        A stream mostly has one server. One with thousands must not be looked through for each of them.
        """
        for code, rows in rows_by_code(self.codes[some]):
            yield self.names[code], rows + (some.start or 0)

    def numbered(self, row: int) -> bool:
        return bool(self.numbers[row] >= 0)

    def server(self, row: int) -> str:
        return self.names[int(self.codes[row])]

    def origin(self, row: int) -> tuple[str, int]:
        return (self.server(row) if self.numbered(row) else "", int(self.columns.server_ids[row]))

    def gtid(self, row: int) -> str | None:
        return f"{self.server(row)}:{self.numbers[row]}" if self.numbered(row) else None


def witnesses_among(numbers: Numbers) -> Numbers:
    """Return the indices of the numbers that are witnesses; ``numbers`` are ascending, none of them twice."""
    ranks = numbers.astype(np.uint64)
    for shift, multiplier in MIXING:
        ranks = (ranks ^ (ranks >> np.uint64(shift))) * np.uint64(multiplier)
    ahead, behind = np.minimum.accumulate(ranks), np.minimum.accumulate(ranks[::-1])[::-1]
    return np.flatnonzero((ranks == ahead) | (ranks == behind))


def _put_begun(
    begun: dict[str, tuple[int, int]], server: str, place: tuple[int, int] | None, *, before: int, number: int
) -> None:
    """Put down where a server's greatest transaction began; ``before`` is the greatest number before."""
    if number > before:
        begun.pop(server, None)
    if number >= before and place is not None:
        begun[server] = place


def _frozen(shard: str, run: _Open) -> Run:
    places = {name: SourcePosition(0, *place) for name, place in run.begun.items()}
    servers = tuple(
        ServerRange(name, *bounds, places.get(name), run.witnesses[name], run.in_last.get(name, -1))
        for name, bounds in sorted(run.servers.items())
    )
    return Run(
        shard, run.first_offset, run.last_offset, SourcePosition(0, *run.first), SourcePosition(0, *run.last),
        _instant(run.first_time), _instant(run.last_time), run.server_id, run.gtid, run.begins, servers, run.broken,
        run.repeats,
    )  # fmt: skip


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
