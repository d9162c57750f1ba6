"""The formats of Huawei Cloud DRS for sources of the MySQL family, as far as they are alike.

The vendor's page is "Kafka Message Format" (drs_03_0052). A message goes through these modules: ``messages`` (JSON to Python),
``entries`` (messages to entries), ``rows`` (entries to rows), ``values`` and ``wire.columns`` (values to typed columns).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.formats import ChangeOrder, FormatSettings, FormatTraits
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.format import DecodedChanges, DecodedEntries

_BARE = re.compile(r"\s*(dec(imal)?|numeric|fixed)(\s+(unsigned|zerofill))*\s*", re.I)
_BIT = re.compile(r"\s*bit\b", re.I)


@dataclass(frozen=True, slots=True)
class DrsMessages:
    """A :class:`dts_assets.wire.format.WireFormat` of DRS.

    ``source_time_zone`` (``+08:00`` or ``Asia/Shanghai``) is the zone of wall clocks that are instants. A format of the vendor is
    a class with its ``name``. ``deleted_in_old`` says that deleted rows stand in ``old``, and ``epoch_seconds`` that TIMESTAMP
    values are seconds since the epoch.
    """

    source_time_zone: str = "+00:00"

    name: ClassVar[str]
    deleted_in_old: ClassVar[bool] = False
    epoch_seconds: ClassVar[bool] = False

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="json", evidence=frozenset(), order=ChangeOrder.MESSAGE_ID, ignores_case=True
    )

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for the time zone of a source."""
        return cls(settings.source_time_zone)

    @property
    def entries_fingerprint(self) -> str:
        """The format alone, and what is noted of its entries: times are counted from the epoch."""
        return f"{self.name} 2"

    @property
    def changes_fingerprint(self) -> str:
        """The format and the zone that TIMESTAMP values are read in."""
        return f"{self.name} {self.source_time_zone}"

    @property
    def decoder(self) -> str:
        """The parser with its version: ``msgspec 0.22.0``."""
        return f"msgspec {version('msgspec')}"

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        from dts_assets.wire.columns.whole_messages import whole_fragments

        return whole_fragments(messages)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per message; a message that is no JSON object is rejected whole."""
        from dts_assets.wire.flat_json.entries import entries_of

        return entries_of(sets, deleted_in_old=self.deleted_in_old)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        from dts_assets.wire.flat_json.rows import changes_of
        from dts_assets.wire.flat_json.values import drs_reading

        reading = drs_reading(self.source_time_zone, epoch_seconds=self.epoch_seconds)
        return changes_of(entries, tables, reading=reading, deleted_in_old=self.deleted_in_old)

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per message of all its fields but ``id``, ``es`` and ``ts``, whatever their order."""
        from dts_assets.wire.columns.digests import digests
        from dts_assets.wire.flat_json.messages import content_of

        return digests(map(content_of, payloads.to_pylist()))

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of each message whether its ``pkNames`` names a column."""
        import numpy as np

        from dts_assets.wire.flat_json.messages import names_key

        return np.fromiter(map(names_key, payloads.to_pylist()), np.bool_, len(payloads))

    def column_type(self, original_type: str, *, unsigned: bool) -> str:
        """Return the lake type of a column, wide enough without precision and sign.

        The vendor's type texts have neither. Its page does not say how BIT is written: it stays text.
        """
        if _BARE.fullmatch(original_type) or _BIT.match(original_type):
            return "string"
        found = mysql_type(original_type, unsigned=unsigned) or "string"
        return "bigint" if found == "int" and re.match(r"\s*int", original_type, re.I) else found
