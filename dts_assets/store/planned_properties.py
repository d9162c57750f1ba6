"""Properties that a table gets in the commit of its files, so that both come together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate

from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.iceberg_tables import TRIED_AGAIN
from dts_assets.store.lake import Lake
from dts_assets.store.staged_tables import SchemaState, StagedTable


@dataclass(frozen=True, slots=True)
class PlannedProperties:
    """Properties that a table gets, by name.

    ``made_on`` is the state of the schema that its new files have.
    """

    properties: tuple[tuple[str, str], ...]
    made_on: SchemaState

    def staged(self, table: Table) -> StagedTable:
        """Return the table, and the update that sets the properties."""
        return StagedTable(table, updates=(SetPropertiesUpdate(updates=dict(self.properties)),))


def set_properties(
    lake: Lake, path: Sequence[str], properties: Mapping[str, str], *, without: Collection[str] = ()
) -> None:
    """Set properties of a table, and take others away; a table that is not there is left alone.

    Raises:
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = lake.table(path)
        if table is not None:
            with table.transaction() as transaction:
                transaction.set_properties(dict(properties))
                transaction.remove_properties(*without)

    until_it_gets_through(".".join(path), attempt, lost=TRIED_AGAIN)
