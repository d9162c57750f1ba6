"""Every type quirk of the vendor's table, as the Data message that stands for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.data_values import encoder, original_type
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.source.events import ABSENT, Kind, SourceColumn, Value

OPTIONS = DtsOptions()


def column(kind: Kind, column_type: str, *, charset: str | None = None, unsigned: bool = False) -> SourceColumn:
    return SourceColumn("c", kind, column_type, charset, unsigned, False)


@pytest.mark.parametrize(
    ("kind", "signed", "unsigned"),
    [
        (Kind.INT8, pb.INT8, pb.UINT8),
        (Kind.INT16, pb.INT16, pb.UINT16),
        (Kind.INT32, pb.INT32, pb.UINT32),
        (Kind.INT64, pb.INT64, pb.UINT64),
    ],
)
def test_whole_numbers_carry_their_size_and_sign(kind: Kind, signed: pb.DataType, unsigned: pb.DataType) -> None:
    assert encoder(column(kind, "x"), OPTIONS)(-1) == pb.Data(dataType=signed, sv="-1")
    assert encoder(column(kind, "x", unsigned=True), OPTIONS)(7) == pb.Data(dataType=unsigned, sv="7")


def test_the_greatest_unsigned_bigint_keeps_all_its_digits() -> None:
    data = encoder(column(Kind.INT64, "bigint(20) unsigned", unsigned=True), OPTIONS)(2**64 - 1)
    assert data.sv == "18446744073709551615"


@pytest.mark.parametrize(
    ("kind", "charset", "value", "expected"),
    [
        (Kind.BIT, None, 5, pb.Data(dataType=pb.INT64, sv="5")),
        (Kind.YEAR, None, 2026, pb.Data(dataType=pb.INT64, sv="2026")),
        (Kind.FLOAT32, None, 0.10000000149011612, pb.Data(dataType=pb.FLOAT32, sv="0.1")),
        (Kind.FLOAT64, None, 12510357.0, pb.Data(dataType=pb.FLOAT64, sv="1.2510357e+07")),
        (Kind.DECIMAL, None, "-0.10", pb.Data(dataType=pb.DECIMAL, sv="-0.10")),
        (Kind.TEXT, "gbk", b"\xd6\xd0", pb.Data(dataType=pb.STRING, charset="gbk", bv=b"\xd6\xd0")),
        (Kind.TEXT, "utf8mb3", b"a", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"a")),
        (Kind.TEXT, "utf8mb4", b"", pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"")),
        (Kind.BINARY, None, b"\x00\xff", pb.Data(dataType=pb.STRING, charset="binary", bv=b"\x00\xff")),
        (Kind.BLOB, None, b"\x00", pb.Data(dataType=pb.BYTES, bv=b"\x00")),
        (Kind.JSON, "utf8mb4", b"{}", pb.Data(dataType=pb.BYTES, bv=b"{}")),
        (Kind.PLAIN, None, "2026-01-05", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"2026-01-05")),
        (Kind.PLAIN, None, "-838:59:59", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"-838:59:59")),
        (Kind.INSTANT, None, "1621236162", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"2021-05-17 07:22:42 +00:00")),
        (Kind.INSTANT, None, "1621236162.500", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"2021-05-17 07:22:42.500 +00:00")),
        (Kind.INSTANT, None, "0.000", pb.Data(dataType=pb.STRING, charset="utf8", bv=b"0000-00-00 00:00:00")),
    ],
)  # fmt: skip
def test_each_kind_of_value(kind: Kind, charset: str | None, value: Value, expected: pb.Data) -> None:
    assert encoder(column(kind, "x", charset=charset), OPTIONS)(value) == expected


def test_null_is_an_empty_message_and_absent_is_marked() -> None:
    to_data = encoder(column(Kind.TEXT, "text", charset="utf8mb4"), OPTIONS)
    assert to_data(None).SerializeToString() == b""
    assert to_data(ABSENT) == pb.Data(dataType=pb.NA)


def test_silent_points_follow_their_options() -> None:
    other = replace(OPTIONS, binary_as="bytes", json_as="text", utf8_name="utf8mb3", plain_charset="utf8mb4")
    assert encoder(column(Kind.BINARY, "binary(2)"), other)(b"ab") == pb.Data(dataType=pb.BYTES, bv=b"ab")
    json = column(Kind.JSON, "longtext", charset="utf8mb4")
    assert encoder(json, other)(b"[]") == pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"[]")
    assert (original_type(json, OPTIONS), original_type(json, other)) == ("json", "longtext")
    assert encoder(column(Kind.TEXT, "text", charset="utf8mb3"), other)(b"").charset == "utf8mb3"
    assert encoder(column(Kind.PLAIN, "date"), other)("2026-01-01").charset == "utf8mb4"


def test_the_type_text_is_the_servers_own_or_without_its_sign() -> None:
    zerofill = column(Kind.INT32, "int(8) unsigned zerofill", unsigned=True)
    assert original_type(zerofill, OPTIONS) == "int(8) unsigned zerofill"
    assert original_type(zerofill, replace(OPTIONS, original_type_sign=False)) == "int(8)"


def test_a_value_of_the_wrong_sort_is_refused_without_being_shown() -> None:
    with pytest.raises(TypeError, match="bytes were expected, not str"):
        encoder(column(Kind.BLOB, "blob"), OPTIONS)("secret")
