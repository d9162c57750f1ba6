"""The past of a topic: all that settled days tell to later windows.

It is small however many windows they have.

A look that begins behind the past has to give the answers of a look over all windows. Lineages, redeliveries and statements are
told by runs, so runs that go on without a break are joined to one, and every rule is asked with the joined runs in the place of
their parts. That is exact as long as later windows do not reach back into what was joined, which :func:`reaches_back` tells.
Proofs take their own memory along (:class:`ProofState`), and so does the frontier.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.gtids import greatest_numbers, server_and_number
from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.lineages import Break, Doubt, Lineage, LineageRule
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.runs import Run, SeenStatement
from dts_assets.model.type_reading import READING_TYPES
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.joined_runs import join_runs, least_and_greatest
from dts_assets.planning.proofs import NOTHING_PROVEN, ProofState
from dts_assets.planning.settled_ids import NO_IDS, IdsBehind
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class Past:
    """The facts that the windows before an instant tell to later ones.

    ``until`` is that instant, None where no window is told. The rows stand for marks of entries, one for a Kafka partition and
    some days that follow each other: those of ``joined`` have joined runs, those of ``kept`` the runs of their windows, because a
    lineage begins there. ``frontier`` is that of all tables behind the last window. ``lineages``, ``rules`` (by Kafka partition
    and shard), ``checkpoints`` (a digest of the CHECKPOINTs' lineages) and ``doubts`` are those by which the windows were judged.
    """

    until: datetime | None = None
    joined: tuple[IngestWindow, ...] = ()
    kept: tuple[IngestWindow, ...] = ()
    proofs: ProofState = NOTHING_PROVEN
    frontier: Frontier = EMPTY_FRONTIER
    lineages: tuple[Lineage, ...] = ()
    rules: tuple[tuple[int, str, LineageRule], ...] = ()
    checkpoints: str = ""
    doubts: tuple[Doubt, ...] = ()
    ids: IdsBehind = NO_IDS

    @property
    def rows(self) -> tuple[IngestWindow, ...]:
        """All rows, in no order."""
        return (*self.joined, *self.kept)

    @property
    def digest(self) -> str:
        """A digest of all facts (16 hex digits)."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def to_bytes(self) -> bytes:
        """Return the past as it is stored."""
        return zlib.compress(msgspec.json.encode(self))

    @classmethod
    def of_bytes(cls, stored: bytes) -> Past:
        """Return the inverse of :meth:`to_bytes`.

        Raises:
            ValueError: The bytes are no past that this version knows.
        """
        try:
            return _DECODER.decode(zlib.decompress(stored))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise ValueError(str(error)) from error


with READING_TYPES:
    _DECODER = msgspec.json.Decoder(Past)

NO_PAST = Past()
"""The past of a look over all windows."""


def past_after(
    past: Past,
    rows: Iterable[IngestWindow],
    *,
    until: datetime,
    proofs: ProofState,
    frontier: Frontier,
    lineages: Lineages,
) -> Past:
    """Return the past with the windows of one more day, all that start before ``until``.

    ``rows`` are the day's marks of entries. ``lineages`` are those of all windows so far: where one begins in this day, the runs
    of the day are kept.
    """
    joined = {row.kafka_partition: row for row in sorted(past.joined, key=_place)}
    done = [row for row in past.joined if joined[row.kafka_partition] is not row]
    kept = list(past.kept)
    last_kept = {row.kafka_partition: row.window.start for row in sorted(kept, key=_place)}
    for partition, mine in sorted(_by_partition(rows).items()):
        day, before = _as_one(mine), joined.get(partition)
        whole = None
        if not _begins_lineage(lineages, day):
            if before is not None and (partition not in last_kept or last_kept[partition] < before.window.start):
                whole = _joined_rows(before, day)
            whole = whole or _joined_runs_of(day)
        if whole is None:
            kept.append(day)
            continue
        if before is not None and whole.window.start != before.window.start:
            done.append(before)
        joined[partition] = whole
    after = Past(
        until,
        tuple(sorted([*done, *joined.values()], key=_place)),
        tuple(sorted(kept, key=_place)),
        proofs,
        frontier,
        lineages.all,
    )
    rules = [(*of, rule) for of, rule in sorted(_rules_of(after.rows, lineages).items())]
    checkpoints = _lineages_of_checkpoints(after.rows, lineages)
    return replace(after, rules=tuple(rules), checkpoints=checkpoints, doubts=_doubts_of(after.rows, lineages))


def reaches_back(
    past: Past, known: Sequence[IngestWindow], later: Sequence[IngestWindow], *, judged: Past, lineages: Lineages
) -> bool:
    """Return whether later windows may change what was told before, or may repeat what the past has joined.

    ``known`` are marks between the past and the windows of ``later``, which are not judged again either: ``judged`` is the past
    behind them. ``lineages`` are those of all windows. If this is True, a look has to begin earlier.
    """
    told = [*past.rows, *known]
    if not told:
        return False
    if _any_fake(later) and not _any_fake(told):
        return True
    if lineages.all[: len(judged.lineages)] != judged.lineages or _doubts_of(told, lineages) != judged.doubts:
        return True
    if _rules_of(told, lineages) != {(partition, shard): rule for partition, shard, rule in judged.rules}:
        return True
    if _lineages_of_checkpoints(told, lineages) != judged.checkpoints:
        return True
    greatest = _Greatest.of(past, lineages)
    return _parts_joined_runs(past, lineages) or any(greatest.reached_by(row, lineages) for row in later)


def _rules_of(rows: Iterable[IngestWindow], lineages: Lineages) -> dict[tuple[int, str], LineageRule]:
    """Return the rule of every Kafka partition and shard, as far as it concerns entries of some rows."""
    runs: dict[tuple[int, str], list[Run]] = {}
    for row in rows:
        for run in row.runs:
            runs.setdefault((row.kafka_partition, run.shard), []).append(run)
    return {
        (partition, shard): lineages.rule(partition, shard).up_to(mine) for (partition, shard), mine in runs.items()
    }


def _lineages_of_checkpoints(rows: Iterable[IngestWindow], lineages: Lineages) -> str:
    """Return a digest of the CHECKPOINTs that lie behind a break, empty without one.

    Windows have their cuts by them. Of each server the least and the greatest number count, and of CHECKPOINTs without a GTID set
    the last offset. So joined rows give what their parts give.
    """
    bounds: dict[tuple[int, str, int, str], tuple[int, int]] = {}
    for row in rows if lineages.rules else ():
        for mark in row.checkpoints:
            synced = greatest_numbers(mark.gtid_set or "")
            lineage = lineages.of_checkpoint(row.kafka_partition, mark, synced)
            if lineage == lineages.rule(row.kafka_partition, mark.shard).base:
                continue
            for server, number in (synced or {"": mark.offset}).items():
                of = row.kafka_partition, mark.shard, lineage, server
                least, most = bounds.get(of, (number, number))
                bounds[of] = min(least, number) if server else -1, max(most, number)
    return hashlib.sha256(repr(sorted(bounds.items())).encode()).hexdigest()[:16] if bounds else ""


def _doubts_of(rows: Iterable[IngestWindow], lineages: Lineages) -> tuple[Doubt, ...]:
    """Return the doubts at offsets of some rows, which are all rows up to some window."""
    ends: dict[int, int] = {}
    for row in rows:
        ends[row.kafka_partition] = max(ends.get(row.kafka_partition, 0), row.offsets.end)
    mine = {one for one in lineages.doubts if one.offset < ends.get(one.kafka_partition, 0)}
    return tuple(sorted(mine, key=lambda one: (one.kafka_partition, one.offset, one.detail)))


def _place(row: IngestWindow) -> tuple[int, datetime]:
    return row.kafka_partition, row.window.start


def _by_partition(rows: Iterable[IngestWindow]) -> dict[int, list[IngestWindow]]:
    found: dict[int, list[IngestWindow]] = {}
    for row in sorted(rows, key=_place):
        found.setdefault(row.kafka_partition, []).append(row)
    return found


def _as_one(rows: Sequence[IngestWindow]) -> IngestWindow:
    """Return the marks of a Kafka partition that follow each other as one.

    It has all that planning asks of the past.
    """
    first, last = rows[0], rows[-1]
    return IngestWindow(
        kafka_partition=first.kafka_partition,
        window=Window(first.window.start, last.window.end),
        epoch=last.epoch,
        offsets=OffsetRange(first.offsets.start, last.offsets.end),
        counts=Counts(),
        checkpoint=None,
        checkpoint_gtid_set=None,
        positions=(),
        runs=tuple(run for row in rows for run in row.runs),
        checkpoints=tuple(one for row in rows for one in row.checkpoints),
        statements=_greatest_statements(one for row in rows for one in row.statements),
        closed_by=ClosedBy.MESSAGE,
        completeness=Completeness.OBSERVED,
        problems=(),
        code_version="",
        generation="",
        inputs=(),
    )


def _begins_lineage(lineages: Lineages, row: IngestWindow) -> bool:
    """Return whether a lineage begins or goes on at an offset or a number of a row."""
    offsets, numbers = row.offsets, _numbers([row])
    for (partition, shard), rule in lineages.rules.items():
        for one in rule.breaks:
            places = (one.offset, one.surely) if partition == row.kafka_partition else ()
            if any(place is not None and offsets.start <= place < offsets.end for place in places):
                return True
            for server, limit in one.seen:
                least, most = numbers.get((shard, server), (0, -1))
                if least - 1 <= limit <= most:
                    return True
    return False


def _joined_rows(before: IngestWindow, after: IngestWindow) -> IngestWindow | None:
    """Return two rows of a Kafka partition as one with joined runs; None if they cannot be joined."""
    return _joined_runs_of(_as_one([before, after]))


def _joined_runs_of(row: IngestWindow) -> IngestWindow | None:
    runs = join_runs(row.runs)
    checkpoints = least_and_greatest(row.checkpoints)
    if runs is None or checkpoints is None:
        return None
    return replace(row, runs=runs, checkpoints=checkpoints)


def _greatest_statements(statements: Iterable[SeenStatement]) -> tuple[SeenStatement, ...]:
    """Return the last statement of each shard and server, and that of the greatest position."""
    found: dict[tuple[str, str], tuple[object, SeenStatement]] = {}
    for one in statements:
        numbered = server_and_number(one.gtid or "")
        keys = [((one.shard, ""), (one.position.file, one.position.position))]
        if numbered is not None:
            keys.append(((one.shard, numbered[0]), (numbered[1], 0)))
        for key, value in keys:
            if key not in found or found[key][0] < value:  # type: ignore[operator]
                found[key] = value, one
    return tuple(dict.fromkeys(one for _, one in found.values()))


def _any_fake(rows: Iterable[IngestWindow]) -> bool:
    return any(mark.fake_gtid for row in rows for mark in row.checkpoints)


@dataclass(frozen=True, slots=True)
class _Greatest:
    """The greatest places that the past has.

    They are the GTID number of every shard and server, the lineage and position of every Kafka partition and shard, and those of
    every shard.
    """

    numbers: Mapping[tuple[str, str], int]
    places: Mapping[tuple[int, str], tuple[int, SourcePosition]]
    of_shards: Mapping[str, tuple[int, SourcePosition]]

    @classmethod
    def of(cls, past: Past, lineages: Lineages) -> _Greatest:
        """Return the greatest places of a past."""
        numbers = {of: most for of, (_, most) in _numbers(past.rows).items()}
        places: dict[tuple[int, str], tuple[int, SourcePosition]] = {}
        of_shards: dict[str, tuple[int, SourcePosition]] = {}
        for row in past.rows:
            for run in row.runs:
                place = lineages.of_run(row.kafka_partition, run)[1], run.last
                key = row.kafka_partition, run.shard
                places[key] = max(places.get(key, place), place)
                of_shards[run.shard] = max(of_shards.get(run.shard, place), place)
            for one in row.statements:
                if (named := server_and_number(one.gtid or "")) is not None:
                    of = one.shard, named[0]
                    numbers[of] = max(numbers.get(of, -1), named[1])
        return cls(numbers, places, of_shards)

    def reached_by(self, row: IngestWindow, lineages: Lineages) -> bool:
        """Return whether a window has anything at or before these places, and so perhaps what the past has."""
        partition = row.kafka_partition
        for run in row.runs:
            highest = self.places.get((partition, run.shard))
            if highest is not None and (lineages.of_run(partition, run)[0], run.first) <= highest:
                return True
            if any(of.first <= self.numbers.get((run.shard, of.server), -1) for of in run.servers):
                return True
        return any(self._has(partition, one, lineages) for one in row.statements)

    def _has(self, kafka_partition: int, statement: SeenStatement, lineages: Lineages) -> bool:
        """Return whether the past may have a copy of a statement, in any Kafka partition."""
        at, highest = lineages.of_statement(kafka_partition, statement), self.of_shards.get(statement.shard)
        if highest is not None and (at.lineage, replace(at, lineage=0)) <= highest:
            return True
        named = server_and_number(statement.gtid or "")
        return named is not None and named[1] <= self.numbers.get((statement.shard, named[0]), -1)


def _parts_joined_runs(past: Past, lineages: Lineages) -> bool:
    """Return whether a lineage begins at a number inside a joined run.

    So it is with a number between the CHECKPOINTs that stand for others.
    """
    breaks = [
        (partition, shard, one)
        for (partition, shard), rule in lineages.rules.items()
        for one in rule.breaks
        if one.by_gtid
    ]
    if not breaks:
        return False
    numbers = [(shard, server, *of) for row in past.joined for (shard, server), of in _of_runs(row)]
    numbers += [of for row in past.joined for of in _of_checkpoints(row)]
    limits = {(shard, server, limit) for _, shard, one in breaks for server, limit in one.seen}
    if any(
        (shard, server) == (of, named) and least <= limit < most
        for shard, server, limit in limits
        for of, named, least, most in numbers
    ):
        return True
    return any(one.offset is None and _passes_inside(past, partition, shard, one) for partition, shard, one in breaks)


def _passes_inside(past: Past, kafka_partition: int, shard: str, one: Break) -> bool:
    """Return whether a joined run is the first one behind a break that nothing shows."""
    joined = {id(row) for row in past.joined}
    seen = dict(one.seen)
    for row in sorted(past.rows, key=_place):
        for run in row.runs if row.kafka_partition == kafka_partition else ():
            if run.shard == shard and any(of.last > seen.get(of.server, -1) for of in run.servers):
                return id(row) in joined
    return False


def _of_runs(row: IngestWindow) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    for run in row.runs:
        for of in run.servers:
            yield (run.shard, of.server), (of.first, of.last)


def _of_checkpoints(row: IngestWindow) -> Iterator[tuple[str, str, int, int]]:
    """Yield the least and the greatest number of each server that the CHECKPOINTs of a joined row count."""
    by_shard: dict[str, list[dict[str, int]]] = {}
    for mark in row.checkpoints:
        by_shard.setdefault(mark.shard, []).append(greatest_numbers(mark.gtid_set or ""))
    for shard, sets in by_shard.items():
        for server in {server for one in sets for server in one}:
            counted = [one.get(server, -1) for one in sets]
            yield shard, server, min(counted), max(counted)


def _numbers(rows: Iterable[IngestWindow]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the least and the greatest GTID number of each shard and server that some rows have."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        for run in row.runs:
            for of in run.servers:
                least, most = found.get((run.shard, of.server), (of.first, of.last))
                found[run.shard, of.server] = min(least, of.first), max(most, of.last)
    return found
