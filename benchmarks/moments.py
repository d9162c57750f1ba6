"""A table as of a transaction between two stored versions, compared with reading a stored version.

``python -m benchmarks.moments`` prints its figures and, as its last line, one JSON object. A changelog of made-up changes, with
its entries and marks, is written straight into a lake; the flow makes a version behind each of two windows. The second
window changes one row in a hundred. Then the table is made as of a transaction in the middle of these changes, in this
process and without Spark, and read. Costs are CPU seconds.

- ``between``: finding the transaction, making the table and reading it, by reading the version before it with the same reader,
  that of ``dts_assets.lake``.
- ``pyiceberg``: the same where pyiceberg itself reads both.
- ``made``: the same without reading it.
- ``plan``: finding the transaction and saying what the table costs, by the promised second.
- ``back``: making the table where only the version behind the transaction is left, by making it from its whole changelog.

DuckDB compares the rows with those that the changelog tells, in a query of its own.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.command import Options, finish, least_in_turns, load, processor_seconds, say
from benchmarks.snapshot import HOUR, TABLE, Subject
from benchmarks.traffic import START
from benchmarks.workbench import Recording, Workbench
from dts_assets.flows.known_tables import register_shapes
from dts_assets.flows.lake_shapes import stored_shapes
from dts_assets.flows.layers import SNAPSHOT, LayerWork
from dts_assets.flows.moment_costs import costs_of
from dts_assets.flows.moments import make_tables, plan_moment
from dts_assets.flows.snapshots import advance_rows
from dts_assets.flows.tables_plan import MARKED
from dts_assets.flows.this_process import this_process
from dts_assets.flows.turns import tables_turn
from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, RawWindow, TableShapeRow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.runs import Run, ServerRange
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.source_moments import AtGtid, AtWindow
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.files import TableWriter
from dts_assets.store.schemas import ENTRIES
from dts_assets.store.table_reader import read_rows

PLAN_SECONDS = 1.0
"""The CPU seconds that are promised for planning."""

_SERVER = "0-1"
SOURCE_TYPES = {"bigint": "bigint(20)", "string": "varchar(64)", "timestamp_ntz": "datetime(6)"}


@dataclass(frozen=True, slots=True)
class Dated(Subject):
    """A table whose windows have marks as runs write them, and a GTID for each later change."""

    def refresh_to(self, number: int) -> None:
        """Make the snapshot's version at the cut of a window, and mark the window.

        Raises:
            SystemExit: It failed.
        """
        pipeline, window = self.pipeline, self.pipeline.grid.at(number)
        cut = SourcePosition(0, number + 1, 1 << 40)
        with tables_turn(pipeline, lambda _: None) as turn:
            pipeline.ledger.enter_turn(MARKED, turn)
            work = LayerWork(
                pipeline, {TABLE: self.columns}, (window,), Frontier(window.start, None, cut), {}, turn, this_process,
                lambda _: None,
            )  # fmt: skip
            (outcome,) = advance_rows(work, SNAPSHOT).values()
            if outcome.fault is not None:
                raise SystemExit(f"the table failed: {outcome.fault.reason}")
            row = Cut(window, cut, None, Consistency.CUT, Completeness.PROVEN, (), "g", (), CODE_VERSION)
            pipeline.ledger.replace_cuts([window], [row], turn=turn)

    def describe(self) -> None:
        """Write the marks of the first window, and the table's columns."""
        self.mark(0, 0)
        shapes = tuple(ColumnShape(one.name, SOURCE_TYPES[one.type], one.is_key) for one in self.columns)
        row = TableShapeRow(0, START, self.table, shapes, ServerPosition(1, 0), CODE_VERSION)
        self.pipeline.ledger.replace_table_shapes([Cell(0, self.pipeline.grid.at(0))], [row])
        register_shapes(self.pipeline, stored_shapes(self.pipeline.ledger.table_shapes()))

    def commit_each(self, number: int, changes: int) -> None:
        """Write the entries of a window, each of whose changes is a transaction of its own."""
        lake, path = self.pipeline.lake, self.pipeline.path("entries")
        lake.ensure(path, ENTRIES)
        start = START + number * HOUR
        target = lake.target(path, f"w{number}")
        offsets = np.arange(changes)
        told: dict[str, Any] = {
            "kafka_partition": pa.array(np.zeros(changes, np.int32)), "window_start": _always(start, changes),
            "epoch": pa.array(np.zeros(changes, np.int32)), "first_offset": pa.array(offsets), "last_offset": pa.array(offsets),
            "message_type": pa.array(["COMMIT"] * changes), "event_time": _always(start, changes),
            "gtid": pa.array([f"{_SERVER}-{one}" for one in range(changes)]), "shard": pa.array([""] * changes),
            "file_name": pa.array([f"mysql-bin.{number + 1:06}"] * changes), "position": pa.array(offsets),
        }  # fmt: skip
        columns = [
            told[one.name].cast(one.type) if one.name in told else pa.nulls(changes, one.type)
            for one in target.arrow_schema
        ]
        with TableWriter(target) as writer:
            whole = pa.RecordBatch.from_arrays(columns, schema=target.arrow_schema)
            for first in range(0, changes, 50_000):
                writer.write(whole.slice(first, 50_000))
            lake.replace(path, {"window_start": {start}}, writer.close())
        self.mark(number, changes)

    def version_before(self, folder: Path) -> Any:
        """Return the table as of the first window."""
        found = make_tables(self.pipeline, plan_moment(self.pipeline, AtWindow(START)), folder)
        return found.tables[TABLE]

    def mark(self, number: int, changes: int) -> None:
        """Write the marks of raw messages and entries of a window in the one Kafka partition."""
        window = self.pipeline.grid.at(number)
        cell, offsets, end = Cell(0, window), OffsetRange(0, changes), window.start + HOUR - timedelta(seconds=1)
        first, last = (SourcePosition(0, number + 1, place) for place in (0, max(0, changes - 1)))
        servers = (ServerRange(_SERVER, 0, changes - 1),)
        run = Run(
            "", 0, changes - 1, first, last, window.start, end, 1, f"{_SERVER}-0", True, servers, False, 0
        )  # fmt: skip
        raw = RawWindow(
            0, window, 0, offsets, ClosedBy.MESSAGE, changes, 0, None, None, (), "g", CODE_VERSION, ()
        )  # fmt: skip
        row = IngestWindow(
            0, window, 0, offsets, Counts(), last, None, (), ClosedBy.MESSAGE, Completeness.PROVEN, (), CODE_VERSION, "g", (),
            runs=(run,) if changes else (),
        )  # fmt: skip
        self.pipeline.ledger.replace_raw_windows([cell], [raw])
        self.pipeline.ledger.replace_windows([cell], [row])


