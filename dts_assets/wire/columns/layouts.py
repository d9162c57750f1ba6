"""The layout of a table's rows: which columns are read together, and where their values stand in events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.postgresql_types import postgresql_type
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.table_rows import ColumnList, carried_by, json_by, keys_of, signed_text

_NUMBER_TYPES = re.compile(
    r"\s*(tiny|small|medium|big)?int|\s*(integer|decimal|numeric|dec|fixed|float|double|real|bit|year)\b", re.I
)
_BIT = re.compile(r"\s*bit\b", re.I)
_CLOCK = re.compile(r"\s*(datetime|date)\b", re.I)


UNCARRIED = 1 << 30
"""A position beyond the values of any call, whose bytes end at two gibibytes.

Added to a row's first value it finds no value.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Values that are taken and cast together: one lake type, in one field of their messages. Compared by identity.

    ``number_field`` is ``sv``, where numbers are; the other field is ``bv``. ``bits`` marks 64-bit BIT values, whose sign is
    no sign. ``of_bytes`` marks binary columns that are binary at the source too, and not text that is declared to be bytes.
    ``clocks`` marks instants that are wall clocks at the source.
    """

    lake_type: str
    number_field: bool
    bits: bool
    of_bytes: bool
    clocks: bool


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a table by bucket, the columns that no event carries, and the images' Arrow type.

    Each of ``buckets`` has one column, with its number in ``columns``. ``positions`` (a row for each column list) are its places
    in events, :data:`UNCARRIED` where an event does not carry it. ``signed`` marks types of whole numbers that say no sign, and
    ``texts`` has their texts.
    ``joined`` marks columns whose values are read by the types of their own events, or learn the sign of these: each has a bucket
    for every such type.
    ``keys`` has the primary key that each column list tells, ``carried`` the digest of its columns, ``json`` its columns of JSON.
    """

    struct: pa.StructType
    buckets: tuple[Bucket, ...]
    columns: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    signed: Bools
    texts: tuple[str, ...]
    uncarried: tuple[int, ...]
    joined: Bools
    keys: tuple[tuple[str, ...], ...]
    carried: tuple[tuple[str, ...], ...]
    json: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1 << 13)
def layout_of(lists: tuple[ColumnList, ...], columns: tuple[Column, ...]) -> Layout:
    """Return the layout of a table whose rows come with some column lists."""
    members: list[_Member] = []
    uncarried: list[int] = []
    joined: set[int] = set()
    for number, column in enumerate(columns):
        found = [place for one in reversed(lists) if (place := one.place(column)) is not None]
        if not found:
            uncarried.append(number)
            continue
        by_kind: dict[tuple[str, str], list[str]] = {}
        for text in (shape.original_type for _, shape in found):
            by_kind.setdefault((column.own_type(text), signed_text(text)), []).append(text)
        if len(by_kind) > 1 or next(iter(by_kind))[0] != column.type:
            joined.add(number)
        for (kind, signed), originals in sorted(by_kind.items()):
            # A type that nobody knows, as a damaged message may have it, says nothing of the other messages.
            original = next((one for one in originals if mysql_type(one) or postgresql_type(one)), originals[0])
            members.append(_Member(number, column, kind, _bucket_of(kind, original), signed))
    positions = [[one.position(member.column, member.kind, member.signed) for member in members] for one in lists]
    return Layout(
        struct_type(columns),
        tuple(member.bucket for member in members),
        np.asarray([member.number for member in members], np.int32),
        np.asarray([[UNCARRIED if at is None else at for at in mine] for mine in positions], np.int32),
        np.asarray([bool(member.signed) for member in members], np.bool_),
        tuple(member.signed for member in members),
        tuple(uncarried),
        np.asarray([member.number in joined for member in members], np.bool_),
        keys_of(lists, columns),
        carried_by(lists),
        json_by(lists, columns),
    )


@dataclass(frozen=True, slots=True)
class _Member:
    """A column in a bucket by its number, with the lake type of its values there.

    ``signed`` is as in :class:`Layout` ``texts``.
    """

    number: int
    column: Column
    kind: str
    bucket: Bucket
    signed: str


def _bucket_of(kind: str, original: str) -> Bucket:
    bits = kind == "decimal(20,0)" and _BIT.match(original) is not None
    of_bytes = kind == "binary" and "binary" in (mysql_type(original), postgresql_type(original))
    clocks = kind == "timestamp" and _CLOCK.match(original) is not None
    return _bucket(kind, _NUMBER_TYPES.match(original) is not None, bits, of_bytes, clocks)


@lru_cache(maxsize=1 << 13)
def _bucket(lake_type: str, number_field: bool, bits: bool, of_bytes: bool, clocks: bool) -> Bucket:
    return Bucket(lake_type, number_field, bits, of_bytes, clocks)


@lru_cache(maxsize=1 << 13)
def struct_type(columns: tuple[Column, ...]) -> pa.StructType:
    """Return the Arrow type of a row image."""
    return pa.struct([pa.field(column.name, arrow_type(column.type)) for column in columns])
