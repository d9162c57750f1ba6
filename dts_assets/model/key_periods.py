"""Primary keys over time: a table may lose its key, get one, or get another.

Each change tells the key of its moment, and its row is found by that key: of two equal rows without a key each is one of two.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId

PartialLists: TypeAlias = Mapping[tuple[TableId, str], tuple[str, ...]]
"""The columns of a key that lists of columns lack, by source table and digest of the list."""


@dataclass(frozen=True, slots=True, order=True)
class KeyPeriod:
    """The source positions from ``first`` to ``last`` at which all changes of a table told one primary key.

    ``columns`` are the columns of the key, sorted, such as ``("id",)``; none where the table had no key. A period in which events
    carried one list of columns has these, in the order of the source, or the digest of their names: ``("5d41402abc4b",)``. In a
    merged table the digest is followed by what tells the shard: ``("5d41402abc4b", "shop_1", "orders")``.
    """

    first: SourcePosition
    last: SourcePosition
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldColumns:
    """The columns that events of a table told in one Kafka partition and window.

    ``keys`` are the primary keys, ``lists`` the columns that the events carried, each with its positions and in their order; none
    where nothing is known of them.
    """

    keys: tuple[KeyPeriod, ...] = ()
    lists: tuple[KeyPeriod, ...] = ()


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The changes that are matched by one key: those behind ``since``, up to ``until``.

    None stands for no bound.
    """

    columns: tuple[str, ...]
    since: SourcePosition | None = None
    until: SourcePosition | None = None


def list_digest(names: Iterable[str]) -> str:
    """Return a digest of the columns that an event carries: of their names at the source, in order."""
    return hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()[:12]


def joined_periods(periods: Iterable[KeyPeriod]) -> tuple[KeyPeriod, ...]:
    """Return periods in their order, where neighbours with one key are one period.

    Periods come from several Kafka partitions and windows. One that lies in another one with another key interrupts it.
    """
    left = [(period, False) for period in periods]
    heapq.heapify(left)
    found: list[KeyPeriod] = []
    while left:
        period, is_rest = heapq.heappop(left)
        last = found[-1] if found else None
        if last is not None and last.columns == period.columns:
            found[-1] = replace(last, last=max(last.last, period.last))
            continue
        if last is not None and last.last >= period.first:
            if is_rest:  # what interrupted the period has become longer since
                first = min(last.last.next, period.last)
                heapq.heappush(left, (replace(period, first=first), first < period.last))
                continue
            if last.last > period.last:
                heapq.heappush(left, (replace(last, first=period.last.next), True))
            if last.first == period.first:
                found.pop()  # a moment has one key
            else:
                found[-1] = replace(last, last=period.first.previous)
        found.append(period)
    return tuple(found)


def joined_lists(periods: Iterable[KeyPeriod]) -> tuple[KeyPeriod, ...]:
    """Return periods of lists of columns in their order, joined for each shard by itself.

    Changes of shards follow one another row by row, and each shard has columns of its own.
    """
    shards: dict[tuple[str, ...], list[KeyPeriod]] = {}
    for one in periods:
        shards.setdefault(one.columns[1:], []).append(one)
    return tuple(sorted(one for some in shards.values() for one in joined_periods(some)))


def periods_between(
    periods: Iterable[KeyPeriod], since: SourcePosition | None, until: SourcePosition | None
) -> tuple[KeyPeriod, ...]:
    """Return the parts of periods behind a position and not behind another; None stands for no bound."""
    found = []
    for one in periods:
        first = one.first if since is None else max(one.first, since.next)
        last = one.last if until is None else min(one.last, until)
        if first <= last:
            found.append(replace(one, first=first, last=last))
    return tuple(found)


def spans_of(periods: Iterable[KeyPeriod], borders: Iterable[SourcePosition] = ()) -> tuple[KeySpan, ...]:
    """Return the spans of all changes: each begins with the first change that tells its key.

    So does the part of a period behind one of the ``borders``: the columns of the key have other values there.
    """
    begun: list[KeyPeriod] = []
    left = sorted(set(borders), reverse=True)
    for period in joined_periods(periods):
        while left and left[-1] < period.first:
            left.pop()
        while left and left[-1] < period.last:
            border = left.pop()
            begun.append(replace(period, last=border))
            period = replace(period, first=border.next)
        begun.append(period)
    ends = [None, *(period.first.previous for period in begun[1:]), None]
    return tuple(KeySpan(period.columns, *bounds) for period, bounds in zip(begun, pairwise(ends), strict=False))
