"""The cost of knowing that nothing is lost and nothing is there twice.

``python -m benchmarks.truth`` prints a table and, as its last line, one JSON object. The flows run in this process, task by task
and without Spark, on the same recording; what is measured is processor time, the least of several turns.

- ``clean``: a recording without faults, with all of the ledger's work over without: runs of positions, facts of delivery, row
  hashes, digests of raw content, the search for what was delivered before.
- ``redelivered``: a recording in which a tenth of the messages come twice (restarts that read again what they had sent) over
  the same one without, both with all of the work.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import traffic
from benchmarks.command import Options, finish, load
from benchmarks.workbench import NO_SPARK, Recording, Workbench, all_windows, whole
from dts_assets.flows import entries, raw, redelivered, tables, tables_decode
from dts_assets.flows.layers import Selection
from dts_assets.flows.redelivered import NOTHING_BEFORE
from dts_assets.stages import changelog_decoder
from dts_assets.stages.delivery_tracker import Delivery
from dts_assets.stages.raw_rows import ContentDigest
from dts_assets.stages.run_tracker import RunTracker
from dts_assets.store.catalog import LakeLocation, open_catalog

PARTITIONS, WINDOWS, ROWS = 2, 2, 20
AGAIN = 10
"""One message of so many comes again."""

CHANGELOGS = Selection({"snapshot": ()})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("truth", __doc__)
    options.add_megabytes(64)
    options.add_tables(8, columns=15)
    options.add_turns(5)
    options.add_seed()
    chosen = options.parse_args(arguments)
    print(f"truth: {chosen.megabytes} MB, {chosen.tables} tables, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder, _in_this_process():
        lake = LakeLocation(str(Path(folder) / "lake"))
        open_catalog(lake)
        bench = Workbench(Path(folder), lake, None)
        made = traffic.tables(chosen.tables, chosen.columns, seed=chosen.seed)
        clean = bench.record(
            "clean", made, traffic.Shape(ROWS), size=chosen.megabytes << 20, seed=chosen.seed, partitions=PARTITIONS,
            windows=WINDOWS,
        )  # fmt: skip
        twice = delivered_again(clean, Path(folder) / "twice")
        ways: dict[str, tuple[Recording, bool]] = {
            "without": (clean, False),
            "with": (clean, True),
            "redelivered": (twice, True),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        print(f"{'turn':>5} " + " ".join(f"{way:>12}" for way in ways) + "  processor seconds")
        for turn in range(chosen.turns + 1):
            for way, (recording, knows) in ways.items():
                seconds[way].append(_run(bench, f"{way}_{turn}", recording, knows=knows))
                shutil.rmtree(Path(lake.warehouse) / f"{way}_{turn}")
            print(f"{turn:>5} " + " ".join(f"{times[-1]:12.2f}" for times in seconds.values()), flush=True)
    best = {way: min(times[1:]) for way, times in seconds.items()}  # the first turn imports and warms
    ratios = {
        "clean": round(best["with"] / best["without"], 3),
        "redelivered": round(best["redelivered"] / best["with"], 3),
    }
    print(f"all of the work: {ratios['clean']}x without it; a tenth twice: {ratios['redelivered']}x once")
    figures = {
        "payload_megabytes": round(clean.payload / 1e6, 1),
        "seconds": {way: round(value, 2) for way, value in best.items()},
        "load": load(),
    }
    finish("truth", ratios, figures)
    return 0


def delivered_again(recording: Recording, folder: Path) -> Recording:
    """Return the recording with a tenth of its messages twice.

    After every hundred messages the last ten are read again.
    """
    folder.mkdir()
    messages = pa.concat_tables([pq.read_table(file) for file in sorted(recording.folder.glob("*.parquet"))])
    payload = 0
    for partition in range(recording.partitions):
        mine = messages.filter(pa.compute.equal(messages["partition"], partition)).sort_by("offset")
        order: list[int] = []
        for start in range(0, mine.num_rows, 10 * AGAIN):
            block = list(range(start, min(start + 10 * AGAIN, mine.num_rows)))
            order += block + block[-len(block) // AGAIN :]
        again = mine.take(pa.array(order))
        # Repeats come at the time of the message before them: the clock of a topic does not go back.
        times = np.maximum.accumulate(again["timestamp"].to_numpy())
        again = again.set_column(
            again.schema.get_field_index("offset"), "offset", pa.array(np.arange(len(order)), pa.int64())
        ).set_column(
            again.schema.get_field_index("timestamp"), messages.schema.field("timestamp"),
            pa.array(times).cast(pa.timestamp("ms")).cast(pa.timestamp("ms", tz="UTC")),
        )  # fmt: skip
        headers = [[{"key": "ps", "value": str(number + 1).encode()}] for number in range(len(order))]
        place = again.schema.get_field_index("headers")
        again = again.set_column(
            place, messages.schema.field("headers"), pa.array(headers, again.schema.field(place).type)
        )
        pq.write_table(again, folder / f"part-{partition}.parquet", row_group_size=500)
        payload += pa.compute.sum(pa.compute.binary_length(again["value"])).as_py()
    return Recording(folder, recording.partitions, recording.windows, payload, recording.every)


def _run(bench: Workbench, name: str, recording: Recording, *, knows: bool) -> float:
    """Processor seconds of all flows up to the changelogs."""
    pipeline = bench.pipeline(name, recording)
    how: dict[str, Any] = {"spark": _no_spark, "progress": lambda _: None}
    with ExitStack() as stack:
        if not knows:
            stack.enter_context(_without_the_work())
        began = time.process_time()
        raw.materialize_raw(pipeline, whole(pipeline), **how)
        entries.materialize_entries(pipeline, whole(pipeline), **how)
        tables.materialize_tables(pipeline, all_windows(pipeline), selection=CHANGELOGS, **how)
        return time.process_time() - began


def _no_spark() -> Any:
    return NO_SPARK


@contextmanager
def _in_this_process() -> Iterator[None]:
    """Tasks one after the other, here."""

    def run(_: Any, tasks: Sequence[Any], work: Callable[[Any, str], Any], **__: Any) -> list[Any]:
        return [work(task, f"{number}") for number, task in enumerate(tasks)]

    with ExitStack() as stack:
        for flow in (raw, entries, tables_decode, redelivered):
            stack.enter_context(mock.patch.object(flow, "run_tasks", run))
        yield


@contextmanager
def _without_the_work() -> Iterator[None]:
    """Leave out what is measured."""
    with ExitStack() as stack:
        for owner, name, nothing in (
            (RunTracker, "see", lambda *_, **__: None),
            (Delivery, "see_messages", lambda *_: None),
            (Delivery, "see_entries", lambda *_: None),
            (ContentDigest, "add", lambda *_: None),
            (changelog_decoder, "row_hashes", lambda rows: np.zeros(rows.num_rows, np.uint64)),
            (tables_decode, "find_redelivered_changes", lambda *_, **__: NOTHING_BEFORE),
        ):
            stack.enter_context(mock.patch.object(owner, name, nothing))
        yield


if __name__ == "__main__":
    sys.exit(main())
