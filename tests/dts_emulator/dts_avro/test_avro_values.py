"""Every kind of value as the vendor's table of types says, read again by fastavro; and the schema file itself."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pytest

from dts_emulator.dts_avro.avro_task import AvroOptions, produce_avro
from dts_emulator.dts_avro.records import record_schema, schema_file
from dts_emulator.messages.message import Message
from dts_emulator.source.events import (
    ABSENT,
    Coordinates,
    Kind,
    RowChange,
    Rows,
    SourceColumn,
    SourceTable,
    Transaction,
    Value,
)

PARTS = ("year", "month", "day", "hour", "minute", "second", "millis")
TEXT_AS_BYTES = AvroOptions(text_as="binary")


def read(message: Message) -> dict[str, Any]:
    """A message as its record, with the values of unions tagged by the full names of their types."""
    data = io.BytesIO(message.value)
    found = fastavro.schemaless_reader(data, record_schema(), None, return_record_name=True, return_named_type=True)
    assert isinstance(found, dict)
    assert data.read() == b""
    return found


def record(columns: Sequence[SourceColumn], values: Sequence[Value], options: AvroOptions) -> dict[str, Any]:
    """The record of an INSERT."""
    at = Coordinates("mysql-bin.000001", 100, 200, 1_767_571_200, 9, None)
    rows = Rows(at, SourceTable("d", "t", tuple(columns)), (RowChange(None, tuple(values)),))
    (message,) = produce_avro([Transaction((rows,))], options)
    return read(message)


def column(kind: Kind, column_type: str, *, charset: str | None = None, unsigned: bool = False) -> SourceColumn:
    return SourceColumn("c", kind, column_type, charset, unsigned, False)


def value_of(of: SourceColumn, value: Value, options: AvroOptions | None = None) -> tuple[str, Any]:
    """The name of a value's type, without its namespace, and the value."""
    ((name, found),) = record([of], [value], options or AvroOptions())["newColumns"]
    assert name.startswith("com.tencent.subscribe.avro.")
    return name.rpartition(".")[2], found


def clock(*parts: int | None) -> dict[str, int | None]:
    return dict(zip(PARTS, parts, strict=True))


@pytest.mark.parametrize(
    ("kind", "column_type", "value"),
    [
        (Kind.INT8, "tinyint(4)", -128),
        (Kind.INT16, "smallint(6)", 32767),
        (Kind.INT32, "mediumint(9)", -8388608),
        (Kind.INT32, "int(11)", 0),
        (Kind.INT64, "bigint(20) unsigned", 2**64 - 1),
        (Kind.BIT, "bit(3)", 5),
        (Kind.BIT, "bit(64)", 2**64 - 1),
    ],
)
def test_whole_numbers_are_texts_with_all_their_digits(kind: Kind, column_type: str, value: int) -> None:
    name, found = value_of(column(kind, column_type, unsigned="unsigned" in column_type), value)
    assert (name, found["value"]) == ("Integer", str(value))


