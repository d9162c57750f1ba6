"""The wire format ``drs-json``: Huawei Cloud DRS, MySQL or GaussDB(for MySQL) to Kafka, message format JSON.

The vendor's page is "Kafka Message Format" (drs_03_0052), table 2. A deleted row stands in ``old``. TIMESTAMP values are seconds
since the epoch with a fraction: ``1624614713.201``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.wire.flat_json.drs import DrsMessages


@dataclass(frozen=True, slots=True)
class DrsJson(DrsMessages):
    """The :class:`dts_assets.wire.format.WireFormat` of DRS JSON."""

    name: ClassVar[str] = "drs-json"
    deleted_in_old: ClassVar[bool] = True
    epoch_seconds: ClassVar[bool] = True
