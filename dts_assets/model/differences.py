"""The differences between a snapshot and a table of a server, whichever server it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

NAMED = 20
"""The number of rows that differ which are named, if nobody asks for more."""


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that differs: its key, the columns that differ, and both rows.

    All values are texts. A side that lacks the row has None, and no column differs then. ``is_repeated`` marks a row of the lake
    whose key another row has. A table without a key has rows with an empty ``key``.
    """

    key: Mapping[str, str | None]
    columns: tuple[str, ...] = ()
    lake: Mapping[str, str | None] | None = None
    server: Mapping[str, str | None] | None = None
    is_repeated: bool = False


@dataclass(slots=True)
class Differences:
    """The differences between the rows of two sides, counted.

    ``rows`` are the first rows that differ, as many as there is ``room`` for. ``changed`` counts rows whose values differ, and
    ``columns`` these rows by column, ``repeated`` the rows of the lake whose key another row has. ``unfit`` and ``unknown`` count
    by column the values that say nothing: those that did not fit and are another text on the server, and those that no rule of
    servers tells, which are NULL in the lake alone. ``more`` says that other rows differ, which nobody has counted.
    """

    changed: int = 0
    only_lake: int = 0
    only_server: int = 0
    repeated: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    unfit: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    rows: list[DifferingRow] = field(default_factory=list)
    more: bool = False
    room: int = NAMED

    @property
    def total(self) -> int:
        """The number of rows that differ, as far as they were counted."""
        return self.changed + self.only_lake + self.only_server + self.repeated

    @property
    def nothing(self) -> bool:
        """True if every row is equal, as far as values can be compared."""
        return not (self.total or self.more)

    @property
    def left(self) -> int:
        """The number of rows for which there still is room."""
        return max(0, self.room - len(self.rows))
