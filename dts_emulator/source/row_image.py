"""Row images of the binlog: packed bytes to values, without a loss.

The reader of the binlog brings its own value decoder, but that one drops what a copy of a database must keep: text is
decoded, the order of SET labels is lost, zero dates become NULL. So images are read here, straight from the event's bytes.
The packing is the one that the server's field types document for replication.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol
from uuid import UUID

from pymysqlreplication.json_binary import parse_json

from dts_emulator.source.events import ABSENT, Image, Kind, Value, bytes_of
from dts_emulator.source.source_schema import CatalogColumn

Reader = Callable[[bytes, int], tuple[Value, int]]
"""Bytes and an offset in them to a value and the offset behind it."""

_TINY, _SHORT, _LONG, _FLOAT, _DOUBLE = 1, 2, 3, 4, 5
_LONGLONG, _INT24, _DATE, _YEAR, _NEWDATE, _VARCHAR, _BIT = 8, 9, 10, 13, 14, 15, 16
_TIMESTAMP2, _DATETIME2, _TIME2 = 17, 18, 19
_JSON, _NEWDECIMAL, _ENUM, _SET, _BLOB, _VAR_STRING, _STRING, _GEOMETRY = 245, 246, 247, 248, 252, 253, 254, 255

_KINDS = {
    "tinyint": Kind.INT8, "smallint": Kind.INT16, "mediumint": Kind.INT32, "int": Kind.INT32, "bigint": Kind.INT64,
    "bit": Kind.BIT, "year": Kind.YEAR, "float": Kind.FLOAT32, "double": Kind.FLOAT64, "decimal": Kind.DECIMAL,
    "char": Kind.TEXT, "varchar": Kind.TEXT, "tinytext": Kind.TEXT, "text": Kind.TEXT, "mediumtext": Kind.TEXT,
    "longtext": Kind.TEXT, "enum": Kind.TEXT, "set": Kind.TEXT, "binary": Kind.BINARY, "varbinary": Kind.BINARY,
    "tinyblob": Kind.BLOB, "blob": Kind.BLOB, "mediumblob": Kind.BLOB, "longblob": Kind.BLOB, "geometry": Kind.BLOB,
    "point": Kind.BLOB, "linestring": Kind.BLOB, "polygon": Kind.BLOB, "multipoint": Kind.BLOB,
    "multilinestring": Kind.BLOB, "multipolygon": Kind.BLOB, "geometrycollection": Kind.BLOB, "geomcollection": Kind.BLOB,
    "date": Kind.PLAIN, "time": Kind.PLAIN, "datetime": Kind.PLAIN, "timestamp": Kind.INSTANT,
    "inet4": Kind.PLAIN, "inet6": Kind.PLAIN, "uuid": Kind.PLAIN,
}  # fmt: skip

_DIGITS = 9
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""A packed decimal keeps nine digits in four bytes, and fewer in as few as hold them."""


class BinlogColumn(Protocol):
    """The facts of a TABLE_MAP event about a column.

    It is the reader's own class; which members exist depends on ``type``.
    """

    type: int
    unsigned: bool
    max_length: int
    length_size: int
    size: int
    fsp: int
    precision: int
    decimals: int
    bits: int


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads the row images of one table: one reader per column, in the event's order."""

    readers: tuple[Reader, ...]

    def read(self, data: bytes, offset: int, *, present: bytes) -> tuple[Image, int]:
        """Return the image at ``offset`` and the offset behind it.

        ``present`` is the event's bitmap of columns in the image.
        """
        included = [bool(present[index >> 3] >> (index & 7) & 1) for index in range(len(self.readers))]
        nulls, position = offset, offset + (sum(included) + 7) // 8
        values: list[Value] = []
        seen = 0
        for index, reader in enumerate(self.readers):
            if not included[index]:
                values.append(ABSENT)
                continue
            if data[nulls + (seen >> 3)] >> (seen & 7) & 1:
                values.append(None)
            else:
                value, position = reader(data, position)
                values.append(value)
            seen += 1
        return tuple(values), position


