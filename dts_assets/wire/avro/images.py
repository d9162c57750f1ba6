"""Row images as arrays of values, each a record of its kind: Integer, Character, DateTime and others.

The kinds are those of Tencent's ``Record.avsc`` (document 571/55396 and its Avro sibling): twelve records, told by their names.
Values become bytes side by side, kind by kind, as a database prints them; then the shared pivot types them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.avro.field_values import branches, integers, is_scalar, lists_of, spread, texts
from dts_assets.wire.avro.records import Records
from dts_assets.wire.avro.schema import Type
from dts_assets.wire.avro.side_by_side import Column, Fields, Ints, Nothing, Numbers
from dts_assets.wire.columns.clock_texts import ClockColumns, clock_texts, instant_texts
from dts_assets.wire.columns.image_parts import ImagePart, Kinds
from dts_assets.wire.columns.images import ABSENT, FIELD, NULL

_CLOCK_PARTS = ("year", "month", "day", "hour", "minute", "second", "millis")
_EMPTY = "EmptyObject"
_ABSENT_SYMBOLS = frozenset({"NONE", "NA"})
_VALUE = "value"
_TEXT_KINDS = ("string", "enum")


def image_part(records: Records, role: str, clocks: ClockColumns) -> ImagePart:
    """Return the images of a block of records."""
    count = len(records)
    sizes, unusable = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    found = records.column(role)
    arrays = None if found is None else lists_of(*found, count)
    if arrays is None:
        return ImagePart(pa.array([], pa.binary()), np.zeros(0, np.uint8), None, sizes, unusable, {})
    rows, item, lists = arrays
    sizes[rows] = lists.counts
    owners = np.repeat(rows, lists.counts)
    values = Values(records.data, owners, clocks.of_values(owners, lists.counts))
    values.read(item, lists.items)
    unusable[owners[values.unusable]] = True
    return ImagePart(*values.result(), sizes, unusable, values.unknown)


class Values:
    """The values of a block's images, gathered kind by kind. ``bare`` marks texts that stand in no record of a kind."""

    def __init__(self, data: pa.Buffer, owners: Ints, clocks: Ints) -> None:
        self.data, self.clocks = data, clocks
        self.count = len(owners)
        self.kinds = np.full(self.count, NULL, np.uint8)
        self.unusable = np.zeros(self.count, np.bool_)
        self.bare = np.zeros(self.count, np.bool_)
        self.unknown: Counter[str] = Counter()
        self._rows: list[Ints] = []
        self._parts: list[pa.Array] = []
        self._named: list[Ints] = []
        self._charsets: list[pa.Array] = []

    def read(self, item: Type, items: Column) -> None:
        """Take all values."""
        for rows, kind, column in branches(item, items, self.count):
            if isinstance(column, Nothing) or not len(rows):
                continue
            if kind.short_name == _EMPTY and isinstance(column, Numbers):
                self._empty(rows, kind, column)
            elif is_scalar(kind):
                self._add(rows, texts(kind, column, self.data, len(rows)))
                self.bare[rows] = kind.kind in _TEXT_KINDS
            elif isinstance(column, Fields):
                self._record(rows, kind, column)
            else:
                self.unusable[rows] = True

    def result(self) -> tuple[pa.Array, Kinds, pa.Array]:
        """Return the values' bytes, their kinds, and the names of their character sets."""
        values = spread(self._rows, self._parts, self.count)
        names = pc.fill_null(spread(self._named, self._charsets, self.count), b"")
        return values, self.kinds, names

    def _add(self, rows: Ints, found: pa.Array) -> None:
        self.kinds[rows] = np.where(np.asarray(found.is_valid()), FIELD, NULL)
        self._rows.append(rows)
        self._parts.append(found)

    def _empty(self, rows: Ints, kind: Type, column: Numbers) -> None:
        absent = np.array([symbol.upper() in _ABSENT_SYMBOLS for symbol in kind.symbols], np.bool_)
        self.kinds[rows] = np.where(absent[column.values], ABSENT, NULL)
        for number, symbol in enumerate(kind.symbols):
            if not absent[number] and symbol.upper() != "NULL" and (times := int((column.values == number).sum())):
                self.unknown[f"{_EMPTY} {symbol}"] += times

    def _record(self, rows: Ints, kind: Type, column: Fields) -> None:
        name, clocks = kind.short_name, self.clocks[rows]
        if name == "Timestamp":
            seconds, millis = (self._numbers(kind, column, part, rows) for part in ("timestamp", "millis"))
            self._add(rows, instant_texts(seconds, millis, clocks))
        elif name == "DateTime":
            self._add(rows, self._clock(kind, column, rows, clocks))
        elif name == "TimestampWithTimeZone":
            self._zoned(rows, kind, column, clocks)
        else:
            self._text(rows, kind, column)

    def _text(self, rows: Ints, kind: Type, column: Fields) -> None:
        """Take values that stand in a field ``value``, perhaps with a character set."""
        value = kind.field(_VALUE)
        if value is None or not is_scalar(value.type):
            self.unusable[rows] = True
            return
        self._add(rows, texts(value.type, column.columns[value.name], self.data, len(rows)))
        charset = kind.field("charset")
        if charset is not None and is_scalar(charset.type):
            self._named.append(rows)
            self._charsets.append(texts(charset.type, column.columns[charset.name], self.data, len(rows)))
        if kind.short_name not in _KNOWN:
            self.unknown[f"value kind {kind.short_name}"] += len(rows)

    def _clock(self, kind: Type, column: Fields, rows: Ints, clocks: Ints) -> pa.Array:
        parts = tuple(self._numbers(kind, column, part, rows) for part in _CLOCK_PARTS)
        return clock_texts(parts, clocks)

    def _zoned(self, rows: Ints, kind: Type, column: Fields, clocks: Ints) -> None:
        """Take wall clocks with their zones, ``2021-05-17 07:22:42 +08:00``."""
        value, zone = kind.field(_VALUE), kind.field("timezone")
        inside = None if value is None else column.columns[value.name]
        if value is None or zone is None or not isinstance(inside, Fields) or not is_scalar(zone.type):
            self.unusable[rows] = True
            return
        moments = pc.cast(self._clock(value.type, inside, rows, clocks), pa.string())
        zones = texts(zone.type, column.columns[zone.name], self.data, len(rows))
        named = pc.binary_length(pc.fill_null(zones, b"")).to_numpy() > 0
        joined = pc.binary_join_element_wise(pc.cast(moments, pa.binary()), pc.fill_null(zones, b""), b" ")
        self._add(rows, pc.if_else(pa.array(named), joined, pc.cast(moments, pa.binary())))

    def _numbers(self, kind: Type, column: Fields, name: str, rows: Ints) -> Ints:
        part = kind.field(name)
        if part is None:
            return np.zeros(len(rows), np.int64)
        return integers(part.type, column.columns[part.name], self.data, len(rows)).values


_KNOWN = frozenset(
    {"Integer", "Character", "Decimal", "Float", "BinaryGeometry", "TextGeometry", "BinaryObject", "TextObject"}
)
