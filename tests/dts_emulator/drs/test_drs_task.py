"""The messages of a DRS task: numbers, partitions, pauses, the full load, and texts as the vendor writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.drs.drs_task import produce_drs
from dts_emulator.drs.json_values import to_text, type_name
from dts_emulator.errors import UnsupportedSource
from dts_emulator.messages.float_texts import java_double_text, java_single_text
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
from tests.tiers import examples

T0 = 1_767_571_200  # 2026-01-05T00:00:00Z
TABLE = SourceTable(
    "shop",
    "t",
    (
        SourceColumn("id", Kind.INT32, "int(11)", None, False, True),
        SourceColumn("body", Kind.TEXT, "varchar(40)", "gbk", False, False),
    ),
)
BAG = SourceTable("shop", "bag", (SourceColumn("n", Kind.INT32, "int(11)", None, False, False),))
QUIET = DrsOptions(latency_ms=0, bytes_per_second=1_000_000_000)


def at(second: int) -> Coordinates:
    return Coordinates("mysql-bin.000001", 100, 200, T0 + second, 9, None)


def transaction(second: int, *rows: RowChange, table: SourceTable = TABLE) -> Transaction:
    place = at(second)
    return Transaction((Begin(place), *(Rows(place, table, (row,)) for row in rows), Commit(place, "x")))


def insert(*values: Value) -> RowChange:
    return RowChange(None, values)


def statement(second: int, sql: str) -> Transaction:
    return Transaction((Ddl(at(second), "shop", sql, 0),))


def read(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [json.loads(message.value) for message in messages]


def test_a_message_has_the_fields_of_the_vendors_sample_in_their_order() -> None:
    (message,) = produce_drs([transaction(5, insert(1, "第".encode("gbk")))], QUIET)
    assert list(read([message])[0].items()) == [
        ("mysqlType", {"id": "int", "body": "varchar"}), ("id", 1), ("es", (T0 + 5) * 1000), ("ts", (T0 + 5) * 1000),
        ("database", "shop"), ("table", "t"), ("type", "INSERT"), ("isDdl", False), ("sql", ""),
        ("sqlType", {"id": 4, "body": 12}), ("data", [{"id": "1", "body": "第"}]), ("old", None), ("pkNames", ["id"]),
    ]  # fmt: skip
    assert (message.partition, message.offset, message.timestamp, message.key, message.headers) == (
        0, 0, (T0 + 5) * 1000, None, (),
    )  # fmt: skip


def test_texts_are_escaped_as_the_vendors_table_says() -> None:
    (message,) = produce_drs([transaction(0, insert(1, b"<a='\\'>&\"\n"))], QUIET)
    assert rb'"body":"\u003ca\u003d\u0027\\\u0027\u003e\u0026\"\n"' in message.value


def test_operations_have_the_rows_where_json_c_has_them() -> None:
    old, new = (1, b"a"), (2, b"a")
    rows = (insert(*old), RowChange(old, new), RowChange(new, None), insert(3, None), RowChange(old, (1, ABSENT)))
    found = [(one["type"], one["data"], one["old"]) for one in read(list(produce_drs([transaction(0, *rows)], QUIET)))]
    one, two = {"id": "1", "body": "a"}, {"id": "2", "body": "a"}
    assert found == [
        ("INSERT", [one], None), ("UPDATE", [two], [one]), ("DELETE", [two], None), ("INSERT", [{"id": "3", "body": None}], None),
        ("UPDATE", [{"id": "1"}], [one]),
    ]  # fmt: skip
    changed = read(list(produce_drs([transaction(0, rows[1], rows[4])], replace(QUIET, old="changed"))))
    assert [one["old"] for one in changed] == [[{"id": "1"}], [{"body": "a"}]]


def test_ids_grow_by_one_over_all_partitions_and_offsets_in_each() -> None:
    options = replace(QUIET, partitions=4, partition_policy=2, first_offset=70)
    messages = list(produce_drs([transaction(second, insert(second, b"x")) for second in range(40)], options))
    assert [one["id"] for one in read(messages)] == list(range(1, 41))
    assert {message.partition for message in messages} == {0, 1, 2, 3}
    for partition in range(4):
        mine = [message.offset for message in messages if message.partition == partition]
        assert mine == list(range(70, 70 + len(mine)))


@pytest.mark.parametrize(
    ("policy", "spread"), [(0, {"t": 1, "bag": 1}), (1, {"t": 1, "bag": 1}), (2, {"t": 4, "bag": 1})]
)
def test_policies_spread_rows_as_the_vendor_says(policy: Any, spread: dict[str, int]) -> None:
    work = [
        transaction(0, *(insert(number, b"") for number in range(60))),
        transaction(1, *map(insert, range(60)), table=BAG),
    ]
    messages = list(produce_drs(work, replace(QUIET, partitions=4, partition_policy=policy)))
    used: dict[str, set[int]] = {}
    for message, one in zip(messages, read(messages), strict=True):
        used.setdefault(one["table"], set()).add(message.partition)
    assert {table: len(partitions) for table, partitions in used.items()} == spread
    if policy == 1:
        assert used["t"] == used["bag"] == {0}


def test_rows_may_share_a_message_and_keep_their_order() -> None:
    event = Rows(at(0), TABLE, tuple(insert(number, b"") for number in range(7)))
    messages = read(list(produce_drs([Transaction((event,))], replace(QUIET, rows_per_message=3))))
    assert [[row["id"] for row in one["data"]] for one in messages] == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    apart = list(
        produce_drs([Transaction((event,))], replace(QUIET, rows_per_message=3, partitions=4, partition_policy=2))
    )
    assert [row["id"] for one in read(apart) for row in one["data"]] == [str(number) for number in range(7)]


def test_a_resumed_task_sends_messages_again_with_their_ids() -> None:
    work = [transaction(second, insert(second, b"")) for second in range(1, 8)]
    options = replace(QUIET, pause_every=3, repeated=2, bytes_per_second=1000)
    messages = list(produce_drs(work, options))
    assert [one["id"] for one in read(messages)] == [1, 2, 3, 2, 3, 4, 5, 6, 5, 6, 7]
    assert [message.offset for message in messages] == list(range(11))
    assert [message.timestamp for message in messages] == sorted(message.timestamp for message in messages)
    assert [one["ts"] for one in read(messages)] == [message.timestamp for message in messages]
    by_id: dict[int, list[dict[str, Any]]] = {}
    for one in read(messages):
        by_id.setdefault(one["id"], []).append({name: value for name, value in one.items() if name != "ts"})
    assert all(copy == copies[0] for copies in by_id.values() for copy in copies)


def test_the_full_load_is_what_the_transactions_add_up_to() -> None:
    work = [
        statement(0, "CREATE TABLE t (id INT)"),
        transaction(1, insert(1, b"a"), insert(2, b"b"), insert(3, b"c")),
        transaction(2, RowChange((1, b"a"), (4, b"a")), RowChange((2, b"b"), None)),
        transaction(2, insert(7), insert(7), insert(8), RowChange((8,), None), table=BAG),
        transaction(3, insert(9, b"z")),
        statement(4, "DROP TABLE bag"),
    ]
    found = read(list(produce_drs(work, replace(QUIET, full_load_until=T0 + 2))))
    assert [(one["type"], one["isDdl"], one["es"] // 1000 - T0) for one in found] == [
        ("INIT_DDL", True, 2), *[("INIT", False, 2)] * 4, ("INSERT", False, 3), ("DDL", True, 4),
    ]  # fmt: skip
    assert [(one["table"], one["data"][0]) for one in found[1:5]] == [
        ("t", {"id": "3", "body": "c"}), ("t", {"id": "4", "body": "a"}), ("bag", {"n": "7"}), ("bag", {"n": "7"}),
    ]  # fmt: skip
    assert found[-1]["sql"] == "DROP TABLE bag"
    assert (found[-1]["data"], found[-1]["mysqlType"], found[-1]["database"], found[-1]["table"]) == (
        None,
        None,
        "shop",
        "",
    )
    everything = read(list(produce_drs(work[:-1], replace(QUIET, full_load_until=T0 + 9))))
    assert [one["type"] for one in everything] == ["INIT_DDL", *["INIT"] * 5]


def test_a_statement_that_may_change_rows_cannot_lie_in_the_full_load() -> None:
    work = [
        transaction(1, insert(1, b"a")),
        statement(2, "CREATE TABLE u (id INT)"),
        statement(3, "ALTER TABLE t ADD x INT"),
    ]
    with pytest.raises(UnsupportedSource, match="inside the full load"):
        list(produce_drs(work, replace(QUIET, full_load_until=T0 + 3)))
    assert [one["type"] for one in read(list(produce_drs(work, replace(QUIET, full_load_until=T0 + 2))))] == [
        "INIT_DDL", "INIT", "DDL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "column_type", "value", "name", "text"),
    [
        (Kind.INT64, "bigint(20) unsigned", 2**64 - 1, "bigint", "18446744073709551615"),
        (Kind.BIT, "bit(3)", 5, "bit", "5"),
        (Kind.YEAR, "year(4)", 2021, "year", "2021"),
        (Kind.FLOAT32, "float", 10357.0, "float", "10357.0"),
        (Kind.FLOAT64, "double unsigned", 12510357.0, "double", "1.2510357E7"),
        (Kind.DECIMAL, "decimal(12,2)", "-0.10", "decimal", "-0.10"),
        (Kind.BINARY, "varbinary(9)", b"j\xfd\xff\x00\x7f\x80", "varbinary", "[106, -3, -1, 0, 127, -128]"),
        (Kind.BLOB, "longblob", b"", "longblob", "[]"),
        (Kind.JSON, "longtext", b"{}", "json", "{}"),
        (Kind.TEXT, "enum('a','b')", b"a", "enum", "a"),
        (Kind.PLAIN, "datetime(3)", "2021-06-25 17:51:53.201", "datetime", "2021-06-25 17:51:53.201"),
        (Kind.INSTANT, "timestamp(3)", "1624614713.201", "timestamp", "2021-06-25 17:51:53.201"),
        (Kind.INSTANT, "timestamp", "1624614713", "timestamp", "2021-06-25 17:51:53"),
        (Kind.INSTANT, "timestamp(1)", "0.0", "timestamp", "0000-00-00 00:00:00"),
    ],
)
def test_values_are_as_the_vendor_writes_them(kind: Kind, column_type: str, value: Value, name: str, text: str) -> None:
    options = DrsOptions(source_time_zone=timezone(timedelta(hours=8)))
    column = SourceColumn("c", kind, column_type, None, False, False)
    assert (type_name(column, options), to_text(column, options)(value)) == (name, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"), (1.0, "1.0"), (0.001, "0.001"), (0.00099, "9.9E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (-1.5e300, "-1.5E300"), (123456.75, "123456.75"), (0.1, "0.1"), (1e-320, "1.0E-320"),
    ],
)  # fmt: skip
def test_floating_point_numbers_are_javas(value: float, text: str) -> None:
    assert java_double_text(value) == text


@examples(200)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_their_texts_read_back_as_the_same_number(double: float, single: float) -> None:
    assert float(java_double_text(double)).hex() == double.hex()
    assert float(np.float32(java_single_text(single))).hex() == single.hex()


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"rows_per_message": 0},
        {"bytes_per_second": 0},
        {"repeated": -1},
        {"pause_every": 0},
        {"latency_ms": -1},
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        DrsOptions(**wrong)  # type: ignore[arg-type]
