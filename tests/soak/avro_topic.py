"""Topics told in Avro: the example's recording in DTS Avro, a record for each row, and a task of DRS."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.drs.drs_avro_task import encoded_record, record_schema
from dts_emulator.dts_avro.records import encoded, records_of
from dts_emulator.faults.damage import entries_of
from dts_emulator.faults.recorded_topic import Recorded, Topic


def in_avro(topic: Topic) -> Topic:
    """The topic's messages as records, at their times."""
    lanes: dict[int, list[Recorded]] = {}
    number = 0
    for partition, lane in topic.partitions.items():
        made = lanes.setdefault(partition, [])
        for message in lane:
            together = topic.set_of(message)
            if message is not together[-1]:
                continue
            for entry in entries_of([one.value for one in together]) or ():
                for value in _values(entry, number):
                    number += 1
                    made.append(_message(message, len(made), value))
    return Topic(topic.name, lanes)


def _values(entry: pb.Entry, number: int) -> list[bytes]:
    made = []
    for record in records_of(entry):
        number += 1
        made.append(encoded(record | {"id": number, "safePosition": record["position"], "readerTimestamp": 0}))
    return made


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
