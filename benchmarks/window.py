"""The time of a window from messages to changelogs, compared with a plain Spark job and bare copying.

``python -m benchmarks.window`` prints a table and, as its last line, one JSON object. The same recording (fresh values, several
Kafka partitions, sets cut over messages among whole ones) goes three ways, in turns, in one Spark session on ``local[2]``:

- ours: ``materialize_raw``, ``materialize_entries`` and ``materialize_tables`` without snapshots, ledger and checks included.
- ``plain``: a Spark job with protobuf's parser, a Python loop over every value and the DataFrame writer
  (benchmarks/plain_job.py). Ratio: its time over ours.
- ``floor``: the same passes over the same bytes and as many bytes of the same tables written, without decoding
  (benchmarks/floor.py). Ratio: our time over its.

Times are wall times, the least of several turns, and ``cpu`` has the CPU seconds of all processes in our flows. Before them every
way runs once on a megabyte, and the plain job's changelogs are compared with ours.

Messages of other formats follow, a quarter as many bytes; each message has one row. For them there is no plain job.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import floor, plain_job, traffic
from benchmarks.command import Options, finish, load
from benchmarks.format_traffic import FORMATS
from benchmarks.processor_time import cost
from benchmarks.workbench import Recording, Workbench, all_windows, whole, workbench
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import Selection
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables

PARTITIONS, WINDOWS, ROWS = 4, 2, 20
PROTOBUF = "dts-protobuf"
CHANGELOGS = Selection({"snapshot": ()})


@dataclass(frozen=True, slots=True)
class Ours:
    """The cost of our flows."""

    flows: Mapping[str, float]
    """Wall seconds of each flow."""
    cpu: float
    """CPU seconds of all processes in all flows."""

    @property
    def wall(self) -> float:
        """Wall seconds of all flows."""
        return sum(self.flows.values())


def ours(bench: Workbench, name: str, recording: Recording) -> Ours:
    """Make the changelogs of a recording in a new lake, and measure it."""
    pipeline = bench.pipeline(name, recording)
    flows: dict[str, Callable[..., Any]] = {
        "raw": lambda **how: materialize_raw(pipeline, whole(pipeline), **how),
        "entries": lambda **how: materialize_entries(pipeline, whole(pipeline), **how),
        "changelogs": lambda **how: materialize_tables(pipeline, all_windows(pipeline), selection=CHANGELOGS, **how),
    }
    spent, seconds = 0.0, dict[str, float]()
    for flow, work in flows.items():
        cpu, seconds[flow] = cost(lambda: work(spark=lambda: bench.spark, progress=lambda _: None))  # noqa: B023  # called here
        spent += cpu
    return Ours(seconds, spent)


def measure_format(bench: Workbench, chosen: str, *, size: int, turns: int, seed: int) -> dict[str, Any]:
    """Ours and the floor in turns, for messages of a format; the figures."""
    where = {"partitions": PARTITIONS, "windows": WINDOWS}
    small = bench.record_format("small", chosen, size=1 << 20, seed=seed + 1, **where)
    large = bench.record_format("large", chosen, size=size, seed=seed + 2, **where)
    ours(bench, "small_ours", small)
    best: dict[str, float] = {}
    cpu: list[float] = []
    template: floor.Template | None = None
    for turn in range(turns):
        name = f"ours_{turn}"
        taken = ours(bench, name, large)
        pipeline = bench.pipeline(name, large)
        template = template or floor.make_template(pipeline, bench.folder / "template")
        start = time.perf_counter()
        floor.run(bench, f"floor_{turn}", pipeline, template)
        took = {"ours": taken.wall, "floor": time.perf_counter() - start, **taken.flows}
        best = {way: min(seconds, best.get(way, seconds)) for way, seconds in took.items()}
        cpu.append(taken.cpu)
        print(
            f"{chosen}, turn {turn + 1}: " + ", ".join(f"{way} {seconds:.2f} s" for way, seconds in took.items()),
            flush=True,
        )
        for folder in (name, f"floor_{turn}"):
            shutil.rmtree(Path(bench.lake.warehouse) / folder)
    return {
        "payload_megabytes": round(large.payload / 1e6, 1), "seconds": {way: round(value, 2) for way, value in best.items()},
        "cpu": {"ours": round(min(cpu), 2)}, "megabytes_per_second": round(large.payload / best["ours"] / 1e6, 1),
        "load": load(),
    }  # fmt: skip


def measure(bench: Workbench, *, tables: int, columns: int, size: int, turns: int, seed: int) -> dict[str, Any]:
    """All ways in turns; the figures."""
    made = traffic.tables(tables, columns, seed=seed)
    shape = traffic.Shape(ROWS, message_bytes=200 << 10)  # sets of 256 KB: about half of them come in two messages
    small = bench.record("small", made, shape, size=1 << 20, seed=seed + 1, partitions=PARTITIONS, windows=WINDOWS)
    large = bench.record("large", made, shape, size=size, seed=seed + 2, partitions=PARTITIONS, windows=WINDOWS)
    ours(bench, "small_ours", small)
    known = bench.pipeline("small_ours", small)
    plain_job.run(bench, "small_plain", small, known_tables(known))
    _compare(bench, known)
    print(f"{'turn':>5} {'ours':>7} {'raw':>6} {'entries':>8} {'changelogs':>11} {'floor':>7} {'plain':>7}  seconds")
    seconds: dict[str, list[float]] = {"ours": [], "floor": [], "plain": []}
    runs: list[Ours] = []
    template: floor.Template | None = None
    written: dict[str, int] = {}
    for turn in range(turns):
        names = {way: f"{way}_{turn}" for way in seconds}
        runs.append(ours(bench, names["ours"], large))
        pipeline = bench.pipeline(names["ours"], large)
        if template is None:
            template = floor.make_template(pipeline, bench.folder / "template")
            written["ours"] = _bytes(pipeline)
        start = time.perf_counter()
        written["floor"] = floor.run(bench, names["floor"], pipeline, template)
        between = time.perf_counter()
        plain_job.run(bench, names["plain"], large, known_tables(pipeline))
        took = (runs[-1].wall, between - start, time.perf_counter() - between)
        for way, time_taken in zip(seconds, took, strict=True):
            seconds[way].append(time_taken)
        print(_line(turn, runs[-1].flows, {way: times[-1] for way, times in seconds.items()}), flush=True)
        for name in names.values():
            shutil.rmtree(Path(bench.lake.warehouse) / name)
    least = min(runs, key=lambda one: one.wall)
    best = {way: min(times) for way, times in seconds.items()}
    return {
        "payload_megabytes": round(large.payload / 1e6, 1), "tables": tables, "columns": columns,
        "seconds": {way: round(value, 2) for way, value in best.items()},
        "flows": {flow: round(value, 2) for flow, value in least.flows.items()},
        "cpu": {"ours": round(min(one.cpu for one in runs), 2)},
        "megabytes_per_second": round(large.payload / best["ours"] / 1e6, 1),
        "megabytes_written": {way: round(value / 1e6, 1) for way, value in written.items()},
        "load": load(),
    }  # fmt: skip


def _bytes(pipeline: Pipeline) -> int:
    paths = [pipeline.path("raw_envelopes"), pipeline.path("entries")]
    paths += [pipeline.table_path("changelog", table) for table in known_tables(pipeline)]
    return sum(file.bytes for path in paths for file in pipeline.lake.data_files(path))


def _compare(bench: Workbench, pipeline: Pipeline) -> None:
    """Compare the plain job's changelogs with ours, row for row.

    Raises:
        SystemExit: They differ.
    """
    for table in known_tables(pipeline):
        mine = pipeline.lake.scan(pipeline.table_path("changelog", table))
        theirs = pipeline.lake.scan(("small_plain", table.table))
        assert mine is not None, table
        assert theirs is not None, table
        if _sorted(mine) != _sorted(theirs.select(mine.column_names)):
            raise SystemExit(f"window: {table} is not the same in the plain job's changelog")


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def _line(turn: int, flows: Mapping[str, float], seconds: Mapping[str, float]) -> str:
    return (
        f"{turn + 1:>5} {seconds['ours']:7.2f} {flows['raw']:6.2f} {flows['entries']:8.2f} {flows['changelogs']:11.2f} "
        f"{seconds['floor']:7.2f} {seconds['plain']:7.2f}"
    )


def _protobuf(bench: Workbench, chosen: Any) -> dict[str, Any]:
    print(
        f"window: {chosen.megabytes} MB, {chosen.tables} tables of about {chosen.columns} columns, seed {chosen.seed}",
        flush=True,
    )
    return measure(
        bench, tables=chosen.tables, columns=chosen.columns, size=chosen.megabytes << 20, turns=chosen.turns,
        seed=chosen.seed,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("window", __doc__)
    options.add_megabytes(512)
    options.add_tables(8, columns=15)
    options.add_turns(2)
    options.add_seed()
    options.add_argument("--format", choices=[PROTOBUF, *FORMATS], action="append", help="only this format; repeatable")
    chosen = options.parse_args(arguments)
    ratios: dict[str, float] = {}
    figures: dict[str, Any] = {}
    for name in chosen.format or [PROTOBUF, *FORMATS]:
        with workbench() as bench:
            if name == PROTOBUF:
                figures |= (found := _protobuf(bench, chosen))
                ratios |= {
                    "plain": round(found["seconds"]["plain"] / found["seconds"]["ours"], 2),
                    "floor": round(found["seconds"]["ours"] / found["seconds"]["floor"], 2),
                }
            else:
                found = measure_format(bench, name, size=chosen.megabytes << 18, turns=chosen.turns, seed=chosen.seed)
                figures[name] = found
                ratios[name] = round(found["seconds"]["ours"] / found["seconds"]["floor"], 2)
        print(f"{name}: {found['megabytes_per_second']} MB/s", flush=True)
    finish("window", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
