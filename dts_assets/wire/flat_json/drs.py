"""The formats of Huawei Cloud DRS for sources of the MySQL family, as far as they are alike.

The vendor's page is "Kafka Message Format" (drs_03_0052).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dts_assets.model.columns import mysql_type
from dts_assets.model.formats import ChangeOrder, FormatTraits
from dts_assets.model.tables import TableId
from dts_assets.wire.flat_json.formats import FlatMessages

if TYPE_CHECKING:
    from dts_assets.wire.columns.pivot import Reading
    from dts_assets.wire.flat_json.dialect import Dialect
    from dts_assets.wire.recognition.samples import Sample, Signs

BARE_DECIMAL = re.compile(r"\s*(dec(imal)?|numeric|fixed)(\s+(unsigned|zerofill))*\s*", re.I)
"""The type text of decimals of which nobody says how many digits they have."""

_BIT = re.compile(r"\s*bit\b", re.I)


@dataclass(frozen=True, slots=True)
class DrsMessages(FlatMessages):
    """A :class:`dts_assets.wire.format.WireFormat` of DRS.

    ``deleted_in_old`` says that deleted rows stand in ``old``, and ``epoch_seconds`` that TIMESTAMP values are seconds since the
    epoch.
    """

    deleted_in_old: ClassVar[bool] = False
    epoch_seconds: ClassVar[bool] = False

    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="json", evidence=frozenset(), order=ChangeOrder.MESSAGE_ID, ignores_case=True
    )

    @classmethod
    def signs_in(cls, sample: Sample) -> Signs | None:
        """Return the signs of the format in a message.

        None if it is of the sister format, of Canal, or of another form.
        """
        from dts_assets.wire.flat_json.signs import FlatForm, flat_signs

        return flat_signs(sample).get(FlatForm.JSON if cls.deleted_in_old else FlatForm.JSON_C)

    @property
    def entries_fingerprint(self) -> str:
        """The format alone, and what is noted of its entries: times are counted from the epoch."""
        return f"{self.name} 2"

    @property
    def dialect(self) -> Dialect:
        """The way in which messages are written."""
        from dts_assets.wire.flat_json.dialect import DrsDialect

        return DrsDialect(self.deleted_in_old)

    @property
    def reading(self) -> Reading:
        """The way in which values become typed."""
        from dts_assets.wire.flat_json.values import drs_reading

        return drs_reading(self.source_time_zone, epoch_seconds=self.epoch_seconds)

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column, wide enough without precision and sign.

        The vendor's type texts have neither. Its page does not say how BIT is written: it stays text.
        """
        if BARE_DECIMAL.fullmatch(original_type) or _BIT.match(original_type):
            return "string"
        found = mysql_type(original_type, unsigned=unsigned) or "string"
        return "bigint" if found == "int" and re.match(r"\s*int", original_type, re.I) else found
