"""Columns of made-up tables, of the kinds that MySQL tables hold, and values drawn anew."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.columnar_protobuf import binary, constant, constant_field, constant_number_field, field, joined
from dts_assets.protocol import subscribe_pb2 as pb

Draw: TypeAlias = Callable[[np.random.Generator, int], pa.BinaryArray]
"""So many values, as the bytes that stand in the message."""

_NULLS = 0.1  # of the nullable columns
_LETTERS = np.frombuffer((string.ascii_letters + string.digits + "  ").encode(), np.uint8)
_ALPHABET = np.array([ord(letter) for letter in string.ascii_letters + string.digits + " ,.-äöü漢字"], np.uint32)
_YEAR_2026 = 1_767_225_600  # UTC
_SECONDS = 20_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of column: its type text, its data type in messages, and how values are drawn."""

    original_type: str
    data_type: int
    draw: Draw
    nullable: bool = True
    charset: str = ""

    def cells(self, draw: np.random.Generator, count: int) -> pa.BinaryArray:
        """Draw ``count`` values as ``Data`` messages; a tenth of a nullable column is NULL."""
        head = constant_number_field(1, self.data_type)
        if self.charset:
            head += constant_field(2, self.charset.encode())
        in_bytes = self.data_type in {pb.STRING, pb.BYTES}
        made = joined(constant(head), field(4 if in_bytes else 3, self.draw(draw, count)))
        if not self.nullable:
            return made
        return pc.if_else(pa.array(draw.random(count) < _NULLS), constant(b""), made)


def _text_of(values: pa.Array) -> pa.BinaryArray:
    return values.cast(pa.string()).cast(pa.binary())


def _whole(low: int, high: int) -> Draw:
    return lambda draw, count: _text_of(pa.array(draw.integers(low, high, count, endpoint=True)))


def _unsigned_bigint(draw: np.random.Generator, count: int) -> pa.BinaryArray:
    return _text_of(pa.array(draw.integers(0, (1 << 63) + (1 << 62), count, dtype=np.uint64)))


def _decimal(digits: int, scale: int) -> Draw:
    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        whole = draw.integers(0, 10 ** (digits - scale), count)
        fraction = pc.utf8_lpad(pa.array(draw.integers(0, 10**scale, count)).cast(pa.string()), scale, "0")
        sign = pc.if_else(pa.array(draw.random(count) < 0.5), constant(b"-"), constant(b""))
        return joined(sign, _text_of(pa.array(whole)), constant(b"."), fraction.cast(pa.binary()))

    return made


def _floating(spread: float, *, single: bool = False, powers: int = 0) -> Draw:
    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        values = draw.normal(0, spread, count) * 10.0 ** draw.integers(-powers, powers, count, endpoint=True)
        return _text_of(pa.array(values.astype(np.float32) if single else values))

    return made


def _moment(unit: str, suffix: str = "") -> Draw:
    per_second = 1_000_000 if unit == "us" else 1

    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        moments = draw.integers(_YEAR_2026 * per_second, (_YEAR_2026 + _SECONDS) * per_second, count)
        return joined(_text_of(pa.array(moments).cast(pa.timestamp(unit))), constant(suffix.encode()))

    return made


def _date(draw: np.random.Generator, count: int) -> pa.BinaryArray:
    return _text_of(pa.array(draw.integers(10_000, 20_000, count).astype(np.int32)).cast(pa.date32()))


def _time_of_day(draw: np.random.Generator, count: int) -> pa.BinaryArray:
    return _text_of(pa.array(draw.integers(0, 86_400, count).astype(np.int32)).cast(pa.time32("s")))


def _letters(low: int, high: int) -> Draw:
    """ASCII text; also the quickest to make."""

    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(draw.integers(low, high, count, endpoint=True), out=offsets[1:])
        return binary(offsets, _LETTERS[draw.integers(0, 64, int(offsets[-1]), dtype=np.uint8)])

    return made


def _text(low: int, high: int) -> Draw:
    """Text with letters of one to three bytes."""

    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        ends = np.cumsum(draw.integers(low, high, count, endpoint=True))
        points = _ALPHABET[draw.integers(0, len(_ALPHABET), int(ends[-1]) if count else 0, dtype=np.uint8)]
        sizes = 1 + (points > 0x7F).astype(np.uint8) + (points > 0x7FF)
        bytes_so_far = np.concatenate(([0], np.cumsum(sizes, dtype=np.int32)))
        offsets = bytes_so_far[np.concatenate(([0], ends))].astype(np.int32)
        return binary(offsets, pa.py_buffer(points.astype("<u4").tobytes().decode("utf-32-le").encode()))

    return made


