"""Input that cannot be used becomes rows of ``quarantine``, with its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from dts_assets.model.problems import Reason
from dts_assets.stages.raw_rows import UTC_MICROSECONDS


class Unusable(NamedTuple):
    """Messages, fragments or an entry that cannot be used: the offsets they span, why, and their bytes.

    The bytes of fragments are joined in the order of indexes.
    """

    first_offset: int
    last_offset: int
    reason: Reason
    detail: str
    data: bytes | None


def quarantine_rows(
    found: Sequence[Unusable],
    *,
    kafka_partition: int,
    window_start: datetime,
    stage: str,
    tables: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    """Return rows of ``quarantine`` for the input of one cell that cannot be used (at least one).

    ``tables`` has the name of a table for each, in the order of ``found``. None: the stage knows none.
    """
    first, last, reason, detail, data = zip(*found, strict=True)
    columns = {
        "kafka_partition": pa.array([kafka_partition] * len(found), pa.int32()),
        "window_start": pa.array([window_start] * len(found), UTC_MICROSECONDS),
        "stage": [stage] * len(found),
        "first_offset": first,
        "last_offset": last,
        "reason": reason,
        "detail": detail,
        "payload": pa.array(data, pa.binary()),
        "table": pa.array(tables or [None] * len(found), pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)
