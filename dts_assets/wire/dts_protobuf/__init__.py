"""The wire format ``dts-protobuf``: Tencent Cloud DTS "data subscription (Kafka edition)", Protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.tables import TableId
from dts_assets.wire.dts_protobuf.entry_sets import entries_of
from dts_assets.wire.dts_protobuf.fragments import fragments_of
from dts_assets.wire.dts_protobuf.protobuf_parser import BEST_ENGINE, Engine, engine_name
from dts_assets.wire.dts_protobuf.row_changes import changes_of
from dts_assets.wire.format import DecodedChanges, DecodedEntries


@dataclass(frozen=True, slots=True)
class DtsProtobuf:
    """:class:`dts_assets.wire.format.WireFormat` of DTS Protobuf.

    ``engine`` is what parses: ptars, in columns, or protobuf's own parser, which every call of ptars that fails falls back to.
    Both give the same tables.
    """

    engine: Engine = BEST_ENGINE

    @property
    def decoder(self) -> str:
        """What parses, with its version: ``ptars 0.0.25``."""
        return engine_name(self.engine)

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """FRAGMENTS of a batch of MESSAGES, row for row."""
        return fragments_of(messages, engine=self.engine)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """The entries of some whole entry sets. A set that is no protobuf message is rejected whole, an entry alone."""
        return entries_of(sets, engine=self.engine)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """The row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        return changes_of(entries, tables, engine=self.engine)

    def column_type(self, original_type: str, *, unsigned: bool) -> str:
        """The lake type of a MySQL-family column; ``string`` for a type that is not known."""
        return mysql_type(original_type, unsigned=unsigned) or "string"
