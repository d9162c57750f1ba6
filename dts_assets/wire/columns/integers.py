"""Whole numbers in fields beside rows, from texts or as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, masked
from dts_assets.wire.columns.casts import matches

_WHOLE = r"^-?\d{1,18}$"


@dataclass(frozen=True, slots=True)
class Integers:
    """Whole numbers: ``sent`` marks those that are there, ``bad`` values that are no whole number of 64 bits."""

    values: npt.NDArray[np.int64]
    sent: Bools
    bad: Bools


def whole_numbers(texts: pa.Array) -> Integers:
    """Return the whole numbers that bytes are in decimal digits."""
    whole = matches(texts, _WHOLE)
    values = pc.fill_null(pc.cast(masked(texts, pa.string(), whole), pa.int64()), 0).to_numpy()
    return Integers(values, whole, np.asarray(texts.is_valid()) & ~whole)
