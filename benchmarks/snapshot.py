"""Changes taken over into a snapshot, compared with Iceberg's own MERGE in Spark.

``python -m benchmarks.snapshot`` prints a table and, as its last line, one JSON object. Changelogs of made-up changes are written
straight into a lake. Then the flow brings the snapshot to the frontier, in a warm session on ``local[2]``. Costs are CPU seconds
of the whole process tree, the JVM's among them, and bytes of the files that came.

- ``many``: 1.5 million changes of an empty table. Ratios: the CPU seconds of a plain Spark job (a window over
  each key, then MERGE) by ours, and ours by the promised ones (``many-seconds``).
- ``few``, ``few-uuid``: 10,000 changes with random keys of a table that stands there. Ratios: the CPU seconds of MERGE,
  copy-on-write (``cow``) and merge-on-read (``mor``), and of writing the table anew (``rewrite``), each by ours.
- ``grown``: the CPU seconds of such a refresh on a table of ten times the rows, by those on the smaller one.
- ``history-many``, ``history-few``: the CPU seconds of the same changes taken over into a history, by those of the snapshot.

The rows of all ways are compared at the end of each case.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.command import Options, finish, load, say
from benchmarks.processor_time import cost
from benchmarks.traffic import START
from benchmarks.workbench import Recording, Workbench, workbench
from dts_assets.flows.layers import HISTORY, SNAPSHOT, Layer, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshots import advance_rows
from dts_assets.flows.tables_plan import MARKED
from dts_assets.flows.turns import tables_turn
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.store.columns import changelog_columns
from dts_assets.store.files import TableWriter
from dts_assets.store.schemas import changelog_layout
from dts_assets.store.write_targets import write_target

TABLE = TableId("shopdb", "", "orders")
HOUR = timedelta(hours=1)
VALUES = 8
MANY_SECONDS = 4.0
"""The CPU seconds that are promised for the case ``many``."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A table under test: its subscription, and whether its keys are UUIDs as text."""

    bench: Workbench
    pipeline: Pipeline
    texts: bool
    table: TableId = TABLE

    @property
    def columns(self) -> tuple[Column, ...]:
        """A key and some values of three types."""
        kinds = ("string", "bigint", "timestamp_ntz")
        key = Column("id", "string" if self.texts else "bigint", is_key=True)
        return (key, *(Column(f"v{n}", kinds[n % 3], is_key=False) for n in range(VALUES)))

    def add_window(self, number: int, keys: Any, operations: Any, *, seed: int) -> None:
        """Write a window of the changelog, one change for each key in order, and its counts."""
        self.write_window(number, keys, operations, seed=seed)
        with tables_turn(self.pipeline, lambda _: None) as turn:
            self.pipeline.ledger.enter_turn(MARKED, turn)
            rows = [self.counts(number, len(keys))]
            self.pipeline.ledger.replace_window_tables([self.pipeline.grid.at(number)], rows, turn=turn)

    def write_window(self, number: int, keys: Any, operations: Any, *, seed: int) -> None:
        """Write a window of the changelog: one change for each key, in order."""
        lake, path = self.pipeline.lake, self.pipeline.table_path("changelog", self.table)
        lake.ensure(path, changelog_layout(self.table, self.columns))
        lake.evolve(path, changelog_columns(self.columns))
        start = START + number * HOUR
        target = write_target(lake.catalog.load_table(lake.identifier(path)), f"w{number}")
        with TableWriter(target) as writer:
            for first in range(0, len(keys), 100_000):
                some = slice(first, first + 100_000)
                writer.write(_changes(self, number, first, keys[some], operations[some], start, seed))
            files = writer.close()
        lake.replace(path, {"window_start": {start}}, files)

    def counts(self, number: int, changes: int) -> WindowTable:
        """Return the ledger's row of the table in a window."""
        place = [SourcePosition(0, number + 1, position) for position in (0, changes - 1)]
        return WindowTable(
            kafka_partition=0, window_start=START + number * HOUR, table=self.table, changes=changes, kept=changes, redelivered=0,
            quarantined=0, truncations=0, quarantined_entries=0, row_hash=0, absent_rows=0, invalid_values=0,
            invalid_columns=(), partial_moves=0, first_position=place[0], last_position=place[1],
        )  # fmt: skip

    def refresh(self, number: int, layer: Layer = SNAPSHOT) -> None:
        """Bring the snapshot or the history to the end of a window.

        Raises:
            SystemExit: It failed.
        """
        start = START + number * HOUR
        with tables_turn(self.pipeline, lambda _: None) as turn:
            self.pipeline.ledger.enter_turn(MARKED, turn)
            work = LayerWork(
                self.pipeline, {self.table: self.columns}, (self.pipeline.grid.at(number),), Frontier(start, start, None),
                {}, turn, lambda: self.bench.spark, lambda _: None,
            )  # fmt: skip
            (outcome,) = advance_rows(work, layer).values()
        if outcome.fault is not None:
            raise SystemExit(f"{layer.name}: the table failed: {outcome.fault.reason}")

    @property
    def name(self) -> str:
        """The snapshot's name in Spark SQL."""
        return self.pipeline.lake.spark_name(self.pipeline.table_path("snapshot", self.table))

    @property
    def changelog(self) -> str:
        """The changelog's name in Spark SQL."""
        return self.pipeline.lake.spark_name(self.pipeline.table_path("changelog", self.table))

    def files(self) -> dict[Path, int]:
        """All files of rows and deletes of the snapshot with their bytes, those of old versions among them."""
        folder = Path(self.bench.lake.warehouse).joinpath(*self.pipeline.table_path("snapshot", self.table), "data")
        return {file: file.stat().st_size for file in folder.rglob("*.parquet")}

    def bytes(self) -> int:
        """Bytes of all files of the snapshot that are still there."""
        return sum(self.files().values())


