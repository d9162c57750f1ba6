"""A recorded topic in memory: its messages by partition, in order, and its entry sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dts_emulator.errors import NotACapture
from dts_emulator.faults.damage import envelope_of
from dts_emulator.messages.capture_files import CAPTURE_SCHEMA

_SEQUENCE, _SHARD = "ps", "ShardId"
_GROUP_MESSAGES = 4_000


@dataclass(eq=False, slots=True)
class Recorded:
    """A message of the topic. ``gone`` is one that is no longer there, though its place is known."""

    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    sequence: int | None
    shard: bytes | None
    gone: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset."""
        return self.partition, self.offset

    def copy(self, *, timestamp: datetime | None = None, partition: int | None = None) -> Recorded:
        """Return a copy of the message."""
        return replace(
            self,
            timestamp=timestamp or self.timestamp,
            partition=self.partition if partition is None else partition,
        )

    def row(self, topic: str) -> dict[str, Any]:
        """Return the message as a row of a capture."""
        headers = None if self.headers is None else [
            {"key": key, "value": str(self.sequence).encode() if key == _SEQUENCE and self.sequence is not None else value}
            for key, value in self.headers
        ]  # fmt: skip
        return {
            "topic": topic, "partition": self.partition, "offset": self.offset, "timestamp": self.timestamp,
            "key": self.key, "value": self.value, "headers": headers,
        }  # fmt: skip


@dataclass(slots=True)
class Topic:
    """Messages by partition, in order; ``sets`` are the messages of every entry set that came in several."""

    name: str
    partitions: dict[int, list[Recorded]]
    _first_offsets: dict[int, int] = field(init=False)
    _sets: dict[int, list[Recorded]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._first_offsets = {number: lane[0].offset for number, lane in self.partitions.items() if lane}
        for lane in self.partitions.values():
            unfinished: dict[bytes | None, list[Recorded]] = {}
            for message in lane:
                envelope = envelope_of(message.value)
                if envelope is None or envelope.total == 1:
                    unfinished.pop(message.shard, None)
                    continue
                together = [] if envelope.index == 0 else unfinished.get(message.shard, [])
                unfinished[message.shard] = together
                together.append(message)
                self._sets[id(message)] = together

    def set_of(self, message: Recorded) -> list[Recorded]:
        """All messages of its entry set, itself among them."""
        return self._sets.get(id(message), [message])

    def shift(self, after: Recorded, by: int) -> None:
        """Let every message that was sent behind one have a number that is so much greater."""
        last = after.sequence
        for message in self.partitions[after.partition]:
            if message.shard == after.shard and message.sequence is not None and last is not None:
                message.sequence += by if message.sequence > last else 0

    def next_of_shard(self, message: Recorded) -> Recorded | None:
        """Return the next message of the same partition and shard that is there."""
        lane = self.partitions[message.partition]
        return self._first(lane[lane.index(message) + 1 :], message.shard)

    def previous_of_shard(self, message: Recorded) -> Recorded | None:
        """Return the message of the same partition and shard before it that is there."""
        lane = self.partitions[message.partition]
        return self._first(lane[: lane.index(message)][::-1], message.shard)

    def number(self, *, keep_offsets: bool) -> None:
        """Count the offsets of every partition from its first one on.

        ``keep_offsets`` counts messages that are gone, too, so that holes are left.
        """
        for number, lane in self.partitions.items():
            offset = self._first_offsets.get(number, 0)  # another message than at first may be the first one now
            for message in lane:
                message.offset = offset
                offset += keep_offsets or not message.gone

    @staticmethod
    def _first(messages: Sequence[Recorded], shard: bytes | None) -> Recorded | None:
        return next((one for one in messages if one.shard == shard and not one.gone), None)


def read_topic(folder: Path) -> Topic:
    """Return all messages of a capture, each offset once.

    Raises:
        NotACapture: The folder holds no Parquet files, other ones, or several topics.
    """
    files = sorted(folder.glob("**/*.parquet")) if folder.is_dir() else []
    if not files:
        raise NotACapture(folder, "there is no Parquet file in it; name the folder of a capture")
    try:
        table = pa.concat_tables(pq.read_table(file).select(CAPTURE_SCHEMA.names) for file in files)
        table = table.cast(CAPTURE_SCHEMA).sort_by([("partition", "ascending"), ("offset", "ascending")])
    except (pa.ArrowException, KeyError) as error:
        raise NotACapture(folder, f"it is not a capture ({error})") from error
    topics = set(table["topic"].to_pylist())
    if len(topics) != 1:
        raise NotACapture(folder, f"it holds {len(topics)} topics, and a capture has one")
    partitions: dict[int, list[Recorded]] = {}
    for row in _rows(table):
        lane = partitions.setdefault(row["partition"], [])
        if not lane or lane[-1].offset != row["offset"]:
            lane.append(_recorded(row))
    return Topic(str(topics.pop()), partitions)


def check_folder(folder: Path, capture: Path) -> None:
    """Refuse a folder that is not empty, or would become a part of the capture that is read.

    Raises:
        NotACapture: The folder is a file, is not empty, or lies in ``capture``.
    """
    if folder.resolve().is_relative_to(capture.resolve()):
        raise NotACapture(folder, f"it lies in {capture}, which would be read with it; name a folder elsewhere")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotACapture(folder, "it is a file; name a folder for the mutated capture")
    if any(folder.iterdir()):
        raise NotACapture(folder, "it is not empty, and nothing is overwritten; name a new folder, or remove this one")


def write_topic(topic: Topic, folder: Path) -> None:
    """Write the messages that are there as a capture in an empty folder. Each partition has a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lane in topic.partitions.items():
        rows = (message.row(topic.name) for message in lane if not message.gone)
        with pq.ParquetWriter(folder / f"part-{number:05d}.parquet", CAPTURE_SCHEMA, compression="zstd") as writer:
            while group := list(islice(rows, _GROUP_MESSAGES)):
                writer.write_table(pa.Table.from_pylist(group, CAPTURE_SCHEMA))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_GROUP_MESSAGES):
        yield from batch.to_pylist()


def _recorded(row: dict[str, Any]) -> Recorded:
    headers = None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"])
    known = dict(headers or ())
    number = known.get(_SEQUENCE) or b""
    return Recorded(
        row["partition"], row["offset"], row["timestamp"], row["key"], row["value"], headers,
        int(number) if number.isdigit() else None, known.get(_SHARD),
    )  # fmt: skip
