"""Ledger rows to and from Arrow.

A row is its dataclass, field by field, except that windows, offset ranges, tables, counts and deliveries are spread over columns
of their own. Everything else is left to msgspec. Instants are UTC. Lists are never null in the lake, because pyiceberg reads a
null list of structs as an empty one; a list that an older file lacks is read as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from dts_assets.model.ledger_rows import LedgerRow
from dts_assets.model.type_reading import READING_TYPES
from dts_assets.store.ledger_columns import SPREAD

Kind = TypeVar("Kind", bound=LedgerRow)
Place: TypeAlias = tuple[str, str | None, str, Any]
"""A field, the field inside it (None: it takes one column), the column, and what null means.

Null, where an older file lacks the column, is read as empty or as the field's default.
"""

_AS_THEY_ARE = (bytes, datetime)
_UTC = "+00:00"  # Arrow gives datetime.timezone.utc for it, and a ZoneInfo, which prints otherwise, for "UTC"


def to_row(value: LedgerRow) -> dict[str, Any]:
    """Return a ledger row by its columns: ``{"kafka_partition": 0, "window_start": ..., "window_end": ..., "epoch": 0, ...}``."""
    made = msgspec.to_builtins(value, builtin_types=_AS_THEY_ARE)
    plan = _PLANS[type(value)]
    return {column: made[name] if inner is None else made[name][inner] for name, inner, column, _ in plan}


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
    rows: list[dict[str, Any]] = []
    for row in table.cast(schema).to_pylist():
        made: dict[str, Any] = {}
        for name, inner, column, empty in _PLANS[kind]:
            value = empty if row[column] is None else row[column]
            if inner is None:
                made[name] = value
            else:
                made.setdefault(name, {})[inner] = value
        rows.append(made)
    return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]


def _plan_of(kind: type[Any]) -> Iterator[Place]:
    hints = get_type_hints(kind)
    for one in (one for one in fields(kind) if one.metadata.get("stored", True)):
        hint = hints[one.name]
        if hint in SPREAD:
            for inner, _, _, empty in _plan_of(hint):
                yield one.name, inner, SPREAD[hint].format(inner), empty
        elif get_origin(hint) is tuple:
            yield one.name, None, one.name, ()
        else:
            yield one.name, None, one.name, None if one.default is MISSING else one.default


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with every instant in UTC."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, _UTC)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind


_PLANS = {kind: tuple(_plan_of(kind)) for kind in get_args(LedgerRow)}
"""The places of each kind of row, column by column.

Asking each row for its fields was a tenth of the time of reading a ledger.
"""

with READING_TYPES:
    for _kind in get_args(LedgerRow):
        msgspec.convert([], list[_kind])  # type: ignore[valid-type]
