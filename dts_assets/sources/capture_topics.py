"""The topics of a recording that nobody described."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.errors.sources import CaptureError
from dts_assets.sources.capture_folder import capture_files, require_recording


def recorded_topics(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return the topics of a capture, each with the least number of partitions that it can have.

    Partitions in which nothing was recorded behind the last one with messages cannot be seen.

    Raises:
        CaptureError: The folder is no capture, or holds no message.
    """
    require_recording(folder)
    counts: dict[str, int] = {}
    for file in capture_files(folder):
        try:
            table = pq.read_table(file, columns=["topic", "partition"], partitioning=None)
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise CaptureError(
                str(folder),
                f"{file.name} is no file of a capture ({type(error).__name__}); name the folder of a recording",
            ) from None
        if not {"topic", "partition"} <= set(table.column_names):
            raise CaptureError(str(folder), f"{file.name} has no columns topic and partition; a capture has both")
        greatest = table.group_by("topic").aggregate([("partition", "max"), ("partition", "min")])
        for row in greatest.to_pylist():
            name, last, first = row["topic"], row["partition_max"], row["partition_min"]
            if name is None or not isinstance(last, int) or first < 0:
                raise CaptureError(
                    str(folder), f"{file.name} has messages without a topic or a partition; record it anew"
                )
            counts[str(name)] = max(counts.get(str(name), 0), last + 1)
    if not counts:
        raise CaptureError(str(folder), "no message is in it; record some")
    return tuple(sorted(counts.items()))
