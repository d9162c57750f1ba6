"""The messages of an emulated Canal: batches, restarts, partitions, changed columns, and texts as Canal writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from dts_emulator.canal.canal_options import CanalOptions
from dts_emulator.canal.canal_task import produce_canal
from dts_emulator.canal.canal_values import sql_type, to_text, type_text
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

T0 = 1_767_571_200  # 2026-01-05T00:00:00Z
TABLE = SourceTable(
    "shop",
    "t",
    (
        SourceColumn("id", Kind.INT32, "int(11)", None, False, True),
        SourceColumn("body", Kind.TEXT, "varchar(40)", "gbk", False, False),
    ),
)
QUIET = CanalOptions(latency_ms=0, bytes_per_second=1_000_000_000)


def at(second: int) -> Coordinates:
    return Coordinates("mysql-bin.000001", 100, 200, T0 + second, 9, None)


def transaction(second: int, *rows: RowChange) -> Transaction:
    return Transaction((Begin(at(second)), Rows(at(second), TABLE, rows), Commit(at(second), "x")))


def insert(*values: Value) -> RowChange:
    return RowChange(None, values)


def statement(sql: str) -> Transaction:
    return Transaction((Ddl(at(0), "shop", sql, 0),))


def read(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [json.loads(message.value) for message in messages]


def inserts(count: int) -> list[Transaction]:
    return [transaction(second, insert(second, b"x")) for second in range(count)]


def test_a_message_has_the_fields_of_a_flat_message_by_their_names() -> None:
    (message,) = produce_canal([transaction(5, insert(1, "第".encode("gbk")))], QUIET)
    assert list(read([message])[0].items()) == [
        ("data", [{"id": "1", "body": "第"}]), ("database", "shop"), ("es", (T0 + 5) * 1000), ("gtid", ""), ("id", 1),
        ("isDdl", False), ("mysqlType", {"id": "int(11)", "body": "varchar(40)"}), ("old", None), ("pkNames", ["id"]),
        ("sql", ""), ("sqlType", {"id": 4, "body": 12}), ("table", "t"), ("ts", (T0 + 5) * 1000), ("type", "INSERT"),
    ]  # fmt: skip
    assert (message.partition, message.offset, message.timestamp, message.key, message.headers) == (
        0, 0, (T0 + 5) * 1000, None, (),
    )  # fmt: skip


def test_neighbours_share_a_batch() -> None:
    found = read(produce_canal(inserts(5), replace(QUIET, batch=2)))
    assert [one["id"] for one in found] == [1, 1, 2, 2, 3]


def test_a_canal_that_is_started_again_counts_anew_and_repeats_what_it_had_sent() -> None:
    found = read(produce_canal(inserts(5), replace(QUIET, batch=3, pause_every=3, repeated=2)))
    rows = [(one["id"], one["data"][0]["id"]) for one in found]
    assert rows == [(1, "0"), (1, "1"), (1, "2"), (1, "1"), (1, "2"), (1, "3"), (2, "4")]
    assert found[1]["es"] == found[3]["es"]
    assert found[1]["ts"] < found[3]["ts"]


def test_old_has_what_changed_in_its_row_or_in_one_before() -> None:
    rows = (
        RowChange((1, b"a"), (1, b"b")),
        RowChange((2, b"a"), (3, b"a")),
        RowChange((4, None), (4, b"")),
    )
    (found,) = read(produce_canal([transaction(0, *rows)], QUIET))
    assert (found["type"], found["data"]) == (
        "UPDATE",
        [{"id": "1", "body": "b"}, {"id": "3", "body": "a"}, {"id": "4", "body": ""}],
    )
    assert found["old"] == [{"body": "a"}, {"id": "2", "body": "a"}, {"id": "4", "body": None}]


def test_a_deleted_row_stands_in_data() -> None:
    (found,) = read(produce_canal([transaction(0, RowChange((1, b"a"), None))], QUIET))
    assert (found["type"], found["data"], found["old"]) == ("DELETE", [{"id": "1", "body": "a"}], None)


def test_columns_that_the_server_did_not_write_are_not_described() -> None:
    """``LogEventConvert.java`` passes them over, and ``MQMessageUtils.java`` describes the columns of ``data``."""
    rows = (
        (RowChange((1, ABSENT), (ABSENT, b"b")),),
        (RowChange((1, ABSENT), (2, ABSENT)),),
        (RowChange((1, ABSENT), None),),
    )
    found = read(produce_canal([transaction(0, *some) for some in rows], QUIET))
    fields = ("data", "old", "mysqlType", "sqlType", "pkNames")
    assert [tuple(one[name] for name in fields) for one in found] == [
        ([{"body": "b"}], [{}], {"body": "varchar(40)"}, {"body": 12}, None),
        ([{"id": "2"}], [{"id": "1"}], {"id": "int(11)"}, {"id": 4}, ["id"]),
        ([{"id": "1"}], None, {"id": "int(11)"}, {"id": 4}, ["id"]),
    ]


@pytest.mark.parametrize(("policy", "expected"), [(0, 1), (1, 1), (2, 4)])
def test_partitions(policy: Any, expected: int) -> None:
    options = replace(QUIET, partitions=4, partition_policy=policy)
    rows = [transaction(0, *(insert(number, b"x") for number in range(40)))]
    found = list(produce_canal(rows, options))
    assert len({message.partition for message in found}) == expected
    assert sum(len(one["data"]) for one in read(found)) == 40
    moved = [transaction(1, RowChange((number, b"x"), (number + 1000, b"x"))) for number in range(9)]
    again = [transaction(2, insert(number + 1000, b"x")) for number in range(9)]
    places = [[message.partition for message in produce_canal(some, options)] for some in (moved, again)]
    assert places[0] == places[1]  # where the new key goes


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE `a` (id INT)", ("CREATE", "shop", "a")),
        ("create table if not exists d2.a (id int)", ("CREATE", "d2", "a")),
        ("ALTER TABLE a ADD b INT", ("ALTER", "shop", "a")),
        ("TRUNCATE a", ("TRUNCATE", "shop", "a")),
        ("truncate table `d2`.`a b`", ("TRUNCATE", "d2", "a b")),
        ("DROP TABLE `a` /* generated by server */", ("ERASE", "shop", "a")),
        ("/* why */ drop table if exists a", ("ERASE", "shop", "a")),
        ("RENAME TABLE a TO b", ("RENAME", "shop", "a")),
        ("CREATE UNIQUE INDEX i ON a (b)", ("CINDEX", "shop", "a")),
        ("DROP INDEX i ON a", ("DINDEX", "shop", "a")),
        ("CREATE DATABASE d2", ("QUERY", "shop", "")),
        ("DROP DATABASE d2", ("QUERY", "shop", "")),
        ("GRANT ALL", ("QUERY", "shop", "")),
    ],
)
def test_types_of_statements(sql: str, expected: tuple[str, str, str]) -> None:
    (found,) = read(produce_canal([statement(sql)], QUIET))
    assert (found["type"], found["database"], found["table"]) == expected
    assert (found["isDdl"], found["sql"], found["data"], found["mysqlType"]) == (True, sql, None, None)


VALUES: Sequence[tuple[Kind, str, str | None, Value, str]] = [
    (Kind.INT64, "bigint(20) unsigned", None, (1 << 64) - 1, "18446744073709551615"),
    (Kind.BIT, "bit(1)", None, 1, "1"),
    (Kind.YEAR, "year(4)", None, 0, "0000"),
    (Kind.YEAR, "year(4)", None, 2026, "2026"),
    (Kind.FLOAT32, "float", None, 1.2510357e7, "1.2510357E7"),
    (Kind.DECIMAL, "decimal(5,2)", None, "-0.10", "-0.10"),
    (Kind.TEXT, "enum('a','it''s')", "latin1", b"it's", "2"),
    (Kind.TEXT, "enum('a')", "latin1", b"", "0"),
    (Kind.TEXT, "set('x','y','z')", None, b"x,z", "5"),
    (Kind.TEXT, "set('x')", None, b"", "0"),
    (Kind.BINARY, "binary(4)", None, b"a\0b\0", "a\0b"),
    (Kind.BINARY, "varbinary(4)", None, b"a\0", "a\0"),
    (Kind.BLOB, "blob", None, bytes(range(256)), "".join(map(chr, range(256)))),
    (Kind.PLAIN, "datetime(3)", None, "2021-01-01 00:00:00.500", "2021-01-01 00:00:00.500"),
    (Kind.INSTANT, "timestamp(3)", None, "1621236162.500", "2021-05-17 15:22:42.500"),
    (Kind.INSTANT, "timestamp", None, "0", "0000-00-00 00:00:00"),
    (Kind.INSTANT, "timestamp(2)", None, "0.00", "0000-00-00 00:00:00.00"),
    (Kind.JSON, "longtext", "utf8mb4", b'{"a": 1}', '{"a": 1}'),
]


@pytest.mark.parametrize(("kind", "column_type", "charset", "value", "expected"), VALUES)
def test_values(kind: Kind, column_type: str, charset: str | None, value: Value, expected: str) -> None:
    column = SourceColumn("c", kind, column_type, charset, "unsigned" in column_type, False)
    assert to_text(column, timezone(timedelta(hours=8)))(value) == expected
    assert type_text(column) == column_type
    assert sql_type(column) != 1111


def test_null_is_null_and_what_is_not_sent_is_left_out() -> None:
    (found,) = read(
        produce_canal(
            [
                transaction(0, insert(1, None)),
            ],
            QUIET,
        )
    )
    assert found["data"] == [{"id": "1", "body": None}]
    (found,) = read(produce_canal([transaction(0, insert(1, ABSENT))], QUIET))
    assert found["data"] == [{"id": "1"}]


@pytest.mark.parametrize(
    "wrong", [{"partitions": 0}, {"batch": 0}, {"repeated": -1}, {"pause_every": 0}, {"latency_ms": -1}]
)
def test_options_that_no_canal_has(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        CanalOptions(source_time_zone=UTC, **wrong)  # type: ignore[arg-type]
