"""NULL in old rows of sources with a schema: of a table with a key it stands for a value that was not sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.dts_protobuf import DtsProtobuf, Engine
from dts_assets.wire.format import ENTRIES
from tests.dts_messages import ABSENT, NULL, Row, dml_event, entry, number, text
from tests.wire.avro_messages import encoded
from tests.wire.scenarios import DATA

SHAPE = [("note", "text"), ("id", "integer"), ("n", "integer")]
COLUMNS = (Column("note", "string", False), Column("id", "int", True), Column("n", "int", False))
ONE, A, BESIDE = number("1"), text("a", "utf8"), (NULL, number("1"), NULL)
LARGE = text("a" * 4000, "utf8")


@pytest.fixture(params=["ptars", "protobuf"])
def wire(request: pytest.FixtureRequest) -> DtsProtobuf:
    engine: Engine = request.param
    return DtsProtobuf(engine)


def event(operation: Any, *rows: Row, key: Sequence[str] = ("id",)) -> bytes:
    described = [(name, kind, name in key) for name, kind in SHAPE]
    return entry(pb.DML, dml_event(described, rows, operation)).SerializeToString()


def changes(wire: DtsProtobuf, *events: bytes, schema: str = "public") -> list[tuple[Any, Any, list[str]]]:
    """The images of all changes, with what was not sent."""
    names = {"database": "shop", "schema": schema, "table": "t"}
    rows = [{**names, "payload": one} for one in events]
    sent = pa.RecordBatch.from_pylist(rows, pa.schema([ENTRIES.field(name) for name in (*names, "payload")]))
    decoded = wire.changes(sent, {TableId("shop", schema, "t"): COLUMNS})
    assert not decoded.rejected
    (found,) = decoded.tables
    found.batch.validate(full=True)
    return [
        tuple(tuple(image.values()) if isinstance(image, dict) else image for image in one)  # type: ignore[misc]
        for one in zip(*(found.batch[name].to_pylist() for name in ("before", "after", "absent")), strict=True)
    ]


GONE = ["before.note", "before.n"]


def test_null_in_an_old_row_of_a_table_with_a_key_was_not_sent(wire: DtsProtobuf) -> None:
    whole = (A, ONE, ONE)
    events = [
        event(pb.INSERT, ((), (NULL, ONE, NULL))),
        event(pb.DELETE, (BESIDE, ()), (whole, ()), ((ABSENT, ONE, NULL), ())),
        event(pb.UPDATE, (BESIDE, (NULL, ONE, NULL)), ((), whole), ((NULL, ONE, ONE), (ABSENT, ONE, NULL))),
    ]
    nothing = (None, 1, None)
    assert changes(wire, *events) == [
        (None, nothing, []),
        (nothing, None, GONE),
        (("a", 1, 1), None, []),
        (nothing, None, GONE),
        (nothing, nothing, GONE),
        (None, ("a", 1, 1), []),
        ((None, 1, 1), nothing, ["before.note", "after.note"]),
    ]


def test_of_large_values_that_no_parser_copies_too(wire: DtsProtobuf) -> None:
    rows = [(BESIDE, (LARGE, ONE, ONE))] * 3
    assert [absent for *_, absent in changes(wire, event(pb.UPDATE, *rows))] == [GONE] * 3


def test_an_index_that_is_not_the_key_is_no_key(wire: DtsProtobuf) -> None:
    """REPLICA IDENTITY USING INDEX: the key is not sent either."""
    assert changes(wire, event(pb.DELETE, ((NULL, NULL, ONE), ())))[0][2] == ["before.note", "before.id"]


def test_without_a_key_null_tells_rows_apart(wire: DtsProtobuf) -> None:
    bag = event(pb.DELETE, (BESIDE, ()), key=())
    assert changes(wire, bag)[0][2] == []
    keyed = event(pb.DELETE, (BESIDE, ()))
    assert [absent for *_, absent in changes(wire, keyed, bag, keyed, bag)] == [GONE, [], GONE, []], "event by event"


def test_null_is_null_in_old_rows_of_mysql(wire: DtsProtobuf) -> None:
    assert changes(wire, event(pb.DELETE, (BESIDE, ())), schema="")[0][2] == []


def test_in_drs_avro_with_a_field_for_the_schema() -> None:
    record = json.loads((DATA / "drs-avro" / "flat.avsc").read_bytes())
    record["fields"].append({"name": "schema", "type": "string"})
    schema = json.dumps(record).encode()
    row, old = {"note": "a", "id": "1", "n": "1"}, {"note": None, "id": "1", "n": None}
    for name, key, gone in (("public", ["id"], GONE), ("public", None, []), ("", ["id"], [])):
        message = {
            "mysqlType": dict(SHAPE), "id": 1, "es": 1624614713000, "database": "shop", "schema": name, "table": "t",
            "type": "UPDATE", "data": [row], "old": [old], "pkNames": key,
        }  # fmt: skip
        wire = DrsAvro(schema, "+00:00")
        found = wire.entries(pa.array([encoded(schema, message)], pa.binary()))
        (made,) = wire.changes(found.batch, {TableId("shop", name, "t"): COLUMNS}).tables
        assert made.batch["absent"].to_pylist() == [gone]
