"""Facts about messages that carry ids of the vendor's task: where ids fall, what was found there, and where full loads begin."""

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
    """An entry of a table of another kind than the table's entry before it, in a stretch in which ids only grow.

    ``position`` is of lineage 0: lineages are decided later.
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
    """The begin of a full load that replaces a table: where it was seen, and the position behind which rows count."""

    offset: int
    database: str
    schema: str
    table: str
    emptied_at: SourcePosition
