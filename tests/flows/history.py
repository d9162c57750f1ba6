"""Made-up histories of a small bank: seeded, transactional, and full of what makes snapshots hard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.flows.source import Contents, Ddl, Dml, Position, Source, folded, with_all_columns
from tests.flows.source_tables import (
    BIGINT,
    BLOB,
    DATE,
    DOUBLE,
    GBK,
    INSTANT,
    INT,
    JSON,
    MONEY,
    TEXT,
    TIME,
    UNSIGNED,
    WALL_CLOCK,
    Field,
    Row,
    Table,
)

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
EVERY = timedelta(minutes=10)
WINDOWS = 4
END = START + WINDOWS * EVERY
PARTITIONS = 3


def border(number: int) -> datetime:
    """The start of a window, counted from zero."""
    return START + number * EVERY


def accounts() -> Table:
    return Table("accounts", [Field("id", INT, True), Field("owner", TEXT), Field("balance", MONEY)])


def seats() -> Table:
    """A composite key whose second part rows hand on to each other."""
    return Table("seats", [Field("label", TEXT), Field("hall", TEXT, True), Field("seat", INT, True)])


def journal() -> Table:
    """No key."""
    return Table("journal", [Field("line", TEXT), Field("at", WALL_CLOCK)])


def goods() -> Table:
    """Many types, the key in the middle."""
    kinds = {"u": UNSIGNED, "b": BIGINT, "m": MONEY, "d": DOUBLE, "g": GBK}
    more = {"x": BLOB, "j": JSON, "c": TIME, "day": DATE, "wall": WALL_CLOCK, "at": INSTANT, "_event_time": TEXT}
    return Table(
        "goods",
        [
            *(Field(name, kind) for name, kind in kinds.items()),
            Field("sku", BIGINT, True),
            *(Field(name, kind) for name, kind in more.items()),
        ],
    )


@dataclass(frozen=True)
class WindowEnd:
    """How the stream stood at a window's end: the cut, None where some Kafka partition gave no CHECKPOINT in the window.

    ``vouched`` says that every Kafka partition gave one that covers what came: the last window has transactions behind it.
    """

    cut: Position | None
    vouched: bool


@dataclass(frozen=True)
class History:
    """A source that has run from START to END."""

    source: Source

    def window_of(self, instant: datetime) -> int:
        return (instant - START) // EVERY

    def ends(self) -> list[WindowEnd]:
        """Every window's end. The last one closes by the end of the capture, which leaves no common position."""
        found = []
        for number in range(WINDOWS):
            last: dict[int, Position] = {}
            for one in self.source.checkpoints:
                if self.window_of(one.time) == number:
                    last[one.partition] = max(last.get(one.partition, (0, 0)), one.position)
            complete = len(last) == self.source.partitions and number < WINDOWS - 1
            found.append(WindowEnd(min(last.values()) if complete else None, complete))
        return found

    def after(self, number: int) -> Contents:
        """Current rows as snapshots show them after a window: up to its cut, or all that has arrived where there is none."""
        whole, cut = -1, (0, 0)
        for window, end in enumerate(self.ends()[: number + 1]):
            whole, cut = (window, cut) if end.cut is None else (whole, max(cut, end.cut))
        shown = []
        for change in self.source.changes:
            arrived = self.window_of(change.arrived)
            if arrived <= whole or (arrived <= number and change.position <= cut):
                shown.append(change)
        return folded(self.source.tables, shown)

    def final(self) -> Contents:
        """Current rows when all was done."""
        return with_all_columns(self.source.tables, self.source.rows)

    def at(self, position: Position) -> Contents:
        """Current rows when the transaction that ended at a position was done."""
        return with_all_columns(self.source.tables, self.source.contents[position])


