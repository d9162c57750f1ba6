"""The age of a lake: the cost of a look after three years of windows.

Planning and ledger are measured alone.

``python -m benchmarks.age`` prints a table and, as its last line, one JSON object. A lake gets the marks of a topic with 64 Kafka
partitions and hourly windows. All days but the last two are settled by the folds that settle days, each day as one window, and
the files of all but the last three hold one row each: a look that opened one of them would go wrong and not only be slow. The
last three days and the day of now are whole, and settled by the product.

- ``tick``: what a sensor does: it opens the subscription, finds the work and forms the requests.
- ``refresh``: what a refresh of the open window does beside Spark: it finds the work twice, reads what raw, entries and tables
  are planned on, writes their marks, and looks whether another day is settled. Snapshots are not part of it.
- ``load``: a fresh process loads the definitions. The peer is the same with a grid that begins today.

``tick_ids`` and ``refresh_ids`` are the same of a topic whose messages carry ids (Huawei DRS in JSON-C).

Ratios of ``tick`` and ``refresh`` are their processor seconds (the median of several) by one second, that of ``load`` is its
wall time by the peer's. ``figures`` has the seconds of each turn, and of the ``first`` tick of a process, whose
ledger has read nothing yet.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.command import Options, finish, load, say
from benchmarks.regular_topic import RegularTopic, cells_of, entries_mark_of, entries_mark_with_ids, raw_mark_of
from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import EVERYTHING
from dts_assets.flows.looks import forget, raw_marks
from dts_assets.flows.pipeline import Pipeline, lake_location
from dts_assets.flows.settling import settle_days
from dts_assets.flows.tables_plan import plan_tables
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import Cut, IngestWindow, LedgerRow, RawWindow, SettledDay
from dts_assets.model.tables import TableId
from dts_assets.model.turns import NOBODY
from dts_assets.model.windows import ClosedBy, Window, WindowGrid, day_of, start_of_day
from dts_assets.planning.copied_tables import NO_COPIES
from dts_assets.planning.cuts import frontier, window_cut
from dts_assets.planning.proofs import prove_behind
from dts_assets.planning.settled_days import LATEST_PASTS, day_key, with_days
from dts_assets.planning.settled_ids import ids_after
from dts_assets.planning.settled_past import NO_PAST, Past, past_after
from dts_assets.planning.ticks import Cursor, ingest_tick, tables_tick
from dts_assets.planning.topic_lineages import find_lineages
from dts_assets.settings import load_settings
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry
from dts_assets.store.rows import to_arrow
from dts_assets.store.schemas import SYSTEM_TABLES

HOUSE = Path(__file__).resolve().parent.parent
WHOLE_DAYS = 3
TABLES = 20
CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: {format}
    source: {{kafka: {{bootstrap_servers: "nowhere:9092", topics: [shop], group_id: shop}}}}
    partitions: {partitions}
    window: {{every: 1h, start: "{start:%Y-%m-%dT%H:%MZ}", live: true}}
    tables: {{include: ["shopdb.*"]}}
"""


@dataclass
class Aged:
    """A lake of some days, and the topic that it follows."""

    config: Path
    topic: RegularTopic
    with_ids: bool = False

    def open(self) -> Pipeline:
        """Open the subscription, as each tick does."""
        settings = load_settings(self.config)
        return Pipeline(settings.subscriptions["shop"], self.topic, Lake(lake_location(settings)))


def configuration(partitions: int, start: datetime, *, with_ids: bool) -> str:
    """Return the text of the configuration file."""
    name = "drs-json-c" if with_ids else "dts-protobuf"
    return CONFIGURATION.format(partitions=partitions, start=start, format=name)


def make_lake(folder: Path, *, days: int, partitions: int, with_ids: bool = False) -> Aged:
    """Make a lake whose last window is open, and settle all of its days."""
    today = start_of_day(day_of(datetime.now(UTC)))
    start = today - timedelta(days=days)
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "pipeline.yaml"
    config.write_text(configuration(partitions, start, with_ids=with_ids))
    topic = RegularTopic(WindowGrid(timedelta(hours=1), start), partitions, today + timedelta(hours=12, minutes=30))
    aged = Aged(config, topic, with_ids)
    pipeline = aged.open()
    pipeline.check_shape()
    pipeline.first_window()
    _register(pipeline)
    old = range(day_of(start), max(day_of(start), day_of(today) - WHOLE_DAYS + 1))
    settled = _fold_days(aged, pipeline, old)
    _write_first_rows(aged, pipeline, old[:-1])
    _write_whole_days(aged, pipeline, range(old[-1], day_of(today) + 1), settled)
    _store_settled(pipeline, settled)
    settle_days(pipeline, say)
    return aged


def entries_of(aged: Aged, raw: RawWindow, *, decoding: str) -> IngestWindow:
    """Return the mark of entries that belongs to a mark of raw."""
    made = entries_mark_with_ids if aged.with_ids else entries_mark_of
    return made(aged.topic, raw, decoding=decoding)


def tick(aged: Aged) -> None:
    """Do what both sensors do but for asking Dagster which runs there are."""
    work = find_work(aged.open())
    assert not ingest_tick(Cursor(), work.without_live).requests
    assert not tables_tick(work)


