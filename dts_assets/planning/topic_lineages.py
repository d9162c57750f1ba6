"""The lineages of a topic: each is an unbroken run of one server's binlog.

A binlog position means something within one lineage only. Every Kafka partition sees its own part of a failover, a failback or a
reset: there a lineage begins at an offset, and for the others between two GTID numbers of a server. What partitions and
CHECKPOINTs do not show of the order of breaks is guessed by clocks, and every guess is a doubt.

All of it follows from the runs that the ledger keeps, whatever the order in which windows were computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.gtids import greatest_numbers, is_domain, server_and_number
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Break, Doubt, Lineage, LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement, ServerRange
from dts_assets.planning.break_order import BreakGroup, limit_of, limits_of, merge_breaks, order_groups
from dts_assets.planning.lineage_breaks import FoundBreak, PartitionBreaks, find_breaks


@dataclass(frozen=True, slots=True)
class Lineages:
    """All lineages of a topic, by number.

    ``rules`` has the rule of every (Kafka partition, shard) that has more than one lineage. ``doubts`` are the breaks at which
    order or identity is not proven. Where messages carry ids, which begin again with a topic too, ``of_epochs`` has the rules by
    (Kafka partition, epoch).
    """

    all: tuple[Lineage, ...]
    rules: Mapping[tuple[int, str], LineageRule]
    bases: Mapping[str, int]
    doubts: tuple[Doubt, ...] = ()
    of_epochs: Mapping[tuple[int, int], LineageRule] = field(default_factory=dict)

    def rule(self, kafka_partition: int, shard: str, *, epoch: int = 0) -> LineageRule:
        """Return the rule that gives entries of a Kafka partition and shard their lineage."""
        if self.of_epochs:
            return self.of_epochs.get((kafka_partition, epoch)) or LineageRule(0)
        return self.rules.get((kafka_partition, shard)) or LineageRule(self.bases.get(shard, 0))

    def of_run(self, kafka_partition: int, run: Run, *, epoch: int = 0) -> tuple[int, int]:
        """Return the least and the greatest lineage that entries of a run can have."""
        rule = self.rule(kafka_partition, run.shard, epoch=epoch)
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

    def of_statement(self, kafka_partition: int, statement: SeenStatement, *, epoch: int = 0) -> SourcePosition:
        """Return the position of a statement with its lineage."""
        server, number = server_and_number(statement.gtid or "") or (None, -1)
        rule = self.rule(kafka_partition, statement.shard, epoch=epoch)
        lineage = rule.lineage(offset=statement.offset, server=server, number=number, time=statement.time)
        return SourcePosition(lineage, statement.position.file, statement.position.position)

    def of_checkpoint(self, kafka_partition: int, checkpoint: SeenCheckpoint, synced: Mapping[str, int]) -> int:
        """Return the lineage of a CHECKPOINT; ``synced`` has the greatest number of every server in its GTID set.

        A set also names servers from before the topic began: of them no transaction tells on which side of a break it lies.
        """
        rule = self.rule(kafka_partition, checkpoint.shard)
        for one in reversed(rule.breaks):
            limits = [(one.seen_of(server), number) for server, number in synced.items() if one.by_gtid]
            known = [(limit, number) for limit, number in limits if limit is not None]
            if known:
                # After a restart a CHECKPOINT may be about transactions before a break that is behind it already.
                after = any(number > limit for limit, number in known)
            else:
                begins = one.surely if one.offset is None else one.offset + (one.inside is not None)
                after = begins is not None and checkpoint.offset >= begins
            if after:
                return one.lineage
        return rule.base


def find_lineages(rows: Iterable[IngestWindow], *, trust_gtids: bool) -> Lineages:
    """Return the lineages of a topic from the runs of all its stored windows.

    ``trust_gtids`` is False where the vendor says that it made the GTIDs up.
    """
    rows = sorted(rows, key=lambda row: (row.kafka_partition, row.epoch, row.window.start))
    by_shard: dict[str, dict[int, list[Run]]] = {}
    for one in rows:
        for run in one.runs:
            by_shard.setdefault(run.shard, {}).setdefault(one.kafka_partition, []).append(run)
    begun: list[_Begun] = []
    shards: dict[str, _ShardBreaks] = {}
    for shard, partitions in by_shard.items():
        first = min((run for runs in partitions.values() for run in runs), key=lambda run: (run.first_time, run.first))
        begun.append((first.first_time, shard, -1, _server(first), first.first))
        seen = {
            partition: find_breaks(partition, runs, first=_server(first), trust_gtids=trust_gtids)
            for partition, runs in partitions.items()
        }
        broken = trust_gtids and any(one.turns for one in seen.values())
        shards[shard] = _ShardBreaks.of(seen, _synced(rows, shard) if broken else ())
        for number, piece in enumerate(shards[shard].pieces):
            earliest = min(piece.group, key=lambda one: (one.time, one.position))
            begun.append((earliest.time, shard, number, earliest.server, earliest.position))
    # Breaks of one shard keep the order they were found in, even where clocks disagree.
    not_before = _not_before(begun)
    in_order = sorted(begun, key=lambda one: (not_before[one[1], one[2]], one[1], one[2]))
    lineages = tuple(
        Lineage(number, shard, server, time, position)
        for number, (time, shard, _, server, position) in enumerate(in_order)
    )
    numbers = {(shard, index): number for number, (_, shard, index, _, _) in enumerate(in_order)}
    rules = {
        (partition, shard): LineageRule(
            numbers[shard, -1],
            tuple(replace(one, lineage=numbers[shard, one.lineage]) for one in breaks.rule(partition)),
        )
        for shard, breaks in shards.items()
        if breaks.pieces
        for partition in by_shard[shard]
    }
    found = Lineages(lineages, rules, {shard: numbers[shard, -1] for shard in by_shard})
    doubts = [doubt for breaks in shards.values() for doubt in breaks.doubts()]
    if trust_gtids:
        doubts += [doubt for partitions in by_shard.values() for doubt in _contradictions(found, partitions)]
    return replace(found, doubts=tuple(doubts))


def _synced(rows: Iterable[IngestWindow], shard: str) -> list[dict[str, int]]:
    """Return the sets of all CHECKPOINTs that name every server.

    MariaDB names the last server of a domain alone, so that the others would seem to be missing.
    """
    sets = (greatest_numbers(mark.gtid_set or "") for row in rows for mark in row.checkpoints if mark.shard == shard)
    return [
        one for one in sets if not any(is_domain(server.partition("-")[0]) for server in one if server.count("-") == 1)
    ]


def _contradictions(lineages: Lineages, partitions: Mapping[int, Sequence[Run]]) -> Iterator[Doubt]:
    """Yield the runs that begin below a lesser number of their server in another Kafka partition.

    One binlog has a server's transactions by number, so another one began that no partition saw begin.
    """
    places: dict[tuple[int, str], list[tuple[int, SourcePosition, int, int]]] = {}
    for partition, runs in partitions.items() if len(partitions) > 1 else ():
        for run in runs:
            lineage = lineages.of_run(partition, run)
            for one in run.servers if lineage[0] == lineage[1] else ():
                place = run.first if len(run.servers) == 1 else None
                for number, at in ((one.first, place), (one.last, one.begun)):
                    if at is not None:
                        places.setdefault((lineage[0], one.server), []).append(
                            (number, at, partition, run.first_offset)
                        )
    for found in places.values():
        before = _Highest()
        for number, at, partition, offset in sorted(found):
            if before.of_others(partition, at):
                yield Doubt(
                    partition, offset, f"transaction {number} stands below one before it in another Kafka partition"
                )
            before.see(partition, at)


@dataclass(slots=True)
class _Highest:
    """The two Kafka partitions with the greatest positions so far.

    They tell for each Kafka partition what all others have, however many there are.
    """

    first: tuple[SourcePosition, int] | None = None
    second: tuple[SourcePosition, int] | None = None

    def of_others(self, kafka_partition: int, at: SourcePosition) -> bool:
        """Return whether another Kafka partition has a greater position."""
        found = self.second if self.first is not None and self.first[1] == kafka_partition else self.first
        return found is not None and at < found[0]

    def see(self, kafka_partition: int, at: SourcePosition) -> None:
        """Take note of a position."""
        if self.first is None or self.first[1] == kafka_partition:
            self.first = (at if self.first is None else max(at, self.first[0])), kafka_partition
        elif at > self.first[0]:
            self.first, self.second = (at, kafka_partition), self.first
        elif self.second is None or at > self.second[0]:
            self.second = at, kafka_partition


def _not_before(begun: Iterable[_Begun]) -> dict[tuple[str, int], datetime]:
    """Return the times at which lineages began, by shard and number.

    None is before an earlier lineage of its shard.
    """
    found: dict[tuple[str, int], datetime] = {}
    for time, shard, number, _, _ in sorted(begun, key=lambda one: (one[1], one[2])):
        before = found.get((shard, number - 1))
        found[shard, number] = time if before is None else max(time, before)
    return found


def _server(run: Run) -> str:
    begun = server_and_number(run.gtid or "")
    return str(run.server_id) if begun is None else begun[0]


_Begun: TypeAlias = tuple[datetime, str, int, str, SourcePosition]
"""The time at which a lineage began, its shard, its number there (-1: the first), server and position."""

_EVERY = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _Piece:
    """A lineage behind a break: transactions of the group's server with numbers greater than ``limit``.

    Where some Kafka partitions have transactions from the server before a break and others have them from the one behind it,
    each of these is a lineage of its own: positions do not order them, and their numbers do.
    """

    group: BreakGroup
    limit: int


def _in_order(pieces: list[_Piece]) -> list[_Piece]:
    """Return pieces so that the rest of a torn transaction lies behind all breaks before its begin.

    Only the Kafka partition that saw the rest knows of it. The group behind it may begin with that transaction elsewhere.
    """
    for place in reversed(range(len(pieces))):
        rest = pieces[place].group[0]
        while rest.by_gtid and rest.hi == math.inf and place + 1 < len(pieces) and _precedes(pieces[place + 1], rest):
            pieces[place], pieces[place + 1] = pieces[place + 1], pieces[place]
            place += 1
    return pieces


def _precedes(piece: _Piece, rest: FoundBreak) -> bool:
    first = piece.group[0]
    return first.by_gtid and first.hi < math.inf and first.server == rest.server and piece.limit < rest.lo


@dataclass(frozen=True, slots=True)
class _ShardBreaks:
    """The breaks of one shard in their order. ``guessed`` are places of groups whose order follows from clocks alone."""

    partitions: Mapping[int, PartitionBreaks]
    groups: Sequence[BreakGroup]
    guessed: frozenset[int]
    pieces: Sequence[_Piece]
    synced: Sequence[Mapping[str, int]]
    servers: frozenset[str]

    @classmethod
    def of(cls, partitions: Mapping[int, PartitionBreaks], synced: Sequence[Mapping[str, int]]) -> _ShardBreaks:
        """Return the breaks that some Kafka partitions saw; ``synced`` are the sets of their CHECKPOINTs."""
        groups, guessed = order_groups(
            merge_breaks(one for breaks in partitions.values() for one in breaks.found), synced
        )
        pieces = _in_order([_Piece(group, limit) for group in groups for limit in limits_of(group)])
        runs = (run for breaks in partitions.values() for run in breaks.runs)
        servers = frozenset(one.server for run in runs for one in run.servers)
        return cls(partitions, groups, guessed, pieces, synced, servers)

    def rule(self, kafka_partition: int) -> list[Break]:
        """Return the breaks for entries of a Kafka partition.

        Their ``lineage`` is the place of a break, -1 before all of them.
        """
        partition = self.partitions[kafka_partition]
        own = {found: self._own(found) for found in partition.found}
        unseen = [place for place in range(len(self.pieces)) if place not in own.values()]
        rule: list[Break] = []
        since = 0  # what stands before a break that was seen lies behind no later one, whatever its number
        for offset, found in partition.turns:
            place = -1 if found is None else own[found]
            while unseen and unseen[0] < place:
                rule += self._unseen(unseen.pop(0), partition, since)
            since = offset
            time = datetime.max if found is None else found.time
            by_gtid = found is not None and found.by_gtid
            inside = None if found is None or found.inside is None else tuple(sorted(found.inside.items()))
            rule.append(Break(place, self._seen(place), time, offset, by_gtid, inside=inside))
        return [*rule, *(one for place in unseen for one in self._unseen(place, partition, since))]

    def _own(self, found: FoundBreak) -> int:
        """Return the place at which a Kafka partition's own break stands: that of its first new transaction."""
        places = [place for place, piece in enumerate(self.pieces) if found in piece.group]
        return max(place for place in places if place == places[0] or self.pieces[place].limit < found.hi)

    def _unseen(self, place: int, partition: PartitionBreaks, since: int) -> Iterator[Break]:
        group, seen = self.pieces[place].group, self._seen(place)
        if group[0].hi == math.inf:  # only the rest of a transaction lies behind it, in the partition that saw it
            return
        by_number, surely = partition.passes(dict(seen)) if group[0].by_gtid else (True, None)
        offset = None if by_number else _EVERY if surely is None else surely
        yield Break(place, seen, min(one.time for one in group), offset, group[0].by_gtid, surely, since)

    def _seen(self, place: int) -> tuple[tuple[str, int], ...]:
        """Return the greatest number before a break for every server.

        A Kafka partition may see nothing of a server, so that only one which saw the break and new transactions behind it can
        tell that a server goes on; the others had told all they have before.
        """
        if place < 0 or not self.pieces[place].group[0].by_gtid:
            return ()
        group = self.pieces[place].group
        limits = dict.fromkeys(self.servers, _EVERY)
        goes_on = [pair for found in group for pair in found.after.items()]
        goes_on += [
            (later.group[0].server, later.limit + 1)
            for later in self.pieces[place + 1 :]
            if later.group[0].by_gtid and later.group[0].hi < math.inf
        ]
        for server, number in goes_on:
            limits[server] = min(limits[server], number - 1)
        return tuple(sorted((limits | {group[0].server: self.pieces[place].limit}).items()))

    def doubts(self) -> Iterator[Doubt]:
        """Yield the breaks at which order or identity is not proven."""
        several = len(self.partitions) > 1
        for breaks in self.partitions.values():
            yield from breaks.doubts
        for place, group in enumerate(self.groups):
            detail = None
            if not group[0].by_gtid:
                detail = f"server {group[0].server} begins without GTIDs: what it tells again cannot be known"
            elif place in self.guessed:
                detail = f"only clocks tell whether {group[0].server} comes before other servers"
            elif several and (any(one.again for one in group) or len(limits_of(group)) > 1):
                detail = f"Kafka partitions may have transactions of {group[0].server} from two servers"
            elif any(one.torn for one in group):
                detail = f"one entry set may have parts of a transaction from two servers, {group[0].server} behind"
            elif several and not self._is_exact(group):
                detail = f"not every Kafka partition shows what came before {group[0].server}"
            if detail:
                yield from (Doubt(one.kafka_partition, one.offset, detail) for one in group)

    def _is_exact(self, group: BreakGroup) -> bool:
        """Return whether all Kafka partitions together show every transaction before a break, and which come behind it."""
        place = max(place for place, piece in enumerate(self.pieces) if piece.group is group)
        of_server: dict[str, list[ServerRange]] = {}
        for one in (one for breaks in self.partitions.values() for run in breaks.runs for one in run.servers):
            of_server.setdefault(one.server, []).append(one)
        for server, limit in self._seen(place):
            numbers = [min(one.last, limit) for one in of_server.get(server, ()) if one.first <= limit]
            least = min(found.seen.get(server, -1) for found in group)
            if max(numbers, default=-1) > least and not self._counted(server, max(numbers), group):
                return False
        seen = {found.kafka_partition for found in group}
        unseen = [breaks for partition, breaks in self.partitions.items() if partition not in seen]
        known = max(0, *(one.lo for one in group)) == limit_of(group)
        return not unseen or (known and all(one.passes(dict(self._seen(place)))[0] for one in unseen))

    def _counted(self, server: str, number: int, group: BreakGroup) -> bool:
        """Return whether a CHECKPOINT has a transaction and none from behind a break."""
        return any(
            synced.get(server, -1) >= number and synced.get(group[0].server, -1) <= limit_of(group)
            for synced in self.synced
        )
