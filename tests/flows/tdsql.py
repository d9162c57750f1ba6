"""A TDSQL of several sets: servers of their own with parts of the same tables, whose messages share the Kafka partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from tests.flows.history import border
from tests.flows.short import SECOND, short_source
from tests.flows.source import Ddl, Dml, Message, Source
from tests.flows.source_tables import Field, Table

NAMES = ("set_1", "set_2", "set_3")


class Sets:
    """Several sets, each a :class:`Source` with tables of its own. ``files`` are the numbers of their first binlog files."""

    def __init__(
        self, make: Callable[[], Sequence[Table]], *, names: Sequence[str] = NAMES, files: Sequence[int] = (9, 3, 12)
    ) -> None:
        self.of = {name: short_source(*make()) for name in names}
        for source, number in zip(self.of.values(), files, strict=False):
            source._file = number

    def put(self, name: str, window: int, second: float, table: str, *rows: dict[str, Any]) -> None:
        """Insert rows in one set; columns that a row lacks are NULL."""
        source = self.of[name]
        there = source.tables[table]
        whole = [{one.name: row.get(one.name) for one in there.columns} for row in rows]
        source.transaction(border(window) + second * SECOND, Dml(there, [(None, row) for row in whole]))

    def say(self, name: str, window: int, second: float, sql: str) -> None:
        """Send a statement from one set; the rows that it changes there are the test's business."""
        self.of[name].transaction(border(window) + second * SECOND, Ddl(sql))

    def truncate(self, name: str, window: int, second: float, table: str) -> None:
        self.say(name, window, second, f"TRUNCATE TABLE {table}")
        self.of[name].rows[table].clear()

    def alter(self, name: str, window: int, second: float, table: str, clause: str, columns: Iterable[Field]) -> None:
        """Alter a table in one set; what its rows become is the test's business."""
        self.say(name, window, second, f"ALTER TABLE {table} {clause}")
        self.of[name].tables[table].columns[:] = columns

    def checkpoint(self, window: int, second: float = 500) -> None:
        for source in self.of.values():
            source.checkpoint(border(window) + second * SECOND)

    @property
    def messages(self) -> list[Message]:
        """The messages of all sets in the order of their times, with one numbering in each Kafka partition."""
        told = [
            replace(one, source_set=name) for name, source in self.of.items() for one in source.messages
        ]  # fmt: skip
        offsets = dict[int, int]()
        found = []
        for one in sorted(told, key=attrgetter("time")):
            offset = offsets.setdefault(one.partition, 7)
            offsets[one.partition] += 1
            found.append(replace(one, offset=offset))
        return found


def at(window: int, second: float) -> datetime:
    """A second of a window."""
    return border(window) + second * SECOND


__all__ = ["NAMES", "Sets", "Source", "at"]
