"""The columns that a snapshot has, as a value that stands with its state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from dts_assets.model.columns import Column


@dataclass(frozen=True, slots=True)
class PresentColumn:
    """A column of a snapshot: its name at the source, its name and lake type in the snapshot.

    ``source_type`` and ``default`` are its type and the text of its default at the source, as far as inserts leave it out. An
    example is ``("_op", "_source__op", "string", False)``.
    """

    source: str
    name: str
    type: str
    is_key: bool
    source_type: str = ""
    default: str | None = None


@dataclass(frozen=True, slots=True)
class PresentColumns:
    """The columns of a snapshot that follows the statements of its table, in the source's order.

    ``digest`` stands for all schemas that the table had so far, as they were known when the snapshot was made. ``changelog``
    stands for the columns that its changelog had then. ``doubt`` says why columns or rows are not proven, empty where they are.
    """

    digest: str
    changelog: str
    columns: tuple[PresentColumn, ...]
    doubt: str = ""

    def fits(self, columns: Iterable[Column]) -> bool:
        """Tell whether the changelog has the columns that it had when the snapshot was made."""
        return self.changelog == columns_digest(columns)

    def stored(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return the columns as changes hold them, of which ``columns`` are all that the changelog has."""
        by_name = {name: column for column in columns for name in column.source_names}
        return tuple(
            Column(found.name, one.type, one.is_key, found.spellings)
            if (found := by_name.get(one.source)) is not None
            else Column(one.source, one.type, one.is_key)
            for one in self.columns
        )


def columns_digest(columns: Iterable[Column]) -> str:
    """Return a digest of columns, equal exactly if their names and types are."""
    text = "\n".join(sorted(repr((one.name, one.type, one.spellings, one.own_types)) for one in columns))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
