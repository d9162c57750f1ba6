"""The records of a task: one for each row, ids, places in the binlog, marks and partitions. No server takes part."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.gtids import GtidSet
from dts_emulator.dts_avro.avro_task import AvroOptions, AvroTask, produce_avro
from dts_emulator.dts_avro.records import record_schema, schema_file
from dts_emulator.messages.clocks import SECOND, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import (
    ABSENT,
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Kind,
    Rollback,
    RowChange,
    Rows,
    SourceColumn,
    SourceTable,
    Transaction,
)
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS, vendor_of
from tests.tiers import examples

T0 = 1_767_571_200  # 2026-01-05T00:00:00Z, a whole multiple of ten seconds and of a minute
TABLE = SourceTable(
    "shop",
    "t",
    (
        SourceColumn("id", Kind.INT32, "int(11)", None, False, True),
        SourceColumn("body", Kind.TEXT, "longtext", "utf8mb4", False, False),
    ),
)
BAG = SourceTable("shop", "bag", (SourceColumn("n", Kind.INT32, "int(11)", None, False, False),))
QUIET = AvroOptions(heartbeat_seconds=0, latency_ms=0, bytes_per_second=1_000_000_000)
ROWS = ("INSERT", "UPDATE", "DELETE")


def place(number: int, index: int, second: int = 0) -> Coordinates:
    """The event ``index`` of a transaction: 100 bytes long, in a file with the number 4."""
    start = number * 1000 + index * 100
    return Coordinates("mysql-bin.000004", start, start + 100, T0 + second, 9, Gtid(0, 1, number))


def inserts(*ids: int) -> tuple[RowChange, ...]:
    return tuple(RowChange(None, (one, b"x")) for one in ids)


def transaction(number: int, second: int, *events: tuple[RowChange, ...], table: SourceTable = TABLE) -> Transaction:
    rows = [Rows(place(number, index, second), table, changes) for index, changes in enumerate(events, start=1)]
    end = Commit(place(number, len(rows) + 1, second), f"x{number}")
    return Transaction((Begin(place(number, 0, second)), *rows, end))


def statement(number: int, second: int, database: str = "shop") -> Transaction:
    return Transaction((Ddl(place(number, 0, second), database, "CREATE TABLE t (id INT)", 3),))


def read(message: Message) -> dict[str, Any]:
    data = io.BytesIO(message.value)
    found = fastavro.schemaless_reader(data, record_schema(), None)
    assert isinstance(found, dict)
    assert data.read() == b""
    return found


def read_all(messages: Sequence[Message], *kinds: str) -> list[dict[str, Any]]:
    """The records of messages, of some kinds only."""
    return [one for one in map(read, messages) if not kinds or one["messageType"] in kinds]


def test_each_row_is_a_message_with_an_id_of_its_own_at_the_position_of_its_event() -> None:
    messages = list(produce_avro([transaction(1, 5, inserts(1, 2, 3), inserts(4))], QUIET))
    found = read_all(messages)
    assert [(one["id"], one["messageType"], one["position"]) for one in found] == [
        (1, "BEGIN", "1100@4"), (2, "INSERT", "1200@4"), (3, "INSERT", "1200@4"), (4, "INSERT", "1200@4"),
        (5, "INSERT", "1300@4"), (6, "COMMIT", "1400@4"),
    ]  # fmt: skip
    assert {one["gtid"] for one in found} == {str(Gtid(0, 1, 1))}
    assert {one["fileName"] for one in found} == {"mysql-bin.000004"}
    assert len({one["safePosition"] for one in found}) == 1
    assert [one["transactionId"] for one in found] == [None] * 5 + ["x1"]
    assert {(one["version"], one["total"], one["index"]) for one in found} == {(1, 0, 0)}
    assert [(m.offset, m.timestamp, m.key, m.headers) for m in messages] == [
        (number, (T0 + 5) * 1000, None, (("ps", b"%d" % (number + 1)),)) for number in range(6)
    ]


def test_a_row_has_the_fields_of_the_vendors_page() -> None:
    (row,) = read_all(list(produce_avro([transaction(1, 5, inserts(7))], QUIET)), *ROWS)
    told = {name: row[name] for name in ("timestamp", "serverId", "sourceType", "readerTimestamp")}
    assert told == {"timestamp": T0 + 5, "serverId": 9, "sourceType": "MySQL", "readerTimestamp": (T0 + 5) * 1000}
    assert (row["schemaName"], row["tableName"], row["objectName"]) == ("shop", "t", "shop.t")
    assert (row["pkNames"], [one["name"] for one in row["columns"]]) == (["id"], ["id", "body"])
    assert [row[name] for name in ("sql", "executionTime", "heartbeatTimestamp", "syncedGtid", "fakeGtid")] == [
        None
    ] * 5


def test_operations_carry_the_images_they_have() -> None:
    old, new = (1, b"old"), (1, b"new")
    changes = (RowChange(None, new), RowChange(old, new), RowChange(old, None), RowChange(old, (1, ABSENT)))
    events = tuple((change,) for change in changes)
    found = read_all(list(produce_avro([transaction(1, 0, *events)], QUIET)), *ROWS)
    images = [
        (
            one["messageType"],
            *(image if image is None else image[1] for image in (one["oldColumns"], one["newColumns"])),
        )
        for one in found
    ]
    before, after = ({"charset": "utf8mb4", "value": value} for value in (b"old", b"new"))
    assert images == [
        ("INSERT", None, after), ("UPDATE", before, after), ("DELETE", before, None), ("UPDATE", before, "NONE"),
    ]  # fmt: skip


def test_a_table_without_a_key_names_none() -> None:
    (row,) = read_all(list(produce_avro([transaction(1, 0, (RowChange(None, (1,)),), table=BAG)], QUIET)), *ROWS)
    assert (row["pkNames"], [one["isKey"] for one in row["columns"]]) == (None, [False])


def test_a_statement_has_its_database_and_its_duration() -> None:
    (found,) = read_all(list(produce_avro([statement(1, 0)], QUIET)))
    told = {name: found[name] for name in ("messageType", "schemaName", "tableName", "sql", "executionTime", "columns")}
    assert told == {
        "messageType": "DDL", "schemaName": "shop", "tableName": None, "sql": "CREATE TABLE t (id INT)",
        "executionTime": 3, "columns": None,
    }  # fmt: skip
    (found,) = read_all(list(produce_avro([statement(1, 0, "")], replace(QUIET, ddl_execution_seconds=0))))
    assert (found["schemaName"], found["executionTime"]) == (None, 0)


def test_the_end_of_a_transaction_may_be_a_rollback() -> None:
    work = Transaction((Begin(place(1, 0)), Rollback(place(1, 1))))
    assert [one["messageType"] for one in read_all(list(produce_avro([work], QUIET)))] == ["BEGIN", "ROLLBACK"]


def test_copies_of_a_broadcast_share_an_id_and_rows_keep_the_order_of_the_binlog() -> None:
    options = replace(QUIET, partitions=4)
    messages = list(produce_avro([statement(1, 0), transaction(2, 1, inserts(*range(40)))], options))
    by_kind = {
        kind: [(read(m)["id"], m.partition) for m in messages if read(m)["messageType"] == kind]
        for kind in ("DDL", "BEGIN", "INSERT", "COMMIT")
    }
    for kind, number in (("DDL", 1), ("BEGIN", 2), ("COMMIT", 43)):
        assert by_kind[kind] == [(number, partition) for partition in range(4)]
    assert [number for number, _ in by_kind["INSERT"]] == list(range(3, 43))
    assert {partition for _, partition in by_kind["INSERT"]} == {0, 1, 2, 3}
    for kind in ("DDL", "BEGIN", "COMMIT"):
        assert len({m.value for m in messages if read(m)["messageType"] == kind}) == 1


@pytest.mark.parametrize("boundaries", ["broadcast", "touched"])
def test_boundaries_go_to_all_partitions_or_those_with_rows(boundaries: Literal["broadcast", "touched"]) -> None:
    options = replace(QUIET, partitions=4, partitioning="table", transaction_boundaries=boundaries)
    messages = list(produce_avro([transaction(1, 0, inserts(1))], options))
    (of_row,) = {m.partition for m in messages if read(m)["messageType"] == "INSERT"}
    ends = [m.partition for m in messages if read(m)["messageType"] == "COMMIT"]
    assert ends == (list(range(4)) if boundaries == "broadcast" else [of_row])


def test_statements_may_go_to_the_first_partition_alone() -> None:
    messages = list(produce_avro([statement(1, 0)], replace(QUIET, partitions=4, ddl_routing="first")))
    assert [m.partition for m in messages] == [0]


def test_checkpoints_say_how_far_all_was_sent() -> None:
    work = [transaction(1, 3, inserts(1)), transaction(2, 14, inserts(2))]
    messages = list(produce_avro(work, replace(QUIET, partitions=2), until=T0 + 40))
    uuid = Gtid(0, 1, 1).source
    for partition in range(2):
        found = read_all([m for m in messages if m.partition == partition], "CHECKPOINT")
        assert [(one["timestamp"] - T0, one["position"], one["syncedGtid"]) for one in found] == [
            (10, "1300@4", f"{uuid}:1"), *((second, "2300@4", f"{uuid}:1-2") for second in (20, 30, 40)),
        ]  # fmt: skip
        assert {(one["fileName"], one["gtid"], one["fakeGtid"]) for one in found} == {("mysql-bin.000004", None, False)}


def test_heartbeats_have_the_time_of_the_source() -> None:
    options = replace(QUIET, heartbeat_seconds=30)
    found = read_all(list(produce_avro([transaction(1, 3, inserts(1))], options, until=T0 + 60)), "HEARTBEAT")
    assert [one["heartbeatTimestamp"] - T0 for one in found] == [30, 60]
    assert {(one["position"], one["syncedGtid"]) for one in found} == {("1300@4", None)}


def test_a_checkpoint_inside_a_long_transaction_names_the_one_before() -> None:
    work = [transaction(1, 0, inserts(1)), transaction(2, 5, inserts(*range(20)))]
    found = read_all(list(produce_avro(work, replace(QUIET, bytes_per_second=400))))
    kinds = [one["messageType"] for one in found]
    inside = kinds[kinds.index("COMMIT") + 1 :]
    assert inside.index("BEGIN") < inside.index("CHECKPOINT") < inside.index("COMMIT")
    assert {one["position"] for one in found if one["messageType"] == "CHECKPOINT"} == {"1300@4"}
    assert [one["id"] for one in found] == list(range(1, len(found) + 1))


def test_a_task_that_goes_on_has_the_next_id_the_next_number_and_the_old_gtids() -> None:
    first, second = (AvroTask(replace(QUIET, partitions=2), SourceClock(10**9, T0 * SECOND)) for _ in range(2))
    sent = [*first.send(transaction(1, 0, inserts(1, 2)))]
    assert first.committed is not None
    assert first.number == max(one["id"] for one in read_all(sent))
    second.resume(first.committed, synced=first.synced, number=first.number, sent=first.sent)
    more = list(second.advance((T0 + 1) * SECOND))
    more += [*second.send(transaction(2, 1, inserts(3))), *second.advance((T0 + 30) * SECOND)]
    assert read(more[0])["id"] == first.number + 1
    for partition in range(2):
        numbers = [int(dict(m.headers)["ps"]) for m in (*sent, *more) if m.partition == partition]
        assert numbers == list(range(1, len(numbers) + 1))
    last = read_all(more, "CHECKPOINT")[-1]
    assert GtidSet.parse(last["syncedGtid"]) == Gtid(0, 1, 1).as_set() | Gtid(0, 1, 2).as_set()


def test_the_safe_position_is_the_start_of_the_transaction() -> None:
    """The vendor's page: the start offset of the current transaction. Between two of them it is the end of the last."""
    work = [transaction(1, 3, inserts(1)), statement(2, 4), transaction(3, 14, inserts(2))]
    found = read_all(list(produce_avro(work, QUIET)))
    assert [(one["messageType"], one["safePosition"]) for one in found] == [
        ("BEGIN", "1000@4"), ("INSERT", "1000@4"), ("COMMIT", "1000@4"), ("DDL", "2000@4"),
        ("CHECKPOINT", "2100@4"), ("BEGIN", "3000@4"), ("INSERT", "3000@4"), ("COMMIT", "3000@4"),
    ]  # fmt: skip


