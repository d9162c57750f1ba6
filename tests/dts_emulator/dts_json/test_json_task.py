"""The messages of a task in JSON: values as the vendor's page says, the forms of images, marks. No server takes part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from dts_emulator.dts_json.json_records import Images
from dts_emulator.dts_json.json_task import JsonOptions, JsonTask, produce_json
from dts_emulator.messages.clocks import SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import (
    ABSENT,
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Kind,
    RowChange,
    Rows,
    SourceColumn,
    SourceTable,
    Transaction,
    Value,
)
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS, vendor_of

T0 = 1_767_571_200  # 2026-01-05T00:00:00Z, a whole multiple of ten seconds and of a minute
QUIET = JsonOptions(heartbeat_seconds=0, latency_ms=0, bytes_per_second=1_000_000_000)
ORDER = (
    "id", "version", "messageType", "fileName", "position", "safePosition", "timestamp", "gtid", "transactionId", "serverId",
    "threadId", "sourceType", "sourceVersion", "schemaName", "tableName", "objectName", "columns", "oldColumns", "newColumns",
    "sql", "executionTime", "heartbeatTimestamp", "syncedGtid", "fakeGtid", "pkNames", "readerTimestamp", "tags", "total",
    "index",
)  # fmt: skip
"""The fields of the vendor's table, in its order."""


def place(number: int, index: int) -> Coordinates:
    start = number * 1000 + index * 100
    return Coordinates("mysql-bin.000004", start, start + 100, T0 + number, 9, Gtid(0, 1, number))


def read(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.value)
    return found


def records(columns: Sequence[SourceColumn], *rows: RowChange, options: JsonOptions = QUIET) -> list[dict[str, Any]]:
    table = SourceTable("shop", "t", tuple(columns))
    events = (Begin(place(1, 0)), Rows(place(1, 1), table, rows), Commit(place(1, 2), "x1"))
    return [read(message) for message in produce_json([Transaction(events)], options)]


def column(kind: Kind, column_type: str, *, charset: str | None = None, unsigned: bool = False) -> SourceColumn:
    return SourceColumn("c", kind, column_type, charset, unsigned, False)


@pytest.mark.parametrize(
    ("of", "value", "text"),
    [
        (column(Kind.INT32, "int(11)"), -5, "-5"),
        (column(Kind.INT64, "bigint(20) unsigned", unsigned=True), 2**64 - 1, "18446744073709551615"),
        (column(Kind.BIT, "bit(3)"), 5, "5"),
        (column(Kind.YEAR, "year(4)"), 2026, "2026"),
        (column(Kind.FLOAT64, "double"), 12510357.0, "1.2510357e+07"),
        (column(Kind.FLOAT32, "float"), 3.0, "3"),
        (column(Kind.DECIMAL, "decimal(5,2)"), "-7.50", "-7.50"),
        (column(Kind.TEXT, "varchar(9)", charset="gbk"), "李".encode("gbk"), "李"),
        (column(Kind.TEXT, "varchar(9)", charset="utf8mb4"), b"", ""),
        (column(Kind.TEXT, "enum('a')", charset="utf8mb4"), b"a", "a"),
        (column(Kind.JSON, "json", charset="utf8mb4"), b'{"a": 1}', '{"a": 1}'),
        (column(Kind.BINARY, "binary(2)"), b"\x00\xff", "0x00ff"),
        (column(Kind.BLOB, "blob"), b"", "0x"),
        (column(Kind.PLAIN, "date"), "2026-01-05", "2026-01-05"),
        (column(Kind.PLAIN, "datetime"), "2026-01-05 01:02:03", "2026-01-05 01:02:03.000"),
        (column(Kind.PLAIN, "datetime(6)"), "2026-01-05 01:02:03.123456", "2026-01-05 01:02:03.123"),
        (column(Kind.PLAIN, "time(1)"), "-838:59:59.5", "-838:59:59.500"),
        (column(Kind.INSTANT, "timestamp(3)"), f"{T0}.250", f"{T0}250"),
        (column(Kind.INSTANT, "timestamp"), "0", "0"),
        (column(Kind.INT32, "int(11)"), None, None),
        (column(Kind.INT32, "int(11)"), ABSENT, None),
    ],
    ids=str,
)  # fmt: skip
def test_each_value_is_a_text(of: SourceColumn, value: Value, text: str | None) -> None:
    _, found, _ = records([of], RowChange(None, (value,)))
    assert (found["messageType"], found["oldColumns"], found["newColumns"]) == ("INSERT", None, [text])
    assert found["columns"][0].keys() == {"name", "dataTypeNumber", "isKey", "originalType"}


