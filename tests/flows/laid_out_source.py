"""A made-up source whose table has a column of which a layout is made, and statements that change that column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dts_assets.model.tables import TableId
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import BIGINT, BLOB, DATE, DOUBLE, INT, MONEY, TEXT, WALL_CLOCK, Field, Kind, Row, Table

ITEMS = table_id("items")
Made = Callable[[Any], Any]


class LaidOut:
    """A table of items with a column ``c`` of some kind, and another one."""

    def __init__(self, kind: Kind) -> None:
        self.table = Table("items", [Field("id", INT, True), Field("c", kind), Field("o", INT)])
        self.source: Source = short_source(self.table)
        self.second = 0

    def at(self, window: int) -> datetime:
        self.second += 1
        return border(window) + self.second * SECOND

    def put(self, window: int, **row: Any) -> None:
        """Insert a row, or update the one with its id."""
        full = {one.name: None for one in self.table.columns} | row
        before = self.source.rows["items"].get((row["id"],))
        self.source.transaction(self.at(window), Dml(self.table, [(before, full)]))

    def modify(self, window: int, name: str, sql: str, kind: Kind, made: Made) -> None:
        self._alter(
            window,
            f"MODIFY {name} {sql}",
            [(one.name, kind if one.name == name else one.kind) for one in self.table.columns],
        )
        self._each(lambda row: {**row, name: None if row[name] is None else made(row[name])})

    def change(self, window: int, name: str, new: str, sql: str, kind: Kind, made: Made) -> None:
        columns = [(new, kind) if one.name == name else (one.name, one.kind) for one in self.table.columns]
        self._alter(window, f"CHANGE {name} {new} {sql}", columns)
        self._each(
            lambda row: {
                new if one == name else one: made(value) if one == name and value is not None else value
                for one, value in row.items()
            }
        )

    def rekeyed(self) -> None:
        """Let rows be found by the values that their key has now."""
        rows = self.source.rows["items"]
        self.source.rows["items"] = {(row["id"],): row for row in rows.values()}

    def remove(self, window: int, number: Any) -> None:
        self.source.transaction(self.at(window), Dml(self.table, [(self.source.rows["items"][number,], None)]))

    def rename(self, window: int, **names: str) -> None:
        pairs = ", ".join(f"RENAME COLUMN {old} TO {new}" for old, new in names.items())
        self._alter(window, pairs, [(names.get(one.name, one.name), one.kind) for one in self.table.columns])
        self._each(lambda row: {names.get(name, name): value for name, value in row.items()})

    def drop(self, window: int, name: str) -> None:
        self._alter(window, f"DROP {name}", [(one.name, one.kind) for one in self.table.columns if one.name != name])
        self._each(lambda row: {one: value for one, value in row.items() if one != name})

    def add(self, window: int, name: str, sql: str, kind: Kind) -> None:
        self._alter(window, f"ADD {name} {sql}", [*((one.name, one.kind) for one in self.table.columns), (name, kind)])
        self._each(lambda row: {**row, name: None})

    def end(self, window: int) -> None:
        self.source.checkpoint(border(window) + 500 * SECOND)

    @property
    def rows(self) -> list[Row]:
        return sorted(self.source.rows["items"].values(), key=lambda row: str(row["id"]))

    def _alter(self, window: int, sql: str, columns: Sequence[tuple[str, Kind]]) -> None:
        self.source.transaction(self.at(window), Ddl(f"ALTER TABLE items {sql}"))
        self.table.columns[:] = [Field(name, kind, name == "id") for name, kind in columns]

    def _each(self, made: Callable[[Row], Row]) -> None:
        rows = self.source.rows["items"]
        for key, row in rows.items():
            rows[key] = made(row)


@dataclass(frozen=True)
class Conversion:
    """A statement that converts the column: both kinds, values of each, and what the server makes of the former ones."""

    kind: Kind
    values: Sequence[Any]
    sql: str
    becomes: Kind
    made: Made
    later: Sequence[Any]

    def source(self) -> LaidOut:
        """Rows before and behind the statement, which comes in the second of three windows."""
        laid = LaidOut(self.kind)
        for number, value in enumerate(self.values):
            laid.put(0, id=number, c=value, o=number)
        laid.end(0)
        laid.put(1, id=50, c=self.values[0], o=1)
        laid.modify(1, "c", self.sql, self.becomes, self.made)
        for number, value in enumerate(self.later):
            laid.put(1, id=100 + number, c=value, o=number)
        laid.end(1)
        laid.put(2, id=100, c=self.later[-1], o=7)
        laid.put(2, id=0, c=self.later[0], o=7)
        laid.end(2)
        return laid


CLOCKS = (datetime(2026, 1, 5, 10, 0, 0, 5), datetime(2026, 2, 5, 10), None)
DAYS = (date(2026, 1, 5), date(2026, 2, 5), None)
LONG_MONEY = Kind("decimal(14,2)", MONEY.send, MONEY.make)


def _shown(value: datetime) -> str:
    return value.isoformat(" ", "microseconds")


CONVERSIONS = {
    "int-bigint": Conversion(INT, (1, 70000, None), "bigint", BIGINT, int, (5, 1 << 40, None)),
    "int-text": Conversion(INT, (1, 70000, None), "varchar(80)", TEXT, str, ("tea", "x", None)),
    "text-int": Conversion(TEXT, ("1", "70000", None), "int", INT, int, (5, 6, None)),
    "clock-text": Conversion(WALL_CLOCK, CLOCKS, "varchar(80)", TEXT, _shown, ("tea", "x", None)),
    "day-clock": Conversion(
        DATE, DAYS, "datetime(6)", WALL_CLOCK, lambda day: datetime(day.year, day.month, day.day), CLOCKS
    ),
    "int-double": Conversion(INT, (1, 70000, None), "double", DOUBLE, float, (5.5, 6.25, None)),
    "money-money": Conversion(MONEY, (Decimal("1.25"), None), "decimal(14,2)", LONG_MONEY, Decimal, (Decimal("99999999999.25"),)),
    "text-bytes": Conversion(TEXT, ("a", "b", None), "blob", BLOB, str.encode, (b"a", b"zzzzz")),
}  # fmt: skip


def opened(
    source: LaidOut,
    folder: Path,
    layout: Mapping[str, Any],
    *,
    name: str = "laid_out",
    windows: int = 3,
    **settings: Any,
) -> Harness:
    """A subscription whose tables have a layout; further ones of the same name go on in its lake."""
    return open_short(
        bench_in_process(folder, "laid_out"), folder / "capture", source.source.messages, name=name, windows=windows,
        layout={"bank.*": layout}, **settings,
    )  # fmt: skip


def made(harness: Harness, order: Sequence[int]) -> Harness:
    """A lake with the windows made in an order, and all that is left to do behind them."""
    for window in order:
        harness.all(window)
    harness.settle()
    return harness


def rows_of(harness: Harness) -> list[Row]:
    rows = harness.rows("snapshot", *ITEMS.path)
    return sorted(
        ({n: v for n, v in row.items() if not n.startswith("_")} for row in rows), key=lambda row: str(row["id"])
    )


def laid_by(harness: Harness, table: TableId = ITEMS) -> tuple[list[tuple[str, str]], list[str]]:
    """The partition fields of the snapshot's files, as columns and transforms, and the columns that rows are sorted by.

    No file has another layout.
    """
    pipeline = harness.pipeline
    path = pipeline.table_path("snapshot", table)
    found = pipeline.lake.table(path)
    assert found is not None
    assert not any(one.is_former for one in pipeline.lake.data_files(path, applies_deletes=True))
    schema = found.schema()
    fields = [(str(schema.find_column_name(one.source_id)), str(one.transform)) for one in found.spec().fields]
    return fields, [str(schema.find_column_name(one.source_id)) for one in found.sort_order().fields]
