"""The interface of a source of messages; nothing that uses it can tell a recording from a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from dts_assets.model.offsets import OffsetRange, Watermark


class Source(Protocol):
    """The messages of one subscription. Instances are picklable: Spark tasks read with the driver's object."""

    def watermarks(self) -> Mapping[int, Watermark]:
        """Return the offsets and times that the source holds now, for every Kafka partition of the subscription."""
        ...

    def now(self) -> datetime | None:
        """Return the instant against which grace and clock skew are measured; None while no message was ever seen."""
        ...

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        """Return the first offset whose message is dated in ``[instant, not_after]``; None if there is none yet."""
        ...

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> Mapping[tuple[int, datetime], int | None]:
        """Return :meth:`offset_for_time` of many (Kafka partition, instant) pairs, in few round trips."""
        ...

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        """Return the offsets in the range whose messages are dated after ``instant``."""
        ...

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the messages of an offset range as batches of :data:`MESSAGE_SCHEMA`, in offset order, a few MB each."""
        ...
