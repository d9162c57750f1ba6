"""The example's recording told in DTS Avro: a record for each row, under numbers of their own."""

from __future__ import annotations

from dts_assets.protocol import subscribe_pb2 as pb
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
