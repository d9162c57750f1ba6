"""Packed values of row images, byte for byte."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_emulator.source.events import ABSENT, Kind, Value
from dts_emulator.source.row_image import BinlogColumn, ImageReader, kind_of, reader_of
from dts_emulator.source.source_schema import CatalogColumn, labels_of


def catalog(column_type: str, charset: str | None = None) -> CatalogColumn:
    return CatalogColumn("c", column_type, charset, False, False)


def binlog(type_: int, *, unsigned: bool = False, **meta: int) -> BinlogColumn:
    return cast(BinlogColumn, SimpleNamespace(type=type_, unsigned=unsigned, **meta))


def read(column: BinlogColumn, known: CatalogColumn, data: bytes) -> Value:
    value, end = reader_of(column, known)(data, 0)
    assert end == len(data)
    return value


@pytest.mark.parametrize(
    ("type_", "column_type", "data", "value"),
    [
        (1, "tinyint(4)", b"\x80", -128),
        (1, "tinyint(3) unsigned", b"\x80", 128),
        (2, "smallint(6)", b"\xff\x7f", 32767),
        (9, "mediumint(9)", b"\x00\x00\x80", -8388608),
        (9, "mediumint(8) unsigned", b"\x00\x00\x80", 8388608),
        (3, "int(11)", b"\xff\xff\xff\xff", -1),
        (8, "bigint(20) unsigned", b"\xff" * 8, 2**64 - 1),
    ],
)
def test_whole_numbers(type_: int, column_type: str, data: bytes, value: int) -> None:
    assert read(binlog(type_, unsigned="unsigned" in column_type), catalog(column_type), data) == value


@pytest.mark.parametrize(
    ("column", "column_type", "data", "value"),
    [
        (binlog(13), "year(4)", b"\x00", 0),
        (binlog(13), "year(4)", b"\x7e", 2026),
        (binlog(16, bits=17), "bit(17)", b"\x01\x00\x02", 65538),
        (binlog(10), "date", bytes([0x25, 0xD4, 0x0F]), "2026-01-05"),
        (binlog(10), "date", b"\x00\x00\x00", "0000-00-00"),
        (binlog(19, fsp=0), "time", b"\x80\x80\x00", "08:00:00"),
        (binlog(19, fsp=0), "time", b"\x4b\x91\x05", "-838:59:59"),
        (binlog(19, fsp=2), "time(2)", b"\x7f\xff\xff\xff", "-00:00:00.01"),
        (binlog(19, fsp=6), "time(6)", b"\x7f\xff\xfe\xff\xff\xff", "-00:00:01.000001"),
        (binlog(18, fsp=0), "datetime", b"\x80\x00\x00\x00\x00", "0000-00-00 00:00:00"),
        (binlog(18, fsp=3), "datetime(3)", bytes.fromhex("99b8cad1c804ce"), "2026-01-05 13:07:08.123"),
        (binlog(17, fsp=0), "timestamp", (1767571200).to_bytes(4, "big"), "1767571200"),
        (binlog(17, fsp=3), "timestamp(3)", (1767571200).to_bytes(4, "big") + b"\x09\xc4", "1767571200.250"),
        (binlog(246, precision=10, decimals=2), "decimal(10,2)", b"\x80\x00\x00\x03\x32", "3.50"),
        (binlog(246, precision=10, decimals=2), "decimal(10,2)", b"\x7f\xff\xff\xfc\xcd", "-3.50"),
        (binlog(246, precision=14, decimals=4), "decimal(14,4)", bytes.fromhex("810dfb38d204d2"), "1234567890.1234"),
        (binlog(246, precision=2, decimals=2), "decimal(2,2)", b"\x81", "0.01"),
    ],
)
def test_numbers_dates_and_times(column: BinlogColumn, column_type: str, data: bytes, value: Value) -> None:
    assert read(column, catalog(column_type), data) == value


def test_strings_stand_behind_their_length_and_keep_their_charset() -> None:
    assert read(binlog(15, max_length=120), catalog("varchar(60)", "gbk"), b"\x02\xd6\xd0") == b"\xd6\xd0"
    assert read(binlog(15, max_length=1200), catalog("varchar(300)", "utf8mb4"), b"\x01\x00a") == b"a"
    assert read(binlog(252, length_size=4), catalog("longtext", "utf8mb4"), b"\x01\x00\x00\x00a") == b"a"


def test_a_fixed_binary_gets_its_zero_bytes_back() -> None:
    assert read(binlog(254, max_length=4), catalog("binary(4)"), b"\x01a") == b"a\0\0\0"
    assert read(binlog(15, max_length=4), catalog("varbinary(4)"), b"\x01a") == b"a"


def test_enums_and_sets_are_labels_in_the_columns_charset() -> None:
    enum = catalog("enum('a','é')", "latin1")
    assert [read(binlog(247, size=1), enum, bytes([number])) for number in range(3)] == [b"", b"a", b"\xe9"]
    set_ = catalog("set('x','y','z')", "utf8mb4")
    assert [read(binlog(248, size=1), set_, bytes([mask])) for mask in (0, 5, 7)] == [b"", b"x,z", b"x,y,z"]


@pytest.mark.parametrize(
    ("column_type", "labels"),
    [
        ("enum('a','b''c')", ("a", "b'c")),
        ("set('back\\\\slash','')", ("back\\slash", "")),
        ("enum('comma,inside','(x)')", ("comma,inside", "(x)")),
        ("varchar(3)", ()),
    ],
)
def test_labels_are_unquoted(column_type: str, labels: tuple[str, ...]) -> None:
    assert labels_of(column_type) == labels


def test_an_image_knows_null_from_absent() -> None:
    columns = [binlog(1), binlog(1), binlog(1)]
    reader = ImageReader(tuple(reader_of(column, catalog("tinyint(4)")) for column in columns))
    assert reader.read(b"\x02\x07\x09", 0, present=b"\x07") == ((7, None, 9), 3)
    assert reader.read(b"\x00\x07\x09", 0, present=b"\x05") == ((7, ABSENT, 9), 3)


@given(st.decimals(min_value=-(10**18), max_value=10**18, places=6, allow_nan=False, allow_infinity=False))
def test_a_packed_decimal_reads_as_it_was_written(value: Any) -> None:
    text = f"{value:f}"
    packed = pack_decimal(text, precision=25, scale=6)
    found = read(binlog(246, precision=25, decimals=6), catalog("decimal(25,6)"), packed)
    assert found == ("0.000000" if text == "-0.000000" else text) or (found == "-0.000000" and value == 0)


def pack_decimal(text: str, *, precision: int, scale: int) -> bytes:
    """The server's packing, forwards: groups of nine digits from the point outwards, sign in the first bit."""
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.zfill(precision - scale)
    head = (precision - scale) % 9
    parts = [whole[:head]] + [whole[start : start + 9] for start in range(head, len(whole), 9)]
    parts += [fraction[start : start + 9] for start in range(0, scale, 9)]
    data = bytearray(b"".join(int(part or "0").to_bytes(sizes[len(part)], "big") for part in parts))
    if text.startswith("-"):
        data = bytearray(byte ^ 0xFF for byte in data)
    data[0] ^= 0x80
    return bytes(data)


def test_what_cannot_be_read_without_loss_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="column c: binlog type 140"):
        reader_of(binlog(140), catalog("varchar(9)"))
    with pytest.raises(ValueError, match="disagree about its sign"):
        reader_of(binlog(3), catalog("int(11) unsigned"))
    with pytest.raises(ValueError, match="type vector"):
        kind_of(catalog("vector(3)"))
    assert kind_of(catalog("int(11)")) is Kind.INT32
