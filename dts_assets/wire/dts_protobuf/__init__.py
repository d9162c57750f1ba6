"""The wire format ``dts-protobuf``: Tencent Cloud DTS, data subscription (Kafka edition), Protobuf.

The vendor's page is "Consuming Subscribed Data in Protobuf Format" (document 571/55396) with its ``subscribe.proto``. A message
goes through these modules: ``fragments`` (envelope to fragment), ``entry_sets`` (entry set to entries), ``row_changes`` (entries
to rows), each by ``protobuf_parser``; then ``wire.columns`` types the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.formats import ChangeOrder, Evidence, FormatSettings, FormatTraits
from dts_assets.model.postgresql_types import postgresql_type
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.format import DecodedChanges, DecodedEntries

Engine: TypeAlias = Literal["ptars", "protobuf"]


@dataclass(frozen=True, slots=True)
class DtsProtobuf:
    """The :class:`dts_assets.wire.format.WireFormat` of DTS Protobuf.

    ``engine`` is the parser: ptars, in columns, or protobuf's own, which every call of ptars that fails falls back to; None
    is the best that is installed. Both give the same tables. ``source_time_zone`` is the zone of DATETIME columns that are
    declared to be instants; TIMESTAMP values carry theirs.
    """

    engine: Engine | None = None
    source_time_zone: str = "+00:00"

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="protobuf", evidence=frozenset(Evidence), order=ChangeOrder.BINLOG_POSITION, ignores_case=True
    )

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for the time zone of a source."""
        return cls(source_time_zone=settings.source_time_zone)

    @property
    def entries_fingerprint(self) -> str:
        """The format alone."""
        return "dts-protobuf"

    @property
    def changes_fingerprint(self) -> str:
        """The format alone."""
        return "dts-protobuf"

    @property
    def decoder(self) -> str:
        """The parser with its version: ``ptars 0.0.25``."""
        from dts_assets.wire.dts_protobuf.protobuf_parser import BEST_ENGINE

        chosen = self.engine or BEST_ENGINE
        return f"{chosen} {version(chosen)}"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row."""
        from dts_assets.wire.dts_protobuf.fragments import fragments_of

        return fragments_of(messages, engine=self.engine)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return the entries of whole entry sets.

        A set that is no protobuf message is rejected whole, an entry alone.
        """
        from dts_assets.wire.dts_protobuf.entry_sets import entries_of

        return entries_of(sets, engine=self.engine)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        from dts_assets.wire.columns.pivot import typed_values
        from dts_assets.wire.columns.postgresql_values import postgresql_reading
        from dts_assets.wire.columns.table_changes import joined
        from dts_assets.wire.dts_protobuf.row_changes import changes_of

        mine = partial(typed_values, zone=self.source_time_zone)
        of_postgresql = {table: columns for table, columns in tables.items() if table.schema}
        if not of_postgresql:
            return changes_of(entries, tables, engine=self.engine, reading=mine)
        reading = postgresql_reading(self.source_time_zone, as_digits=False)
        found = changes_of(entries, of_postgresql, engine=self.engine, reading=reading)
        others = {table: columns for table, columns in tables.items() if not table.schema}
        return joined(changes_of(entries, others, engine=self.engine, reading=mine), found) if others else found

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per entry of its own bytes.

        Nobody compares them: binlog positions tell copies.
        """
        from dts_assets.wire.columns.digests import digests

        return digests(payloads.to_pylist())

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of no entry that it names a key. Nobody asks: binlog positions tell copies."""
        import numpy as np

        return np.zeros(len(payloads), np.bool_)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column; ``string`` for a type that is not known."""
        found = postgresql_type(original_type) if table.schema else mysql_type(original_type, unsigned=unsigned)
        return found or "string"
