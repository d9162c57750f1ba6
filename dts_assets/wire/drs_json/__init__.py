"""The wire format ``drs-json``: Huawei Cloud DRS to Kafka, message format JSON.

The vendor's page is "Kafka Message Format" (drs_03_0052): table 2 for MySQL and GaussDB(for MySQL), table 3 for DDS (MongoDB),
table 4 for PostgreSQL, GaussDB, SQL Server and Oracle, whose tables have a schema. A deleted row stands in ``old``. TIMESTAMP
values of the MySQL family are seconds since the epoch with a fraction: ``1624614713.201``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.model.collections import is_collection
from dts_assets.model.columns import Column
from dts_assets.model.formats import UNCHANGED_VALUE, FormatSettings
from dts_assets.model.postgresql_types import postgresql_type
from dts_assets.model.tables import TableId
from dts_assets.wire.flat_json.drs import DrsMessages

if TYPE_CHECKING:
    import pyarrow as pa

    from dts_assets.wire.flat_json.dialect import Dialect
    from dts_assets.wire.format import DecodedChanges, DecodedEntries


@dataclass(frozen=True, slots=True)
class DrsJson(DrsMessages):
    """The :class:`dts_assets.wire.format.WireFormat` of DRS JSON.

    ``unchanged_value`` is the text that stands for a large value which an UPDATE left as it was; None if there is none.
    """

    unchanged_value: str | None = UNCHANGED_VALUE

    name: ClassVar[str] = "drs-json"
    deleted_in_old: ClassVar[bool] = True
    epoch_seconds: ClassVar[bool] = True

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for the time zone of a source, and for its text of unchanged values."""
        return cls(settings.source_time_zone, settings.unchanged_value)

    @property
    def changes_fingerprint(self) -> str:
        """The format and the zone that TIMESTAMP values are read in.

        Another text of unchanged values than usual stands behind them.
        """
        unchanged = "" if self.unchanged_value == UNCHANGED_VALUE else f" {self.unchanged_value!r}"
        return f"{self.name} {self.source_time_zone}{unchanged}"

    @property
    def dialect(self) -> Dialect:
        """The way in which messages are written."""
        from dts_assets.wire.flat_json.other_sources import DrsJsonDialect

        return DrsJsonDialect()

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per message; a message that is no JSON object is rejected whole."""
        from dts_assets.wire.flat_json.collection_entries import collection_entries

        return collection_entries(sets) or DrsMessages.entries(self, sets)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        from dts_assets.wire.columns.postgresql_values import postgresql_reading
        from dts_assets.wire.columns.table_changes import joined
        from dts_assets.wire.flat_json.collection_rows import collection_changes
        from dts_assets.wire.flat_json.other_sources import OtherSourcesDialect
        from dts_assets.wire.flat_json.rows import changes_of

        collections = {table: columns for table, columns in tables.items() if is_collection(columns)}
        others = {table: columns for table, columns in tables.items() if table.schema}
        apart = collections.keys() | others.keys()
        of_mysql = {table: columns for table, columns in tables.items() if table not in apart}
        found = [DrsMessages.changes(self, entries, of_mysql)] if of_mysql else []
        if collections:
            found.append(collection_changes(entries, collections))
        if others:
            reading = postgresql_reading(self.source_time_zone, as_digits=True)
            dialect = OtherSourcesDialect(unchanged=self.unchanged_value)
            found.append(changes_of(entries, others, reading=reading, dialect=dialect))
        return found[0] if len(found) == 1 else joined(*found)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column of a table.

        It is text where the source sends no type, or one without its precision.
        """
        if table.schema:
            return postgresql_type(original_type) or "string"
        return DrsMessages.column_type(self, original_type, unsigned=unsigned, table=table)
