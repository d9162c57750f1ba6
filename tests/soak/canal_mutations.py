"""Mutated topics of Canal: what comes out is what a second decoder reads in the messages that are there, each counted once.

Nothing tells a copy from an equal change and nothing tells that a message is gone, so the clean run is no measure here: the
mutated messages themselves are. A damaged message is in quarantine, or its rows are those that the second decoder reads in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from dts_assets.model.tables import TableId
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.changelog_decoder import ChangelogDecoder
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.entry_columns import file_numbers
from dts_assets.wire.canal_json import CanalJson
from dts_emulator.faults.injection import Fault, Kind, inject_into
from dts_emulator.faults.recorded_topic import Recorded, Topic
from tests.soak.canal_topic import LAKE, TABLES
from tests.soak.mutations import Report, Seen, batches, messages_of
from tests.soak.pipeline import Ingested, Rejection, ingest, key_of, windows_of
from tests.wire import canal_oracle

KINDS = (Kind.DROP, Kind.REPEAT, Kind.REREAD, Kind.FLIP, Kind.TRUNCATE, Kind.REORDER)
_DAMAGE = frozenset({Kind.FLIP, Kind.TRUNCATE})

WIRE = CanalJson()

At = tuple[int, int]
"""A Kafka partition and an offset."""


@dataclass
class _Rows:
    """The rows of changelogs, and what of them is in quarantine, by where they came."""

    found: dict[At, list[dict[str, Any]]] = field(default_factory=dict)
    rejected_at: set[At] = field(default_factory=set)
    places: set[tuple[Any, ...]] = field(default_factory=set)
    doubled: list[At] = field(default_factory=list)

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        for row in rows.to_pylist():
            at = row["kafka_partition"], row["kafka_offset"]
            self.found.setdefault(at, []).append(row | {"table": table})
            place = (*row["source_position"].values(), row["row_number"])
            if place in self.places:
                self.doubled.append(at)
            self.places.add(place)

    def rejected(self, rows: pa.RecordBatch) -> None:
        partitions, offsets = rows["kafka_partition"].to_pylist(), rows["last_offset"].to_pylist()
        self.rejected_at.update(zip(partitions, offsets, strict=True))

    def statements(self, rows: pa.RecordBatch) -> None:
        """Statements are not asked for."""


def mutated_report(topic: Topic, every: timedelta, *, seed: int, kinds: Sequence[Kind], count: int) -> Report:
    """What became of a topic with faults in it, and whatever should not be."""
    kept = [one for lane in topic.partitions.values() for one in lane]
    clean = {id(one): one.value for one in kept}
    faults = inject_into(topic, seed=seed, kinds=kinds, count=count)
    given = batches(topic)
    windows = windows_of(given, every)
    cells: dict[Any, Ingested] = {}
    quarantine: list[Rejection] = []
    for number, batch in given.items():
        mine, rejected = ingest(number, batch, windows, WIRE)
        cells |= mine
        quarantine += rejected
    report, sink = Report(), _Rows()
    history = TopicHistory.of([one.row for one in cells.values()], TABLES, order=WIRE.traits.order)
    wanted = EntriesWanted({key_of(cell): history.rules(cell) for cell in cells}, {}, {}, {})
    ChangelogDecoder(WIRE, TABLES, wanted, sink).read(part for one in cells.values() for part in one.parts)
    bad = {(one.cell.kafka_partition, at) for one in quarantine for at in range(one.first_offset, one.last_offset + 1)}
    bad |= sink.rejected_at
    report.rows = sum(map(len, sink.found.values()))
    report.violations += [f"two changes share a place: {at}" for at in sink.doubled]
    report.violations += [f"{cell}: entries are not in the order of their arrival" for cell in _out_of_order(cells)]
    if history.suspicions or history.lineages.all:
        report.violations.append("changes are taken for copies")
    there = [one for lane in topic.partitions.values() for one in lane if not one.gone]
    damaged = {id(one) for one in there if id(one) in clean and clean[id(one)] != one.value}
    for one in there:
        report.violations += _wrong(one, sink.found.get(one.place, []), one.place in bad, damaged=id(one) in damaged)
    if extra := sink.found.keys() - {one.place for one in there}:
        report.violations.append(f"rows of no message: {sorted(extra)[:3]}")
    for fault in faults:
        _count(report.kinds.setdefault(fault.kind, Seen()), fault, bad)
    del kept
    return report


def _count(seen: Seen, fault: Fault, bad: set[At]) -> None:
    """Put a fault down: whatever is no violation is harmless, found where it is, or nothing that anybody can know."""
    seen.faults += 1
    seen.messages += messages_of(fault)
    if fault.kind in (Kind.REPEAT, Kind.REREAD):
        seen.harmless += 1
    elif fault.kind in _DAMAGE and (fault.partition, fault.first_offset) in bad:
        seen.found += 1
        seen.located += 1
    else:
        seen.not_knowable += 1


def _wrong(one: Recorded, rows: Sequence[Mapping[str, Any]], is_bad: bool, *, damaged: bool) -> Iterator[str]:
    """Yield what is wrong about the rows of a message."""
    if is_bad:
        if not damaged:
            yield f"a good message is in quarantine: {one.place}"
        if rows:
            yield f"a message in quarantine has rows: {one.place}"
        return
    try:
        expected = list(_expected(one.value or b""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if rows or not damaged:
            yield f"a message that the second decoder refuses ({error!r}) is neither in quarantine nor empty: {one.place}"
        return
    found = [(row["table"].table, _plain(row)) for row in rows]
    if found != expected:
        yield f"rows are not those of the second decoder: {one.place}"


def _expected(value: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the second decoder reads of tables that are known."""
    for database, table, message in canal_oracle.row_messages(value):
        if database == "shop" and table in LAKE:
            for row in canal_oracle.changes(message, LAKE[table], hours=0):
                yield table, _plain(row)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("row_number", "op", "before", "after")
    return {name: row[name] for name in names} | {"absent": sorted(row["absent"]), "invalid": dict(row["invalid"])}


def _out_of_order(cells: Mapping[Any, Ingested]) -> Iterator[Any]:
    """Yield the cells whose entries stand otherwise than by the greatest time so far and the offset."""
    for cell, one in cells.items():
        latest, places, numbers = 0, [], []
        for part in one.parts:
            times = part["event_time"].cast(pa.int64()).to_pylist()
            files = file_numbers(part["file_name"]).to_pylist()
            places += list(zip(files, part["position"].to_pylist(), strict=True))
            for offset, time in zip(part["last_offset"].to_pylist(), times, strict=True):
                latest = max(latest, min(time // 1_000_000, _MOST_SECONDS))
                numbers.append((latest, offset))
        order = sorted(range(len(places)), key=places.__getitem__)
        if [numbers[place] for place in order] != sorted(numbers) or len(set(places)) != len(places):
            yield cell


_MOST_SECONDS = (1 << 32) - (1 << 8)
"""The last second that a place holds."""
