"""The wire formats whose messages are flat, as far as they are alike.

A message goes through these modules: ``messages`` (JSON to Python), ``entries`` (messages to entries), ``rows`` (entries to
rows, with their values in ``sent_values``), ``values`` and ``wire.columns`` (values to typed columns). ``dialect`` has the points
in which they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Self

from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings, FormatTraits
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.columns.pivot import Reading
    from dts_assets.wire.flat_json.dialect import Dialect
    from dts_assets.wire.format import DecodedChanges, DecodedEntries


@dataclass(frozen=True, slots=True)
class FlatMessages:
    """A :class:`dts_assets.wire.format.WireFormat` of flat messages.

    ``source_time_zone`` (``+08:00`` or ``Asia/Shanghai``) is the zone of wall clocks that are instants. A format is a class with
    its ``name`` and ``traits``, its dialect and its reading of values.
    """

    source_time_zone: str = "+00:00"

    name: ClassVar[str]
    traits: ClassVar[FormatTraits]

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for the time zone of a source."""
        return cls(settings.source_time_zone)

    @property
    def changes_fingerprint(self) -> str:
        """The format and the zone that TIMESTAMP values are read in."""
        return f"{self.name} {self.source_time_zone}"

    @property
    def decoder(self) -> str:
        """The parser with its version: ``msgspec 0.22.0``."""
        return f"msgspec {version('msgspec')}"

    @property
    def dialect(self) -> Dialect:
        """The way in which messages are written."""
        raise NotImplementedError

    @property
    def reading(self) -> Reading:
        """The way in which values become typed."""
        raise NotImplementedError

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        from dts_assets.wire.columns.whole_messages import whole_fragments

        return whole_fragments(messages)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return one entry per message; a message that is no JSON object is rejected whole."""
        from dts_assets.wire.flat_json.entries import entries_of

        return entries_of(sets, self.dialect)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        from dts_assets.wire.flat_json.rows import changes_of

        return changes_of(entries, tables, reading=self.reading, dialect=self.dialect)

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
