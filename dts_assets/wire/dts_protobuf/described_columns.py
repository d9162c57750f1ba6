"""The columns that DML events describe, each distinct list read once (document 571/55396, Column)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from dts_assets.model.columns import ColumnShape
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.columns.buffers import binary_array, joint_codes, offsets_of
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.dts_protobuf.protobuf_parser import message_class, reshaped
from dts_assets.wire.dts_protobuf.unknown_fields import fields_beside
from dts_assets.wire.dts_protobuf.walk import Described

_COLUMNS: Any = message_class(reshaped("columns", {"DMLEvent": ("columns",)}))
"""The columns of an event, each as its own bytes."""


def lists_of_bytes(described: Described) -> tuple[npt.NDArray[np.int64], list[ColumnList | None]]:
    """Return what :func:`column_lists` returns, from columns that were compared as bytes."""
    return described.codes, [_list_of_bytes(data) for data in described.columns]


@lru_cache(maxsize=1 << 14)
def _list_of_bytes(data: bytes) -> ColumnList | None:
    return column_list(tuple(_COLUMNS.FromString(data).columns))


def column_lists(columns: pa.ListArray) -> tuple[npt.NDArray[np.int64], list[ColumnList | None]]:
    """Return the number of each entry's column list, and the distinct lists.

    None is a list that cannot be read. Entries are told apart by all bytes of their columns and the place where each column
    begins, compared and not only hashed, so that no two tables can ever be taken for one.
    """
    bounds, starts = offsets_of(columns), offsets_of(columns.values)
    joined = binary_array(pa.binary(), starts[bounds], columns.values.buffers()[2], None)
    lengths = pa.py_buffer(np.ascontiguousarray(np.diff(starts), np.int32))
    sizes = binary_array(pa.binary(), bounds * np.int32(4), lengths, None)
    codes, first = joint_codes(joined, sizes)
    groups = [
        column_list(tuple(columns.values.slice(start, end - start).to_pylist()))
        for start, end in zip(bounds[first].tolist(), bounds[first + 1].tolist(), strict=True)
    ]
    return codes, groups


@lru_cache(maxsize=1 << 16)
def _column(data: bytes) -> tuple[ColumnShape, tuple[str, ...]]:
    column = pb.Column.FromString(data)
    return ColumnShape(column.name, column.originalType, column.isKey), tuple(fields_beside(column))


@lru_cache(maxsize=1 << 14)
def column_list(data: tuple[bytes, ...]) -> ColumnList | None:
    """Return the columns of some serialized ``Column`` messages; None if one cannot be read."""
    try:
        read = [_column(column) for column in data]
    except DecodeError:
        return None
    columns = tuple(column for column, _ in read)
    positions: dict[str, int] = {}
    for number, column in enumerate(columns):
        positions.setdefault(column.name, number)
    return ColumnList(columns, positions, tuple(what for _, unknown in read for what in unknown))