@pytest.mark.parametrize(
    ("kind", "column_type", "value", "parts"),
    [
        (Kind.YEAR, "year(4)", 1999, (1999, None, None, None, None, None, None)),
        (Kind.YEAR, "year(4)", 0, (0, None, None, None, None, None, None)),
        (Kind.PLAIN, "date", "2021-05-17", (2021, 5, 17, None, None, None, None)),
        (Kind.PLAIN, "date", "0000-00-00", (0, 0, 0, None, None, None, None)),
        (Kind.PLAIN, "time", "23:59:58", (None, None, None, 23, 59, 58, 0)),
        (Kind.PLAIN, "time(6)", "-838:59:58.999999", (None, None, None, -838, -59, -58, -999)),
        (Kind.PLAIN, "time(3)", "-00:00:00.500", (None, None, None, 0, 0, 0, -500)),
        (Kind.PLAIN, "datetime", "9999-12-31 23:59:59", (9999, 12, 31, 23, 59, 59, 0)),
        (Kind.PLAIN, "datetime(6)", "2021-05-17 07:22:42.123999", (2021, 5, 17, 7, 22, 42, 123)),
        (Kind.PLAIN, "datetime(1)", "2021-05-17 07:22:42.5", (2021, 5, 17, 7, 22, 42, 500)),
        (Kind.PLAIN, "datetime(3)", "0000-00-00 00:00:00.000", (0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_dates_and_times_have_the_parts_of_their_types(
    kind: Kind, column_type: str, value: Value, parts: tuple[int | None, ...]
) -> None:
    assert value_of(column(kind, column_type), value) == ("DateTime", clock(*parts))


@pytest.mark.parametrize(
    ("value", "seconds", "millis"),
    [
        ("1621236162", 1621236162, 0),
        ("1621236162.500", 1621236162, 500),
        ("1621236162.999999", 1621236162, 999),
        ("1.001", 1, 1),
        ("0", 0, 0),
        ("0.000000", 0, 0),
        ("4294967295", 4294967295, 0),
    ],
)
def test_timestamps_are_seconds_and_milliseconds(value: str, seconds: int, millis: int) -> None:
    found = value_of(column(Kind.INSTANT, "timestamp"), value)
    assert found == ("Timestamp", {"timestamp": seconds, "millis": millis})


@pytest.mark.parametrize("value", [0.0, 1.5, -1e300, 1e-320, 16777216.0])
def test_doubles_keep_all_their_bits(value: float) -> None:
    name, found = value_of(column(Kind.FLOAT64, "double"), value)
    assert (name, found["value"].hex()) == ("Float", value.hex())


def test_a_single_reads_back_as_the_same_single() -> None:
    import numpy as np

    single = float(np.float32(0.1))
    name, found = value_of(column(Kind.FLOAT32, "float"), single)
    assert (name, float(np.float32(found["value"]))) == ("Float", single)


def test_decimals_have_precision_and_scale_of_their_column() -> None:
    found = value_of(column(Kind.DECIMAL, "decimal(12,2) unsigned"), "0.10")
    assert found == ("Decimal", {"value": "0.10", "precision": 12, "scale": 2})


@pytest.mark.parametrize(
    ("column_type", "charset", "said"),
    [
        ("char(3)", "gbk", "gbk"),
        ("varchar(40)", "utf8mb3", "utf8"),
        ("tinytext", "latin1", "latin1"),
        ("longtext", "utf8mb4", "utf8mb4"),
    ],
)
def test_texts_are_bytes_in_their_charset(column_type: str, charset: str, said: str) -> None:
    found = value_of(column(Kind.TEXT, column_type, charset=charset), b"\xd6\xd0")
    assert found == ("Character", {"charset": said, "value": b"\xd6\xd0"})


def test_texts_of_all_lengths_may_be_objects_as_blobs_are() -> None:
    for column_type in ("tinytext", "text", "mediumtext", "longtext"):
        found = value_of(column(Kind.TEXT, column_type, charset="gbk"), b"\xd6\xd0", TEXT_AS_BYTES)
        assert found == ("BinaryObject", {"type": column_type, "value": b"\xd6\xd0"})
    assert value_of(column(Kind.TEXT, "varchar(9)", charset="gbk"), b"", TEXT_AS_BYTES)[0] == "Character"


@pytest.mark.parametrize(
    ("kind", "column_type", "name"),
    [
        (Kind.BINARY, "binary(3)", "binary"),
        (Kind.BINARY, "varbinary(9)", "varbinary"),
        (Kind.BLOB, "tinyblob", "tinyblob"),
        (Kind.BLOB, "longblob", "longblob"),
        (Kind.BLOB, "point", "point"),
        (Kind.BLOB, "geometry", "geometry"),
    ],
)
def test_bytes_are_objects_with_the_name_of_their_type(kind: Kind, column_type: str, name: str) -> None:
    assert value_of(column(kind, column_type), b"\0\xff") == ("BinaryObject", {"type": name, "value": b"\0\xff"})


@pytest.mark.parametrize(
    ("kind", "column_type", "charset", "value", "name", "text"),
    [
        (Kind.TEXT, "enum('a','中')", "gbk", "中".encode("gbk"), "enum", "中"),
        (Kind.TEXT, "enum('é')", "latin1", b"\xe9", "enum", "é"),
        (Kind.TEXT, "enum('ř')", "latin2", "ř".encode("iso8859-2"), "enum", "ř"),
        (Kind.TEXT, "enum('x')", "ucs2", b"\0x", "enum", "x"),
        (Kind.TEXT, "set('a','b')", "utf8mb4", b"a,b", "set", "a,b"),
        (Kind.TEXT, "set('a')", "utf8mb4", b"", "set", ""),
        (Kind.JSON, "longtext", "utf8mb4", '{"a": "中"}'.encode(), "json", '{"a": "中"}'),
    ],
)
def test_labels_and_json_are_texts(
    kind: Kind, column_type: str, charset: str, value: bytes, name: str, text: str
) -> None:
    assert value_of(column(kind, column_type, charset=charset), value) == ("TextObject", {"type": name, "value": text})


def test_json_may_be_the_longtext_that_it_is() -> None:
    of = column(Kind.JSON, "longtext", charset="utf8mb4")
    found = value_of(of, b"[]", AvroOptions(json_as="text"))
    assert found == ("Character", {"charset": "utf8mb4", "value": b"[]"})


@pytest.mark.parametrize("kind", [Kind.INT32, Kind.TEXT, Kind.INSTANT, Kind.BLOB])
def test_null_and_a_column_that_was_left_out_are_told_apart(kind: Kind) -> None:
    assert value_of(column(kind, "x", charset="utf8mb4"), None) == ("EmptyObject", "NULL")
    assert value_of(column(kind, "x", charset="utf8mb4"), ABSENT) == ("EmptyObject", "NONE")


def test_columns_are_described_with_their_numbers_types_and_keys() -> None:
    columns = [
        SourceColumn("id", Kind.INT32, "int(11) unsigned", None, True, True),
        SourceColumn("at", Kind.INSTANT, "timestamp(3)", None, False, True),
        SourceColumn("doc", Kind.JSON, "longtext", "utf8mb4", False, False),
    ]
    found = record(columns, [1, "5.000", b"{}"], AvroOptions())
    assert found["columns"] == [
        {"name": "id", "dataTypeNumber": 3, "isKey": True, "originalType": "int(11) unsigned"},
        {"name": "at", "dataTypeNumber": 7, "isKey": True, "originalType": "timestamp(3)"},
        {"name": "doc", "dataTypeNumber": 245, "isKey": False, "originalType": "json"},
    ]
    assert found["pkNames"] == ["id", "at"]
    unsigned = record(columns, [1, "5.000", b"{}"], AvroOptions(original_type_sign=False))
    assert unsigned["columns"][0]["originalType"] == "int(11)"


@pytest.mark.parametrize("column_type", ["geometry", "point", "linestring", "multipolygon"])
def test_all_kinds_of_geometries_have_one_number(column_type: str) -> None:
    (described,) = record([column(Kind.BLOB, column_type)], [b""], AvroOptions())["columns"]
    assert described["dataTypeNumber"] == 255


def test_the_schema_file_has_fourteen_schemas_with_record_last() -> None:
    schemas = json.loads(schema_file())
    names = [schema["name"] for schema in schemas]
    assert (len(names), len(set(names)), names[-1]) == (14, 14, "Record")
    assert {schema["namespace"] for schema in schemas} == {"com.tencent.subscribe.avro"}
    message_type = schemas[-1]["fields"][2]
    assert [field["name"] for field in schemas[-1]["fields"]][:3] == ["id", "version", "messageType"]
    assert message_type["aliases"] == ["operation"]
    assert message_type["type"]["symbols"] == [
        "INSERT", "UPDATE", "DELETE", "DDL", "BEGIN", "COMMIT", "HEARTBEAT", "CHECKPOINT", "ROLLBACK",
    ]  # fmt: skip
