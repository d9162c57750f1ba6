"""Foreign keys of source tables.

By them a server changes rows of a child table, and may write no event of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId


class ForeignKeys(StrEnum):
    """The meaning of foreign keys for snapshots of child tables.

    ``named``: the server writes no events of the rows that they change, so such tables are named. ``logged``: it writes them.
    ``accepted``: it writes none, and people know it.
    """

    NAMED = "named"
    LOGGED = "logged"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key of a child table.

    It has the child's columns, and the parent's table and columns that they refer to. ``on_delete`` and ``on_update`` are what
    the server does to the child's rows: ``CASCADE``, ``SET NULL``, ``SET DEFAULT``, or empty where it changes none. ``name`` is
    the constraint's.
    """

    name: str
    columns: tuple[str, ...]
    parent_database: str
    parent_table: str
    parent_columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    @property
    def parent(self) -> TableId:
        """The parent's name."""
        return TableId(self.parent_database, "", self.parent_table)

    @property
    def changes_rows(self) -> bool:
        """True if the server changes rows of the child."""
        return bool(self.on_delete or self.on_update)

    @property
    def rules(self) -> str:
        """The rules by which the server changes rows: ``ON DELETE CASCADE ON UPDATE SET NULL``."""
        pairs = (("DELETE", self.on_delete), ("UPDATE", self.on_update))
        return " ".join(f"ON {event} {rule}" for event, rule in pairs if rule)


@dataclass(frozen=True, slots=True)
class NamePeriod:
    """A name that a table has from ``since`` on and before ``until``; None stands for no bound.

    ``number`` is the table's own, which it keeps under all names.
    """

    number: int
    name: TableId
    since: SourcePosition | None = None
    until: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class KeyPeriod:
    """A foreign key that holds from ``since`` on and before ``until`` (None: to the end).

    ``child`` and ``parent`` are the numbers of the tables.
    """

    key: ForeignKey
    child: int
    parent: int
    since: SourcePosition
    until: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The names of tables and their foreign keys over time.

    ``without_rows`` has the last position at which a table surely had no row.
    """

    names: tuple[NamePeriod, ...] = ()
    keys: tuple[KeyPeriod, ...] = ()
    without_rows: Mapping[int, SourcePosition] = field(default_factory=dict)

    def numbers_of(self, name: TableId, position: SourcePosition) -> list[int]:
        """Return the tables that have a name at a position."""
        return [
            one.number
            for one in self.names
            if one.name == name
            and (one.since is None or one.since <= position)
            and (one.until is None or position < one.until)
        ]


@dataclass(frozen=True, slots=True, order=True)
class PositionSpan:
    """The first and the last position of some changes."""

    first: SourcePosition
    last: SourcePosition


def joined_spans(*spans: PositionSpan | None) -> PositionSpan | None:
    """Return the span of all changes of some spans; None where there are none."""
    found = [one for one in spans if one is not None]
    return PositionSpan(min(one.first for one in found), max(one.last for one in found)) if found else None
