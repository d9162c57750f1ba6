"""The cost of a backfill of hundreds of small windows, compared with the same bytes as one window.

``python -m benchmarks.backfill`` prints a table and, as its last line, one JSON object. A recording of one Kafka partition is cut
into 1, 200 and 1,000 windows of five minutes (one hour where it is one). Each cut is made by Dagster as a backfill of all its
windows is: one run of raw and entries, one run of the tables, snapshots included, in this process, on an instance as
``dagster_home`` sets it up, with one Spark session for all.

A case is ``200`` or ``1000``. Its ratio is its wall time by that of the one window and 60 ms for each partition of its two runs.
60 ms are what Dagster's bookkeeping of a partition may cost, all its assets and checks together. A ratio above 1 is what small
windows cost beyond it: files, footers, ledger rows, small reads. The figures also hold the wall time of the same flows
called without Dagster (``flows``), what is left for Dagster (``dagster``), both by partition and event (an event is a
materialization, a check evaluation or the plan of one), and ``flows_ratio``, the flows' own time over that of one window, with
nothing taken off. The one window is made twice, before and after the others, and its shorter time is the peer.

The disk and other work on the machine disturb: wall times are what a user waits for.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from benchmarks import traffic
from benchmarks.command import Options, finish, load
from dts_assets.defs.assemble import assemble
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline, lake_location, open_pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.spans import Span
from dts_assets.model.tables import TableId
from dts_assets.settings import load_settings
from dts_assets.store.session import open_session

HOUSE = Path(__file__).parents[1]
CASES = (200, 1000)
ALLOWED = 0.060
"""Seconds that Dagster's bookkeeping of a partition may cost."""

SET_BYTES = 16 << 10
WARM = "warm"


@dataclass(frozen=True, slots=True)
class Ran:
    """Wall seconds of the two runs or of the flows alone, their partitions, and the stored events."""

    ingest: float
    tables: float
    partitions: int
    events: int = 0

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.ingest + self.tables


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder with one configuration of all recordings, and a Dagster instance."""

    config: Path
    instance: dg.DagsterInstance

    def through_dagster(self, name: str) -> Ran:
        """Make a subscription by two runs over all of its windows."""
        pipeline = self.pipeline(name)
        span = _whole(pipeline)
        before = _events(self.instance)
        ingest = _timed(lambda: self._execute(ingest_job_name(name), span_tags(span)))
        tables = _timed(lambda: self._execute(tables_job_name(name), window_tags(span.windows)))
        return Ran(ingest, tables, 2 * len(span.windows), _events(self.instance) - before)

    def flows(self, name: str) -> Ran:
        """Make a subscription by calling the flows."""
        pipeline = self.pipeline(name)
        span = _whole(pipeline)
        session = open_session(pipeline.lake.location)
        how: dict[str, Any] = {"spark": lambda: session, "progress": lambda _: None}

        def ingest() -> None:
            materialize_raw(pipeline, span, **how)
            materialize_entries(pipeline, span, **how)

        return Ran(
            _timed(ingest), _timed(lambda: materialize_tables(pipeline, span.windows, **how)), 2 * len(span.windows)
        )

    def pipeline(self, name: str) -> Pipeline:
        """Open a subscription of the configuration."""
        return open_pipeline(load_settings(self.config), name)

    def _execute(self, job: str, tags: dict[str, str]) -> None:
        definitions = assemble(load_settings(self.config), self.config)  # anew: entries may have found tables
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = definitions.resolve_job_def(job).execute_in_process(
                instance=self.instance, tags=tags, run_config={"loggers": {"progress": {"config": {}}}}
            )
        if not result.success:
            raise SystemExit(f"backfill: {job} failed")


@contextmanager
def bench(tables: int, size: int, seed: int, *, cases: Sequence[int]) -> Iterator[Bench]:
    """All recordings, each twice: for Dagster and, with ``flows_`` before its name, for the flows alone."""
    made = traffic.tables(tables, 15, seed=seed)
    shape = traffic.Shape(rows=20, set_bytes=SET_BYTES)
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as name:
        folder = Path(name)
        subscriptions: dict[str, Any] = {}
        for windows, every in ((1, 60), *((case, 5) for case in cases)):
            length = timedelta(minutes=every)
            traffic.write_capture(
                folder / f"c{windows}", made, shape, size=size, seed=seed, partitions=1, windows=windows, every=length
            )
            names = [f"w{windows}", f"flows_{windows}", *(["again", WARM] if windows == 1 else [])]
            subscriptions |= {one: _subscription(folder / f"c{windows}", windows, every) for one in names}
        config = folder / "pipeline.yaml"
        config.write_text(json.dumps({"lake": {"warehouse": "./lake"}, "subscriptions": subscriptions}))
        home = folder / "home"
        home.mkdir()
        (home / "dagster.yaml").write_text((HOUSE / "dagster_home" / "dagster.yaml").read_text())
        os.environ["DAGSTER_HOME"] = str(home)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield Bench(config, instance)
        open_session(lake_location(load_settings(config))).stop()


def measure(
    tables: int, size: int, seed: int, *, cases: Sequence[int] = CASES
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the ratios and the figures, such as ``({"200": 0.4}, {"tables": 5})``.

    Raises:
        SystemExit: The cuts did not make equal rows.
    """
    with bench(tables, size, seed, cases=cases) as made:
        made.through_dagster(WARM)
        print(
            f"{'windows':>8} {'ingest':>7} {'tables':>7} {'flows':>7} {'events':>7} {'ms/partition':>13}  wall seconds"
        )
        ones = [made.through_dagster("w1")]
        flows = {1: made.flows("flows_1")}
        ran = {}
        for case in cases:
            ran[case], flows[case] = made.through_dagster(f"w{case}"), made.flows(f"flows_{case}")
            print(_line(case, ran[case], flows[case]), flush=True)
        ones.append(made.through_dagster("again"))
        one = min(ones, key=lambda each: each.seconds)
        print(_line(1, one, flows[1]), flush=True)
        if not all(_same(made.pipeline("w1"), made.pipeline(f"w{case}")) for case in cases):
            raise SystemExit("backfill: the cuts did not make the same rows")
    ratios = {
        str(case): round(each.seconds / (one.seconds + ALLOWED * each.partitions), 2) for case, each in ran.items()
    }
    figures = {"megabytes": size >> 20, "tables": tables, "1": _figures(one, flows[1])}
    figures |= {str(case): _figures(each, flows[case]) for case, each in ran.items()}
    figures["flows_ratio"] = {str(case): round(flows[case].seconds / flows[1].seconds, 2) for case in cases}
    figures["load"] = load()
    return ratios, figures


