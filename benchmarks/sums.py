"""The cost of sums of rows: their part of a window, and files that are added up.

``python -m benchmarks.sums`` prints a line for each turn and, as its last line, one JSON object. No server is asked. Tasks run
one after the other in this process, whose processor seconds count. Both ways take turns.

- ``window``: raw, entries and tables of a window of inserts and updates with sums, by the same without sums.
- ``files``: the seconds of 10 million rows that a comparison adds up from their files, by the 60 that are promised for them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.command import Options, finish, load, processor_seconds, say
from benchmarks.traffic import Shape, tables
from benchmarks.workbench import Recording, Workbench
from dts_assets.flows.compared_tables import ComparedTable, sums_of_files
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.row_sum_counts import summed_columns
from dts_assets.flows.tables import materialize_tables
from dts_assets.flows.this_process import this_process
from dts_assets.model.spans import Span
from dts_assets.settings.verification import Verification
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.types import arrow_schema

PARTITIONS = 2
ROWS = 20
ROWS_COMPARED, SECONDS = 10_000_000, 60.0
"""The rows that a comparison promises to add up, and the seconds for them."""


def _silent(line: str) -> None:
    """Say nothing."""


def run(pipeline: Pipeline) -> None:
    """Make the window of a subscription."""
    span = Span(tuple(pipeline.kafka_partitions), (pipeline.grid.at(0),))
    materialize_raw(pipeline, span, spark=this_process, progress=_silent)
    materialize_entries(pipeline, span, spark=this_process, progress=_silent)
    materialize_tables(pipeline, span.windows, spark=this_process, progress=_silent)


def opened(bench: Workbench, name: str, recording: Recording, *, sums: bool) -> Pipeline:
    """Return a subscription whose snapshots carry sums, or do not."""
    pipeline = bench.pipeline(name, recording)
    verify = Verification(without_sums=() if sums else ("*",))
    return replace(pipeline, settings=pipeline.settings.model_copy(update={"verify": verify}))


def add_up(pipeline: Pipeline) -> tuple[float, int]:
    """Return the processor seconds for all rows of all snapshots, and their number."""
    seconds, rows = 0.0, 0
    for name in known_tables(pipeline):
        table = pipeline.lake.table(pipeline.table_path("snapshot", name))
        assert table is not None, "the window made it"
        compared = ComparedTable(table, name, summed_columns(arrow_schema(table.schema())), (), ())
        seconds += processor_seconds(lambda compared=compared: sums_of_files(compared))  # type: ignore[misc]
        size = pipeline.lake.size(pipeline.table_path("snapshot", name))
        rows += 0 if size is None else size.rows
    return seconds, rows


def main(arguments: Sequence[str]) -> None:
    """Measure both."""
    options = Options("sums", __doc__)
    options.add_megabytes(48)
    options.add_tables(4, columns=10)
    options.add_turns(3)
    options.add_seed()
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        lake = LakeLocation(str(Path(folder) / "lake"))
        open_catalog(lake)
        bench = Workbench(Path(folder), lake, None)
        made, shape = tables(chosen.tables, chosen.columns, seed=chosen.seed), Shape(ROWS, message_bytes=200 << 10)
        recorded = bench.record(
            "traffic", made, shape, size=chosen.megabytes << 20, seed=chosen.seed, partitions=PARTITIONS, windows=1
        )
        best = {"with": float("inf"), "without": float("inf")}
        files, rows = float("inf"), 0
        for turn in range(chosen.turns):
            for way in best:
                pipeline = opened(bench, f"{way}_{turn}", recorded, sums=way == "with")
                best[way] = min(best[way], processor_seconds(lambda pipeline=pipeline: run(pipeline)))  # type: ignore[misc]
                if way == "with":
                    took, rows = add_up(pipeline)
                    files = min(files, took)
                shutil.rmtree(Path(lake.warehouse) / f"{way}_{turn}")
            say(
                f"turn {turn + 1}: with {best['with']:.2f} s, without {best['without']:.2f} s; {rows:,} rows in {files:.2f} s"
            )
    ratios = {"window": best["with"] / best["without"], "files": files / rows * ROWS_COMPARED / SECONDS}
    finish(
        "sums",
        {name: round(ratio, 3) for name, ratio in ratios.items()},
        {"seconds": best, "rows": rows, "microseconds_a_row": round(files / rows * 1e6, 2), "load": load()},
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