@pytest.mark.parametrize(
    ("images", "old", "new"),
    [
        ("texts", ["1", None, "a"], [None, "2", None]),
        ("names", {"id": "1", "n": None, "s": "a"}, {"n": "2"}),
        (
            "objects",
            [{"charset": "", "value": "1"}, None, {"charset": "utf8mb4", "value": "a"}],
            [{"EmptyObject": "NONE"}, {"charset": "", "value": "2"}, {"EmptyObject": "NONE"}],
        ),
    ],
)
def test_images_have_the_form_that_is_asked_for(images: Images, old: Any, new: Any) -> None:
    columns = [
        SourceColumn("id", Kind.INT32, "int(11)", None, False, True),
        SourceColumn("n", Kind.INT32, "int(11)", None, False, False),
        SourceColumn("s", Kind.TEXT, "text", "utf8mb4", False, False),
    ]
    change = RowChange((1, None, b"a"), (ABSENT, 2, ABSENT))
    _, found, _ = records(columns, change, options=JsonOptions(images=images))
    assert (found["messageType"], found["oldColumns"], found["newColumns"]) == ("UPDATE", old, new)
    assert (found["pkNames"], [one["isKey"] for one in found["columns"]]) == (["id"], [True, False, False])


def test_whole_dates_have_the_one_form_of_times() -> None:
    options = JsonOptions(whole_dates=True)
    _, found, _ = records([column(Kind.PLAIN, "date")], RowChange(None, ("2026-01-05",)), options=options)
    assert found["newColumns"] == ["2026-01-05 00:00:00.000"]


def test_messages_have_the_fields_of_the_vendors_table_and_rows_are_messages() -> None:
    id_column = SourceColumn("id", Kind.INT32, "int(11)", None, False, True)
    found = records([id_column], *(RowChange(None, (number,)) for number in (1, 2)))
    assert {tuple(one) for one in found} == {ORDER}
    assert [(one["id"], one["messageType"], one["position"], one["safePosition"]) for one in found] == [
        (1, "BEGIN", "1100@4", "1000@4"), (2, "INSERT", "1200@4", "1000@4"), (3, "INSERT", "1200@4", "1000@4"),
        (4, "COMMIT", "1300@4", "1000@4"),
    ]  # fmt: skip
    assert {(one["version"], one["timestamp"], one["serverId"], one["readerTimestamp"]) for one in found} == {
        (1, T0 + 1, 9, (T0 + 1) * 1000)
    }
    assert [one["transactionId"] for one in found] == [None, None, None, "x1"]
    assert {(one["objectName"], one["gtid"]) for one in found[1:3]} == {("shop.t", str(Gtid(0, 1, 1)))}


def test_statements_and_marks() -> None:
    work = [Transaction((Ddl(place(1, 0), "shop", "CREATE TABLE t (id INT)", 3),))]
    options = JsonOptions(latency_ms=0, heartbeat_seconds=30)
    found = [read(message) for message in produce_json(work, options, until=T0 + 30)]
    assert [(one["messageType"], one["executionTime"], one["heartbeatTimestamp"], one["syncedGtid"]) for one in found] == [
        ("DDL", 3, None, None), *[("CHECKPOINT", None, None, f"{Gtid(0, 1, 1).source}:1")] * 3,
        ("HEARTBEAT", None, T0 + 30, None),
    ]  # fmt: skip
    assert (found[0]["schemaName"], found[0]["sql"]) == ("shop", "CREATE TABLE t (id INT)")


def test_the_table_of_tasks_knows_the_format() -> None:
    vendor = VENDOR_TASKS["dts-json"]
    assert vendor_of(QUIET) is vendor
    assert vendor.schema is None
    work = Transaction((Begin(place(1, 0)), Commit(place(1, 1), "x1")))
    recorded = list(vendor.recording([work], QUIET, None))
    assert recorded == list(produce_json([work], QUIET))
    followed = vendor.following(QUIET, SourceClock(10**9))
    assert isinstance(followed, JsonTask)
    assert [read(one)["messageType"] for one in followed.send(work)] == ["BEGIN", "COMMIT"]
    assert [dict(one.headers)["ps"] for one in recorded] == [b"1", b"2"]
