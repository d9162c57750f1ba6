"""Updates that changed some columns of a table, found in its changelog.

Foreign keys may refer to columns beside the primary key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.model.columns import same_name
from dts_assets.model.foreign_keys import PositionSpan, joined_spans
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_rows import position_bounds
from dts_assets.stages.moved_rows import changed_values
from dts_assets.store.files import read_batches


def changed_columns(pipeline: Pipeline, table: TableId, start: datetime, columns: Sequence[str]) -> PositionSpan | None:
    """Return where updates of a window changed some columns of a source table; None where none did.

    Where a rule keeps values or rows out of the changelog, any update may have.
    """
    path = pipeline.table_path(CHANGELOG.name, table)
    files = pipeline.lake.data_files(path, {"window_start": {start}})
    if not files:
        return None
    names = _stored_names(pipeline, table, columns)
    store, found = pipeline.lake.file_store(path), None
    parts = {"before": sorted(names), "after": sorted(names)} if names else {}
    for file in files:
        for rows in read_batches(
            store, [file.path], ("op", "before", "after", "absent", "source_position"), parts=parts
        ):
            changed = np.asarray(pc.equal(rows["op"], "update").to_numpy(zero_copy_only=False), np.bool_)
            if names and changed.any():
                changed = changed_values(rows, changed, names)
            if changed.any():
                found = joined_spans(found, PositionSpan(*position_bounds(rows.filter(pa.array(changed)))))
    return found


def _stored_names(pipeline: Pipeline, table: TableId, columns: Sequence[str]) -> Collection[str]:
    """Return the names that columns have in the changelog.

    There are none where it does not tell all of their values.
    """
    settings, rule_of = pipeline.settings, rule_finder(pipeline, table)
    if settings.row_filters(table) or any(rule_of(name) is not None for name in columns):
        return ()
    known, found = known_tables(pipeline).get(table, ()), set[str]()
    for name in columns:
        mine = [one for one in known if same_name(name) in map(same_name, one.source_names)]
        if not mine:
            return ()
        found.update(lake for one in mine for lake in one.lake_names)
    return found
