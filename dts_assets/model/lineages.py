"""Lineages: unbroken runs of one server's binlog, and the rule by which entries belong to one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import ProblemCode
from dts_assets.model.runs import Run


@dataclass(frozen=True, slots=True)
class Break:
    """The place where a lineage begins, or goes on after another one.

    ``offset`` is where this Kafka partition saw it, and all entries from there on lie behind it. If it lies inside the entry set
    of that offset, those of the set do whose number is greater than ``inside`` says of their server (else None).

    Where a partition did not see it (None), an entry lies behind it if its event time is at or after ``time`` or, ``by_gtid``,
    if its number is greater than ``seen`` says of its server (a server not named: any number) and from offset ``surely`` on. No
    entry before the offset ``since`` lies behind it. ``seen`` and ``inside`` are ascending by server.
    """

    lineage: int
    seen: tuple[tuple[str, int], ...]
    time: datetime
    offset: int | None
    by_gtid: bool
    surely: int | None = None
    since: int = 0
    inside: tuple[tuple[str, int], ...] | None = None

    def seen_of(self, server: str) -> int | None:
        """Return the number that ``seen`` says of a server, None for a server that it does not name."""
        return _number_of(self.seen, server)

    def up_to(self, numbers: Sequence[tuple[str, int]], *, offset: int) -> Break:
        """Return the break as far as it concerns entries up to an offset and some numbers.

        ``numbers`` are ascending by server. Later messages may tell more of a break. The result stays as it was if they tell
        nothing about these entries.
        """
        seen, surely, inside = self.seen[:0], None, self.inside
        if self.offset is not None:  # where it was seen, offsets alone tell
            inside = self.inside and _up_to(self.inside, numbers)
        else:
            seen = _up_to(self.seen, numbers)
            surely = self.surely if self.surely is not None and self.surely <= offset else None
        if (seen, surely, inside) == (self.seen, self.surely, self.inside):
            return self  # mostly: there is one server, and thousands of breaks
        return replace(self, seen=seen, surely=surely, inside=inside)


@dataclass(frozen=True, slots=True)
class LineageRule:
    """The rule that gives entries of a Kafka partition and shard their lineage.

    The lineage is ``base``, or the last of ``breaks`` that holds for an entry.
    """

    base: int
    breaks: tuple[Break, ...] = ()

    def lineage(self, *, offset: int, server: str | None, number: int, time: datetime) -> int:
        """Return the lineage of one entry; ``server`` and ``number`` are its GTID's, None without one."""
        for one in reversed(self.breaks):
            if _belongs(one, offset=offset, server=server, number=number, time=time):
                return one.lineage
        return self.base

    def up_to(self, runs: Iterable[Run]) -> LineageRule:
        """Return the part of the rule that concerns entries of some runs.

        It gives them the lineages that the rule gives them. Breaks behind which none of them can lie are left out, and numbers
        of other servers. Breaks hold from an offset, a time or a number on, so the greatest ones tell.
        """
        runs = tuple(runs)
        if not (self.breaks and runs):
            return LineageRule(self.base)
        offset, time, numbers = _greatest_of(runs)
        known = sorted((server, number) for server, number in numbers.items() if server is not None)
        breaks = [
            one.up_to(known, offset=offset)
            for one in self.breaks
            if _may_hold(one, offset=offset, numbers=numbers, time=time)
        ]
        return LineageRule(self.base, tuple(breaks))

    def may_break(self, run: Run) -> bool:
        """Return whether entries of a run may lie behind any of the breaks."""
        if not self.breaks:
            return False
        offset, time, numbers = _greatest_of((run,))
        return any(_may_hold(one, offset=offset, numbers=numbers, time=time) for one in self.breaks)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A lineage: the server that its first entry names, and the least position of its first run."""

    lineage: int
    shard: str
    server: str
    first_event_time: datetime
    first_position: SourcePosition


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place at which order or identity of changes is not proven, where a Kafka partition saw it."""

    kafka_partition: int
    offset: int
    detail: str
    code: ProblemCode = ProblemCode.LINEAGES


def _belongs(one: Break, *, offset: int, server: str | None, number: int, time: datetime) -> bool:
    if one.offset is not None:
        if one.inside is not None and offset == one.offset:
            return server is not None and _is_behind(number, one.inside, server)
        return offset >= one.offset
    if offset < one.since:
        return False
    if one.by_gtid and server is not None:
        return _is_behind(number, one.seen, server) or (one.surely is not None and offset >= one.surely)
    return time >= one.time or (not one.by_gtid and one.surely is not None and offset >= one.surely)


def _greatest_of(runs: Sequence[Run]) -> tuple[int, datetime, dict[str | None, int]]:
    """Return the greatest offset and time of some runs, and the greatest number of each server.

    Entries without a server have the key None.
    """
    numbers: dict[str | None, int] = {None: -1}
    for run in runs:
        for one in run.servers:
            numbers[one.server] = max(numbers.get(one.server, -1), one.last)
    return max(run.last_offset for run in runs), max(run.last_time for run in runs), numbers


def _may_hold(one: Break, *, offset: int, numbers: Mapping[str | None, int], time: datetime) -> bool:
    """Return whether entries up to an offset, a time and numbers may lie behind a break."""
    if one.offset is not None and one.inside is None:
        return offset >= one.offset
    return any(
        _belongs(one, offset=offset, server=server, number=number, time=time) for server, number in numbers.items()
    )


def _up_to(ascending: tuple[tuple[str, int], ...], numbers: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return the pairs of some servers, none of them with more than its number in ``numbers``.

    Both are ascending; a break may have seen thousands of other servers.
    """
    limits = ((server, _number_of(ascending, server), number) for server, number in numbers)
    return tuple((server, min(limit, number)) for server, limit, number in limits if limit is not None)


def _number_of(ascending: tuple[tuple[str, int], ...], server: str) -> int | None:
    """Return the number of a server, None without one.

    A dictionary for each entry would cost as much as there are servers.
    """
    place = bisect_left(ascending, (server,))
    return ascending[place][1] if place < len(ascending) and ascending[place][0] == server else None


def _is_behind(number: int, ascending: tuple[tuple[str, int], ...], server: str) -> bool:
    """Return whether a transaction lies behind the number of its server; without a number any transaction does."""
    limit = _number_of(ascending, server)
    return limit is None or number > limit
