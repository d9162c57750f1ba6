"""Rows that no change finds any more, since values of their key are not known.

A statement gave a column another type, in which servers have different values.
"""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.model.positions import SourcePosition


@dataclass(frozen=True, slots=True)
class LostKey:
    """The fact that no change finds some rows of a table, since the statement at a position.

    Values of their primary key are not known, or any values where the table has no key.
    """

    position: SourcePosition
    has_key: bool

    def __str__(self) -> str:
        """Return the fact as a reason why a table is not proven."""
        if self.has_key:
            said = "values of its primary key are not known in some rows, and changes find rows by them"
        else:
            said = "values are not known in some rows in their new type, and no primary key finds these rows"
        return f"{self.position}: {said}"
