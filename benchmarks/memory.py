"""The memory that a worker takes, by chunk, by size of one event and by number of tables.

``python -m benchmarks.memory`` prints a table and, as its last line, one JSON object. Every stage of a window runs in a fresh
process that does nothing else (what Spark's Python worker does, without Spark); its peak is what the kernel says at its end
(VmHWM), imports, reading and Parquet writing included.

- ``chunk-16``: many ordinary events, chunks of so many megabytes. Ratio: the peak by 0.6 GB + 6 x the chunk.
- ``1000t``: the same with a thousand tables, whose files are all open at once, in the product's chunks for many tables.
- ``event-64``: one event of about so many megabytes with many rows; ``blob-64``: one row with a value as large, twice that if it
  comes with a before image. Ratio: what the peak is above that of ordinary events, by the event's size. The limit is 6.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import columns, traffic
from benchmarks.command import Options, finish
from benchmarks.workbench import NO_SPARK, Workbench, all_windows, whole
from dts_assets.flows import entries, raw, tables, tables_decode
from dts_assets.flows.layers import Selection
from dts_assets.stages import changelog_decoder
from dts_assets.store.catalog import LakeLocation, open_catalog

BASE, TIMES = 0.6e9, 6
STAGES = ("raw", "entries", "changelogs")


@dataclass(frozen=True, slots=True)
class Case:
    """Traffic, and the chunk that it is decoded in (None: the product's)."""

    name: str
    tables: int = 8
    rows: int = 20
    megabytes: int = 96
    chunk: int | None = None
    event: int | None = None
    blob: bool = False

    @property
    def size(self) -> int:
        """Bytes of traffic; a first event is made in any case."""
        return self.megabytes << 20 if self.event is None else 1


CASES = (
    Case("chunk-16", chunk=16 << 20),
    Case("chunk-32", chunk=32 << 20),
    Case("chunk-64", chunk=64 << 20, megabytes=160),
    Case("1000t", tables=1000),
    *(Case(f"event-{size}", tables=1, event=size << 20) for size in (1, 16, 64)),
    *(Case(f"blob-{size}", tables=1, rows=1, event=size << 20, blob=True) for size in (1, 16, 64)),
)


class _Workers:
    """A stand-in for Spark: the tasks of a stage run one after the other in a process."""

    def __init__(self, chunk: int | None) -> None:
        self.peaks: list[int] = []
        self._chunk = chunk

    def run(self, spark: object, work_items: Sequence[Any], work: Callable[[Any, str], Any], **_: object) -> list[Any]:
        if not work_items:  # as where no entries have to be made a second time
            return []
        with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
            given, found = Path(folder) / "tasks", Path(folder) / "results"
            given.write_bytes(pickle.dumps((work, list(work_items), self._chunk)))
            subprocess.run([sys.executable, "-m", "benchmarks.memory", "--worker", str(given), str(found)], check=True)
            results, peak = pickle.loads(found.read_bytes())
        self.peaks.append(peak)
        return list(results)


def worker(given: Path, found: Path) -> None:
    """Run the tasks of a stage and write their results, with the peak of this process."""
    work, items, chunk = pickle.loads(given.read_bytes())
    if chunk is not None:
        changelog_decoder.CHUNK_BYTES = chunk
    results = [work(item, f"task-{number}") for number, item in enumerate(items)]
    found.write_bytes(pickle.dumps((results, _peak())))


def _peak() -> int:
    """Most bytes that this process ever held. Unlike ``ru_maxrss`` it begins anew with the program."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def measure(case: Case, *, seed: int) -> tuple[dict[str, float], int]:
    """Peak megabytes of each stage, and the bytes of payload."""
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        lake = LakeLocation(str(Path(folder) / "lake"))
        open_catalog(lake)  # makes the folder and the catalog's tables
        bench = Workbench(Path(folder), lake, None)
        recording = bench.record(
            "recording", _tables(case, seed), _shape(case), size=case.size, seed=seed + 1, partitions=1, windows=1
        )  # fmt: skip
        pipeline, workers = bench.pipeline("bench", recording), _Workers(case.chunk)
        for flow in (raw, entries, tables_decode):
            flow.__dict__["run_tasks"] = workers.run
        how: dict[str, Any] = {"spark": lambda: NO_SPARK, "progress": lambda _: None}
        raw.materialize_raw(pipeline, whole(pipeline), **how)
        entries.materialize_entries(pipeline, whole(pipeline), **how)
        tables.materialize_tables(pipeline, all_windows(pipeline), selection=Selection({"snapshot": ()}), **how)
    return {stage: round(peak / 1e6) for stage, peak in zip(STAGES, workers.peaks, strict=True)}, recording.payload


def _tables(case: Case, seed: int) -> list[traffic.Table]:
    if case.blob and case.event is not None:
        return [traffic.Table("shopdb", "files", (columns.WIDE[0], columns.blob(case.event)))]
    return traffic.tables(case.tables, 15, seed=seed)


def _shape(case: Case) -> traffic.Shape:
    if case.event is None or case.blob:
        return traffic.Shape(case.rows)
    return traffic.Shape(case.event // 700)  # about 700 bytes a row, before and after image together


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("memory", __doc__)
    options.add_cases(case.name for case in CASES)
    options.add_argument("--megabytes", type=int, help="of ordinary traffic (default: 96 to 160, by the case)")
    options.add_seed()
    options.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    if chosen.worker:
        worker(*chosen.worker)
        return 0
    print(f"memory: seed {chosen.seed}; peak megabytes of a worker")
    print(f"{'case':>9} {'raw':>7} {'entries':>8} {'changelogs':>11} {'limit':>7} {'ratio':>6}")
    ratios: dict[str, float] = {}
    figures: dict[str, dict[str, float]] = {}
    cases = [case if chosen.megabytes is None else replace(case, megabytes=chosen.megabytes) for case in CASES]
    first_is_left_out = chosen.case and cases[0].name not in chosen.case
    ordinary = max(measure(cases[0], seed=chosen.seed)[0].values()) if first_is_left_out else 0.0
    for case in cases:
        if chosen.case and case.name not in chosen.case:
            continue
        found, payload = measure(case, seed=chosen.seed)
        figures[case.name] = {**found, "payload": round(payload / 1e6, 1)}
        peak = max(found.values())
        ordinary = ordinary or peak
        if case.event is None:
            limit = (BASE + TIMES * (case.chunk or changelog_decoder.MANY_TABLES_CHUNK_BYTES)) / 1e6
            ratios[case.name] = round(peak / limit, 2)
        else:
            limit = ordinary + TIMES * payload / 1e6
            ratios[case.name] = round(max(0.0, peak - ordinary) * 1e6 / payload, 2)
        print(
            f"{case.name:>9} {found['raw']:7,.0f} {found['entries']:8,.0f} {found['changelogs']:11,.0f} {limit:7,.0f} "
            f"{ratios[case.name]:6.2f}", flush=True,
        )  # fmt: skip
    finish("memory", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
