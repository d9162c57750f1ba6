"""Read a Kafka topic in forks of a process that reads it already; write what each fork has seen.

The source comes pickled through the standard input.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys

from dts_assets.model.offsets import OffsetRange
from dts_assets.sources.source import Source


def count(pickled: bytes) -> tuple[int, int]:
    """Return the high watermark and the number of messages that were read."""
    found: Source = pickle.loads(pickled)
    return found.watermarks()[0].high, sum(batch.num_rows for batch in found.read(0, OffsetRange(0, 50)))


def main() -> None:
    pickled = sys.stdin.buffer.read()
    found: Source = pickle.loads(pickled)
    reading = found.read(0, OffsetRange(0, 50))
    assert next(reading).num_rows, "the connection of this process is in use"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sys.stdout.write(json.dumps(pool.map(count, [pickled] * 4)))


if __name__ == "__main__":
    main()
