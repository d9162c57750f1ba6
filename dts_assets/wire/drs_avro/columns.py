"""The columns of a record's table.

A list describes them, or a map of types; else the names in the record's rows are all that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.wire.avro.column_lists import column_lists
from dts_assets.wire.avro.field_values import branches, slices_array, texts
from dts_assets.wire.avro.records import Records, RecordSchema, read_alone, texts_alone
from dts_assets.wire.avro.side_by_side import Extent, Ints, Lists, Wanted
from dts_assets.wire.columns.buffers import binary_array, joint_codes, run_lengths
from dts_assets.wire.columns.table_rows import ColumnList, list_of
from dts_assets.wire.drs_avro.images import items_of

_NUMBER_BYTES = 4
_NOTHING: Wanted = {}


def describes_columns(schema: RecordSchema) -> bool:
    """Tell whether records say which columns their table has."""
    return not {"columns", "types"}.isdisjoint(schema.fields)


def image_wish(schema: RecordSchema) -> Wanted:
    """Return the parts of images that their columns are found by: none, unless they alone have the names."""
    return _NOTHING if describes_columns(schema) else None


COLUMN_WISHES: dict[str, Wanted] = dict.fromkeys(("columns", "types", "key_names"), Extent.BYTES)
"""The fields that describe columns, of which the bytes are asked for."""


def columns_of(records: Records) -> tuple[Ints, list[ColumnList | None]]:
    """Return the number of each record's column list, and the distinct lists.

    None is a list that cannot be read.
    """
    if "columns" in records.schema.fields:
        return column_lists(records)
    if "types" not in records.schema.fields:
        return _by_names(records)
    types, keys = records.extents("types"), records.extents("key_names")
    codes, first = joint_codes(types, keys)
    pairs = zip(types.take(pa.array(first)).to_pylist(), keys.take(pa.array(first)).to_pylist(), strict=True)
    return codes, [_by_types(records.schema, *pair) for pair in pairs]


@lru_cache(maxsize=1 << 14)
def _by_types(schema: RecordSchema, types: bytes, keys: bytes) -> ColumnList | None:
    """Return the columns of a map from names to types, with the key that ``keys`` name.

    None stands for columns that cannot be read.
    """
    kind = schema.fields["types"].type
    found = read_alone(kind, types)
    for _, inside, column in () if found is None else branches(kind, found[0], 1):
        if inside.kind == "map" and isinstance(column, Lists) and column.keys is not None and found is not None:
            data, count = found[1], int(column.counts.sum())
            names = slices_array(column.keys, data).to_pylist()
            kinds = texts(inside.items[0], column.items, data, count).to_pylist() if count else []
            return _described(names, kinds, _key_names(schema, keys))
    return None


def _described(names: list[bytes], kinds: list[bytes | None], keys: frozenset[bytes]) -> ColumnList | None:
    if not keys <= set(names) or len(set(names)) < len(names):
        return None
    try:
        pairs = [(name.decode(), (kind or b"").decode(), name in keys) for name, kind in zip(names, kinds, strict=True)]
    except UnicodeDecodeError:
        return None
    return list_of(tuple(ColumnShape(*one) for one in pairs))


def _key_names(schema: RecordSchema, keys: bytes) -> frozenset[bytes]:
    field = schema.fields.get("key_names")
    return frozenset() if field is None else frozenset(texts_alone(field.type, keys) or ())


def _by_names(records: Records) -> tuple[Ints, list[ColumnList | None]]:
    """Return columns without types, as the rows of each record name them.

    The new row comes first, and then what the old one adds.
    """
    found = [(items.owners, items.names) for role in ("after", "before") for items in items_of(records, role)]
    named = [(owners, names) for owners, names in found if names is not None]
    owners = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in named)])
    names = pa.concat_arrays([pa.array([], pa.binary()), *(one for _, one in named)]).dictionary_encode()
    order = np.argsort(owners, kind="stable")
    numbers = names.indices.to_numpy()[order].astype(np.int32)
    counts = np.bincount(owners, minlength=len(records))
    # The numbers of a record's names are bytes, so that equal lists of names are found as equal texts are.
    spelled = binary_array(pa.binary(), run_lengths(counts * _NUMBER_BYTES), pa.py_buffer(numbers), None)
    codes, first = joint_codes(spelled, records.extents("key_names"))
    keys = records.extents("key_names").take(pa.array(first)).to_pylist()
    some = spelled.take(pa.array(first)).to_pylist()
    distinct: list[bytes] = names.dictionary.to_pylist()
    lists: list[ColumnList | None] = []
    for mine, key in zip(some, keys, strict=True):
        own = tuple(dict.fromkeys(distinct[number] for number in np.frombuffer(mine, np.int32).tolist()))
        lists.append(_untyped(own, _key_names(records.schema, key)))
    return codes, lists


@lru_cache(maxsize=1 << 14)
def _untyped(names: tuple[bytes, ...], keys: frozenset[bytes]) -> ColumnList | None:
    return _described(list(names), [None] * len(names), keys)


def with_columns_of(
    tables: Sequence[tuple[Column, ...]], of_table: Ints, codes: Ints, lists: Sequence[ColumnList | None]
) -> tuple[Ints, list[ColumnList | None]]:
    """Return the lists of records that describe no columns, widened by the other columns of their tables.

    A row that leaves a known column out does not say that it is NULL. ``of_table`` has the number of each record's table.
    """
    pairs = pa.array(of_table * max(1, len(lists)) + codes).dictionary_encode()
    made = []
    for pair in pairs.dictionary.to_pylist():
        table, own = tables[pair // max(1, len(lists))], lists[pair % max(1, len(lists))]
        made.append(None if own is None else _widened(own, table))
    return pairs.indices.to_numpy().astype(np.int64), made


@lru_cache(maxsize=1 << 14)
def _widened(own: ColumnList, columns: tuple[Column, ...]) -> ColumnList:
    more = [one for one in columns if own.place(one) is None]
    shapes = (*own.columns, *(ColumnShape(one.source_names[0], "", one.is_key) for one in more))
    return list_of(shapes) or own
