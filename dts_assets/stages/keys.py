"""Keys of rows: distinct keys as numbers, keys found again exactly, and hashes that share work out.

A key is the values of its columns in the table's types and, for a value that does not fit its type, the source's text of it.
Two keys are equal if all of that is: null equals null, -0.0 equals 0.0, and NaN equals NaN, as a database compares keys.
Arrow finds keys again exactly. Hashes of 64 bits stand for keys only where two keys with one hash do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.copied_tables import NO_KAFKA_PARTITION
from dts_assets.stages.row_hash import row_hashes

Numbers: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd constant without a pattern: 2**64 over the golden ratio."""

_BITS_OF_A_VALUE = 64
_MOST_BITS = 24
"""The most bits of a sieve, as a power of two: 16 MB."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a column in stored rows, which may be NULL, too."""

    least: pa.Scalar
    greatest: pa.Scalar
    may_be_null: bool

    def reach(self, values: pa.Array) -> bool:
        """Tell whether a row may have one of some values, of which NULL may be one."""
        if self.may_be_null and values.null_count:
            return True
        between = pc.and_(pc.greater_equal(values, self.least), pc.less_equal(values, self.greatest))
        return bool(pc.any(between).as_py())


BoundsOf: TypeAlias = Callable[[int], Bounds | None]
"""The bounds of a column of keys, by its number; None where they are not known."""


class Keys:
    """Distinct keys, of one or more columns, and where they are found again."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Take the keys in ``columns``; ``codes`` has the number of each row's key."""
        first, *others = [comparable(column).dictionary_encode("encode") for column in columns]
        self._dictionaries: list[pa.Array] = [first.dictionary, *(other.dictionary for other in others)]
        # A dictionary's numbers are distinct and all in use: to ask numpy for them would take as long again.
        self._steps: list[Numbers] = [np.arange(len(first.dictionary))]
        self.codes: Numbers = _indices(first)
        for other in others:
            distinct, codes = np.unique(self.codes * len(other.dictionary) + _indices(other), return_inverse=True)
            self._steps.append(distinct)
            self.codes = codes.astype(np.int64)

    @property
    def count(self) -> int:
        """The number of distinct keys."""
        return len(self._steps[-1])

    def among(self, columns: Sequence[pa.Array]) -> Mask:
        """Tell which rows of other columns, of equal types and order, have one of these keys."""
        first = self._first
        some = None if first is None else first.found_in(columns[0])
        if some is None:
            return self._exactly(columns)
        found = np.zeros(len(columns[0]), np.bool_)
        if len(columns) > 1 and len(some):
            places = pa.array(some)
            some = some[self._exactly([column.take(places) for column in columns])]
        found[some] = True
        return found

    @cached_property
    def _first(self) -> _Integers | None:
        return _Integers.of(self._dictionaries[0])

    def _exactly(self, columns: Sequence[pa.Array]) -> Mask:
        count = len(columns[0])
        codes, found = np.zeros(count, np.int64), np.ones(count, np.bool_)
        for column, dictionary, distinct in zip(columns, self._dictionaries, self._steps, strict=True):
            if not len(distinct):
                return np.zeros(count, np.bool_)
            at = as_numbers(pc.fill_null(pc.index_in(comparable(column), value_set=dictionary), -1))
            combined = codes * len(dictionary) + at
            codes = np.minimum(np.searchsorted(distinct, combined), len(distinct) - 1)
            found &= (at >= 0) & (distinct[codes] == combined)
        return found

    def reach(self, bounds_of: BoundsOf) -> bool:
        """Tell whether a row within bounds may have one of these keys."""
        known = ((bounds_of(number), values) for number, values in enumerate(self._dictionaries))
        return all(bounds is None or bounds.reach(values) for bounds, values in known)


def _indices(encoded: pa.DictionaryArray) -> Numbers:
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


@dataclass(frozen=True, slots=True)
class _Integers:
    """Distinct integers, sorted, and a table of bits that few integers pass but these.

    To look each of many integers up would take ten times as long as the bits do.
    """

    sorted: Numbers
    bits: Mask
    shift: np.uint64

    @classmethod
    def of(cls, values: pa.Array) -> _Integers | None:
        """Return some distinct integers; None where a value is no integer, or null."""
        if not pa.types.is_integer(values.type) or values.null_count:
            return None
        size = min(max((len(values) * _BITS_OF_A_VALUE).bit_length(), 10), _MOST_BITS)
        made = cls(np.sort(_numbers(values)), np.zeros(1 << size, np.bool_), np.uint64(64 - size))
        made.bits[made._places(made.sorted)] = True
        return made

    def found_in(self, values: pa.Array) -> Numbers | None:
        """Return the numbers of the values that are among these; None where nothing is known."""
        if values.null_count:
            return None
        many = _numbers(values)
        if len(self.sorted) < len(many) and np.all(many[1:] > many[:-1]):  # as rows of a rising key stand in a file
            at = np.minimum(np.searchsorted(many, self.sorted), len(many) - 1)
            return np.asarray(at[many[at] == self.sorted], np.int64)
        some = np.flatnonzero(self.bits[self._places(many)])
        return some[among_sorted(many[some], self.sorted)]

    def _places(self, numbers: Numbers) -> Numbers:
        return np.asarray((numbers.view(np.uint64) * _MIX) >> self.shift, np.int64)


