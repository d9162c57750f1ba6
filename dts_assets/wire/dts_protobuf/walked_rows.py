"""The values of rows, found in the bytes of entries without a parser (document 571/55396, RowChange).

A parser copies every value before the pivot copies it once more into its column. Where values are large, copying is what costs:
then tag and length of the first value of every row are read at once, then those of the second, and so on, and values stay where
they are. Small values cost a parser no more than such a walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dts_assets.wire.columns.buffers import run_lengths
from dts_assets.wire.dts_protobuf.walk import PER_STEP, Described, Events, are_too_few, fields_at

_Places: TypeAlias = npt.NDArray[np.int64]
_Counts: TypeAlias = npt.NDArray[np.int32]

_OLD, _NEW = 0x0A, 0x12  # tags in a RowChange

LARGE = 256
"""The average size of a call's values from which on a walk is cheaper than copies."""


@dataclass(frozen=True, slots=True)
class WalkedRows:
    """The values of rows, in the order of their bytes.

    ``begins`` and ``ends`` are the places of the values. ``first`` is the number of each row's first value; of its values ``old``
    are those before the change, and ``new`` those after it.
    """

    begins: _Counts
    ends: _Counts
    first: _Counts
    old: _Counts
    new: _Counts


def walked_rows(events: Events, described: Described, widths: _Places) -> WalkedRows | None:
    """Return the values of all rows of entries.

    ``widths`` has the number of columns of each list of columns.

    None where a row holds something else, where its values are in another order, or where a walk is not worth it.
    """
    behind = events.begins + described.sizes
    values = int((described.rows * widths[described.codes]).sum())
    if not values or int((events.ends - behind).sum()) < LARGE * values:
        return None
    return _values_in(events, *_rows_in(events, described, behind))


def _rows_in(events: Events, described: Described, behind: _Places) -> tuple[_Places, _Places]:
    """Return where each row begins and ends, in the order of their bytes."""
    first = run_lengths(described.rows)
    begins, ends = np.empty(int(first[-1]), np.int64), np.empty(int(first[-1]), np.int64)
    left, step = np.flatnonzero(described.rows), 0
    at = behind[left]
    while len(left):
        places, step = first[left] + step, step + 1
        _, begins[places], ends[places] = fields_at(events.data, at)
        more = described.rows[left] > step
        left, at = left[more], ends[places[more]]
    return begins, ends


def _values_in(events: Events, begins: _Places, ends: _Places) -> WalkedRows | None:
    """Return the values between some places."""
    found: list[tuple[_Places, _Places, _Places]] = []
    old, new = np.zeros(len(begins), np.int32), np.zeros(len(begins), np.int32)
    left, at, taken = np.arange(len(begins)), begins, 0
    while True:
        going = at < ends[left]
        left, at = left[going], at[going]
        if not len(left):
            break
        tags, inside, at = fields_at(events.data, at)
        is_new = tags == _NEW
        fits = (is_new | ((tags == _OLD) & (new[left] == 0))) & (at <= ends[left])
        found.append((left, inside, at))
        taken += len(left)
        if not fits.all() or are_too_few(taken, len(found), PER_STEP):
            return None
        new[left] += is_new
        old[left] += ~is_new
    first = run_lengths(old + new)
    value_begins, value_ends = np.empty(int(first[-1]), np.int32), np.empty(int(first[-1]), np.int32)
    for step, (rows, inside, behind) in enumerate(found):
        places = first[rows] + step
        value_begins[places], value_ends[places] = inside, behind
    return WalkedRows(value_begins, value_ends, first[:-1], old, new)
