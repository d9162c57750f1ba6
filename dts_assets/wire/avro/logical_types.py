"""Values of Avro's logical types as the texts that a database prints (Apache Avro 1.11 specification, "Logical Types").

The bytes of a decimal are no text, though they may look like one: 49 is the byte of the digit 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.avro.schema import Type
from dts_assets.wire.avro.side_by_side import Ints

_EXACT = Context(prec=1 << 12)
_MOST_BYTES = 1 << 10
_DAYS = (-719_162, 2_932_896)
"""The days of the years 1 to 9999, counted from 1970."""

_UNITS = {"millis": 1_000, "micros": 1, "nanos": 0}
"""Microseconds of a unit; nanoseconds are left as numbers, since no column holds them."""


def decimal_texts(kind: Type, values: pa.Array) -> pa.Array:
    """Return decimals from their bytes, the greatest first and signed: ``-12.50``.

    Bytes of far more digits than any database has are shown as hexadecimal digits: to print them would take its time.
    """
    return pa.array([None if one is None else _decimal(one, kind.scale) for one in values.to_pylist()], pa.binary())


def _decimal(data: bytes, scale: int) -> bytes:
    if len(data) > _MOST_BYTES:
        return f"0x{data.hex().upper()}".encode()
    return f"{Decimal(int.from_bytes(data, 'big', signed=True)).scaleb(-scale, _EXACT):f}".encode()


def number_texts(kind: Type, values: Ints) -> pa.Array | None:
    """Return dates and times from their numbers; None for a type whose numbers are what they mean.

    Instants have their offset, ``2021-05-17 07:22:42.500000 +00:00``. A number beyond the years 1 to 9999 stays one.
    """
    what, _, unit = kind.logical.rpartition("-")
    if kind.logical == "date":
        return _within(values, _DAYS, _dates)
    scale = _UNITS.get(unit, 0)
    if not scale or what not in ("timestamp", "local-timestamp", "time"):
        return None
    least, most = (
        (0, 86_400_000_000 - 1) if what == "time" else (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
    )
    bounds = -(-least // scale), most // scale
    return _within(values, bounds, lambda some: _CLOCKS[what](some * scale))


def _within(values: Ints, bounds: tuple[int, int], texts: Callable[[Ints], pa.Array]) -> pa.Array:
    fits = (values >= bounds[0]) & (values <= bounds[1])
    found = texts(np.where(fits, values, 0))
    if not fits.all():
        found = pc.if_else(pa.array(fits), found, pc.cast(pa.array(values), pa.string()))
    return pc.cast(found, pa.binary())


def _dates(days: Ints) -> pa.Array:
    return pc.cast(pa.array(days.astype(np.int32)).view(pa.date32()), pa.string())


def _moments(micros: Ints) -> pa.Array:
    return pc.cast(pa.array(micros).view(pa.timestamp("us")), pa.string())


def _instants(micros: Ints) -> pa.Array:
    return pc.binary_join_element_wise(_moments(micros), " +00:00", "")


def _times(micros: Ints) -> pa.Array:
    return pc.cast(pa.array(micros).view(pa.time64("us")), pa.string())


_CLOCKS: Mapping[str, Callable[[Ints], pa.Array]] = {
    "timestamp": _instants, "local-timestamp": _moments, "time": _times,
}  # fmt: skip
