"""A topic of DTS Protobuf told in records, of Avro or JSON: the same transactions at the same times, a record for each row.

A message that a producer sends again, under its old number, becomes the same records again; what a restarted task reads again
gets new ids and numbers, as nothing says that it has the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts_avro.records import encoded, records_of
from dts_emulator.dts_json import json_records
from tests.flows.source import Message


@dataclass
class _Lane:
    """A Kafka partition: the fragments that are joined, and what each number of a message became."""

    parts: list[Message] = field(default_factory=list)
    sent: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    offset: int = 100
    sequence: int = 0
    clock: datetime | None = None


RecordsOf = Callable[[pb.Entry], Iterator[dict[str, Any]]]


def in_avro(messages: Iterable[Message]) -> list[Message]:
    """Return messages as records in Avro, in the order of their Kafka partitions."""
    return _in_records(messages, records_of, encoded)


def in_json(messages: Iterable[Message]) -> list[Message]:
    """Return messages as records in JSON, in the order of their Kafka partitions."""
    return _in_records(messages, json_records.records_of, json_records.encoded)


def _in_records(
    messages: Iterable[Message], records: RecordsOf, write: Callable[[dict[str, Any]], bytes]
) -> list[Message]:
    lanes: dict[int, _Lane] = {}
    number = 0
    made: list[Message] = []
    for message in sorted(messages, key=lambda one: (one.partition, one.offset)):
        lane = lanes.setdefault(message.partition, _Lane())
        envelope = pb.Envelope.FromString(message.value or b"")
        lane.parts = [*([] if envelope.index == 0 else lane.parts), message]
        if len(lane.parts) < envelope.total:
            continue
        again = lane.sent.get(message.sequence)
        if again is None:
            values = []
            for record in _records(lane.parts, records):
                number += 1
                lane.sequence += 1
                values.append((lane.sequence, write(record | {"id": number})))
            lane.sent[message.sequence] = again = values
        made += _spread(lane, message.partition, again)
    return made


def _records(parts: list[Message], records: RecordsOf) -> Iterator[dict[str, Any]]:
    data = b"".join(pb.Envelope.FromString(part.value or b"").data for part in parts)
    for entry in pb.Entries.FromString(data).items:
        for record in records(entry):
            yield record | {"safePosition": record["position"], "readerTimestamp": 0}


def _spread(lane: _Lane, partition: int, values: list[tuple[int, bytes]]) -> Iterator[Message]:
    """Yield records between the times of the first and the last fragment of their set; never backwards."""
    first, last = lane.parts[0].time, lane.parts[-1].time
    for place, (sequence, value) in enumerate(values):
        time = first + (last - first) * (place + 1) / len(values)
        lane.clock = max(lane.clock or time, time)
        lane.offset += 1
        yield Message(partition, lane.offset, lane.clock, value, sequence)
