"""Recorded topics with faults in them, run through the pipeline, and what it made of each fault.

What comes out is compared with the clean run, row by row and place by place. A fault is *found* if the ledger, the quarantine
or the list of redeliveries names it, *located* if that names the place; *not knowable* where the messages alone cannot tell
(:class:`dts_emulator.faults.damage.FoundBy`). Whatever contradicts that is a violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.problems import Completeness
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.stages.cell_decoder import counts_of
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import MESSAGES, WireFormat
from dts_emulator.faults.damage import FoundBy, id_of, time_of
from dts_emulator.faults.injection import Fault, Kind, inject_into
from dts_emulator.faults.recorded_topic import Recorded, Topic, read_topic
from tests.soak.ledger import Judged, judge
from tests.soak.named import DOUBTS, NEAR, Named
from tests.soak.pipeline import Ingest, Outcome, Rows, Tables, finish, ingest, tables_of, windows_of

HOUSE = Path(__file__).parents[2]
SHOP, SHOP_TABLES = HOUSE / "examples" / "shop", HOUSE / "registry" / "shop.json"

HARMLESS = frozenset({Kind.REPEAT, Kind.REREAD, Kind.CUT})
"""What delivery at least once does anyway."""

_CHANGED = frozenset({Kind.FLIP, Kind.TRUNCATE, Kind.REPARTITION})
"""What may change what a message says."""


@dataclass(slots=True)
class Seen:
    """Faults of one kind: how many messages they changed, how many there were, and what became of them."""

    messages: int = 0
    faults: int = 0
    harmless: int = 0
    found: int = 0
    located: int = 0
    not_knowable: int = 0
    missed: int = 0

    def add(self, other: Seen) -> None:
        """Count what another run saw."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Report:
    """What a run made of its faults. ``changed_rows`` differ from the clean run by a fault that is not knowable."""

    kinds: dict[Kind, Seen] = field(default_factory=dict)
    rows: int = 0
    changed_rows: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """How many messages were mutated."""
        return sum(seen.messages for seen in self.kinds.values())

    def add(self, other: Report) -> None:
        """Count what another run found."""
        for kind, seen in other.kinds.items():
            self.kinds.setdefault(kind, Seen()).add(seen)
        self.rows += other.rows
        self.changed_rows += other.changed_rows
        self.violations += other.violations


@dataclass
class Recording:
    """A topic without faults, its windows, and what comes of it."""

    topic: Topic
    every: timedelta
    tables: Tables
    wire: WireFormat = DtsProtobuf()  # noqa: RUF009, a format has no state

    @classmethod
    def of(cls, topic: Topic, every: timedelta, *, numbered: bool = True) -> Recording:
        """A recording of its own of the example's tables; without ``numbered`` no message has a number."""
        return cls(copied(topic, numbered=numbered), every, tables_of(SHOP_TABLES))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        return windows_of(batches(self.topic), self.every)

    @cached_property
    def parts(self) -> dict[int, Ingest]:
        return {number: ingest(number, batch, self.windows, self.wire) for number, batch in batches(self.topic).items()}

    @cached_property
    def clean(self) -> Outcome:
        return finish(self.parts.values(), self.tables, self.wire)

    @cached_property
    def sets(self) -> dict[tuple[int, int], int]:
        """The first offset of every entry set, by Kafka partition and last offset."""
        return sets_of(self.clean)

    def mutated(self, *, seed: int, kinds: Sequence[Kind], count: int, keep_offsets: bool = False) -> Mutated:
        """The same with faults in it."""
        topic = copied(self.topic)
        origin = {id(one): one.offset for lane in topic.partitions.values() for one in lane}
        kept = [one for lane in topic.partitions.values() for one in lane]
        faults = inject_into(topic, seed=seed, kinds=kinds, count=count, keep_offsets=keep_offsets)
        touched = {partition for one in faults for partition in (one.partition, one.from_partition)}
        parts = [
            ingest(number, batch, self.windows, self.wire) if number in touched else self.parts[number]
            for number, batch in batches(topic).items()
        ]
        outcome = finish(parts, self.tables, self.wire)
        moved = frozenset(one for one in faults if one.kind is Kind.FLIP and self._moves(one, topic))
        places = {number: _places(lane, origin) for number, lane in topic.partitions.items()}
        del kept
        return Mutated(self, faults, outcome, judge(outcome), places, moved)

    def _moves(self, fault: Fault, mutated: Topic) -> bool:
        """Whether a flip gave a message another place in the source's order, so that others behind it may be out of theirs."""
        if self.wire.traits.order is ChangeOrder.BINLOG_POSITION:
            return not fault.detail.endswith((": a value", ": it does not parse"))
        before, after = (
            next(one.value for one in topic.partitions[partition] if one.offset == offset and not one.gone)
            for topic, partition, offset in (
                (self.topic, fault.from_partition, fault.from_offset),
                (mutated, fault.partition, fault.first_offset),
            )
        )
        return (id_of(before), time_of(before)) != (id_of(after), time_of(after))


