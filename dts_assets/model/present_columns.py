"""The columns that a snapshot has, as a value that stands with its state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dts_assets.model.columns import Column, same_name


@dataclass(frozen=True, slots=True)
class PresentColumn:
    """A column of a snapshot: its name at the source, its name and lake type in the snapshot.

    ``source_type`` and ``default`` are its type and the text of its default at the source, as far as inserts leave it out. An
    example is ``("_op", "_source__op", "string", False)``. A policy may give a column another ``place`` than the source: ``gone``
    where it was dropped, ``map`` where its values stand in the map of new columns, or ``frozen`` where it has a name that the
    source had. Its name in rows is ``column`` then.
    """

    source: str
    name: str
    type: str
    is_key: bool
    source_type: str = ""
    default: str | None = None
    place: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class PresentColumns:
    """The columns of a snapshot that follows the statements of its table, in the source's order.

    ``digest`` stands for all schemas that the table had so far, as they were known when the snapshot was made. ``changelog``
    stands for the columns that its changelog had then. ``doubt`` says why columns or rows are not proven, empty where they are.
    ``policy`` is that of the snapshot, if it has other columns by it than those of the source.
    """

    digest: str
    changelog: str
    columns: tuple[PresentColumn, ...]
    doubt: str = ""
    policy: str = ""

    def fits(self, columns: Iterable[Column]) -> bool:
        """Tell whether the changelog has the columns that it had when the snapshot was made."""
        return self.changelog == columns_digest(columns)

    def stored(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return the columns as changes hold them, of which ``columns`` are all that the changelog has.

        Each has the spelling of its name that the snapshot has: events of a later window may have told another one already.
        """
        return tuple(
            Column(one.column, "string" if one.place == "map" else one.type, one.is_key)
            if one.place
            else Column(one.source, one.type, one.is_key)
            if found is None
            else replace(found, name=_spelled(found.name, one), type=one.type, is_key=one.is_key, own_types=())
            for one, found in self._found(columns)
        )

    def fields(self, columns: tuple[Column, ...]) -> tuple[tuple[str, ...], ...]:
        """Return the names that changes may have for each column; none for one that was dropped."""
        return tuple(
            () if one.place == "gone" else (one.source,) if found is None else found.lake_names
            for one, found in self._found(columns)
        )

    def _found(self, columns: tuple[Column, ...]) -> list[tuple[PresentColumn, Column | None]]:
        by_name = {name: column for column in columns for name in column.source_names}
        return [(one, by_name.get(one.source)) for one in self.columns]


def _spelled(name: str, present: PresentColumn) -> str:
    """Return the name of a column, spelled as in a snapshot.

    That may have another name for a column that is called like one of its own.
    """
    return next((one for one in (present.name, present.source) if same_name(one) == same_name(name)), name)


def columns_digest(columns: Iterable[Column]) -> str:
    """Return a digest of columns, equal exactly if their names and types are."""
    text = "\n".join(sorted(repr((one.name, one.type, one.spellings, one.own_types)) for one in columns))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