def test_ids_grow_in_every_partition_and_no_checkpoint_comes_late() -> None:
    """A slow line, so that marks fall due between the copies of a broadcast."""
    options = replace(QUIET, partitions=4, bytes_per_second=700, checkpoint_seconds=1)
    messages = list(produce_avro([transaction(number, number, inserts(number)) for number in range(1, 9)], options))
    for partition in range(4):
        found = read_all([m for m in messages if m.partition == partition])
        assert [one["id"] for one in found] == sorted({one["id"] for one in found})
        ends = 0
        for one in found:
            position = int(one["position"].partition("@")[0])
            ends = position if one["messageType"] == "COMMIT" else ends
            assert one["messageType"] != "CHECKPOINT" or position >= ends


@examples(40)
@given(
    st.lists(st.tuples(st.integers(-20, 40), st.lists(st.integers(1, 5), max_size=3)), max_size=8), st.integers(1, 8)
)
def test_whatever_comes_is_sent_once_in_order_and_time_never_goes_back(
    work: list[tuple[int, list[int]]], partitions: int
) -> None:
    options = replace(QUIET, partitions=partitions, first_offset=70, bytes_per_second=50_000)
    second, transactions, wanted = 0, [], 0
    for number, (step, sizes) in enumerate(work, start=1):
        second += step
        events = tuple(inserts(*range(wanted + 1, (wanted := wanted + size) + 1)) for size in sizes)
        transactions.append(transaction(number, second, *events))
    messages = list(produce_avro(transactions, options, until=T0 + 40 * len(work) + 60))
    rows = read_all(messages, *ROWS)
    assert [one["newColumns"][0]["value"] for one in rows] == [str(number) for number in range(1, wanted + 1)]
    assert [one["id"] for one in rows] == sorted({one["id"] for one in rows})
    for partition in range(partitions):
        mine = [m for m in messages if m.partition == partition]
        assert [m.timestamp for m in mine] == sorted(m.timestamp for m in mine)
        assert [m.offset for m in mine] == list(range(70, 70 + len(mine)))
        places = [int(one["position"].partition("@")[0]) for one in read_all(mine, *ROWS, "BEGIN", "COMMIT")]
        assert places == sorted(places)


def test_the_table_of_tasks_knows_the_format_and_its_schema() -> None:
    vendor = VENDOR_TASKS["dts-avro"]
    assert vendor_of(QUIET) is vendor
    assert vendor.schema is not None
    assert vendor.schema() == schema_file()
    recorded = list(vendor.recording([transaction(1, 0, inserts(1))], QUIET, None))
    assert recorded == list(produce_avro([transaction(1, 0, inserts(1))], QUIET))
    followed = vendor.following(QUIET, SourceClock(10**9))
    assert [m.value for m in followed.send(statement(1, 0))] != []
