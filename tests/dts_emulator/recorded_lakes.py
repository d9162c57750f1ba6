"""Lakes that the flows make of transactions, recorded in one format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dts_assets.settings.formats import traits_of
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process

HOUR = timedelta(hours=1)


def recorded_lake(name: str, transactions: Sequence[Transaction], folder: Path, **options: Any) -> Harness:
    """Return a settled lake in windows of an hour; ``options`` are those of its subscription.

    Without other ones the tables are those of the database ``d``.
    """
    harness = recorded(name, transactions, folder, **options)
    harness.settle()
    return harness


def recorded(name: str, transactions: Sequence[Transaction], folder: Path, **options: Any) -> Harness:
    """Return a subscription of :func:`recorded_lake` with nothing made of it yet."""
    vendor = VENDOR_TASKS[name]
    until = transactions[-1].end.timestamp + 60
    write_capture(vendor.recording(transactions, vendor.options(), until), folder / "capture", topic="one")
    times = pq.read_table(folder / "capture", columns=["timestamp"])["timestamp"].to_pylist()
    first, last = (datetime.fromtimestamp(one.timestamp() // 3600 * 3600, UTC) for one in (min(times), max(times)))
    if traits_of(name).needs_schema and vendor.schema is not None:
        (folder / "Record.avsc").write_bytes(vendor.schema())
        options["schema"] = str(folder / "Record.avsc")
    options.setdefault("source_time_zone", "+00:00")
    options.setdefault("tables", {"include": ["d.*"]})
    return bench_in_process(folder, name.replace("-", "_")).open(
        folder / "capture", format=name, partitions=1,
        window={"every": HOUR, "start": first, "end": last + HOUR}, **options,
    )  # fmt: skip
