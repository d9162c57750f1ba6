"""Facts about tables whose messages carry ids: where full loads begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dts_assets.model.positions import SourcePosition


class SeenKind(StrEnum):
    """The kind of an entry of a table, as far as full loads are concerned."""

    CHANGE = "change"
    READ = "read"
    """Rows of a full load."""
    FIRST_STATE = "first state"
    """The definition of a table at the begin of a full load."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """An entry of another kind than its table's entry before it.

    Entries are followed as long as ids grow. ``position`` is of lineage 0: lineages are decided later.
    """

    database: str
    schema: str
    table: str
    kind: SeenKind
    offset: int
    position: SourcePosition
    time: datetime


@dataclass(frozen=True, slots=True)
class Load:
    """The begin of a full load that replaces a table.

    ``offset`` is where it was seen, ``emptied_at`` the position behind which rows count.
    """

    offset: int
    database: str
    schema: str
    table: str
    emptied_at: SourcePosition
