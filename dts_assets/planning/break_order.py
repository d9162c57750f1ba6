"""The order of a shard's breaks, each a group of what several Kafka partitions saw of it.

Kafka partitions, GTID numbers and CHECKPOINTs tell the order. Where they do not, clocks do, which is a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.positions import SourcePosition
from dts_assets.planning.lineage_breaks import FoundBreak

BreakGroup: TypeAlias = list[FoundBreak]
"""The same break as several Kafka partitions saw it, each once."""

_MOST_PIECES = 100


def limit_of(group: BreakGroup) -> int:
    """Return the greatest GTID number of the group's server before its break."""
    first = min(one.hi for one in group)
    return int(max(*(one.lo for one in group), -1 if first == math.inf else first - 1))


def limits_of(group: BreakGroup) -> Sequence[int]:
    """Return the limits of a group's pieces: several if some Kafka partitions had seen more than others."""
    if not group[0].by_gtid:
        return (-1,)
    last = limit_of(group)
    first = min(last, int(min(last + 1, *(one.hi for one in group))) - 1)
    return range(first if last - first < _MOST_PIECES else last, last + 1)


def merge_breaks(found: Iterable[FoundBreak]) -> list[BreakGroup]:
    """Return the breaks in groups: a group can be met by one point, and several partitions saw it."""
    groups: list[BreakGroup] = []
    for one in sorted(found, key=lambda one: (one.by_gtid, one.server, one.hi, one.lo)):
        last = groups[-1] if groups else None
        if (
            last is not None
            and last[0].by_gtid == one.by_gtid
            and (last[0].server == one.server or not one.by_gtid)
            and one.hi < math.inf
            and (min(one.lo, one.told - 1) if one.by_gtid else one.lo) < last[0].hi
            and not any(_apart(one, other) or _apart(other, one) for other in last)
        ):
            last.append(one)
        else:
            groups.append([one])
    return groups


def _apart(one: FoundBreak, other: FoundBreak) -> bool:
    """Tell whether two breaks cannot be the same one.

    They are of one Kafka partition, or what came behind the one had come before the other.
    """
    behind = ((server, number) for server, number in one.after.items() if server != one.server)
    return one.kafka_partition == other.kafka_partition or any(
        other.seen.get(server, -1) >= number for server, number in behind
    )


def order_groups(
    groups: Iterable[BreakGroup], synced: Sequence[Mapping[str, int]]
) -> tuple[list[BreakGroup], frozenset[int]]:
    """Return the groups in order, and the places of those of which only clocks say so.

    ``synced`` are the GTID sets of CHECKPOINTs. Breaks of several Kafka partitions that cannot be one in any order are taken
    apart again.
    """
    left = sorted(groups, key=_begin)
    if len({one.kafka_partition for group in left for one in group}) <= 1:
        return sorted(left, key=lambda group: group[0].place), frozenset()
    found: list[BreakGroup] = []
    guessed: set[int] = set()
    waits = _Waiting(left, synced)
    while left:
        first = [one for one in left if not waits.for_others(one)]
        if not first and any(len(one) > 1 for one in left):
            left = sorted(([one] for group in left for one in group), key=_begin)
            waits = _Waiting(left, synced)
            continue
        if len(first) != 1:
            guessed.add(len(found))
        first = first or [one for one in left if not any(_saw_both(other, one) for other in left if other is not one)]
        found.append(first[0])
        left.remove(first[0])
        waits.found(first[0])
    return found, frozenset(guessed)


class _Waiting:
    """The groups that others are known to come before; each pair is compared once."""

    def __init__(self, groups: Sequence[BreakGroup], synced: Sequence[Mapping[str, int]]) -> None:
        self._groups, self._synced = tuple(groups), synced
        self._before = {id(one): self._all_before(one) for one in groups}
        self._next = {id(one): next(self._before[id(one)], None) for one in groups}
        self._found: set[int] = set()

    def for_others(self, one: BreakGroup) -> bool:
        """Return whether a group comes behind one that was not found yet."""
        key = id(one)
        while (other := self._next[key]) is not None and id(other) in self._found:
            self._next[key] = next(self._before[key], None)
        return self._next[key] is not None

    def found(self, one: BreakGroup) -> None:
        """Take note that a group has its place."""
        self._found.add(id(one))

    def _all_before(self, one: BreakGroup) -> Iterator[BreakGroup]:
        return (other for other in self._groups if other is not one and _before(other, one, self._synced))


def _begin(group: BreakGroup) -> tuple[datetime, SourcePosition, int]:
    return min((one.time, one.position, one.kafka_partition) for one in group)


def _saw_both(one: BreakGroup, other: BreakGroup) -> bool:
    """Tell whether a Kafka partition saw a break before another one."""
    return any(
        mine.kafka_partition == theirs.kafka_partition and mine.place < theirs.place for mine in one for theirs in other
    )


def _before(one: BreakGroup, other: BreakGroup, synced: Sequence[Mapping[str, int]]) -> bool:
    """Tell whether a break is known to come before another one.

    A Kafka partition saw both, or had seen something behind the one when it saw the other, or a CHECKPOINT has it.
    """
    if _saw_both(one, other) or _saw_both(other, one):
        return _saw_both(one, other)
    if not (one[0].by_gtid and other[0].by_gtid):
        return min(mine.time for mine in one) < min(theirs.time for theirs in other)
    mine, theirs = one[0].server, other[0].server
    if mine == theirs and max(one[0].hi, other[0].hi) < math.inf:
        return limit_of(one) < limit_of(other)
    behind = [pair for found in one for pair in found.after.items()]
    counted = (numbers for numbers in synced if other[0].hi < math.inf and numbers.get(theirs, -1) <= limit_of(other))
    return any(
        numbers.get(server, -1) >= number
        for numbers in (*(found.seen for found in other), *counted)
        for server, number in behind
    )
