"""The recorder of a source into a capture folder.

A recording continues where the folder ends, so it may be stopped and begun again at any time. Files appear whole: a reader of the
folder meanwhile sees a shorter recording, never half a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.errors.sources import CaptureError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.capture_source import MESSAGE_SCHEMA, CaptureSource
from dts_assets.sources.source import Source

_ROUND_SECONDS = 5.0
"""The time between two looks at a topic; each makes a file per Kafka partition with new messages."""

_FILE_BYTES = 256 << 20
_FOR_EVER = timedelta(days=100_000)


@dataclass(slots=True)
class Recorded:
    """The additions to a capture by Kafka partition: messages, bytes of values, and offsets that were gone already."""

    messages: dict[int, int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    gone: dict[int, OffsetRange] = field(default_factory=dict)


def record(
    source: Source,
    partitions: int,
    folder: Path,
    *,
    topics: tuple[tuple[str, int], ...] = (),
    since: int | datetime | None = None,
    seconds: float = 0.0,
    progress: Callable[[Recorded], None] = lambda recorded: None,
) -> Recorded:
    """Record a source into a folder: the present messages, then new ones for ``seconds``.

    ``topics`` are those of a source of several, with their numbers of partitions; none where it has one.
    A Kafka partition that the folder lacks begins at ``since``: an offset, the first message at a time, or by default the first
    message that is there. ``progress`` is called with the additions so far. SourceErrors of the source go through.

    Raises:
        CaptureError: The folder holds another topic, or messages that the source does not have yet.
    """
    recorded = Recorded()
    deadline = time.monotonic() + seconds
    marks = source.watermarks()
    held = CaptureSource(str(folder), partitions, topics=topics)
    following = _starts(source, held, folder, since, marks, recorded)
    topic = None if topics else _topic_of(held)
    while True:
        for number, mark in marks.items():
            if mark.high > following[number]:
                offsets = OffsetRange(following[number], mark.high)
                topic = _record_range(source, folder, number, offsets, None if topics else topic, recorded)
                following[number] = mark.high
                progress(recorded)
        left = deadline - time.monotonic()
        if left <= 0:
            return recorded
        time.sleep(min(left, _ROUND_SECONDS))
        marks = source.watermarks()


def _starts(
    source: Source,
    held: CaptureSource,
    folder: Path,
    since: int | datetime | None,
    marks: Mapping[int, Watermark],
    recorded: Recorded,
) -> dict[int, int]:
    there = held.watermarks()
    starts = {}
    for number, mark in marks.items():
        if there[number].latest is not None:
            start = there[number].high
        elif isinstance(since, datetime):
            found = source.offset_for_time(number, since, not_after=since + _FOR_EVER)
            start = mark.high if found is None else found
        else:
            start = mark.low if since is None else max(since, mark.low)
        if there[number].latest is not None and start > mark.high:
            raise CaptureError(
                str(folder),
                f"it holds Kafka partition {number} up to offset {start - 1}, and the topic ends before it at {mark.high}; the "
                f"topic was made anew, so record it into another folder",
            )
        if start < mark.low:
            recorded.gone[number] = OffsetRange(start, mark.low)
            start = mark.low
        starts[number] = start
    return starts


def _record_range(
    source: Source, folder: Path, number: int, offsets: OffsetRange, topic: str | None, recorded: Recorded
) -> str | None:
    """Add a range to the folder, as a file or several, and return the topic of its messages."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = source.read(number, offsets)
    batch = next(batches, None)
    while batch is not None:
        name = f"p{number:02d}-{batch['offset'][0].as_py():020d}.parquet"
        unfinished = folder / f".{name}.unfinished"
        try:
            with pq.ParquetWriter(unfinished, MESSAGE_SCHEMA, compression="zstd") as writer:
                size = 0
                while batch is not None and size < _FILE_BYTES:
                    topic = _only_topic(folder, batch["topic"], topic)
                    writer.write_batch(batch)
                    size += batch.nbytes
                    recorded.messages[number] = recorded.messages.get(number, 0) + batch.num_rows
                    lengths = pc.sum(pc.binary_length(batch["value"])).as_py() or 0
                    recorded.bytes[number] = recorded.bytes.get(number, 0) + lengths
                    batch = next(batches, None)
            unfinished.rename(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
    return topic


def _only_topic(folder: Path, topics: object, topic: str | None) -> str:
    """Return the topic of a batch.

    Raises:
        CaptureError: It is not the topic of all batches before it.
    """
    for found in pc.unique(topics).to_pylist():
        if topic is not None and found != topic:
            raise CaptureError(
                str(folder), f"a capture holds one topic; it has {topic}, so record {found} into another folder"
            )
        topic = str(found)
    assert topic is not None, "a batch has rows"
    return topic


def _topic_of(there: CaptureSource) -> str | None:
    """Return the topic that a folder holds; None while it is empty."""
    for number, mark in there.watermarks().items():
        for batch in there.read(number, OffsetRange(mark.high - 1, mark.high)):
            return str(batch["topic"][0].as_py())
    return None
