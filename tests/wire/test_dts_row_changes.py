"""DML entries to typed rows, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, Engine
from dts_assets.wire.format import DecodedChanges
from tests.dts_messages import ABSENT, NULL, Row, dml, number, raw, text
from tests.wire.made import batch

ORDERS = TableId("shopdb", "", "orders")
KEY = ("id", "int(11)")


@pytest.fixture(params=["ptars", "protobuf"])
def wire(request: pytest.FixtureRequest) -> DtsProtobuf:
    engine: Engine = request.param
    return DtsProtobuf(engine)


def _columns(*columns: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, kind, place == 0) for place, (name, kind) in enumerate(columns))


def _rows(decoded: DecodedChanges, table: TableId = ORDERS) -> list[dict[str, Any]]:
    (found,) = [one for one in decoded.tables if one.table == table]
    found.batch.validate(full=True)
    rows: list[dict[str, Any]] = found.batch.to_pylist()
    for row in rows:
        row["invalid"] = dict(row["invalid"])
    return rows


def _value(wire: DtsProtobuf, data: pb.Data, original: str, kind: str) -> tuple[Any, dict[str, str]]:
    """What one value becomes beside a good row, and the ``invalid`` map of its row."""
    made = dml([KEY, ("v", original)], [([], [number("1"), NULL]), ([], [number("2"), data])])
    rows = _rows(wire.changes(batch(made), {ORDERS: _columns(("id", "int"), ("v", kind))}))
    assert rows[0]["after"] == {"id": 1, "v": None}
    assert rows[0]["invalid"] == {}
    return rows[1]["after"]["v"], rows[1]["invalid"]


FITTING: Sequence[tuple[pb.Data, str, str, Any]] = [
    (number("-128", pb.INT8), "tinyint(4)", "int", -128),
    (number("007"), "int(3) zerofill", "bigint", 7),
    (
        number("18446744073709551615", pb.UINT64),
        "bigint(20) unsigned",
        "decimal(20,0)",
        Decimal("18446744073709551615"),
    ),
    (number("-1", pb.INT64), "bit(64)", "decimal(20,0)", Decimal(2**64 - 1)),
    (number("5", pb.INT64), "bit(8)", "bigint", 5),
    (number("2021", pb.INT64), "year(4)", "int", 2021),
    (number("1.2510357e+07", pb.FLOAT64), "double", "double", 12510357.0),
    (number("1e-05", pb.FLOAT32), "float", "float", pytest.approx(1e-05)),
    (number("-12.30", pb.DECIMAL), "decimal(10,2)", "decimal(10,2)", Decimal("-12.30")),
    (number("1" * 50 + ".5", pb.DECIMAL), "decimal(60,1)", "string", "1" * 50 + ".5"),
    (text("2021-05-17"), "date", "date", date(2021, 5, 17)),
    (text("2021-05-17 07:22:42"), "datetime", "timestamp_ntz", datetime(2021, 5, 17, 7, 22, 42)),
    (text("2021-05-17 07:22:42.123456"), "datetime(6)", "timestamp_ntz", datetime(2021, 5, 17, 7, 22, 42, 123456)),
    (text("2021-05-17 07:22:42 +00:00"), "timestamp", "timestamp", datetime(2021, 5, 17, 7, 22, 42, tzinfo=UTC)),
    (
        text("2021-05-17 07:22:42.5 +00:00"),
        "timestamp(1)",
        "timestamp",
        datetime(2021, 5, 17, 7, 22, 42, 500000, tzinfo=UTC),
    ),
    (text("2021-05-17 07:22:42 +08:00"), "timestamp", "timestamp", datetime(2021, 5, 16, 23, 22, 42, tzinfo=UTC)),
    (text("2021-05-17 07:22:42"), "timestamp", "timestamp", datetime(2021, 5, 17, 7, 22, 42, tzinfo=UTC)),
    (text("-838:59:59.5"), "time(1)", "string", "-838:59:59.5"),
    (text(""), "varchar(10)", "string", ""),
    (text("漢字", "utf8"), "varchar(10)", "string", "漢字"),
    (text("漢字".encode("gbk"), "gbk"), "varchar(10)", "string", "漢字"),
    (text("漢字".encode("big5"), "big5"), "varchar(10)", "string", "漢字"),
    (text("𠀀".encode("gb18030"), "gb18030"), "varchar(10)", "string", "𠀀"),
    (text(b"\x80 \x81 \xe9", "latin1"), "varchar(10)", "string", "€ \x81 é"),
    (text(b"\xf1\xfc\xfd", "cp866"), "varchar(10)", "string", "\u0451\u207f\u00b2"),
    (text(b"\xa1\xa2\xe1", "greek"), "varchar(10)", "string", "\u02bd\u02bc\u03b1"),
    (text(b"\xaf\xe0", "hebrew"), "varchar(10)", "string", "\u203e\u05d0"),
    (text(b"\x95\xc1", "koi8u"), "varchar(10)", "string", "\u2022\u0430"),
    (text(b"\x5c\x81\x5f", "sjis"), "varchar(10)", "string", "\\\uff3c"),
    (text(b"\x00a", "ucs2"), "varchar(10)", "string", "a"),
    (text("plain", "klingon"), "varchar(10)", "string", "plain"),
    (raw('{"名": 1}'.encode()), "json", "string", '{"名": 1}'),
    (raw(b"\x00\xff"), "blob", "binary", b"\x00\xff"),
    (text(b"\x00\xff", "binary"), "varbinary(9)", "binary", b"\x00\xff"),
    (text(b"\xe9", "latin1"), "binary(1)", "binary", b"\xe9"),
    (pb.Data(dataType=99, sv="12"), "hyperint", "string", "12"),  # type: ignore[arg-type]
    (pb.Data(dataType=99, bv=b"ab"), "hyperint", "string", "ab"),  # type: ignore[arg-type]
    (number("1"), "tinyint(1)", "boolean", True),
    (text("17"), "varchar(10)", "int", 17),
]


@pytest.mark.parametrize(("data", "original", "kind", "expected"), FITTING)
def test_values_of_every_type(wire: DtsProtobuf, data: pb.Data, original: str, kind: str, expected: Any) -> None:
    assert _value(wire, data, original, kind) == (expected, {})


UNFIT: Sequence[tuple[pb.Data, str, str, str]] = [
    (number("2147483648"), "int(11)", "int", "2147483648"),
    (number("0x1F"), "int(11)", "int", "0x1F"),
    (number("9223372036854775808", pb.INT64), "bigint(20)", "bigint", "9223372036854775808"),
    (number("1e39", pb.FLOAT32), "float", "float", "1e39"),
    (number("twelve", pb.FLOAT64), "double", "double", "twelve"),
    (number("123456789.00", pb.DECIMAL), "decimal(10,2)", "decimal(10,2)", "123456789.00"),
    (number("1.005", pb.DECIMAL), "decimal(10,2)", "decimal(10,2)", "1.005"),
    (text("0000-00-00"), "date", "date", "0000-00-00"),
    (text("0000-01-01"), "date", "date", "0000-01-01"),
    (text("2021-02-30"), "date", "date", "2021-02-30"),
    (text("0000-00-00 00:00:00"), "datetime", "timestamp_ntz", "0000-00-00 00:00:00"),
    (text("0000-00-00 00:00:00 +00:00"), "timestamp", "timestamp", "0000-00-00 00:00:00 +00:00"),
    (text("9999-12-31 23:59:59 -08:00"), "timestamp", "timestamp", "9999-12-31 23:59:59 -08:00"),
    (text(""), "date", "date", ""),
    (text(b"\xff\xfe"), "varchar(10)", "string", "0xFFFE"),
    (text(b"\xff", "gbk"), "varchar(10)", "string", "0xFF"),
    (text(b"a", "ucs2"), "varchar(10)", "string", "a"),
    (text(b"\xed\xa0\x80", "utf8mb4"), "varchar(10)", "string", "0xEDA080"),
    (text(b"\xff", "klingon"), "varchar(10)", "string", "0xFF"),
    (raw(b"\xff"), "json", "string", "0xFF"),
]


@pytest.mark.parametrize(("data", "original", "kind", "shown"), UNFIT)
def test_a_value_that_does_not_fit_becomes_null_with_its_original_text(
    wire: DtsProtobuf, data: pb.Data, original: str, kind: str, shown: str
) -> None:
    assert _value(wire, data, original, kind) == (None, {"after.v": shown})


def test_images_of_insert_update_and_delete(wire: DtsProtobuf) -> None:
    one, two = [number("1")], [number("2")]
    given = batch(
        dml([KEY], [([], one)]),
        dml([KEY], [(one, two), (two, one)], operation=pb.UPDATE),
        dml([KEY], [(one, [])], operation=pb.DELETE),
    )
    rows = _rows(wire.changes(given, {ORDERS: _columns(("id", "int"))}))
    assert [(row["op"], row["before"], row["after"], row["entry_index"], row["row_number"]) for row in rows] == [
        ("insert", None, {"id": 1}, 0, 0),
        ("update", {"id": 1}, {"id": 2}, 1, 0),
        ("update", {"id": 2}, {"id": 1}, 1, 1),
        ("delete", {"id": 1}, None, 2, 0),
    ]
    assert all(row["absent"] == [] and row["invalid"] == {} for row in rows)


def test_absent_is_not_null(wire: DtsProtobuf) -> None:
    columns = [KEY, ("a", "text"), ("b", "text")]
    update = dml(columns, [([number("1"), ABSENT, NULL], [ABSENT, text("x"), ABSENT])], operation=pb.UPDATE)
    (row,) = _rows(wire.changes(batch(update), {ORDERS: _columns(("id", "int"), ("a", "string"), ("b", "string"))}))
    assert row["before"] == {"id": 1, "a": None, "b": None}
    assert row["after"] == {"id": None, "a": "x", "b": None}
    assert row["absent"] == ["before.a", "after.id", "after.b"]


def test_columns_come_by_name_and_those_not_carried_are_null_but_not_absent(wire: DtsProtobuf) -> None:
    first = dml([KEY, ("gone", "text")], [([], [number("1"), ABSENT])])
    second = dml([("note", "text"), KEY], [([], [text("x"), number("2")])])
    wanted = {ORDERS: _columns(("id", "int"), ("note", "string"), ("never", "date"))}
    decoded = wire.changes(batch(first, second, first, second), wanted)
    rows = _rows(decoded)
    assert [row["after"] for row in rows] == [
        {"id": 1, "note": None, "never": None},
        {"id": 2, "note": "x", "never": None},
    ] * 2
    assert all(row["absent"] == [] for row in rows)


def test_tables_not_asked_for_are_passed_over(wire: DtsProtobuf) -> None:
    other, mine = dml([KEY], [([], [number("1")])], table="other"), dml([KEY], [([], [number("2")])])
    decoded = wire.changes(batch(other, mine), {ORDERS: _columns(("id", "int"))})
    assert [row["entry_index"] for row in _rows(decoded)] == [1]
    assert len(decoded.tables) == 1
    assert wire.changes(batch(other), {ORDERS: _columns(("id", "int"))}).tables == ()


def test_tables_of_the_same_name_in_two_databases_are_kept_apart(wire: DtsProtobuf) -> None:
    one, other = dml([KEY], [([], [number("1")])]), dml([KEY], [([], [number("2")])], database="archive")
    wanted = {ORDERS: _columns(("id", "int")), TableId("archive", "", "orders"): _columns(("id", "bigint"))}
    decoded = wire.changes(batch(one, other, one), wanted)
    assert [row["after"]["id"] for row in _rows(decoded)] == [1, 1]
    assert [row["after"]["id"] for row in _rows(decoded, TableId("archive", "", "orders"))] == [2]


def test_a_ragged_row_rejects_its_entry_alone(wire: DtsProtobuf) -> None:
    good: Row = ([], [number("1"), NULL])
    ragged: Row = ([], [number("2")])
    columns = [KEY, ("a", "text")]
    given = batch(dml(columns, [good]), dml(columns, [good, ragged]), dml(columns, [good, good]))
    decoded = wire.changes(given, {ORDERS: _columns(("id", "int"), ("a", "string"))})
    assert [(row["entry_index"], row["row_number"]) for row in _rows(decoded)] == [(0, 0), (2, 0), (2, 1)]
    (rejected,) = decoded.rejected
    assert (rejected.index, rejected.entry_number, rejected.reason) == (1, None, Reason.RAGGED_ROW)
    assert rejected.payload == given["payload"][1].as_py()


def test_a_row_without_the_image_its_operation_needs_is_rejected(wire: DtsProtobuf) -> None:
    given = batch(
        dml([KEY], [([number("1")], [])], operation=pb.INSERT),
        dml([KEY], [([], [number("1")])], operation=pb.DELETE),
        dml([KEY], [([], [number("1")])], operation=pb.UPDATE),
    )
    decoded = wire.changes(given, {ORDERS: _columns(("id", "int"))})
    assert [one.index for one in decoded.rejected] == [0, 1]
    assert [row["op"] for row in _rows(decoded)] == ["update"]


def test_poison_is_rejected_with_its_row_and_the_rest_decodes(wire: DtsProtobuf) -> None:
    good = dml([KEY], [([], [number("1")])])
    given = batch(good, good, good, good)
    payloads = given["payload"].to_pylist()
    payloads[1], payloads[3] = b"\xff\xff", b"\x12\x03\x12\x01"
    broken = given.set_column(3, "payload", pa.array(payloads, pa.binary()))
    decoded = wire.changes(broken, {ORDERS: _columns(("id", "int"))})
    assert [row["entry_index"] for row in _rows(decoded)] == [0, 2]
    assert [(one.index, one.reason, one.payload) for one in decoded.rejected] == [
        (1, Reason.UNDECODABLE_ENTRY, payloads[1]),
        (3, Reason.UNDECODABLE_ENTRY, payloads[3]),
    ]


def test_the_text_of_a_type_is_named_that_unsigned_values_came_with(wire: DtsProtobuf) -> None:
    first = dml([KEY, ("n", "int(10)")], [([], [number("1"), number("7", pb.INT32)])])
    second = dml([KEY, ("n", "bigint(20)")], [([], [number("2"), number("7", pb.UINT64)])])
    for entries in ((first, second), (second, first)):
        decoded = wire.changes(batch(*entries), {ORDERS: _columns(("id", "int"), ("n", "bigint"))})
        assert decoded.unsigned == {TaughtType(ORDERS, "n", "bigint(20)")}
        assert sorted(row["after"]["n"] for row in _rows(decoded)) == [7, 7]


def test_an_operation_that_is_not_known_is_rejected(wire: DtsProtobuf) -> None:
    decoded = wire.changes(batch(dml([KEY], [([], [number("1")])], operation=9)), {ORDERS: _columns(("id", "int"))})
    assert [one.reason for one in decoded.rejected] == [Reason.UNKNOWN_OPERATION]
    assert decoded.tables == ()


def test_unsigned_values_of_columns_that_do_not_say_so_are_named(wire: DtsProtobuf) -> None:
    columns = [KEY, ("plain", "int(10)"), ("said", "int(10) unsigned"), ("tiny", "tinyint(3)")]
    large, small = number("4000000000", pb.UINT32), number("200", pb.UINT8)
    made = dml(columns, [([], [number("1"), large, large, small])])
    kinds = _columns(("id", "int"), ("plain", "int"), ("said", "bigint"), ("tiny", "int"))
    decoded = wire.changes(batch(made), {ORDERS: kinds})
    assert decoded.unsigned == {TaughtType(ORDERS, "plain", "int(10)")}  # an int holds every unsigned tinyint
    (row,) = _rows(decoded)
    assert row["after"] == {"id": 1, "plain": None, "said": 4_000_000_000, "tiny": 200}
    assert row["invalid"] == {"after.plain": "4000000000"}


def test_what_is_not_known_is_counted(wire: DtsProtobuf) -> None:
    columns = [KEY, ("a", "text"), ("b", "hyper")]
    row: Row = ([], [number("1"), text("x", "klingon"), pb.Data(dataType=99, sv="1")])  # type: ignore[arg-type]
    decoded = wire.changes(batch(dml(columns, [row, row])), {ORDERS: _columns(("id", "int"))})
    assert decoded.unknown == {"charset klingon": 2, "data type 99": 2}


def test_column_bytes_that_join_alike_are_told_apart(wire: DtsProtobuf) -> None:
    # Two columns, the second a bare isKey, have the same bytes as one key column.
    one = pb.Column(name="id", originalType="int(11)")
    split = dml([], [])
    split.event.dmlEvent.columns.extend([one, pb.Column(isKey=True)])
    split.event.dmlEvent.rows.add().newColumns.extend([number("5"), number("6")])
    whole = dml([KEY], [([], [number("7")])])
    decoded = wire.changes(batch(split, whole), {ORDERS: _columns(("id", "int"))})
    assert [row["after"]["id"] for row in _rows(decoded)] == [5, 7]
    assert not decoded.rejected


def test_fields_in_another_order_decode_alike(wire: DtsProtobuf) -> None:
    value = b"\x22\x01x" + b"\x12\x04utf8" + b"\x08\x0d"  # bv, charset, dataType
    row = b"\x12" + bytes([len(value)]) + value
    event = (
        pb.DMLEvent(columns=[pb.Column(name="a", originalType="text")]).SerializeToString()
        + b"\x1a"
        + bytes([len(row)])
        + row
    )
    made = entry_of(event)
    given = batch(dml([KEY], [])).set_column(3, "payload", pa.array([made], pa.binary()))
    (found,) = _rows(wire.changes(given, {ORDERS: _columns(("a", "string"))}))
    assert found["after"] == {"a": "x"}


def entry_of(event: bytes) -> bytes:
    dml_event = b"\x12" + bytes([len(event)]) + event
    return b"\x12" + bytes([len(dml_event)]) + dml_event


def test_nothing_to_decode(wire: DtsProtobuf) -> None:
    columns = {ORDERS: _columns(("id", "int"))}
    assert wire.changes(batch(), columns).tables == ()
    assert wire.changes(batch(dml([KEY], [])), columns).tables == ()
    assert wire.changes(batch(dml([KEY], [([], [number("1")])])), {}).tables == ()


def test_entries_may_be_a_slice(wire: DtsProtobuf) -> None:
    given = batch(*[dml([KEY], [([], [number(str(value))])]) for value in range(5)]).slice(2, 2)
    rows = _rows(wire.changes(given, {ORDERS: _columns(("id", "int"))}))
    assert [(row["entry_index"], row["after"]["id"]) for row in rows] == [(0, 2), (1, 3)]


def test_column_types_follow_the_original_type(wire: DtsProtobuf) -> None:
    assert wire.column_type("int(10) unsigned", unsigned=False, table=ORDERS) == "bigint"
    assert wire.column_type("bigint(20)", unsigned=True, table=ORDERS) == "decimal(20,0)"
    assert wire.column_type("hyper", unsigned=False, table=ORDERS) == "string"
