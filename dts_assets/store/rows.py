"""Ledger rows to and from Arrow.

A row is its dataclass, field by field, except that windows, offset ranges, tables, counts and deliveries are spread over columns
of their own. Everything else is left to msgspec. Instants are UTC. Lists are never null in the lake, because pyiceberg reads a
null list of structs as an empty one; a list that an older file lacks is read as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from dts_assets.model.ledger_rows import LedgerRow
from dts_assets.store.columns import SPREAD

Kind = TypeVar("Kind", bound=LedgerRow)
Reader: TypeAlias = Callable[[Mapping[str, Any]], Any]

_AS_THEY_ARE = (bytes, datetime)
_UTC = "+00:00"  # Arrow gives datetime.timezone.utc for it, and a ZoneInfo, which prints otherwise, for "UTC"


def to_row(value: LedgerRow) -> dict[str, Any]:
    """Return a ledger row by its columns: ``{"kafka_partition": 0, "window_start": ..., "window_end": ..., "epoch": 0, ...}``."""
    row: dict[str, Any] = msgspec.to_builtins(value, builtin_types=_AS_THEY_ARE)
    for name, columns in _SPREAD[type(value)]:
        part = row.pop(name)
        row |= {column: part[inner] for inner, column in columns}
    return row


def to_arrow(values: Sequence[LedgerRow], schema: pa.Schema) -> pa.Table:
    """Return ledger rows as a table of ``schema``."""
    return pa.Table.from_pylist([to_row(value) for value in values], schema=schema)


def from_arrow(kind: type[Kind], table: pa.Table) -> list[Kind]:
    """Return the ledger rows that a table holds.

    Raises:
        KeyError: The table lacks a column.
        msgspec.ValidationError: This version does not know a value, such as the completeness level of a later version.
    """
    schema = pa.schema([field.with_type(_in_utc(field.type)) for field in table.schema])
    read = _READERS[kind]
    rows = [{name: one(row) for name, one in read} for row in table.cast(schema).to_pylist()]
    return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]


def _spread_of(kind: type[Any]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the fields that take several columns: ``("window", (("start", "window_start"), ("end", "window_end")))``."""
    hints = get_type_hints(kind)
    return tuple(
        (name, tuple((one.name, SPREAD[hint].format(one.name)) for one in fields(hint)))
        for name, hint in hints.items()
        if hint in SPREAD
    )


def _readers_of(kind: type[Any]) -> tuple[tuple[str, Reader], ...]:
    """Return the fields of a kind of row, each with its reader: ``("epoch", <reader>)``."""
    spread = dict(_spread_of(kind))
    hints = get_type_hints(kind)
    readers: list[tuple[str, Reader]] = []
    for one in fields(kind):
        if one.name in spread:
            inner = get_type_hints(hints[one.name])
            named = {each.name: each for each in fields(hints[one.name])}
            parts = [(name, _reader(column, inner[name], named[name].default)) for name, column in spread[one.name]]
            readers.append((one.name, _together(parts)))
        else:
            readers.append((one.name, _reader(one.name, hints[one.name], one.default)))
    return tuple(readers)


def _together(parts: Sequence[tuple[str, Reader]]) -> Reader:
    return lambda row: {name: read(row) for name, read in parts}


def _reader(column: str, hint: Any, default: Any) -> Reader:
    """Return a reader of one column.

    Null, where an older file lacks the column, is read as empty or as the field's default.
    """
    empty = () if get_origin(hint) is tuple else default
    if empty is None or empty is MISSING:
        return itemgetter(column)
    return lambda row: empty if (value := row[column]) is None else value


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with every instant in UTC."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, _UTC)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind


_SPREAD = {kind: _spread_of(kind) for kind in get_args(LedgerRow)}
_READERS = {kind: _readers_of(kind) for kind in get_args(LedgerRow)}
"""The readers of each kind of row, field by field.

Asking each row for its fields was a tenth of the time of reading a ledger.
"""