def shop() -> Topic:
    """The example's recording."""
    return read_topic(SHOP)


def slice_of(topic: Topic, start: datetime, end: datetime) -> Topic:
    """The messages of some time, without entry sets of which only a part is of that time."""
    lanes = {}
    for number, lane in topic.partitions.items():
        mine = [one for one in lane if start <= one.timestamp < end]
        among = set(map(id, mine))
        lanes[number] = [one for one in mine if all(id(other) in among for other in topic.set_of(one))]
    return Topic(topic.name, lanes)


def copied(topic: Topic, *, numbered: bool = True) -> Topic:
    """Messages that can be changed without changing those of the topic."""
    lanes = {
        number: [one.copy() if numbered else replace(one, sequence=None, headers=()) for one in lane if not one.gone]
        for number, lane in topic.partitions.items()
    }
    return Topic(topic.name, lanes)


def batches(topic: Topic) -> dict[int, pa.RecordBatch]:
    """MESSAGES by Kafka partition."""
    return {
        number: pa.RecordBatch.from_pylist([one.row(topic.name) for one in lane if not one.gone], MESSAGES)
        for number, lane in topic.partitions.items()
    }


def sets_of(outcome: Outcome) -> dict[tuple[int, int], int]:
    """The first offset of every entry set, by Kafka partition and last offset."""
    found = {}
    for cell, one in outcome.cells.items():
        for part in one.parts:
            firsts, lasts = part["first_offset"].to_pylist(), part["last_offset"].to_pylist()
            found.update({(cell.kafka_partition, last): first for first, last in zip(firsts, lasts, strict=True)})
    return found


def _places(lane: Sequence[Recorded], origin: Mapping[int, int]) -> dict[int, int]:
    """Where the messages of the clean run stand now, by offset; of one that is gone, where the next one stands."""
    found: dict[int, int] = {}
    following = max((one.offset for one in lane if not one.gone), default=-1) + 1
    for one in reversed(lane):
        following = following if one.gone else one.offset
        if id(one) in origin:
            found[origin[id(one)]] = following
    return found


@dataclass
class Mutated:
    """A topic with faults, and what the pipeline made of it."""

    recording: Recording
    faults: tuple[Fault, ...]
    outcome: Outcome
    judged: Judged
    places: dict[int, dict[int, int]]
    moved: frozenset[Fault] = frozenset()
    """Flips that gave a message another place in the source's order."""

    @property
    def levels(self) -> Counter[Completeness]:
        """How many windows reached each level."""
        return Counter(self.judged.windows.values())

    def report(self) -> Report:
        """What became of every fault, and whatever should not be."""
        named = Named(self)
        report = Report(rows=self.outcome.kept)
        report.violations += equations(self.outcome, self.recording.tables)
        for fault in self.faults:
            seen = report.kinds.setdefault(fault.kind, Seen())
            self._judge(fault, named, seen, report)
        self._check_rows(named, report)
        self._check_alarms(named, report)
        return report

    def _judge(self, fault: Fault, named: Named, seen: Seen, report: Report) -> None:
        seen.faults += 1
        seen.messages += messages_of(fault)
        if is_harmless(fault):
            seen.harmless += 1
        elif fault.found_by is FoundBy.NOTHING:
            seen.not_knowable += 1
        elif named.near(fault):
            seen.found += 1
            seen.located += 1
        elif named.of_cell(fault):
            seen.found += 1
        else:
            seen.missed += 1
            report.violations.append(f"missed: {fault.json()}")

    def _check_rows(self, named: Named, report: Report) -> None:
        """No row may differ from the clean run's, come twice or be gone, unless a fault says why."""
        clean, rows = self.recording.clean.rows, self.outcome.rows
        sets = sets_of(self.outcome)
        changed = np.flatnonzero(~np.isin(rows.contents, clean.contents))
        by_message = {place: fault for fault in self.faults if fault.kind in _CHANGED for place in offsets_of(fault)}
        for partition, last in _pairs(rows.partitions[changed], rows.offsets[changed]):
            first = sets[partition, last]
            faults = [by_message[partition, at] for at in range(first, last + 1) if (partition, at) in by_message]
            if not faults:
                report.violations.append(f"a row is not what it was: partition {partition}, offset {last}")
            elif any(one.found_by is FoundBy.NOTHING for one in faults):
                report.changed_rows += int(((rows.partitions == partition) & (rows.offsets == last))[changed].sum())
            elif not any(named.near(one) or named.of_cell(one) for one in faults):
                report.violations.append(f"a row is not what it was, and nothing says so: {faults[0].json()}")
        self._check_repeats(named, report)
        self._check_losses(clean, ~np.isin(clean.contents, rows.contents), named, report)

    def _check_repeats(self, named: Named, report: Report) -> None:
        """A row may come twice only where a doubt says so, or where a message stands in two partitions."""
        rows = self.outcome.rows
        _, first, inverse = np.unique(rows.contents, return_index=True, return_inverse=True)
        repeats = np.flatnonzero(first[inverse] != np.arange(len(inverse)))
        if any(fault.kind is Kind.REPARTITION for fault in self.faults):
            return
        for partition, last in _pairs(rows.partitions[repeats], rows.offsets[repeats]):
            if not named.doubted(partition, last, in_cell=bool(self.moved)):
                report.violations.append(f"a row comes twice: partition {partition}, offset {last}")

    def _check_losses(self, clean: Rows, gone: npt.NDArray[np.bool_], named: Named, report: Report) -> None:
        explained = {
            (one.from_partition, one.from_offset)
            for one in self.faults
            if one.found_by is FoundBy.NOTHING or named.near(one) or named.of_cell(one)
        }
        apart = self.recording.wire.traits.rows_apart  # of equal rows of one event any may be the one that is gone
        rows = (values[gone].tolist() for values in (clean.partitions, clean.offsets, clean.firsts))
        begins = {(partition, at): first for partition, at, first in zip(*rows, strict=True)} if apart else {}
        for partition, last in _pairs(clean.partitions[gone], clean.offsets[gone]):
            first = min(self.recording.sets[partition, last], begins.get((partition, last), last))
            if any((partition, at) in explained for at in range(first, last + 1)):
                continue
            places = self.places[partition]
            low = max((places[at] for at in range(first - 1, first - 4, -1) if at in places), default=-1)
            high = min((places[at] for at in range(last + 1, last + 4) if at in places), default=1 << 40)
            if not named.between(partition, low + 1, high):
                report.violations.append(f"rows are gone, and nothing says so: partition {partition}, offset {last}")

    def _check_alarms(self, named: Named, report: Report) -> None:
        """Whatever is reported lies near a fault."""
        faulty: dict[int, list[tuple[int, int]]] = {}
        for fault in self.faults:
            if is_harmless(fault):
                continue
            first = 1 << 40 if fault.first_offset is None else fault.first_offset
            last = 1 << 40 if fault.last_offset is None else fault.last_offset
            faulty.setdefault(fault.partition, []).append((first, last))
            before = self.places[fault.from_partition].get(fault.from_offset, first)
            faulty.setdefault(fault.from_partition, []).append((before, before))
        for partition, first, last, what in named.alarms:
            if what.startswith(DOUBTS) and self.moved:
                continue  # whatever is behind a message whose place is another may be taken for doubtful
            near = NEAR + 2 * (last - first)
            if not any(low - near <= last and first <= high + near for low, high in faulty.get(partition, ())):
                report.violations.append(f"false alarm: partition {partition}, offsets {first} to {last}: {what}")


