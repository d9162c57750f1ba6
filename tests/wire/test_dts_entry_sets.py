"""Entry sets to the batch of entries."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import ColumnShape
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, Engine
from dts_assets.wire.format import ENTRIES, Checkpoint, TableShape
from tests.dts_messages import Row, dml, entry, number
from tests.wire.made import sets


@pytest.fixture(params=["ptars", "protobuf"])
def wire(request: pytest.FixtureRequest) -> DtsProtobuf:
    engine: Engine = request.param
    return DtsProtobuf(engine)


def _one(wire: DtsProtobuf, made: pb.Entry) -> dict[str, Any]:
    decoded = wire.entries(sets(made))
    assert decoded.batch.schema == ENTRIES
    assert not decoded.rejected
    row: dict[str, Any] = decoded.batch.to_pylist()[0]
    assert decoded.batch.num_rows == 1
    assert row.pop("payload") == made.SerializeToString()
    row["properties"] = dict(row["properties"])
    return row


def _begin() -> pb.Entry:
    made = entry(pb.BEGIN, gtid="u:1", serverId=7, seqId=9)
    made.event.beginEvent.transactionId, made.event.beginEvent.threadId = "42", 17
    return made


def test_a_begin_with_all_that_it_carries(wire: DtsProtobuf) -> None:
    assert _one(wire, _begin()) == {
        "set_index": 0, "entry_number": 0, "message_type": "BEGIN", "source_type": "MYSQL",
        "event_time": datetime(2022, 3, 24, 8, 21, tzinfo=UTC), "gtid": "u:1", "transaction_id": "42", "thread_id": 17,
        "server_id": 7, "seq_id": 9, "file_name": "mysql-bin.000005", "position": 4, "database": None, "schema": None,
        "table": None, "rows": None, "properties": {},
    }  # fmt: skip


def test_a_commit_has_a_transaction_and_no_thread(wire: DtsProtobuf) -> None:
    made = entry(pb.COMMIT)
    made.event.commitEvent.transactionId = "42"
    found = _one(wire, made)
    assert (found["transaction_id"], found["thread_id"], found["gtid"]) == ("42", None, None)


def test_a_ddl_takes_its_database_from_its_event_and_its_statement_into_properties(wire: DtsProtobuf) -> None:
    made = entry(pb.DDL)
    made.event.ddlEvent.MergeFrom(pb.DDLEvent(schemaName="shopdb", sql="ALTER TABLE t ADD c INT", executionTime=3))
    found = _one(wire, made)
    assert (found["database"], found["table"]) == ("shopdb", None)
    assert found["properties"] == {"sql": "ALTER TABLE t ADD c INT", "executionTime": "3"}


def test_a_heartbeat_and_a_rollback_are_entries(wire: DtsProtobuf) -> None:
    heartbeat, rollback = entry(pb.HEARTBEAT), entry(pb.ROLLBACK)
    heartbeat.event.heartbeatEvent.epoch = 1648110060
    rollback.event.rollbackEvent.SetInParent()
    assert _one(wire, heartbeat)["properties"] == {"epoch": "1648110060"}
    assert _one(wire, rollback)["message_type"] == "ROLLBACK"


def test_a_checkpoint_names_its_own_position(wire: DtsProtobuf) -> None:
    made = entry(pb.CHECKPOINT, fileName="", position=0)
    event = pb.CheckpointEvent(syncedGtid="u:1-13", fakeGtid=True, fileName="mysql-bin.000005", position=2235430)
    made.event.checkpointEvent.MergeFrom(event)
    decoded = wire.entries(sets(_begin(), made))
    assert decoded.checkpoints == (Checkpoint(1, "mysql-bin.000005", 2235430, "u:1-13", fake_gtid=True),)
    assert _one(wire, made)["properties"] == {
        "syncedGtid": "u:1-13", "fakeGtid": "true", "fileName": "mysql-bin.000005", "position": "2235430",
    }  # fmt: skip


def test_reserved_fields_and_vendor_properties_are_kept(wire: DtsProtobuf) -> None:
    made = entry(pb.BEGIN, isLast=True, eventIndex=3, version=2)
    made.event.beginEvent.SetInParent()
    made.header.properties.add(key="tag", value="a")
    made.event.properties.add(key="tag", value="b")
    assert _one(wire, made)["properties"] == {"isLast": "true", "eventIndex": "3", "version": "2", "tag": "b"}


def test_rows_and_shapes_of_dml(wire: DtsProtobuf) -> None:
    old, new = [("id", "int(11)")], [("id", "int(11)"), ("note", "text")]
    row: Row = ([], [number("1")])
    decoded = wire.entries(
        sets(
            dml(old, [row, row]),
            dml(old, [row]),
            dml(new, []),
            dml(old, [row], table="other"),
            dml(old, [row], database=""),
        )
    )
    assert decoded.batch["rows"].to_pylist() == [2, 1, 0, 1, 1]
    assert decoded.batch["database"].to_pylist() == ["shopdb"] * 4 + [""]
    key, note = ColumnShape("id", "int(11)", True), ColumnShape("note", "text", False)
    assert list(decoded.shapes.items()) == [
        (TableShape(TableId("shopdb", "", "orders"), (key,)), 0),
        (TableShape(TableId("shopdb", "", "orders"), (key, note)), 2),
        (TableShape(TableId("shopdb", "", "other"), (key,)), 3),
        (TableShape(TableId("", "", "orders"), (key,)), 4),
    ]


def test_a_source_type_that_is_not_known_keeps_its_number(wire: DtsProtobuf) -> None:
    made = entry(pb.BEGIN)
    made.event.beginEvent.SetInParent()
    newer = entry(pb.BEGIN, sourceType=9)
    newer.event.beginEvent.SetInParent()
    decoded = wire.entries(sets(made, newer, newer))
    assert decoded.batch["source_type"].to_pylist() == ["MYSQL", "9", "9"]
    assert decoded.unknown == {"source type 9": 2}


def test_a_set_that_cannot_be_read_leaves_the_others(wire: DtsProtobuf) -> None:
    good = sets(_begin(), _begin())[0].as_py()
    decoded = wire.entries(pa.array([good, b"\x0a\x7f", good], pa.binary()))
    assert decoded.batch["set_index"].to_pylist() == [0, 0, 2, 2]
    assert decoded.batch["entry_number"].to_pylist() == [0, 1, 0, 1]
    (rejected,) = decoded.rejected
    assert (rejected.index, rejected.entry_number, rejected.reason) == (1, None, Reason.UNDECODABLE_ENTRIES)
    assert rejected.payload == b"\x0a\x7f"


def _unset() -> pb.Entry:
    return entry(pb.DML, schemaName="a", tableName="b")


def _other_event() -> pb.Entry:
    made = entry(pb.COMMIT)
    made.event.commitEvent.SetInParent()
    made.event.ddlEvent.sql = "DROP TABLE t"
    return made


def _unknown_type() -> pb.Entry:
    made = entry(12)
    made.event.beginEvent.SetInParent()
    return made


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (pb.Entry(), Reason.UNDECODABLE_ENTRY),
        (_unset(), Reason.UNDECODABLE_ENTRY),
        (_other_event(), Reason.UNDECODABLE_ENTRY),
        (_unknown_type(), Reason.UNKNOWN_MESSAGE_TYPE),
        (dml([("id", "int")], [], operation=7), Reason.UNKNOWN_OPERATION),
        (dml([("id", "int")], [], operation=-1), Reason.UNKNOWN_OPERATION),
    ],
    ids=[
        "empty",
        "event_missing",
        "event_of_another_type",
        "message_type_unknown",
        "operation_unknown",
        "operation_negative",
    ],
)
def test_an_entry_that_nobody_can_use_is_rejected_alone(wire: DtsProtobuf, made: pb.Entry, reason: Reason) -> None:
    decoded = wire.entries(sets(_begin(), made, _begin()))
    assert decoded.batch["entry_number"].to_pylist() == [0, 2]
    (rejected,) = decoded.rejected
    assert (rejected.index, rejected.entry_number, rejected.reason) == (0, 1, reason)
    assert rejected.payload == made.SerializeToString()
    assert rejected.detail


@pytest.mark.parametrize("field", [6, 8, 9, 10])  # fileName, gtid, schemaName, tableName
def test_names_that_are_not_utf8_reject_their_entry_alone(wire: DtsProtobuf, field: int) -> None:
    # A later header is merged into the first one.
    bad = _begin().SerializeToString() + b"\x0a\x03" + bytes([field << 3 | 2, 1, 0xFF])
    joined = b"".join(b"\x0a" + bytes([len(one)]) + one for one in (bad, _begin().SerializeToString()))
    decoded = wire.entries(pa.array([joined], pa.binary()))
    assert decoded.batch["entry_number"].to_pylist() == [1]
    assert [one.reason for one in decoded.rejected] == [Reason.UNDECODABLE_ENTRY]


def test_numbers_beyond_63_bits_reject_their_entry(wire: DtsProtobuf) -> None:
    made = _begin()
    made.header.position = 1 << 63
    decoded = wire.entries(sets(made, _begin()))
    assert [one.entry_number for one in decoded.rejected] == [0]


def test_no_sets_and_empty_sets(wire: DtsProtobuf) -> None:
    for given in (pa.array([], pa.binary()), pa.array([b"", b""], pa.binary())):
        decoded = wire.entries(given)
        assert decoded.batch.num_rows == 0
        assert decoded.batch.schema == ENTRIES
        assert (decoded.rejected, decoded.shapes, decoded.checkpoints) == ((), {}, ())


def test_a_format_names_its_parser_with_the_version_that_is_installed() -> None:
    for engine in ("ptars", "protobuf"):
        assert DtsProtobuf(engine).decoder == f"{engine} {version(engine)}"
