"""A made-up source whose table changes in each of three windows, in ways that statements tell and that they do not."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import BIGINT, INT, TEXT, Field, Kind, Table

WINDOWS = 3


class Worked:
    """A source whose table changes in each window, and the positions at which that happens."""

    def __init__(self) -> None:
        self.table = Table("items", [Field("id", INT, True), Field("n", INT)])
        self.source: Source = short_source(self.table)
        self.rows = 0
        self.places: dict[str, tuple[int, int]] = {}
        for window in range(WINDOWS):
            self._work(window)

    def _work(self, window: int) -> None:
        start = border(window)
        self.insert(f"rows {window}", start + SECOND)
        if window == 0:
            self.change("add", start + 10 * SECOND, "ALTER TABLE items ADD late TEXT", "late", TEXT)
        elif window == 1:  # no parser knows the word, and the server had it for a type
            self.change("strange", start + 10 * SECOND, "ALTER TABLE items MODIFY n BIGINT FROBNICATE", "n", BIGINT)
        else:
            self.change("again", start + 10 * SECOND, "ALTER TABLE items ADD c INT", "c", INT)
        self.insert(f"new rows {window}", start + 60 * SECOND)
        self.source.checkpoint(start + 300 * SECOND)

    def change(self, name: str, at: datetime, sql: str, column: str, kind: Kind) -> None:
        self.places[name] = self.source.transaction(at, Ddl(sql))
        kept = [one for one in self.table.columns if one.name != column]
        place = next((n for n, one in enumerate(self.table.columns) if one.name == column), len(kept))
        self.table.columns[:] = [*kept[:place], Field(column, kind), *kept[place:]]
        for key, row in self.source.rows["items"].items():
            self.source.rows["items"][key] = {column: None, **row}

    def insert(self, name: str, at: datetime) -> None:
        row = {one.name: None for one in self.table.columns}
        self.rows += 1
        self.places[name] = self.source.transaction(at, Dml(self.table, [(None, {**row, "id": self.rows})]))


def opened(worked: Worked, folder: Path, name: str, *order: int) -> Harness:
    harness = open_short(
        bench_in_process(folder, name), folder / f"capture_{name}", worked.source.messages, windows=WINDOWS
    )
    for window in order:
        harness.all(window)
    return harness
