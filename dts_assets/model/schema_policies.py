"""Policies on schema changes: the answers of a snapshot to columns of its table that change."""

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
"""The column of a frozen snapshot with the texts of new columns, by their names at the source."""

_MARK = f"{NEW_COLUMNS}\0"
"""The begin of names of such columns while rows are worked on.

No source has a name with this character.
"""


def in_map(name: str) -> str:
    """Return the name of a column of the map while rows are worked on."""
    return f"{_MARK}{name}"


def key_in_map(name: str) -> str | None:
    """Return the inverse of :func:`in_map`; None for any other column."""
    return name.removeprefix(_MARK) if name.startswith(_MARK) else None
