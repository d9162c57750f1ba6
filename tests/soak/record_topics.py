"""Topics told in other words: the example's recording in DTS Avro and DTS JSON, a record for each row, and a task of DRS."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import fastavro

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.drs.drs_avro_task import encoded_record, record_schema
from dts_emulator.dts_avro.records import encoded, records_of
from dts_emulator.dts_json import json_records
from dts_emulator.faults.damage import entries_of
from dts_emulator.faults.recorded_topic import Recorded, Topic

RecordsOf = Callable[[pb.Entry], Iterator[dict[str, Any]]]


def in_avro(topic: Topic) -> Topic:
    """The topic's messages as records in Avro, at their times."""
    return _in_records(topic, records_of, encoded)


def in_json(topic: Topic) -> Topic:
    """The topic's messages as records in JSON, at their times."""
    return _in_records(topic, json_records.records_of, json_records.encoded)


def _in_records(topic: Topic, records: RecordsOf, write: Callable[[dict[str, Any]], bytes]) -> Topic:
    lanes: dict[int, list[Recorded]] = {}
    number = 0
    for partition, lane in topic.partitions.items():
        made = lanes.setdefault(partition, [])
        for message in lane:
            together = topic.set_of(message)
            if message is not together[-1]:
                continue
            for entry in entries_of([one.value for one in together]) or ():
                for record in records(entry):
                    number += 1
                    more = {"id": number, "safePosition": record["position"], "readerTimestamp": 0}
                    made.append(_message(message, len(made), write(record | more)))
    return Topic(topic.name, lanes)


def _message(message: Recorded, place: int, value: bytes) -> Recorded:
    headers = (("ps", str(place + 1).encode()),)
    return Recorded(message.partition, 1000 + place, message.timestamp, None, value, headers, place + 1, None)


FRAMES = ("raw", "confluent", "container")


def in_drs_avro(topic: Topic, seed: int) -> Topic:
    """The messages of a task in JSON as records in a frame, which the seed decides."""
    frame = FRAMES[seed % len(FRAMES)]
    lanes = {
        partition: [replace(message, value=_framed(json.loads(message.value or b"{}"), frame)) for message in lane]
        for partition, lane in topic.partitions.items()
    }
    return Topic(topic.name, lanes)


def _framed(record: dict[str, Any], frame: str) -> bytes:
    record["sqlType"] = None
    if frame == "container":
        out = io.BytesIO()
        fastavro.writer(out, record_schema(), [record])
        return out.getvalue()
    return (bytes(4) + b"\x07" if frame == "confluent" else b"") + encoded_record(record)
