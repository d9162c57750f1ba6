"""The changes of a table by the names that columns of its row filter have there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.column_rules import FilterEra, TableRules
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.entry_columns import source_positions
from dts_assets.wire.format import TableChanges

Mask = npt.NDArray[np.bool_]

LACKING = "events lack a column of its row filter, by the name that statements gave it"
"""A clause about events that nobody can judge."""


def by_era(
    changes: TableChanges, entries: pa.RecordBatch, rules: TableRules | None, source: TableId
) -> Iterator[tuple[TableChanges, TableRules | None, bool]]:
    """Yield changes with the rules that judge them; ``entries`` is the batch that they were decoded from.

    Beside them stands whether an event of them lacks a column of the filter, or nobody knows its filter. A change at the position
    of a statement stands behind it. Where source tables have filters of their own, changes are those of one.
    """
    if rules is not None and rules.differ_by_source:
        rules = rules.of_source(source)
        if not rules.eras:
            yield changes, rules, True
            return
    if rules is None or not rules.eras:
        yield changes, rules, False
        return
    placed = source_positions(entries.select(["lineage", "file_name", "position"])).take(changes.batch["entry_index"])
    parts = [placed.field(name).to_numpy(zero_copy_only=False) for name in ("lineage", "file", "position")]
    number = np.zeros(len(placed), np.int64)
    for place, era in enumerate(rules.eras):
        if era.since is not None:
            number[_are_behind(parts, era.since)] = place
    for place, era in enumerate(rules.eras):
        if (mask := number == place).any():
            some = _chosen(changes, mask)
            yield some, rules.of_era(era), _lacks(some, era)


def _are_behind(parts: list[npt.NDArray[np.int64]], since: SourcePosition) -> Mask:
    lineage, file, position = parts
    in_file = (file > since.file) | ((file == since.file) & (position >= since.position))
    return np.asarray((lineage > since.lineage) | ((lineage == since.lineage) & in_file), np.bool_)


def _lacks(changes: TableChanges, era: FilterEra) -> bool:
    """Return whether an event of some changes lists columns without one of the filter."""
    told = changes.carried
    there = range(len(told.distinct)) if told.numbers is None else np.unique(told.numbers).tolist()
    if not told.distinct:  # nothing tells which list a change has
        return bool(era.lacking)
    return any(not era.lacking.isdisjoint(told.distinct[one][:1]) for one in there)


def _chosen(changes: TableChanges, mask: Mask) -> TableChanges:
    chosen = pa.array(mask)
    return replace(
        changes,
        batch=changes.batch.filter(chosen),
        keys=changes.keys.of_rows(mask),
        carried=changes.carried.of_rows(mask),
        json=changes.json.of_rows(mask),
        own={name: tuple(part.filter(chosen) for part in parts) for name, parts in changes.own.items()},
    )
