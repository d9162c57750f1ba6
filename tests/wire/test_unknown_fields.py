"""Fields that the protocol does not have are counted by name, and payloads that hold only known ones are never parsed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, unknown_fields
from tests.dts_messages import dml, entry, number, text
from tests.tiers import examples
from tests.wire.made import batch, messages, sets

FIELD_10 = b"\x50\x01"
TABLES = {TableId("shopdb", "", "orders"): (Column("id", "int", True), Column("note", "string", False))}


@pytest.fixture(params=["ptars", "protobuf"])
def wire(request: pytest.FixtureRequest) -> DtsProtobuf:
    return DtsProtobuf(request.param)


def with_field_10(message: Any) -> None:
    """Add a field that no message of the protocol has."""
    message.MergeFromString(FIELD_10)


def _begin() -> pb.Entry:
    made = entry(pb.BEGIN, gtid="uuid:5", position=300, serverId=1 << 40)
    made.event.beginEvent.transactionId = "t"
    return made


def _row() -> pb.Entry:
    made = entry(pb.DML, schemaName="shopdb", tableName="orders", position=1 << 33)
    event = made.event.dmlEvent
    event.columns.add(name="id", originalType="int", isKey=True)
    event.columns.add(name="note", originalType="text")
    event.rows.add(newColumns=[number("7"), text("x" * 300)])
    return made


PLACES: dict[str, Callable[[pb.Entry], Any]] = {
    "Entry": lambda one: one,
    "Header": lambda one: one.header,
    "Event": lambda one: one.event,
    "BeginEvent": lambda one: one.event.beginEvent,
}


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_field_is_counted_where_it_stands(wire: DtsProtobuf, place: str) -> None:
    made = _begin()
    with_field_10(PLACES[place](made))
    found = wire.entries(sets(_begin(), made, _begin()))
    assert (found.batch.num_rows, found.unknown) == (3, {f"field 10 of {place}": 1})


def test_an_unknown_field_of_a_column_is_counted_with_the_entries(wire: DtsProtobuf) -> None:
    made = _row()
    with_field_10(made.event.dmlEvent.columns[1])
    assert wire.entries(sets(_row(), made, made)).unknown == {"field 10 of Column": 2}


def test_what_stands_between_entries_is_counted(wire: DtsProtobuf) -> None:
    data = sets(_begin())[0].as_py() + FIELD_10
    assert wire.entries(pa.array([data, sets(_row())[0].as_py()], pa.binary())).unknown == {"field 10 of Entries": 1}


ROW_PLACES: dict[str, Callable[[pb.Entry], Any]] = {
    "Entry": lambda one: one,
    "Event": lambda one: one.event,
    "DMLEvent": lambda one: one.event.dmlEvent,
    "RowChange": lambda one: one.event.dmlEvent.rows[0],
    "Data": lambda one: one.event.dmlEvent.rows[0].newColumns[1],
}


@pytest.mark.parametrize("place", ROW_PLACES)
def test_an_unknown_field_of_a_row_is_counted_when_rows_are_decoded(wire: DtsProtobuf, place: str) -> None:
    made = _row()
    with_field_10(ROW_PLACES[place](made))
    assert wire.entries(sets(_row(), made)).unknown == {}
    found = wire.changes(batch(_row(), made), TABLES)
    assert (found.unknown, found.tables[0].batch.num_rows) == ({f"field 10 of {place}": 1}, 2)


def test_a_known_field_whose_tag_was_damaged_is_an_unknown_one(wire: DtsProtobuf) -> None:
    data = sets(_row())[0].as_py().replace(b"\x4a\x06shopdb", b"\x6a\x06shopdb")  # field 9 becomes field 13
    found = wire.entries(pa.array([data], pa.binary()))
    assert found.batch["database"].to_pylist() == [""]
    assert found.unknown == {"field 13 of Header": 1}


@examples(60)
@given(
    st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 32) - 1),
    st.text(max_size=200), st.lists(st.tuples(st.text(max_size=9), st.text(max_size=200)), max_size=3), st.booleans(),
)  # fmt: skip
def test_what_protobuf_writes_of_known_fields_is_never_looked_at_twice(
    server: int, position: int, timestamp: int, name: str, pairs: list[tuple[str, str]], last: bool
) -> None:
    made = entry(pb.BEGIN, serverId=server, position=position, timestamp=timestamp, gtid=name, isLast=last)
    for key, value in pairs:
        made.header.properties.add(key=key, value=value)
        made.event.properties.add(key=key, value=value)
    made.event.beginEvent.threadId = server
    checkpoint = entry(pb.CHECKPOINT)
    checkpoint.event.checkpointEvent.CopyFrom(pb.CheckpointEvent(syncedGtid=name, fakeGtid=last, position=position))
    looked_at: list[int] = []

    def counted(_: pa.Array, rows: Any, *rest: Any) -> dict[str, int]:
        looked_at.extend(rows.tolist())
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unknown_fields, "_counted", counted)
        DtsProtobuf().entries(sets(made, checkpoint, _row()))
        DtsProtobuf().changes(batch(_row(), dml([], [])), TABLES)
    assert looked_at == []


def test_of_many_that_are_larger_than_they_should_be_only_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_fields, "MOST_PARSED", 2)
    made = _begin()
    with_field_10(made)
    found = dict(DtsProtobuf().entries(sets(*[made] * 5)).unknown)
    assert found.pop("field 10 of Entry") == 2
    assert list(found.values()) == [3]


def test_a_segment_of_nothing_is_no_message(wire: DtsProtobuf) -> None:
    values = [pb.Envelope(version=1, total=1, data=b"x"), pb.Envelope(version=1, total=1)]
    found = wire.fragments(messages(*(one.SerializeToString() for one in values)))
    assert found["reason"].to_pylist() == [None, Reason.UNDECODABLE_MESSAGE]