def _always(value: Any, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.timestamp("us", "UTC")), count)


def subject_in(folder: Path, *, rows: int, changes: int, seed: int) -> Dated:
    """Return a table with two versions, of which the later one has some random changes more."""
    lake = LakeLocation(str(folder / "lake"))
    open_catalog(lake)
    bench = Workbench(folder, lake, None)
    recording = Recording(folder / "none", 1, 2000, 0)
    recording.folder.mkdir()
    subject = Dated(bench, bench.pipeline("moments", recording), texts=False)
    chance = np.random.default_rng(seed)
    subject.add_window(0, np.arange(rows), np.zeros(rows, np.int64), seed=seed)
    subject.describe()
    subject.pipeline._lake_shape.remember_first_window(START)
    subject.refresh_to(0)
    keys = chance.choice(rows, changes, replace=False)
    subject.add_window(1, keys, chance.choice([1, 1, 1, 2], changes), seed=seed)
    subject.commit_each(1, changes)
    subject.refresh_to(1)
    return subject


def count_rows(batches: pa.RecordBatchReader) -> int:
    """Read all rows, a part at a time, and return their number."""
    return sum(batch.num_rows for batch in batches)


def measure(subject: Dated, folder: Path, *, changes: int, turns: int) -> dict[str, float]:
    """Return CPU seconds, each the least of some turns.

    Raises:
        SystemExit: The rows are not those of the changelog.
    """
    pipeline, moment = subject.pipeline, AtGtid(f"{_SERVER}-{changes // 2}")
    stored = pipeline.lake.table(pipeline.table_path("snapshot", TABLE))
    assert stored is not None
    before = stored.snapshots()[0].snapshot_id
    first = subject.version_before(folder / "before")
    places, made = iter(range(10**6)), dict[str, Any]()

    def plan() -> object:
        found = plan_moment(pipeline, moment)
        return found, costs_of(pipeline, found)

    def make() -> Any:
        place = folder / f"moment_{next(places)}"
        found = make_tables(pipeline, plan_moment(pipeline, moment), place)
        made["last"] = found.tables[TABLE]
        if found.begun != {TABLE: before}:
            raise SystemExit("moments: the table did not begin as the version before the transaction")
        return made["last"]

    ways = {
        "plan": plan,
        "made": make,
        "read": lambda: count_rows(read_rows(first)),
        "between": lambda: count_rows(read_rows(make())),
        "pyiceberg-read": lambda: count_rows(first.scan().to_arrow_batch_reader()),
        "pyiceberg": lambda: count_rows(make().scan().to_arrow_batch_reader()),
    }
    spent = least_in_turns(ways, turns)
    _require_rows(subject, made["last"], changes // 2)
    found = plan_moment(pipeline, moment)
    (cost,) = costs_of(pipeline, found).values()
    stored.maintenance.expire_snapshots().by_id(before).commit()

    def make_without_it(*, from_nothing: bool) -> None:
        plan, place = plan_moment(pipeline, moment), folder / f"moment_{next(places)}"
        if not plan.begins:
            raise SystemExit("moments: the table does not go back from the version behind the transaction")
        made["last"] = make_tables(pipeline, replace(plan, begins={}) if from_nothing else plan, place).tables[TABLE]

    later = {
        "nothing": lambda: make_without_it(from_nothing=True),
        "back": lambda: make_without_it(from_nothing=False),
    }
    spent |= least_in_turns(later, turns)
    _require_rows(subject, made["last"], changes // 2)
    return {**spent, "changes": cost.changes, "bytes": cost.bytes}


def _require_rows(subject: Dated, table: Any, last: int) -> None:
    """Compare the rows of a moment with those that the changelog tells up to a change.

    Raises:
        SystemExit: They differ.
    """
    pipeline = subject.pipeline
    path = pipeline.table_path("changelog", TABLE)
    by_window = [
        [
            one.path.removeprefix("file://")
            for one in pipeline.lake.data_files(path, {"window_start": {START + n * HOUR}})
        ]
        for n in (0, 1)
    ]
    names = [column.name for column in subject.columns]
    images = ", ".join(f"image.{name} AS {name}" for name in names)
    digest = f"SELECT count(*), sum(hash({', '.join(names)})::HUGEINT) FROM"
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '2GB'")
        held = f"(SELECT * FROM read_parquet({by_window[1]}) WHERE source_position.position <= {last})"
        kept = f"(SELECT after AS image FROM read_parquet({by_window[0]}) WHERE after.id NOT IN "
        wanted = connection.sql(
            f"{digest} (SELECT {images} FROM {kept} (SELECT coalesce(after.id, before.id) FROM {held})) "
            f"UNION ALL SELECT {images} FROM (SELECT after AS image FROM {held} WHERE op <> 'delete'))"
        ).fetchall()
        connection.register("made", table.scan(selected_fields=tuple(names)).to_arrow_batch_reader())
        found = connection.sql(f"{digest} made").fetchall()
    if wanted != found:
        raise SystemExit(f"moments: the table has other rows than its changelog: {found}, not {wanted}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("moments", __doc__)
    options.add_argument("--rows", type=int, default=10_000_000, help="of the table (default 10,000,000)")
    options.add_argument(
        "--share", type=float, default=0.01, help="of rows that change between two versions (default 0.01)"
    )
    options.add_turns(3)
    options.add_seed()
    chosen = options.parse_args(arguments)
    changes = max(2, int(chosen.rows * chosen.share))
    say(f"moments: {chosen.rows:,} rows, {changes:,} changes between two versions, seed {chosen.seed}")
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        built: dict[str, Dated] = {}

        def build() -> None:
            built["subject"] = subject_in(Path(folder), rows=chosen.rows, changes=changes, seed=chosen.seed)

        took = processor_seconds(build)
        say(f"both versions were made in {took:.1f} CPU seconds")
        spent = measure(built["subject"], Path(folder), changes=changes, turns=chosen.turns)
    ratios: Mapping[str, float] = {
        "between": round(spent["between"] / spent["read"], 2),
        "pyiceberg": round(spent["pyiceberg"] / spent["pyiceberg-read"], 2),
        "made": round(spent["made"] / spent["read"], 2),
        "plan": round(spent["plan"] / PLAN_SECONDS, 2),
        "back": round(spent["back"] / spent["nothing"], 2),
    }
    ways_shown = ("read", "made", "between", "pyiceberg-read", "pyiceberg", "plan", "back", "nothing")
    shown = {name: f"{spent[name]:.2f} s" for name in ways_shown}
    say(", ".join(f"{name} {value}" for name, value in shown.items()))
    finish("moments", ratios, {**spent, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