def is_harmless(fault: Fault) -> bool:
    """Whether delivery at least once does that anyway, or source positions heal it: nothing is missing, all rows are the same."""
    if fault.found_by is FoundBy.ID:
        return False
    return fault.kind in HARMLESS or fault.found_by is FoundBy.POSITION


def messages_of(fault: Fault) -> int:
    """How many messages a fault changed, took away, moved or added."""
    if fault.kind in (Kind.DROP, Kind.END) or fault.first_offset is None or fault.last_offset is None:
        return 1
    return fault.last_offset - fault.first_offset + 1


def offsets_of(fault: Fault) -> Iterable[tuple[int, int]]:
    """Kafka partition and offset of every message that shows a fault."""
    if fault.first_offset is None or fault.last_offset is None:
        return ()
    return ((fault.partition, at) for at in range(fault.first_offset, fault.last_offset + 1))


def equations(outcome: Outcome, tables: Tables) -> list[str]:
    """Which of the ledger's equations do not hold."""
    wrong = []
    changes = 0
    for cell, one in outcome.cells.items():
        counts = counts_of(one.tally, one.facts)
        wrong += [f"{cell}: {what} {counts}" for what in counts.unbalanced]
        rows = sum(row.cell == cell and row.stage == "entries" for row in outcome.quarantine)
        if rows != counts.quarantine_rows:
            wrong.append(f"{cell}: {rows} rows in quarantine, {counts.quarantine_rows} counted")
        changes += sum(_changes(part, tables) for part in one.parts)
    if changes != outcome.kept + outcome.redelivered_changes + outcome.quarantined_changes:
        wrong.append(
            f"changes: {changes} are not {outcome.kept} kept, {outcome.redelivered_changes} redelivered, "
            f"{outcome.quarantined_changes} quarantined"
        )
    return wrong


def _changes(entries: pa.RecordBatch, tables: Tables) -> int:
    names = pa.table(
        [entries[name] for name in ("database", "schema", "table", "rows")], ["database", "schema", "table", "rows"]
    )
    counts = (
        names.filter(pc.equal(entries["message_type"], "DML"))
        .group_by(["database", "schema", "table"])
        .aggregate([("rows", "sum")])
    )
    return sum(
        row["rows_sum"] or 0
        for row in counts.to_pylist()
        if TableId(row["database"] or "", row["schema"] or "", row["table"] or "") in tables
    )


def _pairs(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """The distinct pairs of two columns."""
    return sorted(set(zip(one.tolist(), other.tolist(), strict=True)))
