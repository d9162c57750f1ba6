"""The wire format ``dts-json``: Tencent Cloud DTS, data subscription (Kafka edition), JSON. It is **experimental**.

The vendor's page is "JSON Demo Description" (571/61656, 571/55398): it lists the fields of ``FlatRecord``, which are those of the
record in Avro, and says that each value is a text. What the page leaves open is an assumption; docs/formats.md lists them all. A
message goes through ``messages`` (JSON to fields), ``heads`` and ``images`` (fields to columns by role) and ``wire.dts_records``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.formats import ChangeOrder, Evidence, FormatSettings, FormatTraits
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.format import DecodedChanges, DecodedEntries
    from dts_assets.wire.recognition.samples import Sample, Signs

NAME = "dts-json"


@dataclass(frozen=True, slots=True)
class DtsJson:
    """The :class:`dts_assets.wire.format.WireFormat` of DTS JSON.

    ``source_time_zone`` is the zone of DATETIME columns that are declared to be instants; TIMESTAMP values need none.
    """

    source_time_zone: str = "+00:00"

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="json",
        evidence=frozenset(Evidence),
        order=ChangeOrder.BINLOG_POSITION,
        ignores_case=True,
        rows_apart=True,
        fraction_digits=3,
    )

    @classmethod
    def signs_in(cls, sample: Sample) -> Signs | None:
        """Return the signs of a record in a message; None where they are missing."""
        from dts_assets.wire.dts_json.signs import json_signs

        return json_signs(sample)

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for the time zone of a source."""
        return cls(settings.source_time_zone)

    @property
    def entries_fingerprint(self) -> str:
        """The format, and the number of the rule by which its messages are read."""
        return f"{NAME} 1"

    @property
    def changes_fingerprint(self) -> str:
        """The format, and the number of the rule by which its messages are read."""
        return self.entries_fingerprint

    @property
    def decoder(self) -> str:
        """The parser with its version: ``msgspec 0.22.0``."""
        return f"msgspec {version('msgspec')}"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        from dts_assets.wire.columns.whole_messages import whole_fragments

        return whole_fragments(messages, numbered=True)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per message; a message that is no JSON object is rejected whole."""
        from dts_assets.wire.dts_json.heads import heads_of
        from dts_assets.wire.dts_records.entries import entries_of

        return entries_of(sets, heads_of(sets))

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose row cannot be used is rejected."""
        from dts_assets.wire.dts_json.images import rows_of
        from dts_assets.wire.dts_json.values import json_reading
        from dts_assets.wire.dts_records.rows import changes_of

        return changes_of(entries, tables, rows_of, reading=json_reading(self.source_time_zone))

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per entry of its message type, its table and its images, as they are written."""
        from dts_assets.wire.dts_json.images import contents_of

        return contents_of(payloads)

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of no entry that it names a key. Nobody asks: binlog positions tell copies."""
        import numpy as np

        return np.zeros(len(payloads), np.bool_)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a MySQL-family column; ``string`` for a type that is not known."""
        return mysql_type(original_type, unsigned=unsigned) or "string"
