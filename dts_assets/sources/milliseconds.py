"""Message times as Kafka has them: milliseconds since 1970 in UTC.

A producer may write any 64-bit number. Times outside the years 1 to 9999 are no dates in Python, Spark or a catalog, so they
count as the first or the last instant of these years, wherever messages come in.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
"""By unit; Parquet has no others."""


def instant_of(milliseconds: int) -> datetime:
    """Return the instant of a message time."""
    return _EPOCH + min(max(milliseconds, _FIRST), _LAST) * _MILLISECOND


def floor_of(instant: datetime) -> int:
    """Return the last message time that is not after an instant."""
    return (instant - _EPOCH) // _MILLISECOND


def ceiling_of(instant: datetime) -> int:
    """Return the first message time that is not before an instant."""
    return -((_EPOCH - instant) // _MILLISECOND)


def column_of(milliseconds: npt.ArrayLike) -> pa.TimestampArray:
    """Return message times as a column, each within the years 1 to 9999."""
    within = np.clip(np.asarray(milliseconds, np.int64), _FIRST, _LAST)
    return pa.array(within).cast(pa.timestamp("ms", tz="UTC"))


def milliseconds_of(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a timestamp column of Parquet as message times: rounded down, each within the years 1 to 9999."""
    numbers: npt.NDArray[np.int64] = times.cast(pa.int64()).to_numpy()
    return np.clip(numbers // _PER_MILLISECOND[times.type.unit], _FIRST, _LAST)