def bank_history(seed: int, *, transactions: int = 80, long_set: bool = False) -> History:
    """Transactions over four windows and three Kafka partitions.

    Entry sets lie across every window border; with ``long_set`` one lasts from the first window into the third, which leaves
    its partition without a CHECKPOINT in the second.
    """
    random = Random(seed)
    source = Source(
        (accounts(), seats(), journal(), goods()), START, lags=(0.2, 2.5, 14.0), random=random, fragmented=0.2
    )
    writer = _Writer(source, random)
    moments = sorted(random.uniform(8, WINDOWS * 600 - 60) for _ in range(transactions))
    borders = iter(range(1, WINDOWS))
    following = next(borders, None)
    tick = START + timedelta(seconds=5)
    for number, seconds in enumerate(moments):
        at = START + timedelta(seconds=seconds)
        while following is not None and at > border(following) - timedelta(seconds=30):
            writer.across(following, long=long_set and following == 1)
            following = next(borders, None)
        while tick <= at:
            source.checkpoint(tick)
            tick += timedelta(seconds=47)
        if number == transactions // 2:
            writer.add_column(at)
        if number == transactions * 2 // 3:
            source.rotate()
        writer.transaction(at)
    source.checkpoint(END - timedelta(seconds=30))
    writer.transaction(END - timedelta(seconds=25))
    source.flush(END - timedelta(seconds=20))
    assert max(message.time for message in source.messages) < END
    return History(source)


