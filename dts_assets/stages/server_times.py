"""Dates, wall clocks and times of day as a server converts them.

Where a fraction of a second has no room, MySQL rounds it and MariaDB cuts it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.server_numbers import exact_numbers
from dts_assets.stages.server_types import Kind, ServerType
from dts_assets.stages.sql_text import matching, with_nulls
from dts_assets.wire.columns.casts import arrow_type, parse
from dts_assets.wire.ddl.table_schemas import Family

_DAY = 86_400_000_000
_DATE_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_TIME_TEXT = r"^-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$"


def to_days(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    """Return dates from clocks, texts and numbers such as 20260105."""
    clocks, unknown = _clocks(values, old)
    moments = pc.fill_null(clocks.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if family is not Family.MARIADB:  # MySQL rounds the last half second of a day to the next day
        last = (moments % _DAY) >= _DAY - 500_000
        unknown = np.asarray(unknown | (last & as_mask(clocks.is_valid())), np.bool_)
    days = pa.array((moments // _DAY).astype(np.int32), pa.int32(), mask=as_mask(clocks.is_null()) | unknown)
    return days.cast(pa.date32()), unknown


def to_clocks(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    """Return wall clocks from dates, clocks, texts and numbers, or instants from instants."""
    clocks, unknown = (values, np.zeros(len(values), np.bool_)) if old.kind is Kind.INSTANT else _clocks(values, old)
    kind = arrow_type(new.lake_type)
    moments = pc.fill_null(clocks.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    made, lost = _with_digits(moments, new.digits, family)
    unknown = np.asarray(unknown | (lost & as_mask(clocks.is_valid())), np.bool_)
    return pa.array(made, pa.int64(), mask=as_mask(clocks.is_null()) | unknown).cast(kind), unknown


def to_times(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    """Return times of day as texts, from times, clocks and texts that are written as times."""
    there = as_mask(values.is_valid())
    if old.kind is Kind.CLOCK:
        moments = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) % _DAY
        negative = np.zeros(len(values), np.bool_)
    elif old.kind in (Kind.TIME, Kind.TEXT):
        fits = matching(values, _TIME_TEXT)
        texts = pc.if_else(pa.array(fits), values, "00:00:00")
        negative = as_mask(pc.starts_with(texts, "-"))
        parts = pc.extract_regex(
            pc.utf8_ltrim(texts, "-"), r"^(?P<h>[0-9]+):(?P<m>[0-9]+):(?P<s>[0-9]+)\.?(?P<f>[0-9]*)$"
        )
        hours, minutes, seconds = (pc.struct_field(parts, name).cast(pa.int64()).to_numpy() for name in "hms")
        fraction = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64()).to_numpy()
        moments = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
        moments = np.where(fits, moments, -1)
    else:
        return pa.nulls(len(values), pa.string()), there
    made, lost = _with_digits(moments, new.digits, family)
    unknown = np.asarray(there & (lost | (moments < 0) | (made >= 839 * 3_600_000_000)), np.bool_)
    return _time_texts(
        made, negative & (made > 0) if new.digits == 0 else negative, new.digits, ~there | unknown
    ), unknown


def _clocks(values: pa.Array, old: ServerType) -> tuple[pa.Array, Mask]:
    """Return wall clocks from dates, clocks, texts and whole numbers, and which values are no date for certain."""
    clock, there = pa.timestamp("us"), as_mask(values.is_valid())
    if old.kind in (Kind.DATE, Kind.CLOCK):
        return values.cast(clock), np.zeros(len(values), np.bool_)
    if old.kind is Kind.TEXT:
        texts = with_nulls(values, ~matching(values, f"{_DATE_TEXT}|{_CLOCK_TEXT}"))
    elif old.kind is Kind.WHOLE:
        digits = exact_numbers(values, old).values.cast(pa.decimal256(76, 0)).cast(pa.string())
        parts = pc.extract_regex(digits, r"^(?P<y>[1-9][0-9]{3})(?P<m>[0-9]{2})(?P<d>[0-9]{2})$")
        texts = pc.binary_join_element_wise(*(pc.struct_field(parts, name) for name in "ymd"), "-")
    else:
        return pa.nulls(len(values), clock), there
    clocks, _ = parse(texts.cast(pa.binary()), "timestamp_ntz")
    return clocks, there & as_mask(clocks.is_null())


def _with_digits(
    moments: npt.NDArray[np.int64], digits: int, family: Family | None
) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return microseconds with fewer digits of a second, and which lost something that servers treat differently."""
    unit = 10 ** (6 - digits)
    rest = moments % unit
    if family is Family.MYSQL:
        return (moments + unit // 2) // unit * unit if digits < 6 else moments, np.zeros(len(moments), np.bool_)
    return moments - rest, (rest != 0) & (family is None)


def _time_texts(moments: npt.NDArray[np.int64], negative: Mask, digits: int, nothing: Mask) -> pa.Array:
    seconds, fraction = np.maximum(moments, 0) // 1_000_000, np.maximum(moments, 0) % 1_000_000
    parts = (seconds // 3600, seconds // 60 % 60, seconds % 60)
    shown = [pc.utf8_lpad(pa.array(part, pa.int64()).cast(pa.string()), 2, "0") for part in parts]
    made = pc.binary_join_element_wise(*shown, ":")
    if digits:
        micros = pc.utf8_lpad(pa.array(fraction, pa.int64()).cast(pa.string()), 6, "0")
        made = pc.binary_join_element_wise(made, pc.utf8_slice_codeunits(micros, 0, digits), ".")
    made = pc.binary_join_element_wise(pc.if_else(pa.array(negative), "-", ""), made, "")
    return with_nulls(made, nothing)
