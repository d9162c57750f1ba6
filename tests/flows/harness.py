"""A subscription under test: its flows called as Dagster and the command call them, and all that they left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from dts_assets.errors.windows import NotReadyError
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import EVERYTHING, Selection
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.reports import EntriesReport, RawReport, TablesReport
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.spans import Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.rectangles import rectangles, window_runs
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store.columns import ROW_SUM
from dts_assets.store.lake import Lake
from tests.flows.carried_sums import sums_that_hold
from tests.flows.history import END, EVERY, PARTITIONS, START, WINDOWS
from tests.flows.lake_tables import tables_in_layers
from tests.flows.source import DATABASE, Change, Contents
from tests.flows.source_tables import Row, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

SYSTEM = (
    "raw_envelopes", "entries", "quarantine", "redeliveries", "lineages", "ddl",
    "raw_windows", "windows", "window_tables", "cuts", "table_shapes",
)  # fmt: skip


@dataclass
class Harness:
    """One subscription over one capture."""

    pipeline: Pipeline
    session: SparkSession
    lines: list[str] = field(default_factory=list)

    def windows(self, *numbers: int) -> tuple[Window, ...]:
        """Windows by number; all of the grid if none is given."""
        grid = self.pipeline.grid
        return tuple(grid.at(number) for number in numbers) if numbers else tuple(grid.until(END))

    def span(self, *numbers: int, partitions: Iterable[int] | None = None) -> Span:
        """Some windows of some Kafka partitions, all of them by default."""
        chosen = self.pipeline.kafka_partitions if partitions is None else partitions
        return Span(tuple(chosen), self.windows(*numbers))

    def raw(self, *numbers: int, partitions: Iterable[int] | None = None) -> RawReport:
        return self.raw_of(self.span(*numbers, partitions=partitions))

    def raw_of(self, span: Span) -> RawReport:
        return materialize_raw(self.pipeline, span, spark=self._spark, progress=self.lines.append)

    def entries(self, *numbers: int, partitions: Iterable[int] | None = None) -> EntriesReport:
        return self.entries_of(self.span(*numbers, partitions=partitions))

    def entries_of(self, span: Span) -> EntriesReport:
        return materialize_entries(self.pipeline, span, spark=self._spark, progress=self.lines.append)

    def tables(self, *numbers: int, selection: Selection = EVERYTHING) -> TablesReport:
        return self.tables_of(self.windows(*numbers), selection=selection)

    def tables_of(self, windows: Sequence[Window], *, selection: Selection = EVERYTHING) -> TablesReport:
        return materialize_tables(
            self.pipeline, windows, selection=selection, spark=self._spark, progress=self.lines.append
        )

    def all(self, *numbers: int) -> None:
        """Everything of some windows, each step once."""
        self.raw(*numbers)
        self.entries(*numbers)
        self.tables(*numbers)

    def settle(self) -> int:
        """Do what is missing or stale until nothing is; how many rounds that took."""
        for rounds in range(20):
            work = find_work(self.pipeline)
            if work.nothing:
                sums_that_hold(self.pipeline)
                tables_in_layers(self.pipeline)
                return rounds
            for span in rectangles(work.ingest):
                self.raw_of(span)
                self.entries_of(span)
            for span in rectangles(work.stale_entries):
                self.entries_of(span)
            if not (work.ingest or work.stale_entries):
                for windows in window_runs(work.tables):
                    self.tables_of(windows)
        raise AssertionError("there is always something left to do")

    def work_at_random(self, random: Random, times: int) -> int:
        """Do a step in a random rectangle so many times; how many were not refused for what they need first."""
        done = 0
        for _ in range(times):
            step = random.choice(("raw", "raw", "entries", "entries", "tables"))
            first, last = sorted(random.choices(range(WINDOWS), k=2))
            numbers = range(first, last + 1)
            low, high = sorted(random.choices(range(PARTITIONS), k=2))
            try:
                match step:
                    case "raw":
                        self.raw(*numbers, partitions=range(low, high + 1))
                    case "entries":
                        self.entries(*numbers, partitions=range(low, high + 1))
                    case _:
                        self.tables(*numbers)
                done += 1
            except NotReadyError:
                pass
        return done

    def rows(self, *path: str) -> list[dict[str, Any]]:
        """All rows of a table by its path under the subscription, without order, and without the parts of a sum.

        Those are told by field ids, which depend on the order of windows; ``sums_that_hold`` judges them.
        """
        found = self.pipeline.lake.scan(self.pipeline.path(*path))
        if found is None:
            return []
        shown = [name for name in found.schema.names if path[0] != "snapshot" or name != ROW_SUM]
        rows: list[dict[str, Any]] = found.select(shown).to_pylist()
        return rows

    def snapshots(self, tables: Mapping[str, Table]) -> Contents:
        """The snapshots as the model holds its rows; deleted rows that stay are left out."""
        contents: Contents = {}
        sums_that_hold(self.pipeline)
        for name, table in tables.items():
            if not table.keys:
                continue
            contents[name] = {}
            for row in self.rows("snapshot", *table_id(name).path):
                if row.get(DELETED_AT) is not None:
                    continue
                shown = {column.name: row.get(_flat(column.name)) for column in table.columns}
                key = table.key(shown)
                assert key not in contents[name], f"{name} has the key {key} twice"
                contents[name][key] = shown
        return contents

    def everything(self, *, without: Collection[str] = ()) -> dict[str, list[str]]:
        """Every row of every table as text, sorted: equal exactly if two lakes hold the same, columns ``without`` apart."""
        paths: list[tuple[str, ...]] = [(name,) for name in SYSTEM]
        for table in known_tables(self.pipeline):
            layers = [layer for layer in self.pipeline.layers if layer.takes(self.pipeline.settings, table)]
            paths += [(layer.name, *table.path) for layer in layers]
        return {
            ".".join(path): sorted(
                _text({name: value for name, value in row.items() if name not in without}) for row in self.rows(*path)
            )
            for path in paths
        }

    def _spark(self) -> SparkSession:
        return self.session


@dataclass
class Bench:
    """Makes subscriptions, each with a name of its own: tests share one catalog."""

    session: SparkSession
    location: LakeLocation
    folder: Path
    prefix: str
    made: int = 0

    def open(self, capture: Path, *, name: str | None = None, **settings: Any) -> Harness:
        """A subscription over a capture; under a ``name`` that was used before, the same lake."""
        if name is None:
            self.made += 1
            name = f"{self.prefix}_{self.made}"
        topics: dict[str, int] = settings.pop("topics", {})
        partitions = settings.setdefault("partitions", sum(topics.values()) or PARTITIONS)
        values = {
            "format": settings.pop("format", "dts-protobuf"),
            "source": {
                "capture": {"path": str(capture), "complete": settings.pop("complete", True), "topics": topics},
                **settings.pop("source", {}),
            },
            "window": {"every": EVERY, "start": START, "end": END, **settings.pop("window", {})},
            **settings,
        }
        subscription = Subscription.model_validate({**values, NAME_KEY: name, FOLDER_KEY: self.folder / name})
        source = CaptureSource(str(capture), partitions, topics=tuple(topics.items()))
        return Harness(Pipeline(subscription, source, Lake(self.location)), self.session)


def table_id(name: str) -> TableId:
    return TableId(DATABASE, "", name)


def changelog_row(table: Table, change: Change) -> dict[str, Any]:
    """A change as its changelog shows it, less what is about absent and invalid values."""
    file, offset = change.position
    return {
        "op": change.operation,
        "before": _image(table, change.before),
        "after": _image(table, change.after),
        "event_time": change.event_time,
        "transaction_id": change.gtid,
        "source_position": {"lineage": 0, "file": file, "position": offset},
        "row_number": change.row_number,
        "kafka_partition": change.partition,
        "kafka_offset": change.last_offset,
        "epoch": 0,
        "window_start": _window_start(change.arrived),
    }


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Changelog rows by source position, then Kafka partition and row number."""
    return sorted(
        rows,
        key=lambda row: (*row["source_position"].values(), row["kafka_partition"], row["row_number"]),
    )


