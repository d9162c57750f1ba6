"""The wire format ``dts-avro``: Tencent Cloud DTS, data subscription (Kafka edition), Avro.

The vendor's page is "Consuming Subscribed Data in Avro Format"; the schema is the ``Record.avsc`` of its demo, which each
customer supplies. A message is one ``Record`` in bare binary encoding and holds one changed row. It goes through these modules:
``wire.avro.records`` (messages to fields), ``blocks`` (fields to columns by role), ``wire.dts_records`` (to entries and rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.formats import ChangeOrder, Evidence, FormatSettings, FormatTraits
from dts_assets.model.tables import TableId
from dts_assets.wire.dts_records import FIELDS, LISTS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.avro.records import RecordSchema
    from dts_assets.wire.format import DecodedChanges, DecodedEntries
    from dts_assets.wire.recognition.samples import Sample, Signs

NAME = "dts-avro"

NEEDED = (
    "id", "version", "operation", "file_name", "position", "timestamp", "database", "table", "columns", "before", "after"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DtsAvro:
    """The :class:`dts_assets.wire.format.WireFormat` of DTS Avro; ``schema`` is the content of the customer's Record.avsc.

    ``source_time_zone`` is the zone of DATETIME columns that are declared to be instants; TIMESTAMP values carry theirs.
    """

    schema: bytes
    source_time_zone: str = "+00:00"

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="avro",
        evidence=frozenset(Evidence),
        order=ChangeOrder.BINLOG_POSITION,
        needs_schema=True,
        ignores_case=True,
        rows_apart=True,
        fraction_digits=3,
    )

    @classmethod
    def signs_in(cls, sample: Sample) -> Signs | None:
        """Return the signs of a record of DTS in a message that is read without a schema."""
        from dts_assets.wire.dts_avro.signs import avro_signs

        return avro_signs(sample)

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for a schema.

        Raises:
            WireFormatError: it is no Avro schema, or has no record with the documented fields.
        """
        from dts_assets.wire.avro.schema import SchemaError

        made = cls(settings.schema or b"", settings.source_time_zone)
        try:
            made.record()
        except SchemaError as error:
            raise WireFormatError(NAME, f"its schema does not describe DTS records: {error}") from None
        return made

    def record(self) -> RecordSchema:
        """Return the record of the schema with its fields.

        Raises:
            SchemaError: it is no Avro schema, or has no record with the documented fields.
        """
        return _record(self.schema)

    @property
    def entries_fingerprint(self) -> str:
        """The format and its schema."""
        return f"{NAME} {sha256(self.schema).hexdigest()[:12]}"

    @property
    def changes_fingerprint(self) -> str:
        """The format and its schema."""
        return self.entries_fingerprint

    @property
    def decoder(self) -> str:
        """The parser: this package's own."""
        return "dts-assets"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        from dts_assets.wire.columns.whole_messages import whole_fragments

        return whole_fragments(messages, numbered=True)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per message; a message that is no record of the schema is rejected whole."""
        from dts_assets.wire.dts_avro.blocks import heads_of
        from dts_assets.wire.dts_records.entries import entries_of

        return entries_of(sets, heads_of(sets, self.record()))

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose row cannot be used is rejected."""
        from dts_assets.wire.columns.pivot import typed_values
        from dts_assets.wire.dts_avro.blocks import rows_of
        from dts_assets.wire.dts_records.rows import changes_of

        reading = partial(typed_values, zone=self.source_time_zone)
        return changes_of(entries, tables, partial(rows_of, schema=self.record()), reading=reading)

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per entry of its operation, its table and its images, as they are encoded."""
        from dts_assets.wire.dts_avro.blocks import contents_of

        return contents_of(payloads, self.record())

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of no entry that it names a key. Nobody asks: binlog positions tell copies."""
        import numpy as np

        return np.zeros(len(payloads), np.bool_)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a MySQL-family column; ``string`` for a type that is not known."""
        return mysql_type(original_type, unsigned=unsigned) or "string"


@lru_cache(maxsize=64)
def _record(schema: bytes) -> RecordSchema:
    from dts_assets.wire.avro.records import find_record, record_schema
    from dts_assets.wire.avro.schema import parse_schema

    return record_schema(find_record(parse_schema(schema), "Record"), FIELDS, needed=NEEDED, lists=LISTS)
