"""Breaks of one Kafka partition: another binlog begins there, or an old one goes on.

With GTIDs a partition's own order is always known: what is new comes in the source's order, and what is told again has its GTID.
Without them only positions, clocks and server ids tell binlogs apart, so that every break leaves a doubt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from dts_assets.model.gtids import server_and_number
from dts_assets.model.lineages import Doubt
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run, ServerRange
from dts_assets.model.witnesses import Witness, join_witnesses


@dataclass(slots=True, eq=False)
class FoundBreak:
    """A break as one Kafka partition saw it.

    It lies between ``lo`` (not included) and ``hi``, a GTID number of ``server`` or a time; infinite while nothing new came
    behind it. ``told`` is the first number of the
    server that is told behind it, ``hi`` itself or that of a transaction seen before. ``seen`` has the greatest numbers before
    it, ``after`` the first new ones behind it. ``again`` says that it begins with transactions seen before. Where it lies inside
    an entry set, whose first entries stand before it at the same offset, ``inside`` has the greatest numbers that those can have
    (else None), and ``torn`` says that those behind it can have them, too. ``place`` counts the breaks before it in its Kafka
    partition, of which several may have one offset.
    """

    kafka_partition: int
    offset: int
    place: int
    server: str
    lo: float
    hi: float
    told: float
    seen: dict[str, int]
    time: datetime
    position: SourcePosition
    by_gtid: bool
    again: bool
    inside: dict[str, int] | None = None
    torn: bool = False
    after: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionBreaks:
    """The breaks of one Kafka partition and shard in offset order.

    ``turns`` has for each offset the break whose lineage begins or goes on there, None for the lineage that the topic begins
    with. ``doubts`` are places without a break where identity is not proven.
    """

    runs: Sequence[Run]
    turns: tuple[tuple[int, FoundBreak | None], ...]
    doubts: tuple[Doubt, ...]

    @property
    def found(self) -> tuple[FoundBreak, ...]:
        """The breaks, each once."""
        return tuple(dict.fromkeys(one for _, one in self.turns if one is not None))

    def passes(self, seen: Mapping[str, int]) -> tuple[bool, int | None]:
        """Return how entries show that the partition passes a break that it did not see.

        It lies behind the numbers of ``seen``. The numbers of its GTIDs do in the first run beyond, if that is of one server;
        else they would put entries of one binlog in another order. From the offset on, where the next run begins, all entries
        are behind the break.
        """
        beyond = (any(one.last > seen.get(one.server, -1) for one in run.servers) for run in self.runs)
        place = next((place for place, is_beyond in enumerate(beyond) if is_beyond), len(self.runs))
        of_one = place == len(self.runs) or len(self.runs[place].servers) == 1
        return of_one, self.runs[place + 1].first_offset if place + 1 < len(self.runs) else None


def find_breaks(kafka_partition: int, runs: Sequence[Run], *, first: str, trust_gtids: bool) -> PartitionBreaks:
    """Return the breaks in the runs of one Kafka partition and shard, which are in offset order.

    ``first`` is the server with which the topic begins; a partition may begin with another one.
    """
    known = _Known(kafka_partition)
    for run in runs:
        begun = server_and_number(run.gtid or "") if trust_gtids else None
        if begun is None:
            known.see_by_clock(run, run.servers if trust_gtids else ())
        else:
            known.see_by_gtid(run, *begun, first=first)
    return PartitionBreaks(runs, tuple(known.turns), tuple(known.doubts))


@dataclass(slots=True)
class _Told:
    """A lineage as one Kafka partition saw it: its greatest position, its times and server ids."""

    found: FoundBreak | None
    highest: SourcePosition
    first_time: datetime
    latest: datetime
    ids: set[int]

    @classmethod
    def by(cls, found: FoundBreak | None, run: Run) -> _Told:
        return cls(found, run.last, run.first_time, run.last_time, {run.server_id})

    def see(self, run: Run) -> None:
        self.highest, self.latest = max(self.highest, run.last), max(self.latest, run.last_time)
        self.ids.add(run.server_id)

    def has_told(self, run: Run) -> bool:
        return run.server_id in self.ids and run.first <= self.highest and run.first_time <= self.latest


@dataclass(slots=True)
class _Known:
    """The lineages that one Kafka partition has shown up to an offset.

    ``numbers`` has the greatest GTID number of every server, ``begun`` the position of its BEGIN. ``witnesses`` are those of the
    runs of the present lineage, ``told_from`` has the least number of every server in them. ``last_numbers`` are those of the
    runs that reach ``last_offset``.
    """

    kafka_partition: int
    numbers: dict[str, int] = field(default_factory=dict)
    begun: dict[str, SourcePosition | None] = field(default_factory=dict)
    witnesses: dict[str, list[tuple[Witness, ...]]] = field(default_factory=dict)
    told_from: dict[str, int] = field(default_factory=dict)
    told: list[_Told] = field(default_factory=list)
    now: _Told | None = None
    turns: list[tuple[int, FoundBreak | None]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    last_offset: int = -1
    last_numbers: dict[str, int] = field(default_factory=dict)

    def see_by_gtid(self, run: Run, server: str, number: int, *, first: str) -> None:
        news = [one for one in run.servers if one.last > self.numbers.get(one.server, -1)]
        if server != first if self.now is None else self._is_break(run, self.now, server, number, news):
            self._begin(run, server, (self.numbers.get(server, -1), math.inf, number), by_gtid=True)
            if number > self.numbers.get(server, -1) and self.now is not None and self.now.found is not None:
                self.now.found.hi = number
        self._go_on(run, run.servers)

    def _is_break(self, run: Run, now: _Told, server: str, number: int, news: Sequence[ServerRange]) -> bool:
        """Tell whether a run is of another binlog than the entries before it."""
        back, again = run.first <= now.highest, run.last <= now.highest
        if run.broken or any(self._begun_elsewhere(one) for one in run.servers):
            return True
        if news and self._passes_elsewhere(run):
            return True
        if number > self.numbers.get(server, -1):
            return back or server not in self.numbers
        if run.begins and not back:
            return True
        return again and bool(news)

    def _begun_elsewhere(self, one: ServerRange) -> bool:
        """Tell whether the last transaction seen, which may have come in part, is told by another server's binlog."""
        before = self.begun.get(one.server)
        return one.last == self.numbers.get(one.server) and None not in (one.begun, before) and one.begun != before

    def _passes_elsewhere(self, run: Run) -> bool:
        """Tell whether a run that goes through known transactions is of another binlog than this lineage.

        Positions may go on growing from one binlog to another. Only a transaction that both have can tell them apart. A binlog
        that is read again tells all from some transaction on, so that runs have a witness in common. Without one, another binlog
        is taken where the run reaches back behind this lineage: a lineage too many puts nothing in another order. Else some
        messages came again without those behind them, if the places of all fit together.
        """
        compared, behind, fits = False, True, True
        for one in run.servers:
            last = self.numbers.get(one.server, -1)
            mine = [witness for witness in one.witnesses or () if witness[0] <= last]
            if mine:
                known = self._witnesses_of(one.server)
                if not set(known).isdisjoint(mine):
                    return False
                compared, behind = True, behind and one.first >= self.told_from.get(one.server, last + 1)
                fits = fits and _fit(sorted((*known, *mine)))
        return compared and bool(self.witnesses) and not (behind and fits)

    def _witnesses_of(self, server: str) -> tuple[Witness, ...]:
        """Return the witnesses of a server in the present lineage; runs are joined only where somebody asks."""
        told = self.witnesses.get(server, [])
        told[:] = [join_witnesses(*told)]
        return told[0]

    def see_by_clock(self, run: Run, servers: Iterable[ServerRange]) -> None:
        if self.now is None:
            self._go_on(run, servers)
            return
        forward = run.first > self.now.highest
        earlier = run.first_time < self.now.first_time
        old = next((one for one in reversed(self.told) if one is not self.now and one.has_told(run)), None)
        # In PostgreSQL's log a transaction may begin before others end, but commits stand behind all commits before.
        behind = run.is_by_lsn and run.last > self.now.highest
        goes_on = forward or (run.server_id in self.now.ids and (behind or run.first_time <= self.now.latest))
        if old is not None and (earlier or not goes_on):
            self.now = old
            self.turns.append((run.first_offset, old.found))
        elif not goes_on:
            between = (self.now.latest.timestamp(), run.first_time.timestamp())
            self._begin(run, str(run.server_id), (*between, between[1]), by_gtid=False)
        elif run.server_id not in self.now.ids:
            detail = f"server {run.server_id} goes on without GTIDs: what it tells again cannot be known"
            self.doubts.append(Doubt(self.kafka_partition, run.first_offset, detail))
        self._go_on(run, servers)

    def _begin(self, run: Run, server: str, between: tuple[float, float, float], *, by_gtid: bool) -> None:
        lo, hi, told = between
        found = FoundBreak(
            self.kafka_partition, run.first_offset, len(self.told), server, lo, hi, told, dict(self.numbers), run.first_time,
            run.first, by_gtid, any(one.first <= self.numbers.get(one.server, -1) for one in run.servers),
        )  # fmt: skip
        if by_gtid and run.first_offset == self.last_offset:
            found.inside = dict(self.last_numbers)
            found.torn = any(one.first <= found.inside.get(one.server, -1) for one in run.servers)
        self.now = _Told.by(found, run)
        self.told.append(self.now)
        self.turns.append((run.first_offset, found))
        self.witnesses.clear()
        self.told_from.clear()

    def _go_on(self, run: Run, servers: Iterable[ServerRange]) -> None:
        if self.now is None:
            self.now = _Told.by(None, run)
            self.told.append(self.now)
        self.now.see(run)
        if run.last_offset != self.last_offset:
            self.last_offset, self.last_numbers = run.last_offset, {}
        for one in servers:
            in_last = one.last if one.in_last is None else one.in_last
            if in_last >= 0:
                self.last_numbers[one.server] = max(self.last_numbers.get(one.server, -1), in_last)
            before = self.numbers.get(one.server, -1)
            if one.last >= before and (one.begun is not None or one.last > before):
                self.begun[one.server] = one.begun
            if one.last >= before and one.witnesses:
                self.witnesses.setdefault(one.server, []).append(one.witnesses)
                self.told_from[one.server] = min(one.first, self.told_from.get(one.server, one.first))
            if one.last > before:
                self._put_place(one, before)
                self.numbers[one.server] = one.last
                for _, found in self.turns:
                    if found is not None:
                        found.after.setdefault(one.server, max(one.first, before + 1))

    def _put_place(self, one: ServerRange, before: int) -> None:
        """Put down where the present break lies, if this is the first new transaction behind it."""
        found = None if self.now is None else self.now.found
        if found is not None and found.by_gtid and found.hi == math.inf:
            found.server, found.lo, found.hi = one.server, before, max(one.first, before + 1)
            found.told = min(found.hi, one.first)


def _fit(witnesses: Sequence[Witness]) -> bool:
    """Tell whether one binlog can have all witnesses of a server, which are sorted by number."""
    return all(one[0] < other[0] and one[1:] < other[1:] for one, other in pairwise(witnesses))
