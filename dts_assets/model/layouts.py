"""The layout of a snapshot: how its files are partitioned and sorted, as a configuration writes it.

The words are those of Iceberg's DDL: ``months(created_at)``, ``bucket(16, id)``, ``truncate(4, name)``, or a column alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CALL = re.compile(r"(\w+)\(\s*(?:(\d+)\s*,\s*)?(`(?:[^`]|``)+`|[^`,()]+?)\s*\)")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")

_PERIODS = {name: name.rstrip("s") for name in ("years", "months", "days", "hours")}
_COUNTED = ("bucket", "truncate")
_MOST = (1 << 31) - 1

TRANSFORMS = (*(f"{name}(column)" for name in _PERIODS), "bucket(16, column)", "truncate(4, column)", "column")
"""The forms of a partition field, for people."""


@dataclass(frozen=True, slots=True)
class PartitionTransform:
    """A partition field of a snapshot.

    ``transform`` is Iceberg's name of it, ``month`` or ``bucket[16]``, and ``column`` the source column's name.
    """

    transform: str
    column: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The partition fields of a snapshot, and the source columns that rows are sorted by within a file."""

    partition: tuple[PartitionTransform, ...] = ()
    sort: tuple[str, ...] = ()


UNPARTITIONED = Layout()
"""The layout of a snapshot for which nothing is asked."""


def partition_transform(text: str) -> PartitionTransform | None:
    """Return a partition field from its text, ``months(created_at)``; None if the text is none.

    A column's name may stand in backquotes: ``days(`created at`)``.
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        column = column_name(text)
        return None if column is None else PartitionTransform("identity", column)
    name, count, column = call[1], call[2], column_name(call[3])
    if column is None:
        return None
    if name in _PERIODS and count is None:
        return PartitionTransform(_PERIODS[name], column)
    if name in _COUNTED and count is not None and len(count) <= len(str(_MOST)) and 0 < int(count) <= _MOST:
        return PartitionTransform(f"{name}[{int(count)}]", column)
    return None


def column_name(text: str) -> str | None:
    """Return the name of a column, which may stand in backquotes; None if the text is no name."""
    quoted = _QUOTED.fullmatch(text.strip())
    if quoted is not None:
        return quoted[1].replace("``", "`")
    bare = text.strip()
    return bare if bare and not set(bare) & set("`(),") else None