def _changes(
    subject: Subject, number: int, first: int, keys: Any, operations: Any, start: datetime, seed: int
) -> pa.RecordBatch:
    chance, count = np.random.default_rng([seed, number, first]), len(keys)
    columns = subject.columns
    key = pa.array([f"{one:032x}" for one in keys.astype(object) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)]) \
        if subject.texts else pa.array(keys)  # fmt: skip
    texts = pa.array([f"text {one}" for one in range(1000)])
    values = [
        texts.take(pa.array(chance.integers(0, 1000, count))) if column.type == "string"
        else pa.array(chance.integers(0, 1 << 40, count)) if column.type == "bigint"
        else pa.array(chance.integers(0, 1 << 50, count)).cast(pa.timestamp("us"))
        for column in columns[1:]
    ]  # fmt: skip
    image = pa.StructArray.from_arrays([key, *values], names=[column.name for column in columns])
    gone, new = operations == 2, operations == 0
    nothing = pa.scalar(None, image.type)
    positions = np.arange(first, first + count)
    zeros = np.zeros(count, np.int32)
    at = pa.repeat(pa.scalar(start, pa.timestamp("us", "UTC")), count)
    place = [pa.array(zeros), pa.array(np.full(count, number + 1)), pa.array(positions)]
    return pa.RecordBatch.from_pydict(
        {
            "op": pa.array(["insert", "update", "delete"]).take(pa.array(operations)),
            "before": pc.if_else(pa.array(new), nothing, image), "after": pc.if_else(pa.array(gone), nothing, image),
            "absent": pa.array([[]] * count, pa.list_(pa.string())),
            "invalid": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
            "event_time": at, "transaction_id": pa.nulls(count, pa.string()),
            "source_position": pa.StructArray.from_arrays(place, names=["lineage", "file", "position"]),
            "row_number": pa.array(zeros), "kafka_partition": pa.array(zeros), "kafka_offset": pa.array(positions),
            "epoch": pa.array(zeros), "window_start": at,
        }
    )  # fmt: skip


_LAST = (
    "SELECT after.*, op, {key} AS __key FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY source_position DESC, "
    "row_number DESC) AS __n FROM {changelog} WHERE window_start = timestamp '{start}') WHERE __n = 1"
)


def _merge(subject: Subject, twin: str, number: int) -> None:
    """Take a window over by Iceberg's MERGE."""
    spark = subject.bench.spark
    start = (START + number * HOUR).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    source = _LAST.format(key="coalesce(after.id, before.id)", changelog=subject.changelog, start=start)
    names = [column.name for column in subject.columns]
    sets = ", ".join(f"target.{name} = source.{name}" for name in names)
    spark.sql(
        f"MERGE INTO {twin} AS target USING ({source}) AS source ON target.id = source.__key "
        f"WHEN MATCHED AND source.op = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND source.op <> 'delete' THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(f'source.{name}' for name in names)})"
    )


