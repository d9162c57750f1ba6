"""Readers of changelogs beside a live pipeline: one with pyiceberg, one a stream of Spark, as docs/following-a-changelog.md says.

Their promise: whatever is appended, made again, put together or forgotten, their copies have the rows of the changelogs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.model.tables import TableId
from dts_assets.store.session import open_session
from dts_emulator.live.live_stack import WORKLOAD, LiveOptions, LiveStack, live_stack
from examples.changelog_follower import REPLACED_WINDOWS, step_from
from tests.live.soak import CATCH_UP, wait_for_first_tables
from tests.live.verdict import catch_up, source_end, wrong

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

_STREAMED = 2
"""Tables that Spark follows; each run of a stream costs a job for every commit."""

_PAUSED_FOR = (3.0, 20.0)
"""Seconds; a table that goes on is made again in the windows that lack it."""

_BETWEEN_PAUSES = (20.0, 60.0)

Identity: TypeAlias = tuple[Any, ...]


def _plain(value: Any) -> Any:
    """A value without what another reader or an older schema shows otherwise: zones, columns that are NULL."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in sorted(value.items()) if one is not None}
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass
class Copy:
    """A copy of a changelog: its rows as text by their identity, for each window."""

    windows: dict[datetime, dict[Identity, str]] = field(default_factory=dict)
    twice: int = 0
    """Rows that came although they were there."""

    def add(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            there = self.windows.setdefault(row["window_start"].astimezone(UTC), {})
            place = row["source_position"]
            identity = (
                *(place[name] for name in ("lineage", "file", "position")),
                row["kafka_partition"],
                row["row_number"],
            )
            self.twice += identity in there
            there[identity] = str(_plain(row))

    def unlike(self, rows: pa.Table) -> str | None:
        """How the copy differs from the rows of the changelog, None if it does not."""
        stored = Copy()
        stored.add(rows)
        starts = self.windows.keys() | stored.windows.keys()
        for start in sorted(starts):
            mine, its = self.windows.get(start, {}), stored.windows.get(start, {})
            if mine != its:
                other = sum(mine[key] != its[key] for key in mine.keys() & its.keys())
                return f"{start:%H:%M}: {len(mine.keys() - its)} too many, {len(its.keys() - mine)} missing, {other} differ"
        return None


@dataclass
class ByPyiceberg:
    """A reader that asks for the step from its version to the present one."""

    stack: LiveStack
    table: TableId
    copy: Copy = field(default_factory=Copy)
    version: int | None = None
    replaced: int = 0
    begun: int = 0

    @property
    def changelog(self) -> Table | None:
        pipeline = self.stack.pipeline
        return pipeline.lake.table(pipeline.table_path("changelog", self.table))

    def stored(self) -> pa.Table | None:
        changelog = self.changelog
        return None if changelog is None else changelog.scan().to_arrow()

    def follow(self) -> None:
        changelog = self.changelog
        if changelog is None:
            return
        step = step_from(changelog, self.version)
        if step.replaced is None:
            self.copy, self.begun = Copy(twice=self.copy.twice), self.begun + 1
        for start in step.replaced or ():
            self.replaced += self.copy.windows.pop(start, None) is not None
        self.copy.add(step.rows)
        self.version = step.version


@dataclass
class BySpark:
    """A stream that passes over windows that are made again, and a batch that reads them."""

    session: SparkSession
    name: str
    checkpoint: Path
    copy: Copy = field(default_factory=Copy)
    handled: set[int] = field(default_factory=set)
    replaced: int = 0

    def stored(self) -> pa.Table:
        return self.session.table(self.name).toArrow()

    def follow(self) -> None:
        # Noted before the stream runs: then it has passed all of them when their windows are read.
        told = self.session.table(f"{self.name}.snapshots").filter("operation = 'overwrite'").collect()
        stream = (
            self.session.readStream.format("iceberg")
            .option("streaming-skip-overwrite-snapshots", "true")
            .load(self.name)
        )
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: self.copy.add(rows.toArrow()))
            .option("checkpointLocation", str(self.checkpoint))
            .start()
        )
        query.processAllAvailable()
        query.stop()
        new = [row for row in told if row["snapshot_id"] not in self.handled]
        for start in {one for row in new for one in row["summary"][REPLACED_WINDOWS].split(",")}:
            self.replaced += self.copy.windows.pop(datetime.fromisoformat(start), None) is not None
            self.copy.add(self.session.table(self.name).filter(f"window_start = timestamp '{start}'").toArrow())
        self.handled.update(row["snapshot_id"] for row in new)


