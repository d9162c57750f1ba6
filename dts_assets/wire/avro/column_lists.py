"""The columns of a table as a record describes them: fields, and the names of the key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import ColumnShape
from dts_assets.wire.avro.field_values import integers, lists_of, texts
from dts_assets.wire.avro.records import Records, RecordSchema, read_alone, texts_alone
from dts_assets.wire.avro.schema import Type
from dts_assets.wire.avro.side_by_side import Fields
from dts_assets.wire.columns.buffers import joint_codes
from dts_assets.wire.columns.table_rows import ColumnList, list_of
from dts_assets.wire.columns.type_numbers import TYPE_NAMES

NAMES = ("name", "columnName", "column")
"""The names of the field with a column's name, in a record that describes the column."""

_TYPES, _TYPE_NUMBERS, _KEY_FLAGS = ("originalType", "columnType", "type"), ("dataTypeNumber",), ("isKey", "isPk")


def column_lists(records: Records) -> tuple[npt.NDArray[np.int64], list[ColumnList | None]]:
    """Return the number of each record's column list, and the distinct lists.

    None is a list that cannot be read. Records are told apart by the bytes of their columns and keys.
    """
    columns, keys = records.extents("columns"), records.extents("key_names")
    codes, first = joint_codes(columns, keys)
    pairs = zip(columns.take(pa.array(first)).to_pylist(), keys.take(pa.array(first)).to_pylist(), strict=True)
    return codes, [column_list(records.schema, *pair) for pair in pairs]


@lru_cache(maxsize=1 << 14)
def column_list(schema: RecordSchema, columns: bytes, keys: bytes) -> ColumnList | None:
    """Return the columns that are encoded in ``columns``, with the key that ``keys`` name.

    None stands for bytes that cannot be read.
    """
    field, key_field = schema.fields["columns"], schema.fields.get("key_names")
    found = read_alone(field.type, columns)
    arrays = None if found is None else lists_of(field.type, found[0], 1)
    if found is None or arrays is None or not isinstance(arrays[2].items, Fields):
        return None
    described = _Described(arrays[1], arrays[2].items, found[1], int(arrays[2].counts.sum()))
    named = [] if key_field is None else texts_alone(key_field.type, keys) or []
    try:
        shapes = described.shapes(frozenset(one.decode() for one in named))
    except UnicodeDecodeError:
        return None
    return list_of(shapes)


@dataclass(frozen=True, slots=True)
class _Described:
    """The items of one array of columns: type, fields, and the bytes that these lie in."""

    item: Type
    fields: Fields
    data: pa.Buffer
    count: int

    def shapes(self, of_key: frozenset[str]) -> tuple[ColumnShape, ...]:
        """Return the columns.

        Raises:
            UnicodeDecodeError: A name or a type is not UTF-8.
        """
        names, kinds = self._texts(NAMES), self._texts(_TYPES)
        coded, flags = self._numbers(_TYPE_NUMBERS), self._numbers(_KEY_FLAGS)
        return tuple(
            ColumnShape(name, kind or TYPE_NAMES.get(number, ""), flag != 0 or name in of_key)
            for name, kind, number, flag in zip(names, kinds, coded, flags, strict=True)
        )

    def _texts(self, names: tuple[str, ...]) -> list[str]:
        field = self.item.field(*names)
        if field is None:
            return [""] * self.count
        found = texts(field.type, self.fields.columns[field.name], self.data, self.count).to_pylist()
        return [(one or b"").decode() for one in found]

    def _numbers(self, names: tuple[str, ...]) -> list[int]:
        field = self.item.field(*names)
        if field is None:
            return [0] * self.count
        values = integers(field.type, self.fields.columns[field.name], self.data, self.count).values
        found: list[int] = values.tolist()
        return found
