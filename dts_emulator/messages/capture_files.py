"""Writes messages as a capture: a folder of Parquet files that stands for a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dts_emulator.messages.message import Message

CAPTURE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""One row per Kafka message; ``timestamp`` is the message's own time."""

_COMPRESSION_LEVEL = 15
_FILE_BYTES = 256_000_000
_GROUP_MESSAGES = 4_000
_GROUP_BYTES = 8_000_000
"""The size of a row group, by which readers skip and split.

A group holds one Kafka partition and stays small even where messages are large.
"""


def write_capture(
    messages: Iterable[Message], folder: Path, *, topic: str, messages_per_file: int = 100_000
) -> tuple[Path, ...]:
    """Write messages as a capture and return its files in sending order.

    Inside each file messages are sorted by topic, partition and offset; ``topic`` is that of messages which
    name none. The folder is created if need be; files of an earlier one are removed first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    files = []
    for number, chunk in enumerate(_chunks(messages, messages_per_file, _FILE_BYTES)):
        path = folder / f"part-{number:05d}.parquet"
        ordered = sorted(chunk, key=lambda message: (message.topic or topic, message.partition, message.offset))
        _write_file(ordered, path, topic=topic)
        files.append(path)
    return tuple(files)


def _write_file(messages: Sequence[Message], path: Path, *, topic: str) -> None:
    with pq.ParquetWriter(path, CAPTURE_SCHEMA, compression="zstd", compression_level=_COMPRESSION_LEVEL) as writer:
        for _, mine in groupby(messages, key=lambda message: (message.topic, message.partition)):
            for group in _chunks(mine, _GROUP_MESSAGES, _GROUP_BYTES):
                writer.write_table(_table(group, topic), row_group_size=len(group))


def _chunks(messages: Iterable[Message], most: int, most_bytes: int) -> Iterator[list[Message]]:
    """Consecutive messages, at most so many and not much more than so many bytes at a time."""
    chunk: list[Message] = []
    size = 0
    for message in messages:
        chunk.append(message)
        size += len(message.value)
        if len(chunk) >= most or size >= most_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _table(messages: Sequence[Message], topic: str) -> pa.Table:
    return pa.table(
        {
            "topic": [message.topic or topic for message in messages],
            "partition": [message.partition for message in messages],
            "offset": [message.offset for message in messages],
            "timestamp": [message.timestamp for message in messages],
            "key": [message.key for message in messages],
            "value": [message.value for message in messages],
            "headers": [[{"key": key, "value": value} for key, value in message.headers] for message in messages],
        },
        schema=CAPTURE_SCHEMA,
    )
