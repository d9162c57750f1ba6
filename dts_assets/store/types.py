"""Lake types in their three spellings: the text of :mod:`dts_assets.store.columns`, Iceberg, and Arrow with field ids.

Arrow types here are the small ones (``string``, not ``large_string``): decoders produce them, and a batch stays far below 2 GB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from dts_assets.model.columns import decimal_arguments, quoted
from dts_assets.store.columns import NamedType

FIELD_ID = b"PARQUET:field_id"
"""The key under which Arrow hands a column's Iceberg id to the Parquet writer, and reads it back."""

_SIMPLE: dict[str, tuple[IcebergType, pa.DataType]] = {
    "int": (IntegerType(), pa.int32()),
    "bigint": (LongType(), pa.int64()),
    "float": (FloatType(), pa.float32()),
    "double": (DoubleType(), pa.float64()),
    "boolean": (BooleanType(), pa.bool_()),
    "string": (StringType(), pa.string()),
    "binary": (BinaryType(), pa.binary()),
    "date": (DateType(), pa.date32()),
    "timestamp": (TimestamptzType(), pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": (TimestampType(), pa.timestamp("us")),
}
_TEXT = {iceberg: text for text, (iceberg, _) in _SIMPLE.items()}
_ARROW = {iceberg: arrow for iceberg, arrow in _SIMPLE.values()}

_TOKEN = re.compile(r"`(?:[^`]|``)*`|decimal\(\d+,\s*\d+\)|[<>,:]|[^<>,:`\s]+")


def iceberg_type(text: str, ids: Iterator[int] | None = None) -> IcebergType:
    """Return the Iceberg type of a lake type's text; ``ids`` gives the field ids of nested fields.

    Raises:
        ValueError: The text is no type of the lake.
    """
    tokens = _TOKEN.findall(text)
    parsed = _parse(tokens, count(1) if ids is None else ids)
    if tokens:
        raise ValueError(f"{text} is not a type of the lake: nothing may follow at {tokens[0]}")
    return parsed


def iceberg_schema(columns: Iterable[NamedType], *, docs: dict[str, str] | None = None) -> Schema:
    """Return a schema of optional columns with provisional ids.

    A catalog gives its own ids when it creates the table.

    Raises:
        ValueError: The text of a column is no type of the lake.
    """
    ids = count(1)
    return Schema(
        *(
            NestedField(next(ids), name, iceberg_type(text, ids), required=False, doc=(docs or {}).get(name))
            for name, text in columns
        )
    )


def lake_type(kind: IcebergType) -> str:
    """Return the text of an Iceberg type: the inverse of :func:`iceberg_type`.

    Raises:
        KeyError: No type of the lake has this Iceberg type.
    """
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, StructType):
        return (
            "struct<" + ",".join(f"{quoted(field.name)}:{lake_type(field.field_type)}" for field in kind.fields) + ">"
        )
    if isinstance(kind, ListType):
        return f"array<{lake_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{lake_type(kind.key_type)},{lake_type(kind.value_type)}>"
    return _TEXT[kind]


def arrow_type(kind: IcebergType) -> pa.DataType:
    """Return the Arrow type of an Iceberg type, nested fields carrying their ids.

    Raises:
        KeyError: No type of the lake has this Iceberg type.
    """
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field.name, field.field_type, field.field_id) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_field("element", kind.element_type, kind.element_id))
    if isinstance(kind, MapType):
        key = _arrow_field("key", kind.key_type, kind.key_id).with_nullable(False)
        return pa.map_(key, _arrow_field("value", kind.value_type, kind.value_id))
    return _ARROW[kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table, every field carrying its id.

    Workers must write with this schema. Take it from the table as the catalog has it: creating a table gives new ids, in an order
    of the catalog's own.
    """
    return pa.schema([_arrow_field(field.name, field.field_type, field.field_id) for field in schema.fields])


def _arrow_field(name: str, kind: IcebergType, field_id: int) -> pa.Field:
    return pa.field(name, arrow_type(kind), metadata={FIELD_ID: str(field_id).encode()})


def _parse(tokens: list[str], ids: Iterator[int]) -> IcebergType:
    """Take one type from the front of ``tokens``.

    Raises:
        ValueError: The tokens do not begin with a type.
    """
    head = _take(tokens)
    if head in _SIMPLE:
        return _SIMPLE[head][0]
    if arguments := decimal_arguments(head):
        return DecimalType(*arguments)
    if head not in ("array", "map", "struct"):
        raise ValueError(f"{head} is not a type of the lake")
    _take(tokens, "<")
    parsed = _PARSERS[head](tokens, ids)
    _take(tokens, ">")
    return parsed


def _parse_array(tokens: list[str], ids: Iterator[int]) -> IcebergType:
    return ListType(element_id=next(ids), element=_parse(tokens, ids), element_required=False)


def _parse_map(tokens: list[str], ids: Iterator[int]) -> IcebergType:
    key_id, value_id = next(ids), next(ids)
    key = _parse(tokens, ids)
    _take(tokens, ",")
    return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=_parse(tokens, ids), value_required=False)


def _parse_struct(tokens: list[str], ids: Iterator[int]) -> IcebergType:
    fields: list[NestedField] = []
    while tokens and tokens[0] != ">":
        if fields:
            _take(tokens, ",")
        name = _take(tokens)
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        _take(tokens, ":")
        fields.append(NestedField(next(ids), name, _parse(tokens, ids), required=False))
    return StructType(*fields)


_PARSERS = {"array": _parse_array, "map": _parse_map, "struct": _parse_struct}


def _take(tokens: list[str], expected: str | None = None) -> str:
    if not tokens or (expected is not None and tokens[0] != expected):
        raise ValueError(f"expected {expected or 'a type'}, found {tokens[0] if tokens else 'the end'}")
    return tokens.pop(0)
