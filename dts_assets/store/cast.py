"""Casts of batches to a table's schema.

Columns and nested fields are matched by name, and fields of a file whose name has changed since by their Iceberg id, also where
the field is one of another type now; a missing column or field is null; only casts are made that keep every value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from dts_assets.errors import LakeTableError
from dts_assets.store.types import FIELD_ID
from dts_assets.wire.columns.lake_texts import held_as

Ids = Mapping[bytes, bytes]
_SAME: Ids = MappingProxyType({})


def cast_to_schema(batch: pa.RecordBatch, schema: pa.Schema, table: str, former_ids: Ids = _SAME) -> pa.RecordBatch:
    """Return a batch with exactly the columns of ``schema``.

    ``former_ids`` has the ids of the fields in whose place fields of ``schema`` have come, by the ids of these.

    Raises:
        LakeTableError: The batch has a column or field that ``schema`` lacks, or a value that does not fit its type.
            ``table`` is named in the error.
    """
    names = batch.schema.names
    if extra := set(names) - set(schema.names):
        raise LakeTableError(table, f"it has no column {', '.join(sorted(extra))}")
    try:
        columns = [
            _array(batch.column(column.name), column.type, column.name, former_ids)
            if column.name in names
            else pa.nulls(batch.num_rows, column.type)
            for column in schema
        ]
    except _Misfit as misfit:
        raise LakeTableError(table, str(misfit)) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Misfit(Exception):
    """A clause about a column, of which the caller makes an error."""


def _array(array: pa.Array, kind: pa.DataType, path: str, former_ids: Ids) -> pa.Array:
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _struct(array, kind, path, former_ids)
    # Lists and maps are rebuilt around their children, so that a struct inside matches by name too. A slice may not carry a
    # mask besides its offsets, hence the copy.
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        whole = pa.concat_arrays([array]) if array.offset else array
        keys = _array(whole.keys, kind.key_type, f"{path}.key", former_ids)
        items = _array(whole.items, kind.item_type, f"{path}.value", former_ids)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=kind, mask=_nulls(whole))
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        whole = pa.concat_arrays([array]) if array.offset else array
        values = _array(whole.values, kind.value_type, f"{path}.element", former_ids)
        return pa.ListArray.from_arrays(whole.offsets, values, type=kind, mask=_nulls(whole))
    try:
        return held_as(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Arrow's own message may quote the value.
        raise _Misfit(f"column {path} is {kind} and was given {array.type} that does not fit") from None


def _struct(array: pa.StructArray, kind: pa.StructType, path: str, former_ids: Ids) -> pa.Array:
    given = _given(array.type, kind, former_ids)
    if extra := given.keys() - {child.name for child in kind}:
        raise _Misfit(f"it has no column {', '.join(f'{path}.{name}' for name in sorted(extra))}")
    children = [
        _array(array.field(given[child.name]), child.type, f"{path}.{child.name}", former_ids)
        if child.name in given
        else pa.nulls(len(array), child.type)
        for child in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=_nulls(array)) if children else array.cast(kind)


def _given(found: pa.StructType, wanted: pa.StructType, former_ids: Ids) -> dict[str, int]:
    """Return the place of each field by the name that it is wanted under."""
    names = {child.name for child in wanted}
    by_id = {child.metadata[FIELD_ID]: child.name for child in wanted if child.metadata and FIELD_ID in child.metadata}
    by_id = {former_ids[number]: name for number, name in by_id.items() if number in former_ids} | by_id
    given = {}
    for number, child in enumerate(found):
        number_of = None if child.name in names else (child.metadata or {}).get(FIELD_ID)
        given[by_id.get(number_of, child.name)] = number
    return given


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
