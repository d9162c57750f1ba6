"""The sums of a snapshot's rows, kept up to date by each commit.

A row is written with its own sum in the column ``_sum``, so that it is known when the row leaves. A row that was written without
one is read whole then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.stored_sums import NO_CHANGE, SUMS_PROPERTY, SumChange, SumPlan
from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.row_sums import SummedColumn, Sums, row_sums, total
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import OWN_COLUMNS, ROW_SUM
from dts_assets.store.files import FIRST_OWN_ID, WriteTarget
from dts_assets.store.types import FIELD_ID

if TYPE_CHECKING:
    from dts_assets.flows.snapshot_files import HeldRows


def summed_columns(schema: pa.Schema) -> tuple[SummedColumn, ...]:
    """Return the columns of a snapshot that its sum is made of, from a schema with field ids.

    They are those with plain values that are not the snapshot's own.
    """
    found = []
    for one in schema:
        kind, tag = _lake_type(one.type), int((one.metadata or {}).get(FIELD_ID, -1))
        if kind is not None and one.name not in OWN_COLUMNS and 0 < tag < FIRST_OWN_ID:
            found.append(SummedColumn(tag, one.name, kind))
    return tuple(found)


_PLAIN = {
    pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.bool_(): "boolean",
    pa.string(): "string", pa.large_string(): "string", pa.binary(): "binary", pa.large_binary(): "binary",
    pa.date32(): "date",
}  # fmt: skip


def _lake_type(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return _PLAIN.get(kind)


def stored_sums(plan: SumPlan | None, changes: Iterable[SumChange]) -> Mapping[str, str]:
    """Return the property of a commit with the sum behind it; none where the table has none."""
    if plan is None:
        return {}
    return {SUMS_PROPERTY: plan.behind(sum(changes, NO_CHANGE)).to_text()}


@dataclass(frozen=True, slots=True)
class RowSummer:
    """The part of a task that adds sums to rows. ``columns`` are those that a sum is made of."""

    target: WriteTarget
    schema: pa.Schema
    columns: tuple[SummedColumn, ...]
    keeps: bool

    @classmethod
    def of(cls, target: WriteTarget, plan: SumPlan | None) -> RowSummer | None:
        """Return the summer of a merge; None where its table has no sum."""
        if plan is None:
            return None
        schema = target.arrow_schema
        return cls(target, schema, summed_columns(schema), keeps=not plan.anew)

    def with_sums(self, rows: pa.RecordBatch, *, stood: bool = False) -> tuple[pa.RecordBatch, int]:
        """Return rows with their sums, and what these add up to. Rows that ``stood`` keep the sums that they have."""
        whole = cast_to_schema(rows, self.schema, self.target.location, self.target.former_ids)
        sums = self._sums(whole, keeps=stood and self.keeps)
        at = whole.schema.get_field_index(ROW_SUM)
        return whole.set_column(at, whole.schema.field(at), pa.array(sums)), total(sums)

    def _sums(self, rows: pa.RecordBatch, *, keeps: bool) -> Sums:
        told = rows.column(ROW_SUM)
        known = as_mask(told.is_valid()) if keeps else np.zeros(rows.num_rows, np.bool_)
        sums: Sums = np.zeros(rows.num_rows, np.int64)
        if known.any():
            sums = told.fill_null(0).to_numpy(zero_copy_only=False).copy()
        if not known.all():
            others = rows.filter(pa.array(~known)) if known.any() else rows
            made = row_sums(others, self.columns)
            if DELETED_AT in others.schema.names:
                made *= as_mask(others.column(DELETED_AT).is_null())
            sums[~known] = made
        return sums

    def of_gone(self, held: HeldRows, gone: Mask) -> int:
        """Return the sum of the rows that leave a file. Their own sums are read alone, where they have some."""
        found, unknown = 0, gone.copy()
        at = np.flatnonzero(gone)
        told = [batch.column(ROW_SUM) for batch in held.of_mask(gone, [ROW_SUM])]
        sums = pa.concat_arrays(told) if told else pa.array([], pa.int64())
        if sums.null_count < len(sums):
            found = total(sums.fill_null(0).to_numpy(zero_copy_only=False))
            unknown[at[as_mask(sums.is_valid())]] = False
        if sums.null_count:
            for batch in held.chosen(unknown):
                found += self.with_sums(batch, stood=False)[1]
        return found
