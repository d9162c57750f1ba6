"""The places of entries where the source sends none: each stands where it came.

A window's changes come behind those of all windows before it. In it a change stands at the greatest source time so far in its
Kafka partition, then at its Kafka partition, then where it came there. So a message that is sent again, with the time that it
had, stands behind what was sent between, and a window that is computed again gives every entry the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.spans import Cell

_SECONDS_BITS, _PARTITION_BITS, _NUMBER_BITS = 32, 7, 24
"""A position holds a second, a Kafka partition and a number, 63 bits together.

The binlog keeps times as 32-bit seconds (MySQL Internals, "Event Structure"), and a topic has at most 100 Kafka partitions.
"""

_LAST_SECOND = (1 << _SECONDS_BITS) - (1 << 8)
"""Later times are none that a binlog holds. Above it there is room for the numbers of a window's entries."""

_MICROSECONDS = 1_000_000


@dataclass(slots=True)
class ArrivalTracker:
    """Gives the entries of one Kafka partition and window their places. Feed it every batch in offset order.

    ``last`` is the second and the number of the last entry, as one number.
    """

    last: int = -1

    def placed(self, batch: pa.RecordBatch, cell: Cell) -> pa.RecordBatch:
        """Return entries with ``file_name`` and ``position``, which no two entries of the topic share.

        Entries that tell their position keep it, without a file.

        The file is the window's: ``window.1767225600`` begins at that second since 1970. The position is a source time in seconds
        times 2^31, plus the Kafka partition times 2^24, plus the number of entries before with that time. Should there be more
        than 2^24 of them, the next second goes on.
        """
        told = batch["position"]
        rows = np.flatnonzero(np.asarray(told.is_null()))
        count = len(rows)
        if not count:
            return batch
        times = pc.fill_null(batch["event_time"].view(pa.int64()), 0).to_numpy()
        seconds = (times if count == batch.num_rows else times[rows]) // _MICROSECONDS
        own = np.clip(seconds, 0, _LAST_SECOND) << _NUMBER_BITS
        # Each is one more than the last, or the first of its second, whichever is more.
        steps = np.arange(count)
        found = np.maximum.accumulate(np.append(self.last + 1, own - steps))[1:] + steps
        self.last = int(found[-1])
        numbers = found & ((1 << _NUMBER_BITS) - 1)
        positions = (found >> _NUMBER_BITS << _PARTITION_BITS | cell.kafka_partition) << _NUMBER_BITS | numbers
        names = pa.repeat(pa.scalar(f"window.{_seconds(cell.window.start)}"), batch.num_rows)
        columns = {name: batch[name] for name in batch.schema.names}
        made = pa.array(positions, pa.int64())
        if count < batch.num_rows:
            names = pc.if_else(told.is_null(), names, pa.scalar(None, pa.string()))
            made = pc.replace_with_mask(told, told.is_null(), made)
        columns |= {"file_name": names, "position": made}
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _seconds(time: datetime) -> int:
    return int(time.astimezone(UTC).timestamp())
