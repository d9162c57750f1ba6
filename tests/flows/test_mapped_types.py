"""Columns of mapped types behind a MODIFY: they have the server's values, those that the mapped type did not hold among them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, BLOB, DATE, INT, TEXT, UNSIGNED, WALL_CLOCK, Field, Kind, Table
from tests.tiers import chosen

TINY = Kind("tinyint(1)", lambda value: dts_messages.number(value, pb.INT8), INT.make)
BYTES = Kind("varbinary(40)", BLOB.send, BLOB.make)
WIDE = Kind("decimal(30,0)", lambda value: dts_messages.number(value, pb.DECIMAL), INT.make)
MAPPINGS = ["tinyint1-to-boolean", "bigint-unsigned-to-bigint", "datetime-to-timestamp"]
MOST = Decimal((1 << 64) - 1)


def modified(kind: Kind) -> tuple[Source, list[dict[str, Any]]]:
    """Rows of mapped types, each column's MODIFY, and changes of some rows after it; the rows of the server at the end."""
    fields = [
        Field("id", INT, True),
        Field("flag", TINY),
        Field("big", UNSIGNED),
        Field("at", WALL_CLOCK),
        Field("note", TEXT),
    ]
    table = Table("items", list(fields))
    source = short_source(table)
    source.transaction(
        border(0) + SECOND,
        Ddl(
            "CREATE TABLE `items` (`id` int NOT NULL PRIMARY KEY, `flag` tinyint(1), `big` bigint unsigned, `at` datetime(6), "
            "`note` varchar(80))"
        ),
    )
    clocks = [datetime(2026, 1, 5, 10, 0, 0, 500), datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30), None]
    rows: list[dict[str, Any]] = [
        {"id": n, "flag": flag, "big": big, "at": at, "note": None}
        for n, (flag, big, at) in enumerate(
            zip([2, 1, 0, None], [MOST, Decimal(7), Decimal(1 << 63), None], clocks, strict=True)
        )
    ]
    source.transaction(border(0) + 2 * SECOND, Dml(table, [(None, row) for row in rows]))
    source.checkpoint(border(0) + 5 * SECOND)
    source.transaction(
        border(1) + SECOND,
        Ddl(f"ALTER TABLE `items` MODIFY `flag` int, MODIFY `big` decimal(30,0), MODIFY `at` {kind.original_type}"),
    )
    table.columns[1:4] = [Field("flag", INT), Field("big", WIDE), Field("at", kind)]
    texts = [None if row["at"] is None else row["at"].strftime("%Y-%m-%d %H:%M:%S.%f") for row in rows]
    shown = [
        {**row, "at": text.encode() if text and kind is BYTES else text} for row, text in zip(rows, texts, strict=True)
    ]
    source.rows["items"] = {(row["id"],): row for row in shown}
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(shown[1], {**shown[1], "note": "seen", "flag": 3})]))
    shown[1] = {**shown[1], "note": "seen", "flag": 3}
    source.checkpoint(border(1) + 5 * SECOND)
    return source, shown


@pytest.mark.more
@pytest.mark.parametrize("kind", [TEXT, BYTES], ids=["text", "bytes"])
@pytest.mark.parametrize("order", chosen([(), (0, 1), (1, 0), (0, 1, 0)], 2))
def test_mapped_values_are_the_servers_behind_a_modify(order: Sequence[int], kind: Kind, tmp_path: Path) -> None:
    source, expected = modified(kind)
    harness = open_short(
        bench_in_process(tmp_path, "mapped"), tmp_path / "capture", source.messages, windows=2, type_mapping=MAPPINGS,
        source_time_zone="Europe/Berlin",
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    rows = sorted(harness.rows("snapshot", DATABASE, "items"), key=lambda row: row["id"])
    assert [row["_invalid"] for row in rows] == [None] * 4
    found: list[dict[str, Any]] = [{name: row[name] for name in expected[0]} for row in rows]
    assert found == expected


@pytest.mark.parametrize("default", [7, 1, 0])
def test_a_default_in_rows_that_are_there_is_mapped_as_a_value_of_an_event(default: int, tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1})]))
    source.transaction(border(0) + 2 * SECOND, Ddl(f"ALTER TABLE items ADD flag tinyint(1) DEFAULT '{default}'"))
    table.columns.append(Field("flag", TINY))
    source.rows["items"] = {(1,): {"id": 1, "flag": default}}
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, {"id": 2, "flag": default})]))
    source.checkpoint(border(0) + 5 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "mapped"), tmp_path / "capture", source.messages, windows=1, type_mapping=MAPPINGS
    )
    harness.all(0)
    filled, sent = sorted(harness.rows("snapshot", DATABASE, "items"), key=lambda row: row["id"])
    assert (filled["flag"], filled["_invalid"]) == (sent["flag"], sent["_invalid"])
    assert sent["flag"] == {7: None, 1: True, 0: False}[default]