def plain_twin(subject: Subject, name: str, mode: str, *, empty: bool) -> str:
    """Make a plain Iceberg table with the snapshot's rows."""
    twin = f"lake.peers.{name}"
    spark = subject.bench.spark
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.peers")
    names = ", ".join(column.name for column in subject.columns)
    modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
    where = "WHERE false" if empty else ""
    spark.sql(
        f"CREATE TABLE {twin} USING iceberg TBLPROPERTIES ('format-version' = '2', {modes}) AS "
        f"SELECT {names} FROM {subject.name} {where}"
    )
    return twin


def _same(subject: Subject, twin: str) -> None:
    """Compare the snapshot with a twin, row for row.

    Raises:
        SystemExit: They differ.
    """
    names = ", ".join(column.name for column in subject.columns)
    spark = subject.bench.spark
    ours, theirs = f"SELECT {names} FROM {subject.name}", f"SELECT {names} FROM {twin}"
    for one, other in ((ours, theirs), (theirs, ours)):
        if spark.sql(f"({one}) EXCEPT ALL ({other})").limit(1).count():
            raise SystemExit(f"snapshot: {twin} holds other rows")


def _same_history(subject: Subject) -> None:
    """Compare the open versions of the history with the snapshot's rows.

    Raises:
        SystemExit: They differ.
    """
    lake = subject.pipeline.lake
    history = lake.spark_name(subject.pipeline.table_path("history", TABLE))
    subject.bench.spark.sql(f"SELECT * FROM {history} WHERE _valid_to IS NULL").createOrReplaceTempView("present")
    _same(subject, "present")


def subject_of(bench: Workbench, name: str, *, texts: bool) -> Subject:
    """Return a table under test in a subscription of its own."""
    recording = Recording(bench.folder / "none", 1, 2000, 0)
    recording.folder.mkdir(exist_ok=True)
    return Subject(bench, bench.pipeline(name, recording), texts)