def refresh(aged: Aged) -> None:
    """Do what a refresh of the open window does beside Spark."""
    pipeline = aged.open()
    aged.topic.clock += timedelta(minutes=1)
    work = find_work(pipeline)
    (window,) = {cell.window for cell in work.live}
    known = raw_marks(pipeline).behind_settled([window])
    assert known
    raw = [raw_mark_of(aged.topic, cell, closed_by=ClosedBy.OPEN) for cell in cells_of(aged.topic, [window])]
    pipeline.ledger.replace_raw_windows([row.cell for row in raw], raw)
    raw_marks(pipeline).behind_settled([window])
    pipeline.ledger.windows([window])
    entries = [entries_of(aged, row, decoding=pipeline.decoding_settings()) for row in raw]
    pipeline.ledger.replace_windows([row.cell for row in entries], entries)
    (ready,) = find_work(pipeline).tables
    plan = plan_tables(pipeline, [ready], EVERYTHING, NOBODY, lambda line: None)
    cuts = {start: window_cut(row) for start, row in plan.stored.items()}
    frontier(cuts, pipeline.grid, first=pipeline.first_window(), behind=plan.history.past.frontier)
    pipeline.ledger.replace_cuts([ready], plan.marks)
    settle_days(pipeline, lambda line: None)


def _register(pipeline: Pipeline) -> None:
    columns = tuple(RegisteredColumn(f"column_{number}", "int", "int", number == 0) for number in range(15))
    tables = [RegisteredTable(TableId("shopdb", "", f"table_{number}"), columns) for number in range(TABLES)]
    merge_registry(pipeline.settings.registry_path, tables, lake=pipeline.lake.identity(pipeline.name))


def _fold_days(aged: Aged, pipeline: Pipeline, days: Iterable[int]) -> dict[int, Past]:
    """Return the past behind each day, of whose rows the ledger gets few."""
    past, found = NO_PAST, dict[int, Past]()
    for day in days:
        windows = _windows(aged.topic.grid, day)
        rows = _rows_of(aged, pipeline, [Window(windows[0].start, windows[-1].end)])
        synced = {row.window.start: row.checkpoint_gtid_set for row in rows}
        _, proven = prove_behind(
            past.proofs, rows, kafka_partitions=aged.topic.partitions, synced=synced, trust_gtids=True
        )
        until, last = start_of_day(day + 1), windows[-1].start
        if aged.with_ids:
            history = pipeline.topic_marks(rows, [], copied=NO_COPIES, past=past).history
            ids = ids_after(past.ids, rows, until=until, seen=history.ids, comparisons=[])
            assert ids is not None, "no id falls"
            past = Past(
                until, proofs=proven, frontier=Frontier(last, last, None), lineages=history.lineages.all, ids=ids
            )
        else:
            behind = Frontier(last, None, min(row.checkpoints[0].position for row in rows))
            lineages = find_lineages([*past.rows, *rows], trust_gtids=True)
            past = past_after(past, rows, until=until, proofs=proven, frontier=behind, lineages=lineages)
        found[day] = past
    return found


def _rows_of(aged: Aged, pipeline: Pipeline, windows: Sequence[Window]) -> list[IngestWindow]:
    decoding = pipeline.decoding_settings()
    return [
        entries_of(aged, raw_mark_of(aged.topic, cell), decoding=decoding) for cell in cells_of(aged.topic, windows)
    ]


def _write_first_rows(aged: Aged, pipeline: Pipeline, days: Sequence[int]) -> None:
    """Write one row of each table for each day."""
    first = [_windows(aged.topic.grid, day)[0] for day in days]
    raw = [raw_mark_of(aged.topic, cell) for cell in cells_of(aged.topic, first) if cell.kafka_partition == 0]
    entries = [entries_of(aged, row, decoding=pipeline.decoding_settings()) for row in raw]
    _write_days(pipeline, "raw_windows", days, raw)
    _write_days(pipeline, "windows", days, entries)
    _write_days(pipeline, "cuts", days, _cuts_of(pipeline, entries, NO_PAST, NO_PAST))


def _store_settled(pipeline: Pipeline, pasts: Mapping[int, Past]) -> None:
    """Store days as settled, by the files that the ledger has of them."""
    files, settings = pipeline.ledger.marks_by_day().files, pipeline.judging_settings()
    first, settled = min(pasts), list[SettledDay]()
    for day, past in pasts.items():
        began = max(day - 1, first)
        before = pasts[began - 1].digest if began - 1 in pasts else ""
        key = day_key(day, files, refers_to={began, day}, before=before, settings=settings)
        stored = past.to_bytes() if max(pasts) - day < LATEST_PASTS else None
        settled.append(SettledDay(day, began, tuple(sorted({began, day})), "", key, past.digest, stored))
    pipeline.ledger.change_settled_days(lambda rows: with_days(rows, settled))