def _numbers(values: pa.Array) -> Numbers:
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def comparable(column: pa.Array) -> pa.Array:
    """Return a column in which equal keys have equal bits: one zero and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    zeroed = pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0, column.type), column)
    return pc.if_else(pc.is_nan(zeroed), pa.scalar(float("nan"), column.type), zeroed)


def differ(one: pa.Array, other: pa.Array) -> Mask:
    """Tell in which rows two columns of one type hold different values; null equals null."""
    one, other = comparable(one), comparable(other)
    equal = pc.fill_null(pc.equal(one, other), False)
    equal = pc.or_(equal, pc.and_(one.is_null(), other.is_null()))
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.fill_null(pc.is_nan(one), False), pc.fill_null(pc.is_nan(other), False))
        equal = pc.or_(equal, both)
    return ~as_mask(equal)


def hash_keys(columns: Sequence[pa.Array]) -> Hashes:
    """Return a hash of each row's key.

    A value has one hash whichever width its type has, so the hashes stay when a column becomes wider: int to bigint.
    """
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        with np.errstate(over="ignore"):
            hashes = (hashes ^ _hash_column(column)) * _MIX
            hashes ^= hashes >> np.uint64(29)
    return hashes


def _hash_column(column: pa.Array) -> Hashes:
    column = comparable(column)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        encoded = column.dictionary_encode("encode")  # hashing in Python's memory is dear: each text once
        each = pd.util.hash_array(encoded.dictionary.to_numpy(zero_copy_only=False), categorize=False)
        hashed: Hashes = np.asarray(each, np.uint64)[encoded.indices.to_numpy(zero_copy_only=False)]
        return hashed
    values = pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0).to_numpy(zero_copy_only=False)
    each = np.asarray(pd.util.hash_array(values, categorize=False), np.uint64)
    return np.asarray(np.where(as_mask(column.is_null()), np.uint64(1), each), np.uint64)


def twin_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Return another hash of each row's key, which has nothing in common with the first."""
    return row_hashes(
        pa.RecordBatch.from_arrays(list(map(comparable, columns)), [str(at) for at in range(len(columns))])
    )


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """Distinct keys by two hashes, sorted: with 128 bits together they tell keys apart."""

    hashes: Hashes
    twins: Hashes

    @classmethod
    def of(cls, hashes: Sequence[Hashes], twins: Sequence[Hashes]) -> DistinctKeys:
        """Return the distinct keys of several parts."""
        none = np.zeros(0, np.uint64)
        one, other = np.concatenate([none, *hashes]), np.concatenate([none, *twins])
        order = np.lexsort((other, one))
        one, other = one[order], other[order]
        first = np.ones(len(one), np.bool_)
        first[1:] = (one[1:] != one[:-1]) | (other[1:] != other[:-1])
        return cls(one[first], other[first])

    def all_among(self, others: DistinctKeys) -> bool:
        """Tell whether others have all these keys."""
        if not len(others.hashes):
            return not len(self.hashes)
        at = np.minimum(np.searchsorted(others.hashes, self.hashes), len(others.hashes) - 1)
        return bool(np.all((others.hashes[at] == self.hashes) & (others.twins[at] == self.twins)))


NO_KEYS = DistinctKeys.of((), ())


def among_sorted(numbers: Hashes | Numbers, known: Hashes | Numbers) -> Mask:
    """Tell which numbers, such as hashes, are among ``known`` ones, which are sorted."""
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.asarray(known[at] == numbers, np.bool_)


def as_mask(array: pa.Array) -> Mask:
    """Return an Arrow array of booleans without nulls for numpy."""
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def as_numbers(array: pa.Array) -> Numbers:
    """Return an Arrow array of whole numbers for numpy; null is :data:`NO_KAFKA_PARTITION`, the only one that is."""
    array = array.fill_null(NO_KAFKA_PARTITION) if array.null_count else array
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
