"""The messages of a task: merging, sequence numbers, marks, checkpoints and the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import produce
from dts_emulator.messages.message import Message
from dts_emulator.source.events import (
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Kind,
    Rollback,
    RowChange,
    Rows,
    SourceColumn,
    SourceEvent,
    SourceTable,
    Transaction,
)
from dts_emulator.source.mariadb_gtids import Gtid
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
KEY_11 = b"\0\0\0\x04shop\0\0\0\x01t\0\0\0\x0211"
QUIET = DtsOptions(heartbeat_seconds=0, latency_ms=0, bytes_per_second=1_000_000_000)


def transaction(number: int, second: int, *bodies: bytes, file: int = 1) -> Transaction:
    """BEGIN, one rows event per body, COMMIT; positions grow by 100 per event."""
    gtid = Gtid(0, 1, number)
    start = number * 1000

    def at(index: int) -> Coordinates:
        return Coordinates(
            f"mysql-bin.{file:06d}", start + index * 100, start + index * 100 + 100, T0 + second, 9, gtid
        )

    rows = [
        Rows(at(index), TABLE, (RowChange(None, (number * 10 + index, body)),))
        for index, body in enumerate(bodies, start=1)
    ]
    events: tuple[SourceEvent, ...] = (Begin(at(0)), *rows, Commit(at(len(bodies) + 1), f"x{number}"))
    return Transaction(events)


def statement(number: int, second: int) -> Transaction:
    at = Coordinates("mysql-bin.000001", number * 1000, number * 1000 + 50, T0 + second, 9, Gtid(0, 1, number))
    return Transaction((Ddl(at, "shop", "CREATE TABLE t (id INT)", 3),))


def sets(messages: Sequence[Message], partition: int = 0) -> list[list[pb.Entry]]:
    """The whole entry sets of a partition."""
    found, buffer = [], b""
    for message in messages:
        if message.partition == partition:
            envelope = pb.Envelope.FromString(message.value)
            buffer = envelope.data if envelope.index == 0 else buffer + envelope.data
            if envelope.index + 1 == envelope.total:
                found.append(list(pb.Entries.FromString(buffer).items))
    return found


def kinds(entries: Sequence[pb.Entry]) -> list[str]:
    return [pb.MessageType.Name(entry.header.messageType) for entry in entries]


def test_a_transaction_is_one_set_with_its_coordinates() -> None:
    (message,) = produce([transaction(1, 5, b"a", b"b")], QUIET)
    ((begin, first, second, commit),) = sets([message])
    assert kinds([begin, first, second, commit]) == ["BEGIN", "DML", "DML", "COMMIT"]
    assert first.header == pb.Header(
        version=1, sourceType=pb.MYSQL, messageType=pb.DML, timestamp=T0 + 5, serverId=9, fileName="mysql-bin.000001",
        position=1200, gtid=str(Gtid(0, 1, 1)), schemaName="shop", tableName="t", seqId=2, isLast=True,
    )  # fmt: skip
    assert [e.header.gtid for e in (begin, commit)] == [str(Gtid(0, 1, 1))] * 2
    assert commit.event.commitEvent.transactionId == "x1"
    assert begin.event.beginEvent.transactionId == ""
    assert list(first.event.dmlEvent.columns) == [
        pb.Column(name="id", originalType="int(11)", isKey=True),
        pb.Column(name="body", originalType="longtext"),
    ]
    assert (message.offset, message.timestamp, message.headers) == (0, (T0 + 5) * 1000, (("ps", b"1"),))


def test_ddl_names_its_schema_in_the_event_alone() -> None:
    (message,) = produce([statement(1, 0)], QUIET)
    (((entry),),) = sets([message])
    assert entry.event.ddlEvent == pb.DDLEvent(schemaName="shop", sql="CREATE TABLE t (id INT)", executionTime=3)
    assert (entry.header.schemaName, entry.header.tableName) == ("", "")
    (message,) = produce([statement(1, 0)], replace(QUIET, ddl_execution_seconds=0))
    assert sets([message])[0][0].event.ddlEvent.executionTime == 0


def test_positions_and_transaction_ids_follow_their_options() -> None:
    options = replace(QUIET, header_position="start", transaction_id_on_begin=True, source_type="MARIADB")
    (message,) = produce([transaction(1, 0, b"a")], options)
    ((begin, dml, _),) = sets([message])
    assert dml.header.position == 1100
    assert begin.event.beginEvent.transactionId == "x1"
    assert dml.header.sourceType == pb.MARIADB


def test_operations_carry_the_images_they_have() -> None:
    at = transaction(1, 0).events[0].at
    old, new = (1, b"old"), (1, b"new")
    events = tuple(
        Rows(at, TABLE, (change,)) for change in (RowChange(None, new), RowChange(old, new), RowChange(old, None))
    )
    (message,) = produce([Transaction((Begin(at), *events, Rollback(at)))], QUIET)
    ((_, insert, update, delete, rollback),) = sets([message])
    images = [
        (
            e.event.dmlEvent.dmlEventType,
            len(e.event.dmlEvent.rows[0].oldColumns),
            len(e.event.dmlEvent.rows[0].newColumns),
        )
        for e in (insert, update, delete)
    ]
    assert images == [(pb.INSERT, 0, 2), (pb.UPDATE, 2, 2), (pb.DELETE, 2, 0)]
    assert kinds([rollback]) == ["ROLLBACK"]


def test_entries_are_merged_up_to_the_limit_and_a_large_one_is_alone() -> None:
    messages = list(
        produce([transaction(1, 0, b"a" * 100, b"b" * 100, b"c" * 1000, b"d")], replace(QUIET, max_message_bytes=500))
    )
    assert [kinds(found) for found in sets(messages)] == [["BEGIN", "DML"], ["DML"], ["DML"], ["DML", "COMMIT"]]
    totals = [(pb.Envelope.FromString(m.value).total, pb.Envelope.FromString(m.value).index) for m in messages]
    assert totals == [(1, 0), (1, 0), (3, 0), (3, 1), (3, 2), (1, 0)]
    assert all(len(pb.Envelope.FromString(m.value).data) <= 500 for m in messages)


def test_transactions_are_merged_while_they_may_linger() -> None:
    transactions = [transaction(1, 0, b"a"), transaction(2, 1, b"b"), transaction(3, 4, b"c")]
    messages = list(produce(transactions, replace(QUIET, linger_ms=2000)))
    assert [kinds(found).count("COMMIT") for found in sets(messages)] == [2, 1]
    assert [message.timestamp - T0 * 1000 for message in messages] == [2000, 4000]


def test_sequence_numbers_are_contiguous_per_partition_and_offsets_follow() -> None:
    options = replace(QUIET, partitions=4, first_offset=70, shard_id="set_1")
    messages = list(produce([transaction(number, number, b"x") for number in range(1, 40)], options, until=T0 + 60))
    for partition in range(4):
        mine = [message for message in messages if message.partition == partition]
        assert [dict(message.headers)["ps"] for message in mine] == [b"%d" % n for n in range(1, len(mine) + 1)]
        assert [message.offset for message in mine] == list(range(70, 70 + len(mine)))
        assert {dict(message.headers)["ShardId"] for message in mine} == {b"set_1"}


def test_checkpoints_come_every_ten_seconds_into_every_partition() -> None:
    options = replace(QUIET, partitions=4)
    messages = list(produce([transaction(1, 3, b"a"), transaction(2, 14, b"b")], options, until=T0 + 40))
    for partition in range(4):
        found = [s[0] for s in sets(messages, partition) if kinds(s) == ["CHECKPOINT"]]
        assert [entry.header.timestamp - T0 for entry in found] == [10, 20, 30, 40]
        points = [(e.event.checkpointEvent.position, e.event.checkpointEvent.syncedGtid) for e in found]
        uuid = Gtid(0, 1, 1).source
        assert points == [(1300, f"{uuid}:1"), *[(2300, f"{uuid}:1-2")] * 3]
        assert {e.event.checkpointEvent.fileName for e in found} == {"mysql-bin.000001"}
        assert {e.header.gtid for e in found} == {""}


def test_heartbeats_come_at_their_own_pace() -> None:
    messages = list(produce([transaction(1, 3, b"a")], replace(QUIET, heartbeat_seconds=30), until=T0 + 60))
    beats = [s[0] for s in sets(messages) if kinds(s) == ["HEARTBEAT"]]
    assert [beat.event.heartbeatEvent.epoch - T0 for beat in beats] == [30, 60]


def test_a_checkpoint_inside_a_long_transaction_names_the_one_before() -> None:
    options = replace(QUIET, max_message_bytes=1000, bytes_per_second=500)
    messages = list(produce([transaction(1, 0, b"a"), transaction(2, 5, b"b" * 4000, b"c" * 4000)], options))
    found = sets(messages)
    assert [kinds(s) for s in found] == [
        ["BEGIN", "DML", "COMMIT"],
        ["BEGIN"],
        ["DML"],
        ["CHECKPOINT"],
        ["DML"],
        ["CHECKPOINT"],
        ["COMMIT"],
    ]
    for checkpoint in (s[0] for s in found if kinds(s) == ["CHECKPOINT"]):
        assert checkpoint.event.checkpointEvent.position == 1300
        assert checkpoint.event.checkpointEvent.syncedGtid.endswith(":1")


def test_fragments_lie_apart_and_nothing_comes_between_them() -> None:
    options = replace(QUIET, max_message_bytes=1000, bytes_per_second=1000)
    messages = list(produce([transaction(1, 8, b"b" * 3500)], options, until=T0 + 20))
    large = [m for m in messages if pb.Envelope.FromString(m.value).total > 1]
    assert [m.offset for m in large] == list(range(large[0].offset, large[0].offset + len(large)))
    assert all(900 < later.timestamp - earlier.timestamp < 1100 for earlier, later in pairwise(large))
    assert large[0].timestamp < (T0 + 10) * 1000 < large[-1].timestamp


@pytest.mark.parametrize(("boundaries", "partitions"), [("broadcast", [0, 1, 2, 3]), ("touched", [crc32(KEY_11) % 4])])
def test_boundaries_go_to_all_partitions_or_those_with_rows(boundaries: str, partitions: list[int]) -> None:
    options = DtsOptions(
        partitions=4, heartbeat_seconds=0, transaction_boundaries="touched" if boundaries == "touched" else "broadcast"
    )
    messages = list(produce([transaction(1, 0, b"a")], options))
    assert [m.partition for m in messages if "COMMIT" in kinds(sets([m], m.partition)[0])] == partitions
    assert len(messages) == len(partitions)
    copies = [sets([m], m.partition)[0][-1].header for m in messages]
    assert {(header.seqId, header.position, header.gtid) for header in copies} == {(3, 1300, str(Gtid(0, 1, 1)))}


@pytest.mark.parametrize(("routing", "partitions"), [("broadcast", [0, 1, 2, 3]), ("first", [0])])
def test_ddl_goes_to_all_partitions_or_the_first(routing: str, partitions: list[int]) -> None:
    options = DtsOptions(partitions=4, ddl_routing="first" if routing == "first" else "broadcast")
    assert [m.partition for m in produce([statement(1, 0)], options)] == partitions


def test_pieces_of_one_event_share_position_and_number() -> None:
    at = transaction(1, 0).events[0].at
    rows = Rows(at, TABLE, tuple(RowChange(None, (number, b"")) for number in range(20)))
    messages = list(produce([Transaction((Begin(at), rows, Commit(at, "")))], replace(QUIET, partitions=4)))
    pieces = [entry for m in messages for entry in sets([m], m.partition)[0] if kinds([entry]) == ["DML"]]
    assert len(pieces) == 4
    assert sum(len(piece.event.dmlEvent.rows) for piece in pieces) == 20
    assert {(piece.header.position, piece.header.seqId) for piece in pieces} == {(at.end, 2)}


@examples(60)
@given(
    st.lists(st.tuples(st.integers(-20, 40), st.lists(st.integers(0, 3000), max_size=4)), max_size=12),
    st.integers(1, 8), st.integers(0, 5000), st.integers(50, 2000), st.integers(3000, 100_000),
)  # fmt: skip
def test_whatever_comes_is_sent_once_in_order_and_time_never_goes_back(
    work: list[tuple[int, list[int]]], partitions: int, linger_ms: int, limit: int, rate: int
) -> None:
    options = DtsOptions(
        partitions=partitions, linger_ms=linger_ms, max_message_bytes=limit, bytes_per_second=rate, latency_ms=50
    )
    second, transactions = 0, []
    for number, (step, sizes) in enumerate(work, start=1):
        second += step
        transactions.append(transaction(number, second, *(b"x" * size for size in sizes)))
    messages = list(produce(transactions, options, until=T0 + 40 * len(work) + 300))
    rows: list[int] = []
    for partition in range(partitions):
        mine = [message for message in messages if message.partition == partition]
        assert [m.timestamp for m in mine] == sorted(m.timestamp for m in mine)
        reached = synced = 0
        for found in sets(messages, partition):
            for entry in found:
                if kinds([entry]) == ["CHECKPOINT"]:
                    assert len(found) == 1
                    synced = entry.event.checkpointEvent.position
                elif kinds([entry]) != ["HEARTBEAT"]:
                    assert entry.header.position > reached
                    assert entry.header.position > synced
                    reached = entry.header.position
                if kinds([entry]) == ["DML"]:
                    rows += [int(row.newColumns[0].sv) for row in entry.event.dmlEvent.rows]
        if transactions:
            assert synced == transactions[-1].end.end
    assert sorted(rows) == [n * 10 + i for n, (_, sizes) in enumerate(work, start=1) for i in range(1, len(sizes) + 1)]


@pytest.mark.parametrize("mistake", [{"partitions": 0}, {"max_message_bytes": 0}, {"latency_ms": -1}])
def test_options_that_make_no_sense_are_refused(mistake: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        replace(QUIET, **mistake)  # type: ignore[arg-type]  # the point is a wrong value, whatever the field
