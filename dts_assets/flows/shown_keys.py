"""The foreign keys that a source database shows for a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dts_assets.errors.sources import DatabaseError
from dts_assets.model.foreign_keys import ForeignKey
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import TableAlteredError
from dts_assets.sources.mysql_server import sql_table
from dts_assets.wire.ddl.foreign_keys import declared_keys


class AsksServer(Protocol):
    """A connection that takes statements."""

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement."""
        ...


def shown_keys(server: AsksServer, table: TableId) -> tuple[ForeignKey, ...]:
    """Return the foreign keys of a table; none of one that is not there any more.

    ``information_schema`` shows foreign keys to nobody who may only SELECT, and a table's own text does.
    """
    try:
        ((_, told),) = server.rows(f"SHOW CREATE TABLE {sql_table(table)}")
    except (TableAlteredError, DatabaseError):  # whoever reads its rows next meets the same, and says it
        return ()
    text = told.decode() if isinstance(told, bytes) else str(told)
    return declared_keys(text, table.database)
