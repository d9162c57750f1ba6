"""Rows of a merged table that may be found by the primary key of another shard.

Shards may tell different keys. All changes between two positions are matched by one of them, so a change is matched by its own
key only where no shard tells another one there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dts_assets.model.key_periods import KeyPeriod, joined_periods
from dts_assets.model.positions import SourcePosition


def first_mixed(told: Sequence[KeyPeriod], *, keeps_deleted: bool) -> SourcePosition | None:
    """Return the first position at which rows may be found by another key than theirs.

    It is None if there is none.

    Args:
        told: The keys that changes of the table told, as each Kafka partition and window tells them.
        keeps_deleted: Whether a truncation looks for all rows that stand, to mark them as deleted: by the key of its position.
    """
    periods = joined_periods(told)
    if keeps_deleted:
        return next((one.first for one in periods if one.columns != periods[0].columns), None)
    firsts = [one.first for one in periods]
    found = list[SourcePosition]()
    for one in told:
        # Each period counts up to the begin of the next one, and neighbours have different keys.
        number, end = bisect_right(firsts, one.first) - 1, bisect_right(firsts, one.last)
        number += periods[number].columns == one.columns
        if number < end:
            found.append(max(one.first, firsts[number]))
    return min(found, default=None)