def many(bench: Workbench, *, changes: int, seed: int) -> dict[str, float]:
    """Many changes of an empty table: CPU seconds of ours and of plain Spark, once each, warm."""
    chance = np.random.default_rng(seed)
    for name, count in (("warm", changes * 2 // 5), ("many", changes)):  # the warm-up is shared out to tasks, too
        subject = subject_of(bench, f"s_{name}", texts=False)
        keys = np.concatenate([chance.permutation(count // 3 * 2), chance.integers(0, count // 3 * 2, count // 3)])
        operations = np.where(np.arange(len(keys)) < count // 3 * 2, 0, chance.choice([1, 1, 1, 2], len(keys)))
        subject.add_window(0, np.zeros(1, np.int64) - 1, np.full(1, 2), seed=seed)  # a delete: tables without a row
        for layer in (SNAPSHOT, HISTORY):
            subject.refresh(0, layer)
        twin = plain_twin(subject, name, "copy-on-write", empty=False)
        subject.add_window(1, keys, operations, seed=seed)
        ours, wall = cost(lambda: subject.refresh(1))  # noqa: B023  # called here
        history, _ = cost(lambda: subject.refresh(1, HISTORY))  # noqa: B023  # called here
        theirs, _ = cost(lambda: _merge(subject, twin, 1))  # noqa: B023  # called here
        _same(subject, twin)
        _same_history(subject)
    return {"ours": ours, "wall": wall, "history": history, "spark": theirs}


def few(
    bench: Workbench, name: str, *, rows: int, changes: int, commits: int, texts: bool, seed: int
) -> dict[str, float]:
    """Few changes with random keys of a large table: the mean cost of a commit but the first."""
    chance = np.random.default_rng(seed)
    subject = subject_of(bench, f"s_{name}", texts=texts)
    subject.add_window(0, np.arange(rows), np.zeros(rows, np.int64), seed=seed)
    for layer in (SNAPSHOT, HISTORY):
        subject.refresh(0, layer)
    twins = {
        mode: plain_twin(subject, f"{name}_{mode[:4]}", mode, empty=False)
        for mode in ("copy-on-write", "merge-on-read")
    }
    spent: dict[str, list[float]] = {"ours": [], "wall": [], "bytes": [], "history": [], **{mode: [] for mode in twins}}
    for number in range(1, commits + 2):
        subject.add_window(number, chance.choice(rows, changes, replace=False), np.ones(changes, np.int64), seed=seed)
        before = subject.bytes()
        ours, wall = cost(lambda: subject.refresh(number))  # noqa: B023  # called here
        written = subject.bytes() - before
        history, _ = cost(lambda: subject.refresh(number, HISTORY))  # noqa: B023  # called here
        theirs = {
            mode: cost(lambda: _merge(subject, twin, number))[0]  # noqa: B023  # called here
            for mode, twin in twins.items()
            if number <= 3
        }
        if number > 1:
            found = {"ours": ours, "wall": wall, "bytes": written, "history": history, **theirs}
            for key, value in found.items():
                spent[key].append(value)
        if number == 3:
            for twin in twins.values():
                _same(subject, twin)
            _same_history(subject)
    names = ", ".join(column.name for column in subject.columns)
    sql = f"CREATE TABLE lake.peers.{name}_anew USING iceberg AS SELECT {names} FROM {subject.name}"
    anew, _ = cost(lambda: bench.spark.sql(sql))
    return {**{key: float(np.mean(values)) for key, values in spent.items() if values}, "rewrite": anew}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("snapshot", __doc__)
    options.add_argument("--changes", type=int, default=1_500_000, help="of the case many (default 1,500,000)")
    options.add_argument("--rows", type=int, default=1_000_000, help="of the smaller table (default 1,000,000)")
    options.add_argument(
        "--times", type=int, default=10, help="the larger table by the smaller one (default 10; 1: no larger)"
    )
    options.add_argument("--commits", type=int, default=5, help="refreshes of each table (default 5)")
    options.add_seed()
    chosen = options.parse_args(arguments)
    say(f"snapshot: {chosen.changes:,} changes, tables of {chosen.rows:,} rows and more, seed {chosen.seed}")
    figures: dict[str, Any] = {}
    with workbench() as bench:
        figures["many"] = many(bench, changes=chosen.changes, seed=chosen.seed)
        say(f"many: {_line(figures['many'])}")
        for texts in (False, True):
            for factor in (1, chosen.times) if chosen.times > 1 else (1,):
                name = f"few{'_uuid' if texts else ''}{'' if factor == 1 else f'_{factor}x'}"
                figures[name] = few(
                    bench, name, rows=chosen.rows * factor, changes=min(10_000, chosen.rows // 10),
                    commits=chosen.commits if factor == 1 else 2,
                    texts=texts, seed=chosen.seed,
                )  # fmt: skip
                say(f"{name}: {_line(figures[name])}")
    ratios = {
        "many": round(figures["many"]["spark"] / figures["many"]["ours"], 2),
        "many-seconds": round(figures["many"]["ours"] / MANY_SECONDS, 2),
        "history-many": round(figures["many"]["history"] / figures["many"]["ours"], 2),
        "history-few": round(figures["few"]["history"] / figures["few"]["ours"], 2),
    }
    for kind in ("", "_uuid"):
        small = figures[f"few{kind}"]
        case = f"few{kind.replace('_', '-')}"
        ratios |= {
            f"{case}-cow": round(small["copy-on-write"] / small["ours"], 2),
            f"{case}-mor": round(small["merge-on-read"] / small["ours"], 2),
            f"{case}-rewrite": round(small["rewrite"] / small["ours"], 2),
        }
        if chosen.times > 1:
            large = figures[f"few{kind}_{chosen.times}x"]
            ratios[f"grown{kind.replace('_', '-')}"] = round(large["ours"] / small["ours"], 2)
    figures["load"] = load()
    finish("snapshot", ratios, figures)
    return 0


def _line(spent: dict[str, float]) -> str:
    shown = {key: f"{value / 1e6:.1f} MB" if key == "bytes" else f"{value:.2f} s" for key, value in spent.items()}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


if __name__ == "__main__":
    sys.exit(main())
