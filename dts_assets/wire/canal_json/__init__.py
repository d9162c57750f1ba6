"""The wire format ``canal-json``: the JSON that Canal sends to Kafka (``FlatMessage``).

Tencent Cloud DTS sends it too, when it synchronizes to Kafka in the format Canal JSON. Facts are those of Canal's source
(github.com/alibaba/canal) and of Tencent Cloud's document 571/102285. A deleted row stands in ``data``; ``old`` has the columns
that an UPDATE changed. ``id`` is the number of a batch: it begins again when Canal is started, and Canal sends again what was
not acknowledged before, so nothing tells a copy from an equal change. TiCDC writes the same form; with ``_tidb`` its messages
tell the time of their transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dts_assets.model.columns import mysql_type
from dts_assets.model.formats import ChangeOrder, FormatTraits
from dts_assets.model.tables import TableId
from dts_assets.wire.flat_json.drs import BARE_DECIMAL
from dts_assets.wire.flat_json.formats import FlatMessages

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from dts_assets.wire.columns.pivot import Reading
    from dts_assets.wire.flat_json.dialect import Dialect
    from dts_assets.wire.recognition.samples import Sample, Signs


@dataclass(frozen=True, slots=True)
class CanalJson(FlatMessages):
    """The :class:`dts_assets.wire.format.WireFormat` of Canal's JSON.

    ``source_time_zone`` is the zone of Canal's own process. Java knows the summer times of a zone, which Shanghai had from 1986
    to 1991.
    """

    name: ClassVar[str] = "canal-json"
    traits: ClassVar[FormatTraits] = FormatTraits(
        kind="json",
        evidence=frozenset(),
        order=ChangeOrder.ARRIVAL,
        ignores_case=True,
        clock_zone="Asia/Shanghai",
        changed_only=True,
    )

    @classmethod
    def signs_in(cls, sample: Sample) -> Signs | None:
        """Return the signs of Canal in a message; None if it is of DRS, or of another form."""
        from dts_assets.wire.flat_json.signs import FlatForm, flat_signs

        return flat_signs(sample).get(FlatForm.CANAL)

    @property
    def entries_fingerprint(self) -> str:
        """The format, and the number of the rule that gives entries their places."""
        return f"{self.name} 2"

    @property
    def dialect(self) -> Dialect:
        """The way in which messages are written."""
        from dts_assets.wire.flat_json.canal import CanalDialect

        return CanalDialect()

    @property
    def reading(self) -> Reading:
        """The way in which values become typed."""
        from dts_assets.wire.flat_json.canal_values import canal_reading

        return canal_reading(self.source_time_zone)

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per message of its operation and the key of its rows.

        Without a key whole rows take its place.
        """
        from dts_assets.wire.columns.digests import digests
        from dts_assets.wire.flat_json.canal import identity_of

        return digests(map(identity_of, payloads.to_pylist()))

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column from its definition, such as ``int(11) unsigned``.

        Tencent Cloud sends types without arguments: a decimal without them stays text.
        """
        if BARE_DECIMAL.fullmatch(original_type):
            return "string"
        return mysql_type(original_type, unsigned=unsigned) or "string"