class _Writer:
    """Makes up transactions that the database would accept."""

    def __init__(self, source: Source, random: Random) -> None:
        self._source = source
        self._random = random
        self._moves: tuple[Callable[[], Iterator[Dml]], ...] = (
            self._open, self._close, self._transfer, self._transfer, self._sit, self._stand, self._shift, self._swap,
            self._stock, self._restock, self._restock, self._sell_out, self._rename, self._note, self._forget,
        )  # fmt: skip

    def transaction(self, at: datetime) -> None:
        """Up to three moves, each planned on what the ones before it left."""
        random = self._random
        events: list[Dml] = []
        touched: set[str] = set()
        for move in random.sample(self._moves, random.choice((1, 2, 3, 3))):
            planned = list(move())
            tables = {event.table.name for event in planned}
            if not tables & touched:
                events += planned
                touched |= tables
        if events:
            self._source.transaction(
                at, *events, flush=random.random() < 0.6, checkpoint_inside=random.random() < 0.15
            )  # fmt: skip
        if random.random() < 0.1:
            self._source.skip_offset(random.randrange(PARTITIONS))

    def across(self, number: int, *, long: bool) -> None:
        """A transaction whose entry sets lie across a border, in one Kafka partition or in two."""
        random, source = self._random, self._source
        goods = source.tables["goods"]
        second = timedelta(seconds=1)
        edge = border(number)
        lanes = [2] if long else random.sample(range(PARTITIONS), random.choice((1, 2)))
        rows: list[tuple[Row | None, Row | None]] = []
        for lane in lanes:
            rows += [(None, self._goods_row(lane, goods)) for _ in range(2)]
        times = [edge - 9 * second, edge - 2 * second, edge + 3 * second]
        if long:
            times = [edge - 2 * second, edge + 200 * second, edge + EVERY + 4 * second, edge + EVERY + 5 * second]
        source.transaction(edge - 28 * second, Dml(goods, rows), split=dict.fromkeys(lanes, times))

    def add_column(self, at: datetime) -> None:
        """A nullable column for goods and for seats."""
        for name in ("goods", "seats"):
            table = self._source.tables[name]
            table.columns.append(Field("added", TEXT))
            rows = self._source.rows[name]
            rows.update({key: {**row, "added": None} for key, row in rows.items()})
            self._source.transaction(at, Ddl(f"ALTER TABLE {name} ADD COLUMN added varchar(80)"))

    def _pick(self, name: str, most: int) -> list[Row]:
        rows = list(self._source.rows[name].values())
        return self._random.sample(rows, min(len(rows), self._random.randint(1, most)))

    def _table(self, name: str) -> Table:
        return self._source.tables[name]

    def _open(self) -> Iterator[Dml]:
        """Numbers come from a small pool, so closed accounts are opened again."""
        table, random = self._table("accounts"), self._random
        free = [number for number in range(1, 16) if (number,) not in self._source.rows["accounts"]]
        chosen = random.sample(free, min(len(free), random.randint(1, 4)))
        if chosen:
            yield Dml(table, [(None, table.row(random, id=number, balance=Decimal(0))) for number in chosen])

    def _close(self) -> Iterator[Dml]:
        rows = self._pick("accounts", 2)
        if rows:
            yield Dml(self._table("accounts"), [(row, None) for row in rows])

    def _transfer(self) -> Iterator[Dml]:
        rows = self._pick("accounts", 2)
        if len(rows) == 2:
            amount = Decimal(self._random.randint(1, 999)) / 100
            yield Dml(
                self._table("accounts"),
                [
                    (rows[0], {**rows[0], "balance": rows[0]["balance"] - amount}),
                    (rows[1], {**rows[1], "balance": rows[1]["balance"] + amount}),
                ],
            )

    def _sit(self) -> Iterator[Dml]:
        table, random = self._table("seats"), self._random
        hall = random.choice(("north", "südlich"))
        taken = {seat for found, seat in self._source.rows["seats"] if found == hall}
        free = [seat for seat in range(1, 9) if seat not in taken]
        chosen = random.sample(free, min(len(free), random.randint(1, 5)))
        if chosen:
            yield Dml(table, [(None, table.row(random, hall=hall, seat=seat)) for seat in chosen])

    def _stand(self) -> Iterator[Dml]:
        rows = self._pick("seats", 3)
        if rows:
            yield Dml(self._table("seats"), [(row, None) for row in rows])

    def _shift(self) -> Iterator[Dml]:
        """Everyone in a hall moves up by one, in one event: ``UPDATE .. SET seat = seat + 1 ORDER BY seat DESC``."""
        hall = self._random.choice(("north", "südlich"))
        rows = [row for (found, _), row in sorted(self._source.rows["seats"].items()) if found == hall]
        if rows:
            moved: list[tuple[Row | None, Row | None]] = [(row, {**row, "seat": row["seat"] + 1}) for row in rows]
            yield Dml(self._table("seats"), list(reversed(moved)))

    def _swap(self) -> Iterator[Dml]:
        """Two seats change places by way of one that is free: three events."""
        rows = self._pick("seats", 2)
        if len(rows) == 2:
            table, (one, other) = self._table("seats"), rows
            aside: dict[str, Any] = {**one, "seat": 1000}
            yield Dml(table, [(one, aside)])
            yield Dml(table, [(other, {**other, "hall": one["hall"], "seat": one["seat"]})])
            yield Dml(table, [(aside, {**one, "hall": other["hall"], "seat": other["seat"]})])

    def _goods_row(self, lane: int, table: Table) -> Row:
        """A new row that goes to a Kafka partition."""
        while True:
            row = table.row(self._random, sku=self._random.randrange(1 << 40))
            if table.partition(row, PARTITIONS) == lane:
                return row

    def _stock(self) -> Iterator[Dml]:
        table, random = self._table("goods"), self._random
        count = random.randint(1, 6)
        yield Dml(table, [(None, table.row(random, sku=random.randrange(1 << 40))) for _ in range(count)])

    def _restock(self) -> Iterator[Dml]:
        rows = self._pick("goods", 5)
        if rows:
            table = self._table("goods")
            yield Dml(table, [(row, table.row(self._random, sku=row["sku"])) for row in rows])

    def _sell_out(self) -> Iterator[Dml]:
        rows = self._pick("goods", 3)
        if rows:
            yield Dml(self._table("goods"), [(row, None) for row in rows])

    def _rename(self) -> Iterator[Dml]:
        """A row of goods gets another key and keeps the rest."""
        rows = self._pick("goods", 1)
        if rows:
            yield Dml(self._table("goods"), [(rows[0], {**rows[0], "sku": self._random.randrange(1 << 40)})])

    def _note(self) -> Iterator[Dml]:
        table, random = self._table("journal"), self._random
        yield Dml(table, [(None, table.row(random)) for _ in range(random.randint(1, 3))])

    def _forget(self) -> Iterator[Dml]:
        lines = self._source.bags["journal"]
        if lines:
            yield Dml(self._table("journal"), [(self._random.choice(lines), None)])
