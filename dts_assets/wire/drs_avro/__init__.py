"""The wire format ``drs-avro``: Huawei Cloud DRS to Kafka, message format Avro.

The vendor's page "Kafka Message Format" names a file with the schema, which is not public: the customer supplies it. A message
goes through these modules: ``framing`` (messages to records), ``roles`` (fields by what they are), ``entries`` (records to
entries), ``columns``, ``images`` and ``rows`` (entries to rows), ``values`` (values to typed columns).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.formats import ChangeOrder, FormatSettings, FormatTraits, Framing
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.drs_avro.framing import Schemas
    from dts_assets.wire.format import DecodedChanges, DecodedEntries

NAME = "drs-avro"

DECLARED = (
    "operation", "id", "database", "schema", "table", "before", "after", "columns", "types", "key_names", "time", "sql"
)  # fmt: skip
"""The roles that ``avro:`` may name a field for."""

_TOLD = re.compile(r"\(|unsigned|zerofill", re.I)
_BARE_NUMBER = re.compile(r"\s*(dec(imal)?|numeric|fixed|bit)\s*", re.I)


@dataclass(frozen=True, slots=True)
class DrsAvro:
    """The :class:`dts_assets.wire.format.WireFormat` of DRS Avro; ``schema`` is the content of the customer's schema file.

    ``fields`` are pairs of a role and the field that plays it. ``source_time_zone`` is the zone of wall clocks that are instants.
    """

    schema: bytes
    source_time_zone: str = "+00:00"
    framing: Framing = Framing.AUTO
    fields: tuple[tuple[str, str], ...] = ()

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="avro",
        evidence=frozenset(),
        order=ChangeOrder.MESSAGE_ID,
        needs_schema=True,
        ignores_case=True,
        roles=DECLARED,
    )

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for a schema, a framing and the names of fields.

        Raises:
            WireFormatError: it is no Avro schema, or its record has no field for a needed role.
        """
        from dts_assets.wire.avro.schema import SchemaError

        made = cls(settings.schema or b"", settings.source_time_zone, settings.framing, settings.fields)
        try:
            made._schemas().record()
        except SchemaError as error:
            raise WireFormatError(NAME, f"its schema does not describe DRS records: {error}") from None
        return made

    def _schemas(self) -> Schemas:
        from dts_assets.wire.drs_avro.framing import Schemas

        return Schemas(self.schema, self.fields)

    @property
    def entries_fingerprint(self) -> str:
        """The format, its schema, its framing and the names of fields."""
        names = "".join(f" {role}={name}" for role, name in self.fields)
        return f"{NAME} {sha256(self.schema).hexdigest()[:12]} {self.framing}{names}"

    @property
    def changes_fingerprint(self) -> str:
        """The fingerprint of entries, and the zone that wall clocks are read in."""
        return f"{self.entries_fingerprint} {self.source_time_zone}"

    @property
    def decoder(self) -> str:
        """The parser: this package's own."""
        return "dts-assets"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        from dts_assets.wire.columns.whole_messages import whole_fragments

        return whole_fragments(messages)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per record; a message that is no record of the schema is rejected whole."""
        from dts_assets.wire.drs_avro.entries import entries_of

        return entries_of(sets, self.framing, self._schemas())

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        from dts_assets.wire.drs_avro.rows import changes_of

        return changes_of(entries, tables, self._schemas(), self.source_time_zone)

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per record of what it says.

        Its id, its time, and when it was sent are left aside.
        """
        from dts_assets.wire.drs_avro.rows import contents_of

        return contents_of(payloads, self._schemas())

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of each record whether it names a column of its table's key."""
        from dts_assets.wire.drs_avro.rows import name_keys

        return name_keys(payloads, self._schemas())

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column, wide enough where its type's text has neither precision nor sign.

        ``int`` alone may be unsigned, and ``decimal`` alone says nothing of its digits.
        """
        if _BARE_NUMBER.fullmatch(original_type):
            return "string"
        found = mysql_type(original_type, unsigned=unsigned) or "string"
        is_bare_int = found == "int" and re.match(r"\s*int", original_type, re.I) and not _TOLD.search(original_type)
        return "bigint" if is_bare_int else found
