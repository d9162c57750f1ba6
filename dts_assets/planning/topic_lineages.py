"""The lineages of a topic: each is an unbroken run of one server's binlog.

A binlog position means something within one lineage only. When positions go back, it is a re-read of the same binlog if the GTID
was seen already or, without GTIDs, if the event is not later than the latest one; else another binlog has begun:
a failover, a failback, a binlog that was reset. Every Kafka partition sees its own part of that, so a break is described by what
was seen before it (the greatest GTID number of every server), which holds in all partitions alike, and by the offset where a
partition saw it itself.

All of it follows from the runs that the ledger keeps, whatever the order in which windows were computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.gtids import server_and_number
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Break, Lineage, LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement


@dataclass(frozen=True, slots=True)
class Lineages:
    """All lineages of a topic, by number.

    ``rules`` has the rule of every (Kafka partition, shard) that has more than one lineage.
    """

    all: tuple[Lineage, ...]
    rules: Mapping[tuple[int, str], LineageRule]
    bases: Mapping[str, int]

    def rule(self, kafka_partition: int, shard: str) -> LineageRule:
        """Return the rule that gives entries of a Kafka partition and shard their lineage."""
        return self.rules.get((kafka_partition, shard)) or LineageRule(self.bases.get(shard, 0))

    def of_run(self, kafka_partition: int, run: Run) -> tuple[int, int]:
        """Return the least and the greatest lineage that entries of a run can have."""
        rule = self.rule(kafka_partition, run.shard)
        if not rule.breaks:
            return rule.base, rule.base
        found = []
        corners: list[tuple[str | None, int]] = [
            (one.server, number) for one in run.servers for number in (one.first, one.last)
        ] or [(None, -1)]
        for offset in (run.first_offset, run.last_offset):
            for time in (run.first_time, run.last_time):
                found += [
                    rule.lineage(offset=offset, server=server, number=number, time=time) for server, number in corners
                ]
        return min(found), max(found)

    def of_statement(self, kafka_partition: int, statement: SeenStatement) -> SourcePosition:
        """Return the position of a statement with its lineage."""
        server, number = server_and_number(statement.gtid or "") or (None, -1)
        rule = self.rule(kafka_partition, statement.shard)
        lineage = rule.lineage(offset=statement.offset, server=server, number=number, time=statement.time)
        return SourcePosition(lineage, statement.position.file, statement.position.position)

    def of_checkpoint(self, kafka_partition: int, checkpoint: SeenCheckpoint, synced: Mapping[str, int]) -> int:
        """Return the lineage of a CHECKPOINT; ``synced`` has the greatest number of every server in its GTID set."""
        rule = self.rule(kafka_partition, checkpoint.shard)
        found = rule.base
        for one in rule.breaks:
            after = one.offset is not None and checkpoint.offset >= one.offset
            more = one.by_gtid and any(number > dict(one.seen).get(server, -1) for server, number in synced.items())
            if (after or more) and not (one.offset is not None and checkpoint.offset < one.offset):
                found = one.lineage
        return found


@dataclass(slots=True)
class _Found:
    """A break as one Kafka partition saw it.

    It lies between ``lo`` (not included) and ``hi``, a GTID number of ``server`` or a time.
    """

    kafka_partition: int
    offset: int
    server: str
    lo: float
    hi: float
    seen: dict[str, int]
    time: datetime
    position: SourcePosition
    by_gtid: bool


@dataclass(slots=True)
class _Seen:
    """The servers, numbers and positions that one Kafka partition and shard has shown up to an offset."""

    numbers: dict[str, int] = field(default_factory=dict)
    servers: set[str] = field(default_factory=set)
    highest: SourcePosition | None = None
    latest: datetime | None = None


def find_lineages(rows: Iterable[IngestWindow], *, trust_gtids: bool, order: ChangeOrder) -> Lineages:
    """Return the lineages of a topic from the runs of all its stored windows.

    ``trust_gtids`` is False where the vendor says that it made the GTIDs up. Message ids belong to the vendor's task and not
    to a server, so that where they give the ``order`` no lineage ends.
    """
    by_shard: dict[str, dict[int, list[Run]]] = {}
    for one in sorted(rows, key=lambda row: (row.kafka_partition, row.epoch, row.window.start)):
        for run in one.runs:
            by_shard.setdefault(run.shard, {}).setdefault(one.kafka_partition, []).append(run)
    begun: list[tuple[datetime, str, int, str, SourcePosition]] = []
    groups: dict[str, list[list[_Found]]] = {}
    for shard, partitions in by_shard.items():
        first = min((run for runs in partitions.values() for run in runs), key=lambda run: (run.first_time, run.first))
        begun.append((first.first_time, shard, -1, _server(first), first.first))
        found = [
            one
            for partition, runs in partitions.items()
            if order is ChangeOrder.BINLOG_POSITION
            for one in _breaks(partition, runs, trust_gtids=trust_gtids)
        ]
        groups[shard] = sorted(_merged(found), key=_group_order)
        for number, group in enumerate(groups[shard]):
            earliest = min(group, key=lambda one: (one.time, one.position))
            begun.append((earliest.time, shard, number, earliest.server, earliest.position))
    # Breaks of one shard keep the order they were found in, even where clocks disagree.
    in_order = sorted(begun, key=lambda one: (_not_before(begun, one), one[1], one[2]))
    lineages = tuple(
        Lineage(number, shard, server, time, position)
        for number, (time, shard, _, server, position) in enumerate(in_order)
    )
    numbers = {(shard, index): number for number, (_, shard, index, _, _) in enumerate(in_order)}
    rules = {
        (partition, shard): LineageRule(
            numbers[shard, -1],
            tuple(_break(numbers[shard, index], group, partition) for index, group in enumerate(groups[shard])),
        )
        for shard, partitions in by_shard.items()
        if groups[shard]
        for partition in partitions
    }
    return Lineages(lineages, rules, {shard: numbers[shard, -1] for shard in by_shard})


def _not_before(
    begun: Sequence[tuple[datetime, str, int, str, SourcePosition]], one: tuple[datetime, str, int, str, SourcePosition]
) -> datetime:
    """Return the time at which a lineage began, never before an earlier lineage of its shard."""
    return max(other[0] for other in begun if other[1] == one[1] and other[2] <= one[2])


def _breaks(kafka_partition: int, runs: Sequence[Run], *, trust_gtids: bool) -> list[_Found]:
    """Return the breaks in the runs of one Kafka partition and shard, in offset order.

    At a break another binlog begins.
    """
    found: list[_Found] = []
    seen = _Seen()
    for run in runs:
        one = _break_at(kafka_partition, run, seen, trust_gtids=trust_gtids)
        if one is not None:
            found.append(one)
            seen.servers, seen.highest = set(), None
        for server in run.servers if trust_gtids else ():
            seen.numbers[server.server] = max(seen.numbers.get(server.server, -1), server.last)
            seen.servers.add(server.server)
        seen.highest = run.last if seen.highest is None else max(seen.highest, run.last)
        seen.latest = run.last_time if seen.latest is None else max(seen.latest, run.last_time)
    return found


def _break_at(kafka_partition: int, run: Run, seen: _Seen, *, trust_gtids: bool) -> _Found | None:
    if seen.highest is None or seen.latest is None:
        return None
    back = run.first <= seen.highest
    if trust_gtids and run.gtid is not None and (begun := server_and_number(run.gtid)):
        server, number = begun
        is_new = number > seen.numbers.get(server, -1)
        another = server not in seen.servers
        # Known transactions and then new ones, all at positions already passed: another server's copy of this binlog.
        brings_new = [one for one in run.servers if one.last > seen.numbers.get(one.server, -1)]
        copy = bool(brings_new) and not is_new and (run.last <= seen.highest or (run.begins and not back))
        if not (run.broken or copy or (is_new and (back or another))):
            return None
        if not is_new:
            if not brings_new:
                return None
            server = brings_new[0].server
            number = max(seen.numbers.get(server, -1) + 1, brings_new[0].first)
        lo, hi = float(seen.numbers.get(server, -1)), float(number)
        return _Found(
            kafka_partition, run.first_offset, server, lo, hi, dict(seen.numbers), run.first_time, run.first, True
        )
    if not (back and run.first_time > seen.latest):
        return None
    server = _server(run)
    lo, hi = seen.latest.timestamp(), run.first_time.timestamp()
    return _Found(kafka_partition, run.first_offset, server, lo, hi, {}, run.first_time, run.first, False)


def _merged(found: Iterable[_Found]) -> list[list[_Found]]:
    """Return the breaks in groups: a group can be met by one point, and several partitions saw it."""
    groups: list[list[_Found]] = []
    for one in sorted(found, key=lambda one: (one.by_gtid, one.server, one.hi, one.lo)):
        last = groups[-1] if groups else None
        if (
            last is not None
            and last[0].by_gtid == one.by_gtid
            and (last[0].server == one.server or not one.by_gtid)
            and one.lo < last[0].hi
            and all(other.kafka_partition != one.kafka_partition for other in last)
        ):
            last.append(one)
        else:
            groups.append([one])
    return groups


def _group_order(group: Sequence[_Found]) -> tuple[int, datetime, SourcePosition]:
    """Return the place of a break: of two breaks the later one has seen more."""
    return sum(_seen_before(group).values()), min(one.time for one in group), min(one.position for one in group)


def _seen_before(group: Sequence[_Found]) -> dict[str, int]:
    seen: dict[str, int] = {}
    for one in group:
        for server, number in one.seen.items():
            seen[server] = max(seen.get(server, -1), number)
    if group[0].by_gtid:
        seen[group[0].server] = int(min(one.hi for one in group)) - 1
    return seen


def _break(lineage: int, group: Sequence[_Found], kafka_partition: int) -> Break:
    offset = next((one.offset for one in group if one.kafka_partition == kafka_partition), None)
    seen = tuple(sorted(_seen_before(group).items()))
    return Break(lineage, seen, min(one.time for one in group), offset, group[0].by_gtid)


def _server(run: Run) -> str:
    begun = server_and_number(run.gtid or "")
    return str(run.server_id) if begun is None else begun[0]
