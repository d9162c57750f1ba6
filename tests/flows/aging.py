"""A topic of some days, and lakes that follow it day by day while their old messages and entries leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from dts_assets.model.windows import Window
from tests.flows.harness import Bench, Harness
from tests.flows.short import LANES, item, items
from tests.flows.source import Dml, Message, Source, write_capture
from tests.flows.source_tables import Row

START = datetime(2026, 3, 1, tzinfo=UTC)
EVERY = timedelta(hours=12)
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
DAYS = 8
AGES = {"raw": "2d", "entries": "3d"}
BROKEN_ON, OPEN_ON, WHOLE_ON = 0, 1, 5
"""The days of a message that cannot be decoded, and on which a set begins and is whole.

Between these two the Kafka partition of the set gets nothing else.
"""


def on(day: int, hours: float = 0) -> datetime:
    return START + day * DAY + hours * HOUR


class Days:
    """The days of a table in two Kafka partitions; an entry set of each begins in one day and ends in a later one."""

    def __init__(self) -> None:
        self.source = Source([items()], START, lags=(0.2, 0.3))
        self._numbers = count()
        for day in range(DAYS):
            self._play(day)
        broken = next(one for one in self.source.messages if one.time > on(BROKEN_ON, 6) and one.partition == 1)
        self.messages = [replace(one, value=b"broken") if one is broken else one for one in self.source.messages]

    def of_day(self, day: int) -> list[Message]:
        return [one for one in self.messages if on(day) <= one.time < on(day + 1)]

    def again(self, day: int, at: datetime, *, behind: Sequence[Message]) -> list[Message]:
        """The messages of a day, read again from the binlog and sent behind others."""
        last = {one.partition: one for one in behind}
        found = []
        for number, one in enumerate(self.of_day(day), 1):
            before = last[one.partition]
            sent = replace(one, offset=before.offset + 1, sequence=before.sequence + 1, time=at + number * SECOND)
            last[one.partition] = sent
            found.append(sent)
        return found

    def _rows(self, lane: int, many: int) -> list[tuple[Row | None, Row | None]]:
        mine = (row for row in map(item, self._numbers) if self.source.tables["items"].partition(row, LANES) == lane)
        return [(None, next(mine)) for _ in range(many)]

    def _play(self, day: int) -> None:
        source, table = self.source, self.source.tables["items"]
        lanes = [0] if OPEN_ON < day < WHOLE_ON else list(range(LANES))
        for hour in range(2, 24, 4):
            for lane in lanes:
                source.transaction(on(day, hour), Dml(table, self._rows(lane, 3)))
            old = next(row for row in source.rows["items"].values() if table.partition(row, LANES) == 0)
            source.transaction(on(day, hour + 1), Dml(table, [(old, {**old, "n": day * 24 + hour})]))
            source.checkpoint(on(day, hour + 1) + SECOND, lanes=lanes)
        if day == 0:
            edges = [on(1) - 2 * SECOND, on(1) - SECOND, on(1) + SECOND]
            source.transaction(on(1) - 5 * SECOND, Dml(table, self._rows(0, 12)), split={0: edges})
        if day == OPEN_ON:
            edges = [on(day, 23.9), on(day, 23.95), on(WHOLE_ON, 0.5)]
            source.transaction(on(day, 23.8), Dml(table, self._rows(1, 12)), split={1: edges})


def opened(bench: Bench, capture: Path, name: str, ages: Mapping[str, str] = AGES, **settings: Any) -> Harness:
    window = {"every": EVERY, "start": START, "end": None}
    return bench.open(
        capture, name=name, partitions=LANES, window=window, complete=False, message_retention=ages, **settings
    )


def followed(
    bench: Bench, days: Days, name: str, *, until: int = DAYS, ages: Mapping[str, str] = AGES, by: int = 1
) -> Harness:
    """A lake that was followed up to a day, ``by`` so many days at a time."""
    capture = bench.folder / f"capture_{name}"
    for day in range(until):
        write_capture(capture, days.of_day(day), name=f"day{day}")
        if day % by == by - 1 or day == until - 1:
            harness = opened(bench, capture, name, ages)
            harness.settle()
    return harness


def number_of(window_start: datetime) -> int:
    return (window_start - START) // EVERY


def window(number: int) -> Window:
    return Window(START + number * EVERY, START + (number + 1) * EVERY)


def windows_with_files(harness: Harness, layer: str) -> dict[int, list[int]]:
    """The numbers of the windows of which a layer has files, by Kafka partition."""
    found: dict[int, set[int]] = {lane: set() for lane in range(LANES)}
    for file in harness.pipeline.lake.data_files(harness.pipeline.path(layer)):
        found[file.partition["kafka_partition"]].add(number_of(file.partition["window_start"]))
    return {lane: sorted(some) for lane, some in found.items()}


def files_on_disk(harness: Harness, layer: str) -> set[str]:
    """The paths of all data files of a layer."""
    table = harness.pipeline.lake.table(harness.pipeline.path(layer))
    assert table is not None
    folder = Path(table.location().removeprefix("file://")) / "data"
    return {str(path) for path in folder.rglob("*.parquet")}
