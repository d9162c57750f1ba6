"""Short streams for tests of one thing: a single small table in two Kafka partitions, every message in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.flows.harness import Bench, Harness
from tests.flows.history import EVERY, border
from tests.flows.source import Dml, Message, Source, write_capture
from tests.flows.source_tables import INT, TEXT, Field, Row, Table

LANES = 2
SECOND = timedelta(seconds=1)


def items(name: str = "items") -> Table:
    return Table(name, [Field("id", INT, True), Field("n", INT), Field("note", TEXT)])


def item(number: int, n: int | None = 0, note: str | None = None) -> Row:
    return {"id": number, "n": n, "note": note}


def short_source(*tables: Table) -> Source:
    return Source(tables or (items(),), border(0), lags=(0.2, 0.3))


def insert(source: Source, at: datetime, numbers: Iterable[int], *, table: str = "items", n: int = 0) -> None:
    source.transaction(at, Dml(source.tables[table], [(None, item(number, n)) for number in numbers]))


def update(source: Source, at: datetime, changed: Mapping[int, int], *, table: str = "items") -> None:
    """New values of ``n`` by number."""
    rows = source.rows[table]
    source.transaction(
        at, Dml(source.tables[table], [(rows[number,], {**rows[number,], "n": n}) for number, n in changed.items()])
    )


def move(source: Source, at: datetime, moved: Mapping[int, int], *, table: str = "items") -> None:
    """New numbers by old ones."""
    rows = source.rows[table]
    source.transaction(
        at, Dml(source.tables[table], [(rows[one,], {**rows[one,], "id": other}) for one, other in moved.items()])
    )


def delete(source: Source, at: datetime, numbers: Iterable[int], *, table: str = "items") -> None:
    rows = source.rows[table]
    source.transaction(at, Dml(source.tables[table], [(rows[number,], None) for number in numbers]))


def three_windows(*tables: Table) -> Source:
    """Rows come, change, move and go in each of three windows, with a CHECKPOINT at the end of each."""
    source = short_source(*tables)
    for name in source.tables:
        insert(source, border(0) + 10 * SECOND, range(10), table=name)
    for name in source.tables:
        update(source, border(0) + 60 * SECOND, {number: 1 for number in range(5)}, table=name)
    source.checkpoint(border(0) + 500 * SECOND)
    for name in source.tables:
        insert(source, border(1) + 60 * SECOND, range(10, 20), table=name)
    for name in source.tables:
        update(source, border(1) + 70 * SECOND, {number: 2 for number in (1, 3, 8, 11, 12)}, table=name)
        delete(source, border(1) + 80 * SECOND, (0, 9, 13), table=name)
        move(source, border(1) + 90 * SECOND, {5: 105, 6: 106, 14: 5}, table=name)
    source.checkpoint(border(1) + 500 * SECOND)
    for name in source.tables:
        update(source, border(2) + 30 * SECOND, {2: 3, 11: 3, 105: 3}, table=name)
        insert(source, border(2) + 40 * SECOND, (0, 30), table=name, n=9)
    source.checkpoint(border(2) + 500 * SECOND)
    return source


def open_short(
    bench: Bench, folder: Path, messages: Iterable[Message], *, windows: int = 3, **settings: Any
) -> Harness:
    """A subscription over messages, in a grid of as many windows."""
    write_capture(folder, messages)
    window = {"end": border(windows), **settings.pop("window", {})}
    return bench.open(folder, partitions=LANES, window=window, **settings)


def with_values(messages: Iterable[Message], values: Mapping[tuple[int, int], bytes | None]) -> list[Message]:
    """The messages, with other values at some (partition, offset)."""
    return [
        replace(one, value=values[one.partition, one.offset]) if (one.partition, one.offset) in values else one
        for one in messages
    ]


def in_window(message: Message, number: int) -> bool:
    return border(number) <= message.time < border(number) + EVERY
