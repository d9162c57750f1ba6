"""Snapshots that are written anew in the order of their keys: many files may have one key.

A reader that looks for a key opens each file whose bounds hold it, and so does a run that takes changes over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_AT_ONE_KEY = 2.0
"""The mean number of files that may hold one key, up to which files stay as they are."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The least and the greatest value of the first key column in a file, and the file's rows."""

    least: Any
    greatest: Any
    rows: int


def files_at_one_key(files: Sequence[KeyRange]) -> float:
    """Return the mean number of files whose bounds meet those of a file.

    Files are weighed by their rows. It is 1.0 where none meet, and an upper bound of the files that a reader of one key opens.
    """
    rows = sum(one.rows for one in files)
    if not rows:
        return 0.0
    begins, ends = sorted(one.least for one in files), sorted(one.greatest for one in files)
    met = sum(one.rows * (_at_most(begins, one.greatest) - _below(ends, one.least)) for one in files)
    return met / rows


def is_worth_sorting(files: Sequence[KeyRange]) -> bool:
    """Return whether readers gain by files in the order of keys."""
    return files_at_one_key(files) > MOST_AT_ONE_KEY


def _at_most(values: Sequence[Any], bound: Any) -> int:
    return bisect_right(values, bound)


def _below(values: Sequence[Any], bound: Any) -> int:
    return bisect_left(values, bound)
