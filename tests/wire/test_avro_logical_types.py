"""Avro's logical types: each value is what fastavro makes of it, and no bytes are taken for a text that they look like."""

from __future__ import annotations

import io
import json
from datetime import UTC, time, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.avro.logical_types import decimal_texts
from dts_assets.wire.avro.schema import SchemaError, Type, parse_schema, require_bounds
from dts_assets.wire.drs_avro import DrsAvro
from tests.tiers import examples

LOGICAL: dict[str, tuple[Any, str, st.SearchStrategy[Any]]] = {
    "sum": ({"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}, "decimal(30,2)",
            st.decimals(-(10**20), 10**20, places=2)),
    "fixed": ({"type": "fixed", "name": "Fixed", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 0},
              "decimal(20,0)", st.integers(-(10**19), 10**19).map(Decimal)),
    "day": ({"type": "int", "logicalType": "date"}, "date", st.dates()),
    "at": ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp",
           st.datetimes(timezones=st.just(UTC)).map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))),
    "exactly": ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp", st.datetimes(timezones=st.just(UTC))),
    "wall": ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz", st.datetimes()),
    "clock": ({"type": "int", "logicalType": "time-millis"}, "string",
              st.times().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))),
    "exact_clock": ({"type": "long", "logicalType": "time-micros"}, "string", st.times()),
}  # fmt: skip
TABLE = TableId("d", "", "t")


def schema_of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Record", "namespace": "test", "fields": [
        {"name": "id", "type": "long"}, {"name": "op", "type": "string"}, {"name": "db", "type": "string"},
        {"name": "table", "type": "string"}, {"name": "before", "type": {"type": "map", "values": "string"}},
        {"name": "after", "type": {"type": "map", "values": ["null", kind]}},
    ]}  # fmt: skip


def written(kind: Any, value: Any) -> bytes:
    out = io.BytesIO()
    record = {"id": 1, "op": "INSERT", "db": "d", "table": "t", "before": {}, "after": {"c": value}}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema_of(kind)), record)
    return out.getvalue()


def row(kind: Any, lake_type: str, message: bytes) -> dict[str, Any]:
    wire = DrsAvro(json.dumps(schema_of(kind)).encode())
    found = wire.entries(pa.array([message], pa.binary()))
    assert found.rejected == ()
    (made,) = wire.changes(found.batch, {TABLE: (Column("c", lake_type, False),)}).tables
    (one,) = made.batch.to_pylist()
    return {"value": one["after"]["c"], "invalid": dict(one["invalid"])}


@examples(300)
@given(st.data())
def test_values_are_what_another_decoder_makes_of_them(data: st.DataObject) -> None:
    kind, lake_type, values = LOGICAL[data.draw(st.sampled_from(sorted(LOGICAL)))]
    value = data.draw(values)
    found = row(kind, lake_type, written(kind, value))
    assert found["invalid"] == {}
    if isinstance(value, time):
        whole = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
        hours, minutes, seconds = found["value"].split(":")
        assert timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds)) == whole
    else:
        assert found["value"] == value


@pytest.mark.parametrize(
    ("number", "kind", "lake_type"),
    [(1 << 62, "timestamp-micros", "timestamp"), (-1, "time-micros", "string"), (1 << 40, "time-micros", "string"),
     (1_624_614_713_000_000_000, "timestamp-nanos", "string"), (7, "of-their-own", "string")],
)  # fmt: skip
def test_numbers_beyond_their_type_and_types_that_nobody_knows_stay_numbers(
    number: int, kind: str, lake_type: str
) -> None:
    found = row({"type": "long", "logicalType": kind}, lake_type, written("long", number))
    assert str(number) in (found["value"], found["invalid"].get("after.c"))


def test_a_number_of_the_bytes_of_a_digit_is_not_that_digit() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    assert row(kind, "string", written("bytes", b"1"))["value"] == "4.9"


def test_a_decimal_of_more_digits_than_any_database_has_is_shown_and_not_printed() -> None:
    found = decimal_texts(
        Type("bytes", logical="decimal", scale=2), pa.array([b"\x01" * 5_000, b"", None], pa.binary())
    )
    assert [one and one[:6] for one in found.to_pylist()] == [b"0x0101", b"0.00", None]


def _chain(length: int) -> bytes:
    """Records of which each holds the next one twice."""
    records: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}]
    for number in range(1, length):
        fields = [{"name": name, "type": f"R{number - 1}"} for name in "ab"]
        records.append({"type": "record", "name": f"R{number}", "fields": fields})
    return json.dumps(records[::-1]).encode()


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (_chain(60), "its types make more than 65536 values"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]}',
         "its record R holds itself in each of its values"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}',
         "an array in it has items without bytes"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": '
         b'{"type": "record", "name": "E", "fields": [{"name": "b", "type": {"type": "fixed", "name": "F", "size": 0}}]}}}]}',
         "an array in it has items without bytes"),
    ],
    ids=["many", "itself", "nulls", "empty records"],
)  # fmt: skip
def test_types_that_let_a_few_bytes_cost_any_time_are_refused(schema: bytes, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        require_bounds(parse_schema(schema)[0])


def test_types_that_hold_themselves_in_some_values_are_fine() -> None:
    tree = {"type": "record", "name": "Node", "fields": [
        {"name": "left", "type": ["null", "Node"]}, {"name": "more", "type": {"type": "array", "items": "Node"}},
    ]}  # fmt: skip
    require_bounds(parse_schema(json.dumps(tree).encode())[0])
    require_bounds(parse_schema(_chain(12))[0])


def test_a_size_that_no_message_has_is_refused() -> None:
    with pytest.raises(SchemaError, match="the size of F"):
        parse_schema(b'{"type": "fixed", "name": "F", "size": 100000000000000000000}')
