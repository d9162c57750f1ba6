"""The shop's working day: what happens when. Eight hours of simulated time from midnight UTC, busy and quiet ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from dts_emulator.source.server import Server
from examples.shop_maker import tables
from examples.shop_maker.session import Session
from examples.shop_maker.shop import Shop

START = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())
HOURS = 8
END = START + HOURS * 3600

_SEED = 20_260_105
_PRODUCTS = 420
_HOURLY = (430, 520, 360, 40, 380, 560, 640, 420)
"""Transactions of each hour; the fourth is the quiet one."""

_LAST_SECOND = END - 150
"""The last event, early enough for a CHECKPOINT behind it in the last hour."""

Happening = Callable[[Shop, float], None]

_ORDINARY: tuple[tuple[Happening, int], ...] = (
    (Shop.order_is_placed, 34),
    (Shop.orders_are_shipped, 11),
    (Shop.order_is_cancelled, 6),
    (Shop.customers_register, 9),
    (Shop.customer_changes, 9),
    (Shop.goods_arrive, 8),
    (Shop.prices_change, 3),
    (Shop.gallery_grows, 5),
    (Shop.gallery_changes, 6),
    (Shop.customer_is_renumbered, 2),
    (Shop.sku_is_renamed, 2),
    (Shop.skus_are_swapped, 2),
    (Shop.row_is_replaced, 3),
    (Shop.log_is_tidied, 2),
)
"""The events of any time, with their relative frequencies."""


@dataclass(frozen=True, slots=True)
class Appointment:
    """An event at a fixed second."""

    second: float
    happening: Happening


def work(server: Server) -> None:
    """Run the whole day on an empty server."""
    with Session(server) as session:
        session.at(START + 1)
        session.run(tables.CREATE_DATABASE)
        session.run(f"USE {tables.DATABASE}")
        for statement in tables.CREATE_TABLES:
            session.run(statement)
        shop = Shop(session, Random(_SEED))
        shop.stock_the_shop(START + 5, products=_PRODUCTS)
        shop.customers_register(START + 20, count=80)
        for appointment in sorted([*_appointments(server), *_ordinary(shop.random)], key=lambda it: it.second):
            appointment.happening(shop, appointment.second)


def _ordinary(random: Random) -> Iterator[Appointment]:
    """Yield transactions at random times, more in busy hours."""
    happenings, weights = zip(*_ORDINARY, strict=True)
    for hour, count in enumerate(_HOURLY):
        first = START + hour * 3600 + (60 if hour == 0 else 0)
        for _ in range(count):
            second = random.uniform(first, min(START + (hour + 1) * 3600, _LAST_SECOND))
            yield Appointment(round(second, 3), random.choices(happenings, weights)[0])


def _appointments(server: Server) -> Iterator[Appointment]:
    yield from _documents()
    yield from _schema_changes()
    for minute in (95, 260, 410):
        yield Appointment(START + minute * 60 + 30, Shop.categories_shift)
    for hour in (1.9, 4.98, 6.98):
        yield from _long_transaction(server, START + hour * 3600, seconds=240)
    # The binlog goes on in a new file, once in the quiet hour and once in a busy one.
    yield Appointment(START + 3.5 * 3600, lambda shop, now: _next_binlog(shop))
    yield Appointment(START + 6.25 * 3600, lambda shop, now: _next_binlog(shop))


def _next_binlog(shop: Shop) -> None:
    """Go on in a new binlog file.

    The server notes there, in its own time, that the old one is done with. Waiting for the note keeps the positions behind
    it the same in every run; asking for it would not, since every statement counts in the numbers of transactions.
    """
    shop.session.run("FLUSH BINARY LOGS")
    time.sleep(1)


def _schema_changes() -> Iterator[Appointment]:
    def run(statement: str) -> Happening:
        def happening(shop: Shop, now: float) -> None:
            shop.session.at(now)
            shop.session.run(statement)

        return happening

    yield Appointment(START + 2.25 * 3600, run(tables.CREATE_COUPONS))
    for number in range(120):
        yield Appointment(START + 2.25 * 3600 + 30 + number * 160, Shop.coupons_change)
    yield Appointment(START + 4.5 * 3600, run(tables.ADD_LOYALTY))
    for number in range(80):
        yield Appointment(START + 4.5 * 3600 + 20 + number * 150, Shop.points_are_given)


def _documents() -> Iterator[Appointment]:
    """Yield large rows; some are still being sent when the next hour begins."""

    def written(number: int, size: int) -> Happening:
        return lambda shop, now: shop.document_is_written(now, number, size=size)

    def revised(*numbers: int) -> Happening:
        return lambda shop, now: shop.documents_are_revised(now, numbers)

    sizes = (900_000, 1_600_000, 400_000, 2_400_000, 300_000, 700_000, 1_100_000, 50_000, 200_000, 500_000)
    for number, size in enumerate(sizes, start=1):
        yield Appointment(START + 600 + number * 2400, written(number, size))
    yield Appointment(START + 1 * 3600 - 1, written(101, 1_200_000))
    yield Appointment(START + 2 * 3600 - 1, revised(1))
    yield Appointment(START + 4 * 3600 - 2, revised(101, 3))
    yield Appointment(START + 6 * 3600 - 1, written(102, 2_000_000))
    yield Appointment(START + 7 * 3600 - 3, revised(102))
    yield Appointment(START + 7.5 * 3600, revised(2, 4))


def _long_transaction(server: Server, start: float, *, seconds: int) -> Iterator[Appointment]:
    """Keep a transaction open for minutes, over the end of an hour, while others commit."""
    held: list[Session] = []

    def begin(shop: Shop, now: float) -> None:
        session = Session(server, tables.DATABASE)
        held.append(session)
        session.at(now)
        session.run("BEGIN")
        session.run("INSERT INTO audit_log VALUES (NOW(6), 'batch', 'begin', NULL, %s)", "long 🕰")

    def commit(shop: Shop, now: float) -> None:
        with held.pop() as session:
            session.at(now)
            session.run("INSERT INTO audit_log VALUES (NOW(6), 'batch', 'end', NULL, NULL)")
            session.run("COMMIT")

    yield Appointment(start, begin)
    yield Appointment(start + seconds, commit)
