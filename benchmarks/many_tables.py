"""The cost of a window in which few of many tables changed, against these few alone.

``python -m benchmarks.many_tables`` prints a table and, as its last line, one JSON object. Two subscriptions get the same amount
of traffic: one of a thousand tables, of which twenty change in the second window, and one of twenty. In both nearly all
tables have changelogs and snapshots from the first window. The flow then makes the second window, in a warm session on
``local[2]``. Costs are CPU seconds of the whole process tree, the least of several windows.

Ratio: the cost with many tables by the cost with few.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import traffic
from benchmarks.command import Options, finish, load, say
from benchmarks.processor_time import cost
from benchmarks.workbench import Workbench, whole, workbench
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables

ROWS, PARTITIONS = 5, 2


def seconds(
    bench: Workbench, name: str, *, tables: int, changing: int, size: int, windows: int, seed: int
) -> tuple[float, float]:
    """CPU seconds of the cheapest window behind the first, and the wall seconds of the quickest."""
    made = traffic.tables(tables, 8, seed=seed)
    recording = bench.record(
        name, made, traffic.Shape(ROWS), size=size, seed=seed, partitions=PARTITIONS, windows=windows, later=changing
    )
    pipeline = bench.pipeline(name, recording)
    materialize_raw(pipeline, whole(pipeline), spark=lambda: bench.spark, progress=lambda _: None)
    materialize_entries(pipeline, whole(pipeline), spark=lambda: bench.spark, progress=lambda _: None)

    def make(number: int) -> None:
        window = pipeline.grid.at(number)
        report = materialize_tables(pipeline, [window], spark=lambda: bench.spark, progress=lambda _: None)
        changed = sum(any(table.changes.values()) for table in report.tables)
        least, most = (changing, changing) if number else (tables * 19 // 20, tables)  # chance passes over a few
        if not least <= changed <= most:
            raise SystemExit(f"many_tables: {changed} tables changed in window {number}, and not {least} to {most}")

    make(0)
    spent = [cost(lambda: make(number)) for number in range(1, windows)]  # noqa: B023  # called here
    return min(one for one, _ in spent), min(wall for _, wall in spent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("many_tables", __doc__)
    options.add_argument("--tables", type=int, default=1000, help="many tables (default 1,000)")
    options.add_argument("--changing", type=int, default=20, help="tables that change in a window (default 20)")
    options.add_argument("--megabytes", type=float, default=8, help="of each window (default 8)")
    options.add_argument("--windows", type=int, default=4, help="windows, with the first one (default 4)")
    options.add_seed()
    chosen = options.parse_args(arguments)
    size = int(chosen.megabytes * chosen.windows * (1 << 20))
    figures = {}
    with workbench() as bench:
        for name, tables in (("few", chosen.changing), ("many", chosen.tables)):
            spent, wall = seconds(
                bench,
                name,
                tables=tables,
                changing=chosen.changing,
                size=size,
                windows=chosen.windows,
                seed=chosen.seed,
            )
            figures[name] = {"cpu": round(spent, 3), "wall": round(wall, 3)}
            say(f"{chosen.changing} of {tables} tables: {spent:.2f} CPU s, {wall:.2f} s")
    ratio = figures["many"]["cpu"] / figures["few"]["cpu"]
    finish("many_tables", {"many": round(ratio, 2)}, {**figures, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