def _subscription(capture: Path, windows: int, every: int) -> dict[str, Any]:
    end = traffic.START + windows * timedelta(minutes=every)
    return {
        "format": "dts-protobuf",
        "source": {"capture": {"path": str(capture), "complete": True}},
        "partitions": 1,
        "window": {"every": f"{every}m", "start": traffic.START.isoformat(), "end": end.isoformat()},
    }


def _whole(pipeline: Pipeline) -> Span:
    end = pipeline.settings.window.end
    assert end is not None
    return Span((0,), tuple(pipeline.grid.until(end)))


def _events(instance: dg.DagsterInstance) -> int:
    """Events stored by all runs."""
    return sum(len(instance.all_logs(run.run_id)) for run in instance.get_runs())


def _same(one: Pipeline, other: Pipeline) -> bool:
    """Return whether all changes were kept and the snapshots hold equal rows.

    Columns that name windows and offsets are left out.
    """
    if known_tables(one).keys() != known_tables(other).keys():
        return False
    if _kept(one) != _kept(other):
        return False
    return all(_rows(one, table).equals(_rows(other, table)) for table in known_tables(one))


def _kept(pipeline: Pipeline) -> Counter[TableId]:
    kept: Counter[TableId] = Counter()
    for row in pipeline.ledger.window_tables():
        kept[row.table] += row.kept
    return kept


def _rows(pipeline: Pipeline, table: TableId) -> pa.Table:
    rows = pipeline.lake.scan(pipeline.table_path("snapshot", table))
    assert rows is not None
    columns = [name for name in rows.column_names if not name.startswith("_")]
    return rows.select(columns).sort_by(columns[0]).combine_chunks()


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _figures(ran: Ran, flows: Ran) -> dict[str, float]:
    dagster = ran.seconds - flows.seconds
    return {
        "wall": round(ran.seconds, 2), "ingest": round(ran.ingest, 2), "tables": round(ran.tables, 2),
        "flows": round(flows.seconds, 2), "dagster": round(dagster, 2), "partitions": ran.partitions, "events": ran.events,
        "wall_ms_per_partition": round(1000 * ran.seconds / ran.partitions, 1),
        "dagster_ms_per_partition": round(1000 * dagster / ran.partitions, 1),
        "dagster_ms_per_event": round(1000 * dagster / ran.events, 1),
    }  # fmt: skip


def _line(windows: int, ran: Ran, flows: Ran) -> str:
    each = 1000 * ran.seconds / ran.partitions
    return f"{windows:>8,} {ran.ingest:7.1f} {ran.tables:7.1f} {flows.seconds:7.1f} {ran.events:>7,} {each:13.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("backfill", __doc__)
    options.add_megabytes(64)
    options.add_tables(5)
    options.add_argument("--windows", type=int, nargs="+", default=CASES, help="of each case (default 200 1000)")
    options.add_seed()
    chosen = options.parse_args(arguments)
    print(f"backfill: {chosen.megabytes} MB, {chosen.tables} tables, seed {chosen.seed}", flush=True)
    ratios, figures = measure(chosen.tables, chosen.megabytes << 20, chosen.seed, cases=chosen.windows)
    for case, ratio in ratios.items():
        print(f"{case} windows: {ratio}x the one window and {1000 * ALLOWED:.0f} ms a partition")
    finish("backfill", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