def _window_start(instant: datetime) -> datetime:
    return START + (instant - START) // EVERY * EVERY


def _image(table: Table, row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {column.name: row.get(column.name) for column in table.columns}


def _flat(name: str) -> str:
    return f"_source_{name}" if name == "_event_time" else name


def _text(value: Any) -> str:
    """A value with the keys of its dicts and maps in order: the order of columns says in which order tables were found."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        is_map = all(isinstance(one, tuple) for one in value)
        return "[" + ", ".join(_text(one) for one in (sorted(value) if is_map else value)) + "]"
    return repr(value)


def settle_open(harness: Harness, *, rounds: int) -> None:
    """Refresh until nothing is missing or stale, of the open window too."""
    for _ in range(rounds):
        work = find_work(harness.pipeline)
        if work.nothing and not work.live:
            return
        refresh(harness)
    raise AssertionError(f"there is always something left to do: {work}")


def refresh(harness: Harness) -> None:
    """What the sensors ask for at one moment, each once."""
    work = find_work(harness.pipeline)
    for span in (*rectangles(work.ingest), *rectangles(work.live)):
        harness.raw_of(span)
        harness.entries_of(span)
    for span in rectangles(work.stale_entries):
        harness.entries_of(span)
    for windows in find_work(harness.pipeline).tables_runs():
        harness.tables_of(windows)
