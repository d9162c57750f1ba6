"""Captures of made-up traffic in formats whose messages stand alone, for benchmarks of whole windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks import decode_avro, decode_json
from benchmarks.traffic import HOUR, START, PartitionFile
from dts_emulator.dts_avro.records import schema_file

_COLUMNS, _TABLES = 15, 8


@dataclass(frozen=True, slots=True)
class FormatTraffic:
    """Messages of one format, and the schema file that they are read with.

    ``messages`` makes them from a size in bytes and a seed.
    """

    messages: Callable[[int, int], pa.Array]
    schema: Callable[[], bytes] | None = None


def _json(size: int, seed: int) -> pa.Array:
    return decode_json.messages(decode_json.Case(_COLUMNS, 1), size=size, seed=seed)


def _avro(size: int, seed: int) -> pa.Array:
    return decode_avro.messages(decode_avro.Case(_COLUMNS, _TABLES), size=size, seed=seed)


FORMATS: Mapping[str, FormatTraffic] = {
    "drs-json-c": FormatTraffic(_json),
    "dts-avro": FormatTraffic(_avro, schema_file),
}


def write_capture(folder: Path, chosen: str, *, size: int, seed: int, partitions: int, windows: int) -> int:
    """Write a capture of about ``size`` bytes in a format, and return the bytes of its messages.

    Messages go to the Kafka partitions in turn, windows are of about the same size, and each Kafka partition has one file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values = FORMATS[chosen].messages(size, seed).to_pylist()
    kafka = [PartitionFile(folder, number) for number in range(partitions)]
    begin, length = int(START.timestamp() * 1000), int(HOUR.total_seconds() * 1000)
    for number, value in enumerate(values):
        kafka[number % partitions].add([value], begin + number * windows * length // len(values))
    for one in kafka:
        one.close()
    return sum(map(len, values))
