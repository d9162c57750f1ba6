"""The wire format ``drs-json-c``: Huawei Cloud DRS, MySQL or TaurusDB to Kafka, message format JSON-C.

The vendor's page is "Kafka Message Format" (drs_03_0052), table 5: as JSON, but a deleted row stands in ``data``, and TIMESTAMP
values are wall clocks of the source's zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.wire.flat_json.drs import DrsMessages


@dataclass(frozen=True, slots=True)
class DrsJsonC(DrsMessages):
    """The :class:`dts_assets.wire.format.WireFormat` of DRS JSON-C."""

    name: ClassVar[str] = "drs-json-c"
