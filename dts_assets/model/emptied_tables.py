"""Tables that statements empty, drop or alter, known or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dts_assets.model.tables import TableId


@dataclass(frozen=True, slots=True, order=True)
class EmptiedTable:
    """A table that a statement empties, drops or alters, known or not.

    Where ``table`` is empty they are all tables of a ``database``.
    """

    database: str
    schema: str
    table: str

    @property
    def id(self) -> TableId:
        """The table's name parts."""
        return TableId(self.database, self.schema, self.table)


def emptied_among(emptied: Iterable[EmptiedTable], tables: Iterable[TableId]) -> list[TableId]:
    """Return those of some tables that statements name, in their order."""
    named = {one.id for one in emptied}
    return [table for table in tables if {table.of_all_sets, TableId(table.database, "", "")} & named]
