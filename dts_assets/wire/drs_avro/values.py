"""Values of DRS records to typed columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, masked
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values
from dts_assets.wire.flat_json.values import printed_bytes, seconds_or_clocks


def drs_avro_reading(zone: str, bare: Bools) -> Reading:
    """Return the reading of DRS records.

    Instants are seconds, or wall clocks of ``zone`` (``+08:00``) unless they say their own. ``bare`` marks texts that stand in
    no record of a kind: there bytes are printed as in the vendor's JSON.
    """

    def typed(
        values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
    ) -> tuple[pa.Array, Bools | None]:
        if bucket.of_bytes and (printed := bare[cells]).any():
            return _some_printed(values, printed)
        if bucket.lake_type == "timestamp":
            return seconds_or_clocks(values, zone)
        return typed_values(values, bucket, image, cells)

    return typed


def _some_printed(values: pa.Array, printed: Bools) -> tuple[pa.Array, Bools | None]:
    there = np.asarray(values.is_valid())
    parsed, bad = printed_bytes(masked(values, pa.binary(), there & printed))
    return pc.if_else(pa.array(printed), parsed, values), bad
