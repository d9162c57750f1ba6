"""The cost of a window in which few of many tables changed, against these few alone.

``python -m benchmarks.many_tables`` prints a table and, as its last line, one JSON object. Two subscriptions get the same amount
of traffic: one of a thousand tables, of which twenty change in the second window, and one of twenty. In both nearly all
tables have changelogs and snapshots from the first window. The flow then makes later windows, of both in turns, in a warm
session on ``local[2]``. Costs are CPU seconds of the whole process tree, the least of several windows.

Ratio: the cost with many tables by the cost with few.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from benchmarks import traffic
from benchmarks.command import Options, finish, load, say
from benchmarks.processor_time import cost
from benchmarks.workbench import Workbench, whole, workbench
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables

ROWS, PARTITIONS = 5, 2


def prepared(
    bench: Workbench, name: str, *, tables: int, changing: int, size: int, windows: int, seed: int
) -> Callable[[int], None]:
    """Make the first window of a subscription, and return the function that makes a later one.

    Raises:
        SystemExit: Other tables changed than there should.
    """
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
    return make


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("many_tables", __doc__)
    options.add_argument("--tables", type=int, default=1000, help="many tables (default 1,000)")
    options.add_argument("--changing", type=int, default=20, help="tables that change in a window (default 20)")
    options.add_argument("--megabytes", type=float, default=8, help="of each window (default 8)")
    options.add_argument("--windows", type=int, default=6, help="windows, with the first one (default 6)")
    options.add_seed()
    chosen = options.parse_args(arguments)
    size = int(chosen.megabytes * chosen.windows * (1 << 20))
    spent: dict[str, list[tuple[float, float]]] = {"few": [], "many": []}
    with workbench() as bench:
        make = {
            name: prepared(
                bench,
                name,
                tables=tables,
                changing=chosen.changing,
                size=size,
                windows=chosen.windows,
                seed=chosen.seed,
            )
            for name, tables in (("few", chosen.changing), ("many", chosen.tables))
        }
        for number in range(1, chosen.windows):
            for name in spent:
                spent[name].append(cost(lambda: make[name](number)))  # noqa: B023  # called here
            told = ", ".join(f"{name} {some[-1][0]:.2f} CPU s, {some[-1][1]:.2f} s" for name, some in spent.items())
            say(f"window {number}: {told}")
    figures = {
        name: {"cpu": round(min(cpu for cpu, _ in some), 3), "wall": round(min(wall for _, wall in some), 3)}
        for name, some in spent.items()
    }
    ratio = figures["many"]["cpu"] / figures["few"]["cpu"]
    finish("many_tables", {"many": round(ratio, 2)}, {**figures, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
