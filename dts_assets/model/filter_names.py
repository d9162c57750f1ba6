"""The names that the columns of a row filter have in a source table, from position to position."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.model.columns import same_name
from dts_assets.model.positions import SourcePosition
from dts_assets.model.row_filters import RowFilter


@dataclass(frozen=True, slots=True)
class FilterSince:
    """A row filter with the names that its columns have behind a position.

    The position None stands for the first change. ``follows`` says that another filter was in force before: rows may stand that
    it let through.
    """

    since: SourcePosition | None
    rows: RowFilter
    follows: bool = False


@dataclass(frozen=True, slots=True)
class FilterNames:
    """The names behind a position (None: from the first change on), until those of the next.

    ``names`` are pairs of the name that the filter has for a column and another one that the column has there.
    """

    since: SourcePosition | None
    names: tuple[tuple[str, str], ...] = ()

    def name_of(self, name: str) -> str:
        """Return the name that a column of the filter has there."""
        return next((there for mine, there in self.names if same_name(mine) == same_name(name)), name)
