"""A few messages of a source, read within bounds of number, size and time. No offsets are committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.errors.sources import MessagesGoneError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.kafka_source import KafkaSource
from dts_assets.sources.source import Source

_MOST_BYTES = 16 << 20
"""The most bytes of a Kafka partition's sample, about: the batch that exceeds them is the last."""


def newest(mark: Watermark, count: int) -> tuple[OffsetRange, ...]:
    """Return the range of the last ``count`` offsets of a Kafka partition; none if it is empty."""
    found = OffsetRange(max(mark.low, mark.high - count), mark.high)
    return (found,) if len(found) else ()


def both_ends(mark: Watermark, count: int) -> tuple[OffsetRange, ...]:
    """Return the ranges of the first and the last offsets of a Kafka partition, ``count`` in all."""
    if mark.high - mark.low <= count:
        return newest(mark, count)
    first = count // 2
    return (OffsetRange(mark.low, mark.low + first), OffsetRange(mark.high - (count - first), mark.high))


def read_sample(
    source: Source, ranges: Iterable[tuple[int, OffsetRange]], *, seconds: float
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the messages of ranges by Kafka partition, as batches of MESSAGE_SCHEMA, until the time is over.

    A range that the topic forgot meanwhile, or that is too large, is given in part. Other SourceErrors go through.
    """
    deadline = time.monotonic() + seconds
    sizes: dict[int, int] = {}
    for number, offsets in ranges:
        left = deadline - time.monotonic()
        if left <= 0:
            return
        patient = replace(source, patience=max(left, 1.0)) if isinstance(source, KafkaSource) else source
        try:
            for batch in patient.read(number, offsets):
                yield number, batch
                sizes[number] = sizes.get(number, 0) + (pc.sum(pc.binary_length(batch["value"])).as_py() or 0)
                if sizes[number] >= _MOST_BYTES or time.monotonic() > deadline:
                    break
        except MessagesGoneError:
            continue
