"""A window of 100 MB over a thousand tables that exist already, from raw to snapshots.

``python -m benchmarks.thousand_tables`` prints a table and, as its last line, one JSON object. The first window fills all tables
and is not counted. In the second one a tenth of the tables gets all changes, in the third one all tables get some. All flows run
in a warm session on ``local[2]``: raw, entries, changelogs, snapshots, and the upkeep of a window's close. Figures are wall
seconds; CPU seconds of the whole process tree stand beside them.

- ``some``, ``all``: the seconds of the second and of the third window, by those that are promised: 40 and 150.
- ``some-bytes``, ``all-bytes``: the CPU seconds of these windows by those of a subscription of one table that gets as many bytes
  in a window of its own: what many tables cost beyond their bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from benchmarks import traffic
from benchmarks.command import Options, finish, load, say
from benchmarks.processor_time import cost
from benchmarks.workbench import Workbench, workbench
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.spans import Span

ROWS, PARTITIONS = 5, 2
PROMISED: Mapping[str, float] = {"some": 40.0, "all": 150.0}


def _window(bench: Workbench, pipeline: Pipeline, number: int) -> tuple[float, float]:
    """Make a window from raw to snapshots, and return CPU seconds and wall seconds."""
    window = pipeline.grid.at(number)
    span = Span(tuple(pipeline.kafka_partitions), (window,))

    def make() -> None:
        materialize_raw(pipeline, span, spark=lambda: bench.spark, progress=lambda _: None)
        materialize_entries(pipeline, span, spark=lambda: bench.spark, progress=lambda _: None)
        materialize_tables(pipeline, [window], spark=lambda: bench.spark, progress=lambda _: None)

    return cost(make)


def _windows(
    bench: Workbench, name: str, *, tables: int, size: int, seed: int, later: Sequence[int]
) -> list[tuple[float, float]]:
    """Return CPU and wall seconds of each window of a subscription, the first one included."""
    made = traffic.tables(tables, 15, seed=seed)
    windows = 1 + len(later)
    recording = bench.record(
        name, made, traffic.Shape(ROWS), size=size * windows, seed=seed, partitions=PARTITIONS, windows=windows,
        later=later,
    )  # fmt: skip
    pipeline = bench.pipeline(name, recording)
    spent = []
    for number in range(windows):
        spent.append(_window(bench, pipeline, number))
        say(f"{name}, window {number}: {spent[-1][1]:.1f} s, {spent[-1][0]:.1f} CPU s")
    return spent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("thousand_tables", __doc__)
    options.add_tables(1000)
    options.add_argument("--megabytes", type=float, default=100, help="of each window (default 100)")
    options.add_seed()
    chosen = options.parse_args(arguments)
    size = int(chosen.megabytes * (1 << 20))
    say(f"thousand_tables: {chosen.tables} tables, {chosen.megabytes} MB a window, seed {chosen.seed}")
    with workbench() as bench:
        (_, alone) = _windows(bench, "alone", tables=1, size=size, seed=chosen.seed, later=[1])
        later = [max(1, chosen.tables // 10), chosen.tables]
        (_, some, everything) = _windows(bench, "many", tables=chosen.tables, size=size, seed=chosen.seed, later=later)
    spent = {"alone": alone, "some": some, "all": everything}
    ratios = {name: round(spent[name][1] / seconds, 2) for name, seconds in PROMISED.items()}
    ratios |= {f"{name}-bytes": round(spent[name][0] / alone[0], 2) for name in PROMISED}
    figures = {name: {"cpu": round(cpu, 2), "wall": round(wall, 2)} for name, (cpu, wall) in spent.items()}
    finish("thousand_tables", ratios, {**figures, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