def _write_whole_days(aged: Aged, pipeline: Pipeline, days: Sequence[int], pasts: Mapping[int, Past]) -> None:
    """Write all marks of some days, those of the open window among them.

    The first day is settled already.
    """
    rows: list[IngestWindow] = []
    past = pasts[days[0] - 1]
    for day in days:
        windows = [window for window in _windows(aged.topic.grid, day) if window.start <= aged.topic.clock]
        closed = {window: ClosedBy.MESSAGE if window.end <= aged.topic.clock else ClosedBy.OPEN for window in windows}
        raw = [raw_mark_of(aged.topic, cell, closed_by=closed[cell.window]) for cell in cells_of(aged.topic, windows)]
        mine = [entries_of(aged, row, decoding=pipeline.decoding_settings()) for row in raw]
        rows += mine
        judged = past if day == days[0] else pasts[days[0]]
        cuts = [row for row in _cuts_of(pipeline, rows, past, judged) if row.window in closed]
        pipeline.ledger.replace_raw_windows([row.cell for row in raw], raw)
        pipeline.ledger.replace_windows([row.cell for row in mine], mine)
        pipeline.ledger.replace_cuts(windows, cuts)


def _cuts_of(pipeline: Pipeline, rows: Sequence[IngestWindow], past: Past, judged: Past) -> list[Cut]:
    topic = pipeline.topic_marks(rows, (), copied=NO_COPIES, past=past, judged=judged)
    windows = {row.window for row in rows if row.window.start in topic.proofs}
    return [topic.mark(window) for window in sorted(windows)]


def _write_days(pipeline: Pipeline, name: str, days: Sequence[int], rows: Sequence[LedgerRow]) -> None:
    """Write a file of one row for each day, all in one commit."""
    if not days:
        return
    path = pipeline.path(name)
    pipeline.lake.ensure(path, SYSTEM_TABLES[name])
    target = pipeline.lake.target(path, "old")
    table = to_arrow(rows, target.arrow_schema)
    with TableWriter(target) as writer:
        for place, day in enumerate(days):
            (batch,) = table.slice(place, 1).combine_chunks().to_batches()
            writer.write_partition((day,), batch)
        pipeline.lake.replace(path, {"window_start_day": set(days)}, writer.close(), base=())


def _windows(grid: WindowGrid, day: int) -> list[Window]:
    return list(grid.until(start_of_day(day + 1), since=start_of_day(day)))


def measure(way: Callable[[], None], turns: int) -> list[float]:
    """Return the processor seconds of each turn."""
    found = []
    for _ in range(turns):
        began = time.process_time()
        way()
        found.append(round(time.process_time() - began, 3))
    return found


def load_definitions(config: Path, turns: int) -> float:
    """Return the least wall seconds in which a fresh process loads the definitions."""
    environment = {**os.environ, "DTS_ASSETS_CONFIG": str(config), "DAGSTER_HOME": str(config.parent)}
    command = [sys.executable, "-W", "ignore", "-c", "import dts_assets.definitions as d; d.defs.get_repository_def()"]
    found = []
    for _ in range(turns):
        began = time.perf_counter()
        subprocess.run(command, cwd=HOUSE, env=environment, check=True, capture_output=True)
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> int:
    """Run the command."""
    options = Options("age", __doc__)
    options.add_argument("--days", type=int, default=1_095, help="default 1095")
    options.add_argument("--partitions", type=int, default=64, help="Kafka partitions (default 64)")
    options.add_turns(5)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        measured = {}
        for name, with_ids in (("", False), ("_ids", True)):
            began = time.perf_counter()
            where = Path(folder) / f"aged{name}"
            aged = make_lake(where, days=chosen.days, partitions=chosen.partitions, with_ids=with_ids)
            took = time.perf_counter() - began
            said = "with ids" if with_ids else "with GTIDs"
            say(f"age: {chosen.days} days of {chosen.partitions} Kafka partitions {said}, made in {took:.0f} s")
            forget()
            measured[f"tick{name}"] = measure(partial(tick, aged), chosen.turns + 1)
            measured[f"refresh{name}"] = measure(partial(refresh, aged), chosen.turns)
        young = Path(folder) / "young" / "pipeline.yaml"
        young.parent.mkdir()
        start = start_of_day(day_of(datetime.now(UTC)))
        young.write_text(configuration(chosen.partitions, start, with_ids=False))
        old = Path(folder) / "aged" / "pipeline.yaml"
        aged_load, young_load = (load_definitions(one, min(3, chosen.turns)) for one in (old, young))
    firsts = {f"first_{name}": turns.pop(0) for name, turns in measured.items() if name.startswith("tick")}
    ratios = {name: round(statistics.median(turns), 3) for name, turns in measured.items()}
    ratios["load"] = round(aged_load / young_load, 3)
    figures = {
        **firsts, **measured, "load": round(aged_load, 2), "load_without_windows": round(young_load, 2),
        "machine_load": load(),
    }  # fmt: skip
    for name in measured:
        first = f", the first {firsts[f'first_{name}']:.2f} s" if name.startswith("tick") else ""
        say(f"{name:>12} {ratios[name]:6.2f} s{first}")
    say(f"{'load':>12} {ratios['load']:6.2f}x of {young_load:.2f} s without windows")
    finish("age", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
