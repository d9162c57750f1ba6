"""Deleted rows keep their last values behind statements that change the rows of their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, item, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, Row, Table
from tests.flows.test_changing_keys import keyed, rebuild
from tests.flows.test_followed_shards import alter
from tests.flows.test_merged_tables import MERGE, shards_of
from tests.flows.test_shards import put
from tests.tiers import chosen

Orders = Sequence[Sequence[int]]
ORDERS: Sequence[Orders] = (((0,), (1,), (2,)), ((0, 1, 2),), ((2,), (1,), (0,)), ((0, 1), (2,)), ((1,), (0, 2)))
SOFT: dict[str, Any] = {"deletes": "soft"}


def told_source() -> Source:
    """A source whose rows nobody follows: they are found by one key for all times there."""
    source = short_source(items())
    source._apply = lambda *_: None  # type: ignore[method-assign]
    return source


def send(source: Source, at: int, *pairs: tuple[Row | None, Row | None], window: int, table: Table) -> None:
    source.transaction(border(window) + at * SECOND, Dml(table, list(pairs)))


def filled_source(way: str, table: Table) -> Source:
    """Rows go in a ``way`` before ``n`` takes no NULL any more; rows 6 and 9 live on, as they may where no mode is strict."""
    source = told_source()
    send(source, 1, *((None, item(number, None)) for number in (1, 2)), (None, item(3, 5)), window=0, table=table)
    send(source, 2, (item(1, None), None), window=0, table=table)
    source.checkpoint(border(0) + 300 * SECOND)
    match way:
        case "delete":
            send(source, 1, (item(2, None), None), (item(3, 5), None), window=1, table=table)
        case "minimal":
            lacking = [{"id": number, "n": ABSENT, "note": ABSENT} for number in (2, 3)]
            send(source, 1, *((one, None) for one in lacking), window=1, table=table)
        case "move":
            moves = [(item(number, n), item(number + 20, n)) for number, n in ((2, None), (3, 5))]
            send(source, 1, *moves, window=1, table=table)
            send(source, 2, *((new, None) for _, new in moves), window=1, table=table)
        case _:
            source.transaction(border(1) + SECOND, Ddl("TRUNCATE TABLE items"))
    send(source, 4, (None, item(6, None)), (None, item(9, None)), window=1, table=table)
    source.transaction(border(1) + 5 * SECOND, Ddl("ALTER TABLE items MODIFY n INT NOT NULL"))
    send(source, 6, (None, item(7, 0)), (None, item(8, 0)), window=1, table=table)
    source.checkpoint(border(1) + 300 * SECOND)
    last = {"id": 9, "n": ABSENT, "note": ABSENT} if way == "minimal" else item(9, 0)
    send(source, 1, (item(7, 0), None), (last, None), window=2, table=table)
    source.checkpoint(border(2) + 300 * SECOND)
    return source


def shown(harness: Harness) -> Counter[tuple[Any, ...]]:
    """The rows of the snapshot, and which of them live."""
    rows = harness.rows("snapshot", DATABASE, "items")
    return Counter((row["id"], row["n"], row["_deleted_at"] is None) for row in rows)


def made(source: Source, orders: Orders, folder: Path) -> Harness:
    """A lake of soft deletes, whose tables were made in some orders of windows."""
    harness = open_short(bench_in_process(folder, "filled"), folder / "capture", source.messages, **SOFT)
    harness.raw()
    harness.entries()
    for some in orders:
        harness.tables(*some)
    harness.settle()
    return harness


WAYS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("delete", ("id",)), ("minimal", ("id",)), ("move", ("id",)), ("truncate", ("id",)), ("delete", ()), ("truncate", ()),
)  # fmt: skip
CASES = [
    (*way, ORDERS[(number + turn) % len(ORDERS)]) for turn in range(len(ORDERS)) for number, way in enumerate(WAYS)
]
"""All ways in all orders; the first of them are all ways."""


@pytest.mark.more
@pytest.mark.parametrize(("way", "key", "orders"), chosen(CASES, len(WAYS)))
def test_null_stays_in_deleted_rows_where_a_column_takes_none_any_more(
    way: str, key: tuple[str, ...], orders: Orders, tmp_path: Path
) -> None:
    source = filled_source(way, keyed(key))
    harness = made(source, orders, tmp_path)
    moved = [(22, None, False), (23, 5, False)] if way == "move" else []
    gone = [(1, None, False), (2, None, False), (3, 5, False), (7, 0, False), (9, 0, False), *moved]
    expected = Counter([*gone, (6, 0, True), (8, 0, True)])
    assert shown(harness) == expected
    harness.tables(1)
    assert shown(harness) == expected
    rebuild(harness)
    assert shown(harness) == expected


@pytest.mark.more
@pytest.mark.parametrize("orders", chosen(ORDERS, 1))
def test_a_truncation_leaves_rows_that_were_deleted_before_whatever_their_key_is_now(
    orders: Orders, tmp_path: Path
) -> None:
    """Two rows that went under one key have equal values of the next one: neither takes the place of the other."""
    source = told_source()
    send(source, 1, *((None, item(number, 5)) for number in (1, 2)), window=0, table=keyed(("id",)))
    send(source, 2, *((item(number, 5), None) for number in (1, 2)), window=0, table=keyed(("id",)))
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items DROP PRIMARY KEY, ADD PRIMARY KEY (n)"))
    send(source, 2, (None, item(3, 6)), window=1, table=keyed(("n",)))
    source.checkpoint(border(1) + 300 * SECOND)
    source.transaction(border(2) + SECOND, Ddl("TRUNCATE TABLE items"))
    send(source, 2, (None, item(4, 7)), window=2, table=keyed(("n",)))
    source.checkpoint(border(2) + 300 * SECOND)
    harness = made(source, orders, tmp_path)
    expected = Counter([(1, 5, False), (2, 5, False), (3, 6, False), (4, 7, True)])
    assert shown(harness) == expected
    rebuild(harness)
    assert shown(harness) == expected


SHORT_ORDERS: Sequence[Orders] = (((1,), (0,)), ((0,), (1,)), ((0, 1),))


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("has_key", "orders"),
    chosen([(has_key, SHORT_ORDERS[(turn + has_key) % 3]) for turn in range(3) for has_key in (True, False)], 2),
)
def test_null_stays_in_deleted_rows_of_a_shard(orders: Orders, tmp_path: Path, *, has_key: bool) -> None:
    """One of two shards takes no NULL any more; the row that it has gets 0, and the row that it had keeps NULL."""
    tables = shards_of(2, 1, keyed=has_key)
    source = short_source(*tables)
    source._apply = lambda *_: None  # type: ignore[method-assign]
    for number, table in enumerate(tables):
        put(source, 0, 1 + number, table, 1, 2, n=None)
        send(source, 5 + number, ({"id": 1, "n": None, "note": None}, None), window=0, table=table)
    source.checkpoint(border(0) + 300 * SECOND)
    alter(source, 1, 1, tables[:1], "MODIFY n int NOT NULL")
    put(source, 1, 5, tables[0], 3, n=0)
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "filled"), tmp_path / "capture", source.messages, windows=2, merge=MERGE, **SOFT
    )
    harness.raw()
    harness.entries()
    expected = [("shop_00", 1, None, False), ("shop_00", 2, 0, True), ("shop_00", 3, 0, True)]
    expected += [("shop_01", 1, None, False), ("shop_01", 2, None, True)]
    for some in (*orders, (0,)):
        harness.tables(*some)
        harness.settle()
    rows = harness.rows("snapshot", "shop", "orders")
    found = [(row["_source_database"], row["id"], row["n"], row["_deleted_at"] is None) for row in rows]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