@dataclass(slots=True)
class Followed:
    """What the readers have seen, and all that is wrong."""

    rounds: int = 0
    rows: int = 0
    replaced: dict[str, int] = field(default_factory=dict)
    """Windows of their copies that readers removed and read again, by reader."""
    begun: int = 0
    """How often a reader had to begin anew, the first time of each table among them."""
    wrong: list[str] = field(default_factory=list)


@contextmanager
def _session(stack: LiveStack) -> Iterator[SparkSession]:
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "1"}
    session = open_session(stack.pipeline.lake.location, conf, master="local[1]", name="follower")
    try:
        yield session
    finally:
        session.stop()


class _Pauses:
    """Now and then a person pauses a table for a while, so that its windows are made again."""

    def __init__(self, stack: LiveStack, random: Random, say: Callable[[str], None]) -> None:
        self._stack, self._random, self._say = stack, random, say
        self._table: TableId | None = None
        self._next = time.monotonic()

    def go_on(self) -> None:
        if time.monotonic() < self._next:
            return
        pipeline = self._stack.pipeline
        if self._table is None:
            self._table = self._random.choice(sorted(known_tables(pipeline)))
            paused_by_person(pipeline, [self._table], reason="asked for")
            self._next = time.monotonic() + self._random.uniform(*_PAUSED_FOR)
            return
        resume_tables(pipeline, [self._table])
        self._say(f"{self._table} was paused and goes on")
        self._table, self._next = None, time.monotonic() + self._random.uniform(*_BETWEEN_PAUSES)

    def end(self) -> None:
        if self._table is not None:
            resume_tables(self._stack.pipeline, [self._table])


def live_with_followers(options: LiveOptions, *, seconds: float, say: Callable[[str], None]) -> Followed:
    """Let readers follow the changelogs of a live pipeline for so long; compare their copies once all is at rest."""
    random, found = Random(options.seed), Followed()
    with live_stack(options, say=say) as stack, _session(stack) as session:
        wait_for_first_tables(stack)
        by_pyiceberg: dict[TableId, ByPyiceberg] = {}
        by_spark: dict[TableId, BySpark] = {}

        def follow() -> None:
            for table in sorted(known_tables(stack.pipeline)):
                by_pyiceberg.setdefault(table, ByPyiceberg(stack, table)).follow()
            # The first ones stay: a table that comes later takes nobody's place, whatever its name.
            for table in [one for one, reader in by_pyiceberg.items() if reader.version is not None]:
                if len(by_spark) < _STREAMED and table not in by_spark:
                    name = stack.pipeline.lake.spark_name(stack.pipeline.table_path("changelog", table))
                    by_spark[table] = BySpark(session, name, options.folder / "checkpoints" / table.table)
            for stream in by_spark.values():
                stream.follow()
            found.rounds += 1

        pauses, end, said = _Pauses(stack, random, say), time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            stack.check()
            follow()
            pauses.go_on()
            if time.monotonic() - said > 30:
                said = time.monotonic()
                say(f"{found.rounds} rounds, {_rows(by_pyiceberg):,} rows followed")
            stack.wait_until(lambda: False, seconds=random.uniform(0, 6))
        pauses.end()
        stack.supervisor.stop(WORKLOAD)
        last = source_end(stack, options.folder / "dumps" / "end")
        late = catch_up(stack, last, seconds=CATCH_UP)
        found.wrong += [*late, *wrong(stack, options.folder / "dumps", end=None if late else last)]
        follow()
        found.rows = _rows(by_pyiceberg)
        found.begun = sum(one.begun for one in by_pyiceberg.values())
        found.wrong += _unlike("pyiceberg", by_pyiceberg) + _unlike("spark", by_spark)
        found.wrong += [f"{table} came twice" for table, one in by_pyiceberg.items() if one.copy.twice]
        for name, readers in (("pyiceberg", by_pyiceberg), ("spark", by_spark)):
            found.replaced[name] = sum(one.replaced for one in readers.values())
    return found


def _rows(readers: Mapping[TableId, ByPyiceberg]) -> int:
    return sum(len(rows) for one in readers.values() for rows in one.copy.windows.values())


def _unlike(name: str, readers: Mapping[TableId, ByPyiceberg] | Mapping[TableId, BySpark]) -> list[str]:
    found = []
    for table, reader in readers.items():
        stored = reader.stored()
        different = None if stored is None else reader.copy.unlike(stored)
        found += [f"the copy of {table} by {name} differs: {different}"] if different else []
    return found


def report(found: Followed) -> list[str]:
    """What was found, in lines for a person."""
    replaced = ", ".join(f"{count} by {name}" for name, count in found.replaced.items())
    return [
        f"{found.rows:,} rows followed in {found.rounds} rounds; copies were begun {found.begun} times",
        f"windows that readers removed and read again: {replaced}",
        *(found.wrong or ["every copy has the rows of its changelog, every snapshot equals the database"]),
    ]
