"""The times of the first messages of a topic, which decide where its windows begin."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.source import Source


def first_times(
    source: Source, watermarks: Mapping[int, Watermark], *, since: datetime, skew: timedelta
) -> dict[int, datetime]:
    """Return the time of the first message of each Kafka partition, without partitions that have no such message.

    A message dated further than ``skew`` beyond now does not count, because windows of today would lie before the first one.
    Behind it the first message is looked for that is dated from ``since`` on and is believed.
    """
    now = source.now()
    if now is None:
        return {}
    found: dict[int, datetime] = {}
    for number, mark in watermarks.items():
        earliest = mark.earliest
        if earliest is not None and earliest > now + skew:
            earliest = _first_between(source, number, mark, since, now + skew)
        if earliest is not None:
            found[number] = earliest
    return found


def _first_between(
    source: Source, kafka_partition: int, mark: Watermark, since: datetime, until: datetime
) -> datetime | None:
    start = source.offset_for_time(kafka_partition, since, not_after=until)
    if start is None:
        return None
    for batch in source.read(kafka_partition, OffsetRange(start, mark.high)):
        times = batch["timestamp"]
        inside = pc.and_(pc.greater_equal(times, pa.scalar(since)), pc.less_equal(times, pa.scalar(until)))
        believed = times.filter(inside)
        if len(believed):
            first: datetime = believed[0].as_py()
            return first.astimezone(UTC)
    return None
