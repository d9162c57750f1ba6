"""Names of columns in the lake: unique without regard to case, because Spark and catalogs compare them so.

A source's column keeps its name wherever it can. In the MySQL family names that differ in case only are one column, which is
spelled as last. Elsewhere they are several, and all but one get a digest of their name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dts_assets.model.columns import same_name
from dts_assets.model.tables import EMPTY

_DIGEST = 6


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The name of a column in the lake, and its names at the source, the last one last."""

    lake: str
    source: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """True if the column has a name of the source in the lake, and no digest."""
        return self.lake in self.source

    def spelled(self, name: str) -> ColumnNames:
        """Return the names after the source has called the column by another one."""
        source = (*(one for one in self.source if one != name), name)
        return ColumnNames(name if self.is_kept else self.lake, source)


def named_columns(known: Iterable[ColumnNames], described: Sequence[str], *, ignores_case: bool) -> list[ColumnNames]:
    """Return the columns that an event describes, in its order.

    Names that one event has are several columns, whatever they look like. Of new columns that differ in case only the first by
    code point keeps its name, unless a known column has it.

    Args:
        known: The columns of the table so far.
        described: The names of the event's columns, each once.
        ignores_case: Whether a name that differs in case only from that of a known column is another spelling of it.
    """
    columns = tuple(known)
    free = _Free(columns)
    found = {name: column for name in described if (column := free.take(name)) is not None}
    if ignores_case:
        unknown = [name for name in described if name not in found]
        found |= {name: column.spelled(name) for name in unknown if (column := free.take_similar(name)) is not None}
    taken = {same_name(column.lake) for column in columns}
    for name in sorted(set(described) - found.keys()):
        lake = _lake_name(name, taken)
        taken.add(same_name(lake))
        found[name] = ColumnNames(lake, (name,))
    return [found[name] for name in described]


def spelled_as_last(column: ColumnNames, seen: Callable[[str], Any]) -> ColumnNames:
    """Return a column with the spelling that was seen last; ``seen`` gives the place where a spelling was."""
    ordered = tuple(sorted(column.source, key=seen))
    return replace(column, source=ordered).spelled(ordered[-1])


class _Free:
    """The known columns that no name of an event has taken yet."""

    def __init__(self, columns: Sequence[ColumnNames]) -> None:
        self._by_source = {name: column for column in reversed(columns) for name in column.source}
        self._by_source |= {column.source[-1]: column for column in reversed(columns)}
        self._by_case = {same_name(column.lake): column for column in columns if column.is_kept}
        self._taken: set[str] = set()

    def take(self, name: str) -> ColumnNames | None:
        """Return the column that the source has called so."""
        return self._taking(self._by_source.get(name))

    def take_similar(self, name: str) -> ColumnNames | None:
        """Return the column whose name differs in case only."""
        return self._taking(self._by_case.get(same_name(name)))

    def _taking(self, column: ColumnNames | None) -> ColumnNames | None:
        if column is None or column.lake in self._taken:
            return None
        self._taken.add(column.lake)
        return column


def _lake_name(name: str, taken: set[str]) -> str:
    """Return a name that no column has: the column's own, else with a digest of it behind."""
    lake = name or EMPTY
    while same_name(lake) in taken:
        lake += f"__{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"
    return lake
