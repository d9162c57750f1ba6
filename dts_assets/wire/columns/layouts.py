"""Where the columns of a table stand in the events that carry them: worked out once per pair of column list and table.

Two memories live here, both of pure functions: what a column's bytes say, and the layout of a table. A stream repeats
the same few column lists in every event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape, mysql_type
from dts_assets.wire.columns.casts import arrow_type

_NUMBER_TYPES = re.compile(
    r"\s*(tiny|small|medium|big)?int|\s*(integer|decimal|numeric|dec|fixed|float|double|real|bit|year)\b", re.I
)
_BIT = re.compile(r"\s*bit\b", re.I)
_UNSIGNED = re.compile(r"unsigned|zerofill", re.I)


UNCARRIED = 1 << 30
"""A position beyond the values of any call, whose bytes end at two gibibytes: added to a row's first value it finds none."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnList:
    """The columns of an event. Compared by identity: equal bytes give the same object.

    ``unknown`` names what stands in them although the protocol does not have it.
    """

    columns: tuple[ColumnShape, ...]
    positions: Mapping[str, int]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is taken and cast together: values of one lake type that stand in the same field of their messages.

    ``number_field`` is ``sv``, where numbers are; the other is ``bv``. ``bits`` marks 64-bit BIT values, whose sign is no sign.
    ``of_bytes`` marks binary columns that are binary at the source too, and not text that is declared to be bytes.
    """

    lake_type: str
    number_field: bool
    bits: bool
    of_bytes: bool


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The columns of a table that belong to one bucket.

    ``columns`` are their numbers in the table, ``positions`` (one row per column list, one column per column) where they stand
    in the event, :data:`UNCARRIED` where the event does not carry them. ``signed``: their type text does not say unsigned.
    """

    columns: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    signed: npt.NDArray[np.bool_]

    def parts(self, width: int) -> Iterator[Share]:
        """The same in parts of at most so many columns."""
        if len(self.columns) <= width:
            yield self
            return
        for first in range(0, len(self.columns), width):
            part = slice(first, first + width)
            yield Share(self.columns[part], self.positions[:, part], self.signed[part])


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A table's columns by bucket, those that no event carries, and the Arrow type of its images."""

    struct: pa.StructType
    shares: Mapping[Bucket, Share]
    uncarried: tuple[int, ...]


@lru_cache(maxsize=1 << 13)
def layout_of(lists: tuple[ColumnList, ...], columns: tuple[Column, ...]) -> Layout:
    """The layout of a table whose rows come with some column lists."""
    members: dict[Bucket, list[int]] = {}
    uncarried: list[int] = []
    signed: list[bool] = [False] * len(columns)
    for number, column in enumerate(columns):
        found = next((one for one in reversed(lists) if column.name in one.positions), None)
        if found is None:
            uncarried.append(number)
            continue
        original = found.columns[found.positions[column.name]].original_type
        signed[number] = _UNSIGNED.search(original) is None
        bits = column.type == "decimal(20,0)" and _BIT.match(original) is not None
        of_bytes = column.type == "binary" and mysql_type(original) == "binary"
        bucket = Bucket(column.type, _NUMBER_TYPES.match(original) is not None, bits, of_bytes)
        members.setdefault(bucket, []).append(number)
    shares = {}
    for bucket, numbers in members.items():
        names = [columns[number].name for number in numbers]
        positions = [[one.positions.get(name, UNCARRIED) for name in names] for one in lists]
        shares[bucket] = Share(
            np.asarray(numbers, np.int32), np.asarray(positions, np.int32), np.asarray([signed[one] for one in numbers])
        )
    return Layout(struct_type(columns), shares, tuple(uncarried))


@lru_cache(maxsize=1 << 13)
def struct_type(columns: tuple[Column, ...]) -> pa.StructType:
    """The Arrow type of a row image."""
    return pa.struct([pa.field(column.name, arrow_type(column.type)) for column in columns])