def _octets(low: int, high: int) -> Draw:
    def made(draw: np.random.Generator, count: int) -> pa.BinaryArray:
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(draw.integers(low, high, count, endpoint=True), out=offsets[1:])
        return binary(offsets, np.frombuffer(draw.bytes(int(offsets[-1])), np.uint8))

    return made


def _state(draw: np.random.Generator, count: int) -> pa.BinaryArray:
    states = pa.array([b"new", b"paid", b"packed", b"sent", b"returned"])
    return states.take(pa.array(draw.integers(0, 5, count)))


def _document(draw: np.random.Generator, count: int) -> pa.BinaryArray:
    return joined(constant(b'{"id": '), _whole(0, 10**9)(draw, count), constant(b', "tag": [1, 2]}'))


def _string(original_type: str, draw: Draw, *, nullable: bool = True) -> Kind:
    return Kind(original_type, pb.STRING, draw, nullable, "utf8mb4")


NARROW: tuple[Kind, ...] = (
    Kind("int(11)", pb.INT32, _whole(1, 10_000_000), nullable=False),
    Kind("int(11)", pb.INT32, _whole(1, 10_000_000), nullable=False),
    _string("char(120)", _letters(119, 119), nullable=False),
    _string("char(60)", _letters(59, 59), nullable=False),
    _string("timestamp", _moment("s", " +00:00")),
)
"""Five columns, much like sysbench's table."""

WIDE: tuple[Kind, ...] = (
    Kind("bigint(20)", pb.INT64, _whole(1, 1 << 50), nullable=False),
    Kind("bigint(20) unsigned", pb.UINT64, _unsigned_bigint),
    Kind("int(10) unsigned", pb.UINT32, _whole(0, (1 << 32) - 1)),
    Kind("int(11)", pb.INT32, _whole(-(1 << 31), (1 << 31) - 1)),
    Kind("int(11)", pb.INT32, _whole(0, 5000)),
    Kind("smallint(6)", pb.INT16, _whole(-32768, 32767)),
    Kind("tinyint(4)", pb.INT8, _whole(-128, 127)),
    Kind("tinyint(1)", pb.INT8, _whole(0, 1)),
    Kind("year(4)", pb.INT64, _whole(1970, 2026)),
    Kind("bit(8)", pb.INT64, _whole(0, 255)),
    Kind("decimal(10,2)", pb.DECIMAL, _decimal(10, 2)),
    Kind("decimal(18,4)", pb.DECIMAL, _decimal(15, 4)),
    Kind("decimal(10,2)", pb.DECIMAL, _decimal(7, 2)),
    Kind("double", pb.FLOAT64, _floating(1e5)),
    Kind("double", pb.FLOAT64, _floating(1e3, powers=30)),
    Kind("float", pb.FLOAT32, _floating(100, single=True)),
    _string("date", _date),
    _string("date", _date),
    _string("datetime", _moment("s")),
    _string("datetime(6)", _moment("us")),
    _string("timestamp", _moment("s", " +00:00")),
    _string("timestamp", _moment("s", " +00:00")),
    _string("time", _time_of_day),
    _string("varchar(32)", _letters(4, 32)),
    _string("varchar(64)", _text(8, 40)),
    _string("varchar(255)", _letters(10, 120)),
    _string("text", _text(20, 300)),
    _string("enum('new','paid','packed','sent','returned')", _state),
    Kind("json", pb.BYTES, _document),
    Kind("varbinary(64)", pb.BYTES, _octets(8, 64)),
)
"""Thirty columns of the types that MySQL tables use."""

FAT: tuple[Kind, ...] = (
    Kind("bigint(20)", pb.INT64, _whole(1, 1 << 50), nullable=False),
    Kind("int(11)", pb.INT32, _whole(0, 5000)),
    _string("varchar(64)", _text(8, 40)),
    _string("timestamp", _moment("s", " +00:00")),
    _string("mediumtext", _letters(9_000, 11_000)),
    Kind("longblob", pb.BYTES, _octets(9_000, 11_000)),
)
"""Six columns, two of which hold 10 KB each."""


def blob(size: int) -> Kind:
    """Return a column of values of about ``size`` bytes."""
    return Kind("longblob", pb.BYTES, _octets(size, size), nullable=False)