def kind_of(column: CatalogColumn) -> Kind:
    """Return the kind of a column's values.

    Raises:
        ValueError: The vendor's table does not have the type.
    """
    if column.is_json:
        return Kind.JSON
    name = column.column_type.lower().partition("(")[0].split()[0]
    if name not in _KINDS:
        raise ValueError(f"column {column.name} is of type {column.column_type}, which the wire format has no word for")
    return _KINDS[name]


def reader_of(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    """Return the reader of one column.

    Raises:
        ValueError: The binary type is not read here, or contradicts the catalog.
    """
    if binlog.unsigned != catalog.is_unsigned and binlog.type in _INTEGERS:
        raise ValueError(f"column {catalog.name}: the event and the schema history disagree about its sign")
    if binlog.type in _INTEGERS:
        return _integer(_INTEGERS[binlog.type], signed=not catalog.is_unsigned)
    maker = _MAKERS.get(binlog.type)
    if maker is None:
        raise ValueError(f"column {catalog.name}: binlog type {binlog.type} ({catalog.column_type}) is not supported")
    return maker(binlog, catalog)


_INTEGERS = {_TINY: 1, _SHORT: 2, _INT24: 3, _LONG: 4, _LONGLONG: 8}


def _integer(size: int, *, signed: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        return int.from_bytes(data[at : at + size], "little", signed=signed), at + size

    return read


def _float(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    layout = struct.Struct("<f" if binlog.type == _FLOAT else "<d")

    def read(data: bytes, at: int) -> tuple[Value, int]:
        (value,) = layout.unpack_from(data, at)
        return float(value), at + layout.size

    return read


def _year(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)


def _bit(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    size = (binlog.bits + 7) // 8
    return lambda data, at: (int.from_bytes(data[at : at + size], "big"), at + size)


def _counted(size: int) -> Reader:
    """Bytes behind their length, itself ``size`` bytes long."""

    def read(data: bytes, at: int) -> tuple[Value, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        return data[start:end], end

    return read


def _string(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    counted = _counted(2 if binlog.max_length > 255 else 1)
    shown = _SHOWN.get(catalog.column_type.lower())
    if shown is None and not catalog.column_type.lower().startswith("binary("):
        return counted
    width = binlog.max_length

    def padded(data: bytes, at: int) -> tuple[Value, int]:
        # The server packs BINARY(n), and what it stores as such, without trailing zero bytes, which belong to the value.
        packed, end = counted(data, at)
        value = bytes_of(packed).ljust(width, b"\0")
        return (value if shown is None else shown(value)), end

    return padded


def _inet6(address: bytes) -> str:
    """Return an address as the server prints it: one that holds an IPv4 address ends with that."""
    v6 = IPv6Address(address)
    if v6.ipv4_mapped is not None:
        return f"::ffff:{v6.ipv4_mapped}"
    if not any(address[:12]) and any(address[12:14]):
        return f"::{IPv4Address(address[12:])}"
    return str(v6)


_SHOWN: dict[str, Callable[[bytes], str]] = {
    "inet4": lambda address: str(IPv4Address(address)), "inet6": _inet6, "uuid": lambda value: str(UUID(bytes=value)),
}  # fmt: skip
"""Types of MariaDB that it stores as bytes, with the text that it shows of them."""


def _enum(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    labels, size = (b"", *catalog.labels), binlog.size
    return lambda data, at: (labels[int.from_bytes(data[at : at + size], "little")], at + size)


def _set(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    labels, size = catalog.labels, binlog.size

    def read(data: bytes, at: int) -> tuple[Value, int]:
        mask = int.from_bytes(data[at : at + size], "little")
        return b",".join(label for bit, label in enumerate(labels) if mask >> bit & 1), at + size

    return read


def _json(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    """Return a reader of MySQL's binary JSON, as a text like the server's own.

    That has a blank behind each comma and colon (MySQL manual, "The JSON Data Type").
    """
    counted = _counted(binlog.length_size)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        packed, end = counted(data, at)
        binary = bytes_of(packed)
        return json.dumps(_in_unicode(parse_json(binary[0], binary[1:])), ensure_ascii=False).encode(), end

    return read


def _in_unicode(value: object) -> object:
    """Return a value of JSON with its keys and texts decoded."""
    match value:
        case dict():
            return {_in_unicode(key): _in_unicode(one) for key, one in value.items()}
        case list():
            return [_in_unicode(one) for one in value]
        case bytes():
            return value.decode()
        case _:
            return value


def _date(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        packed = int.from_bytes(data[at : at + 3], "little")
        return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3

    return read


def _fraction(frac: int, fsp: int) -> str:
    """``.123`` with the column's own number of digits; the packing keeps hundredths, ten-thousandths or millionths."""
    return f".{frac:0{(fsp + 1) // 2 * 2}d}"[: fsp + 1] if fsp else ""


def _datetime2(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    fsp, extra = binlog.fsp, (binlog.fsp + 1) // 2

    def read(data: bytes, at: int) -> tuple[Value, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        end = at + 5 + extra
        year_month, day = packed >> 22, packed >> 17 & 31
        text = (
            f"{year_month // 13:04d}-{year_month % 13:02d}-{day:02d} "
            f"{packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        )
        return text + _fraction(int.from_bytes(data[at + 5 : end], "big"), fsp), end

    return read


def _time2(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    fsp, extra = binlog.fsp, (binlog.fsp + 1) // 2

    def read(data: bytes, at: int) -> tuple[Value, int]:
        end = at + 3 + extra
        packed = int.from_bytes(data[at:end], "big") - (0x800000 << 8 * extra)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        clock, frac = packed >> 8 * extra, packed & (1 << 8 * extra) - 1
        text = f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}"
        return text + _fraction(frac, fsp), end

    return read


def _timestamp2(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    """Seconds since the epoch and a fraction, as the text ``seconds[.fraction]``: the zero value is no instant."""
    fsp, extra = binlog.fsp, (binlog.fsp + 1) // 2

    def read(data: bytes, at: int) -> tuple[Value, int]:
        end = at + 4 + extra
        seconds = int.from_bytes(data[at : at + 4], "big")
        return f"{seconds}{_fraction(int.from_bytes(data[at + 4 : end], 'big'), fsp)}", end

    return read


def _decimal(binlog: BinlogColumn, catalog: CatalogColumn) -> Reader:
    whole, scale = binlog.precision - binlog.decimals, binlog.decimals
    groups = [whole % _DIGITS] + [_DIGITS] * (whole // _DIGITS)
    tail = [_DIGITS] * (scale // _DIGITS) + [scale % _DIGITS]
    size = sum(_DIGIT_BYTES[count] for count in groups + tail)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        packed = bytearray(data[at : at + size])
        negative = not packed[0] & 0x80
        packed[0] ^= 0x80
        if negative:
            packed = bytearray(byte ^ 0xFF for byte in packed)
        before, position = _digits(packed, 0, groups)
        after, _ = _digits(packed, position, tail)
        text = (before.lstrip("0") or "0") + (f".{after}" if after else "")
        return (f"-{text}" if negative else text), at + size

    return read


def _digits(packed: bytearray, position: int, groups: list[int]) -> tuple[str, int]:
    parts: list[str] = []
    for count in groups:
        end = position + _DIGIT_BYTES[count]
        if count:
            parts.append(f"{int.from_bytes(packed[position:end], 'big'):0{count}d}")
        position = end
    return "".join(parts), position


_MAKERS: dict[int, Callable[[BinlogColumn, CatalogColumn], Reader]] = {
    _FLOAT: _float,
    _DOUBLE: _float,
    _YEAR: _year,
    _BIT: _bit,
    _DATE: _date,
    _NEWDATE: _date,
    _DATETIME2: _datetime2,
    _TIME2: _time2,
    _TIMESTAMP2: _timestamp2,
    _NEWDECIMAL: _decimal,
    _ENUM: _enum,
    _SET: _set,
    _VARCHAR: _string,
    _VAR_STRING: _string,
    _STRING: _string,
    _JSON: _json,
    _BLOB: lambda binlog, catalog: _counted(binlog.length_size),
    _GEOMETRY: lambda binlog, catalog: _counted(binlog.length_size),
}
