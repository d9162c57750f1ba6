"""MySQL values as the vendor's Data messages: data type, charset, and either text (``sv``) or bytes (``bv``).

NULL is a message without any field; a column that the row image left out is NA.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.messages.float_texts import double_text, single_text
from dts_emulator.source.events import ABSENT, Kind, SourceColumn, Value, bytes_of, float_of

Encoder = Callable[[Value], pb.Data]

_INTEGERS = {
    Kind.INT8: (pb.INT8, pb.UINT8),
    Kind.INT16: (pb.INT16, pb.UINT16),
    Kind.INT32: (pb.INT32, pb.UINT32),
    Kind.INT64: (pb.INT64, pb.UINT64),
    Kind.BIT: (pb.INT64, pb.INT64),
    Kind.YEAR: (pb.INT64, pb.INT64),
}


def encoder(column: SourceColumn, options: DtsOptions) -> Encoder:
    """Return a function from the values of a column to Data messages."""
    encode = _encoder(column, options)

    def with_null_and_absent(value: Value) -> pb.Data:
        if value is None:
            return pb.Data()
        if value is ABSENT:
            return pb.Data(dataType=pb.NA)
        return encode(value)

    return with_null_and_absent


def original_type(column: SourceColumn, options: DtsOptions) -> str:
    """Return the type text of a column as entries carry it: the server's COLUMN_TYPE."""
    if column.kind is Kind.JSON and options.json_as == "json":
        return "json"
    text = column.column_type
    if not options.original_type_sign:
        text = text.replace(" unsigned", "").replace(" zerofill", "")
    return text


def _encoder(column: SourceColumn, options: DtsOptions) -> Encoder:
    kind = column.kind
    if kind in _INTEGERS:
        number = _INTEGERS[kind][column.is_unsigned]
        return lambda value: pb.Data(dataType=number, sv=str(value))
    if kind is Kind.FLOAT32:
        return lambda value: pb.Data(dataType=pb.FLOAT32, sv=single_text(float_of(value)))
    if kind is Kind.FLOAT64:
        return lambda value: pb.Data(dataType=pb.FLOAT64, sv=double_text(float_of(value)))
    if kind is Kind.DECIMAL:
        return lambda value: pb.Data(dataType=pb.DECIMAL, sv=str(value))
    if kind is Kind.PLAIN:
        return lambda value: pb.Data(dataType=pb.STRING, charset=options.plain_charset, bv=str(value).encode())
    if kind is Kind.INSTANT:
        zero, charset = options.zero_timestamp, options.plain_charset
        return lambda value: pb.Data(dataType=pb.STRING, charset=charset, bv=_instant(str(value), zero).encode())
    return _bytes_encoder(column, options)


def _bytes_encoder(column: SourceColumn, options: DtsOptions) -> Encoder:
    kind = column.kind
    as_bytes = (
        kind is Kind.BLOB
        or (kind is Kind.JSON and options.json_as == "json")
        or (kind is Kind.BINARY and options.binary_as == "bytes")
    )
    if as_bytes:
        return lambda value: pb.Data(dataType=pb.BYTES, bv=bytes_of(value))
    charset = "binary" if kind is Kind.BINARY else (column.charset or options.plain_charset)
    if charset == "utf8mb3":
        charset = options.utf8_name
    return lambda value: pb.Data(dataType=pb.STRING, charset=charset, bv=bytes_of(value))


def _instant(seconds: str, zero: str) -> str:
    """``2021-05-17 07:22:42.500 +00:00`` from ``1621236162.500``."""
    whole, dot, fraction = seconds.partition(".")
    if not int(whole) and not fraction.strip("0"):
        return zero
    return f"{datetime.fromtimestamp(int(whole), UTC):%Y-%m-%d %H:%M:%S}{dot}{fraction} +00:00"
