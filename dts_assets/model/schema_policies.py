"""What a snapshot does when the columns of its table change, as a subscription asks for it."""

from __future__ import annotations

from enum import StrEnum


class SchemaPolicy(StrEnum):
    """The answer of a table to a schema change.

    ``follow``: its snapshot gets the columns of the source. ``keep``: columns that were dropped stay, without values. ``freeze``:
    the columns stay, and values of new ones stand in one map. ``stop``: the table pauses until a person resumes it.
    """

    FOLLOW = "follow"
    KEEP = "keep"
    FREEZE = "freeze"
    STOP = "stop"

    @property
    def shapes_columns(self) -> bool:
        """True if a snapshot has other columns by it than those of the source."""
        return self in (SchemaPolicy.KEEP, SchemaPolicy.FREEZE)


NEW_COLUMNS = "_new_columns"
"""The column of a frozen snapshot with the texts of all columns that are not its own, by their names at the source."""

_MARK = f"{NEW_COLUMNS}\0"
"""The begin of the names that such columns have while rows are worked on; no source has a name with this character."""


def in_map(name: str) -> str:
    """Return the name that a column of the map has while rows are worked on, by its name at the source."""
    return f"{_MARK}{name}"


def key_in_map(name: str) -> str | None:
    """Return the inverse of :func:`in_map`; None for any other column."""
    return name.removeprefix(_MARK) if name.startswith(_MARK) else None