MERGE = {"shop.orders": ["shop_*.orders_*"]}
STATEMENTS = {
    "ADD v tinyint(1) DEFAULT '5'": (None, TINY, 5, (None, [("v", "5")])),
    "MODIFY v tinyint(1)": (INT, TINY, 5, (None, [("v", "5")])),
    f"ADD v bigint unsigned DEFAULT '{MOST}'": (None, UNSIGNED, MOST, (None, [("v", str(MOST))])),
    "ADD v datetime(6) DEFAULT '2026-01-05 10:00:00'": (
        None, WALL_CLOCK, datetime(2026, 1, 5, 10), ("2026-01-05 02:00:00+00:00", None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [(0,), *(pytest.param(one, marks=pytest.mark.more) for one in ((), (1, 0)))])
@pytest.mark.parametrize("statement", [*STATEMENTS])
def test_values_by_a_statement_in_a_column_that_is_text_elsewhere_are_those_of_events(
    statement: str, order: Sequence[int], tmp_path: Path
) -> None:
    before, kind, value, expected = STATEMENTS[statement]
    mapped, other = (Table(f"orders_{n}", [Field("id", INT, True)], (f"shop_0{n}", f"orders_{n}")) for n in range(2))
    other.columns.append(Field("v", TEXT))
    mapped.columns += [] if before is None else [Field("v", before)]
    source = short_source(mapped, other)
    row = {"id": 1} if before is None else {"id": 1, "v": value}
    source.transaction(border(0) + SECOND, Dml(mapped, [(None, row)]))
    source.transaction(border(0) + SECOND, Dml(other, [(None, {"id": 1, "v": "x"})]))
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE shop_00.orders_0 {statement}"))
    mapped.columns[1:] = [Field("v", kind)]
    source.rows["orders_0"] = {(1,): {"id": 1, "v": value}}
    source.transaction(border(1) + 2 * SECOND, Dml(mapped, [(None, {"id": 2, "v": value})]))
    for window in range(2):
        source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "mapped"), tmp_path / "capture", source.messages, windows=2,
        merge=MERGE, type_mapping=MAPPINGS,
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    rows = harness.rows("snapshot", "shop", "orders")
    found = {(row["_source_table"], row["id"]): (row["v"], row["_invalid"]) for row in rows}
    assert found == {("orders_1", 1): ("x", None), ("orders_0", 1): expected, ("orders_0", 2): expected}


def test_the_default_in_versions_of_a_column_that_was_text_is_that_of_an_event(tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True), Field("v", TEXT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, "v": "x"})]))
    source.transaction(border(0) + 2 * SECOND, Ddl("ALTER TABLE items DROP COLUMN v"))
    source.transaction(border(0) + 3 * SECOND, Ddl("ALTER TABLE items ADD v tinyint(1) DEFAULT '5'"))
    table.columns[1] = Field("v", TINY)
    source.rows["items"] = {(1,): {"id": 1, "v": 5}}
    source.transaction(border(0) + 4 * SECOND, Dml(table, [(None, {"id": 2, "v": 5})]))
    source.checkpoint(border(0) + 5 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "mapped"), tmp_path / "capture", source.messages, windows=1,
        type_mapping=MAPPINGS, history=["*"],
    )  # fmt: skip
    harness.settle()
    found = [(row["v"], row["_invalid"]) for row in harness.rows("history", DATABASE, "items")]
    assert found == [(None, [("v", "5")])] * 2


@pytest.mark.parametrize("order", chosen([(0, 1), ()], 1))
def test_wall_clocks_of_a_zone_are_those_of_the_server_in_histories_and_defaults(
    order: Sequence[int], tmp_path: Path
) -> None:
    table = Table("items", [Field("id", INT, True), Field("at", WALL_CLOCK)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 0, "at": datetime(2026, 1, 5, 3)})]))
    source.transaction(border(0) + 2 * SECOND, Ddl("ALTER TABLE items CHANGE at day date"))
    said = "ALTER TABLE items ADD later datetime(6) NOT NULL DEFAULT '2026-01-05 03:00:00'"
    source.transaction(border(0) + 3 * SECOND, Ddl(said))
    table.columns[1:] = [Field("day", DATE), Field("later", WALL_CLOCK)]
    for window in range(2):
        row = {"id": window + 1, "day": date(2026, 1, 5), "later": ABSENT}
        source.transaction(border(window) + 4 * SECOND, Dml(table, [(None, row)]))
        source.checkpoint(border(window) + 5 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "mapped"), tmp_path / "capture", source.messages, windows=2,
        type_mapping=MAPPINGS, source_time_zone="Asia/Shanghai", history=["*"],
    )  # fmt: skip
    for window in order:
        harness.all(window)
    harness.settle()
    days = {row["id"]: row["day"] for row in harness.rows("history", DATABASE, "items")}
    assert days == dict.fromkeys(range(3), date(2026, 1, 5))
    later = {row["id"]: row["later"] for row in harness.rows("snapshot", DATABASE, "items")}
    assert later == dict.fromkeys(range(3), datetime(2026, 1, 4, 19, tzinfo=UTC))
