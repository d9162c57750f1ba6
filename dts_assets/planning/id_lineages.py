"""The lineages of a topic whose messages carry ids: its Kafka partitions' lives in one order.

A Kafka partition shows the begin of a life by an offset. One that shows nothing of the life before, or nothing of the fall,
passes the begin by the time of its messages inside the window of the begin, and surely with the window behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Break, Doubt, Lineage, LineageRule
from dts_assets.planning.message_lives import Life, PartitionLives
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class _Begin:
    """The begin of a life in a Kafka partition."""

    kafka_partition: int
    life: Life

    @property
    def window(self) -> datetime:
        return self.life.begin.cell.window.start

    @property
    def window_before(self) -> datetime:
        return self.window if self.life.before is None else self.life.before.cell.window.start

    @property
    def time(self) -> datetime:
        return self.life.begin.run.first_time

    @property
    def time_before(self) -> datetime:
        return self.time if self.life.latest_before is None else self.life.latest_before

    def may_be(self, other: _Begin) -> bool:
        """Tell whether two Kafka partitions may show one begin.

        It then lies between the same windows and times. Times that fall where the life begins say nothing.
        """
        windows = max(self.window_before, other.window_before) <= min(self.window, other.window)
        tell = self.time_before <= self.time and other.time_before <= other.time
        times = max(self.time_before, other.time_before) <= min(self.time, other.time)
        return self.kafka_partition != other.kafka_partition and windows and (times or not tell)


def find_id_lineages(rows: Iterable[IngestWindow], lives: Mapping[int, PartitionLives]) -> Lineages:
    """Return the lineages of a topic from the lives of its Kafka partitions."""
    by_partition: dict[int, list[IngestWindow]] = {}
    for row in sorted(rows, key=lambda row: (row.epoch, row.window.start)):
        by_partition.setdefault(row.kafka_partition, []).append(row)
    groups, numbers = _in_order(lives)
    seen = [one for one in lives.values() if one.lives]
    if not seen:
        return Lineages((), {}, {})
    firsts = [one.lives[0].begin.run for one in seen]
    first = min(firsts, key=lambda run: (run.first_time, run.first))
    begins = [(first.first_time, first.first)]
    begins += [min((one.time, one.life.begin.run.first) for one in group) for group in groups]
    found = tuple(
        Lineage(number, first.shard, str(first.server_id), time, position)
        for number, (time, position) in enumerate(begins)
    )
    rules = {
        (partition, epoch): _rule(lives[partition], mine, groups, numbers, epoch=epoch)
        for partition, mine in by_partition.items()
        for epoch in {row.epoch for row in mine}
    }
    doubts = [doubt for one in lives.values() for doubt in one.doubts()]
    doubts += _unseen_doubts(groups, seen)
    shards = {run.shard for row in rows for run in row.runs}
    return Lineages(found, {}, dict.fromkeys(shards, 0), tuple(doubts), rules if groups else {})


def _in_order(lives: Mapping[int, PartitionLives]) -> tuple[list[list[_Begin]], dict[tuple[int, int], int]]:
    """Return the begins of lineages in their order, and the lineage of every life."""
    begins: list[tuple[datetime, datetime, int, int, _Begin]] = []
    for partition, mine in lives.items():
        latest: datetime | None = None
        for life in mine.lives[1:]:
            one = _Begin(partition, life)
            latest = one.time if latest is None else max(latest, one.time)  # a Kafka partition's own order is certain
            begins.append((one.window, latest, partition, life.number, one))
    groups: list[list[_Begin]] = []
    numbers = {(partition, 0): 0 for partition in lives}
    for *_, one in sorted(begins, key=lambda begin: begin[:-1]):
        earliest = numbers[one.kafka_partition, one.life.number - 1]
        place = next(
            (place for place in range(earliest, len(groups)) if all(one.may_be(other) for other in groups[place])),
            len(groups),
        )
        if place == len(groups):
            groups.append([])
        groups[place].append(one)
        numbers[one.kafka_partition, one.life.number] = place + 1
    return groups, numbers


def _rule(
    mine: PartitionLives,
    rows: Sequence[IngestWindow],
    groups: Sequence[Sequence[_Begin]],
    numbers: Mapping[tuple[int, int], int],
    *,
    epoch: int,
) -> LineageRule:
    """Return the rule for the entries of a Kafka partition and epoch."""
    base, breaks = 0, list(_passed(rows, groups, range(0), since=0, epoch=epoch))
    for turn in mine.turns:
        number = numbers[mine.kafka_partition, turn.life]
        following = numbers.get((mine.kafka_partition, turn.life + 1), len(groups) + 1)
        if turn.epoch > epoch:
            break
        since = turn.offset if turn.epoch == epoch else 0
        if turn.epoch < epoch or turn is mine.turns[0]:
            base, breaks = number, []
            since = 0
        else:
            breaks.append(Break(number, (), datetime.max, turn.offset, by_gtid=False))
        breaks += _passed(rows, groups, range(number + 1, following), since=since, epoch=epoch)
    return LineageRule(base, tuple(breaks))


def _passed(
    rows: Sequence[IngestWindow], groups: Sequence[Sequence[_Begin]], lineages: range, *, since: int, epoch: int
) -> Iterator[Break]:
    """Yield how entries pass the begins of lineages that their Kafka partition does not show."""
    for number in lineages:
        group = groups[number - 1]
        first, last = min(one.window for one in group), max(one.window for one in group)
        within = [row for row in rows if row.window.start >= first and row.epoch == epoch]
        surely = next((row.offsets.start for row in within if row.window.start > last), None)
        if within:
            start = max(since, within[0].offsets.start)
            time = min(one.time for one in group)
            yield Break(number, (), time, None, by_gtid=False, surely=surely, since=start)


def _unseen_doubts(groups: Sequence[Sequence[_Begin]], seen: Sequence[PartitionLives]) -> Iterator[Doubt]:
    """Yield the begins of lineages that some Kafka partition does not show, or not surely where it stands."""
    for group in groups:
        if len({one.kafka_partition for one in group}) < len(seen):
            detail = "ids begin again, and only times tell which messages of other Kafka partitions come behind it"
            for one in group:
                yield Doubt(one.kafka_partition, one.life.begin.start, detail)
            continue
        for one in group if len(group) > 1 else ():
            if one.time_before >= one.time:
                detail = "ids begin again, and the times before this message do not show that they began here"
                yield Doubt(one.kafka_partition, one.life.begin.start, detail)


def lineage_of(lineages: Lineages, row: IngestWindow, *, offset: int, time: datetime) -> int:
    """Return the lineage of an entry of a cell."""
    rule = lineages.rule(row.kafka_partition, "", epoch=row.epoch)
    return rule.lineage(offset=offset, server=None, number=-1, time=time)
