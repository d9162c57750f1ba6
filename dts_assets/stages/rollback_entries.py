"""Statements that take rows back become entries of the type ROLLBACK, whatever a task calls them.

Rows that came before stay, as nothing tells which they were; so the level of the window falls.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.entry_columns import ROLLBACK, EntryColumns
from dts_assets.wire.ddl.reading import takes_rows_back
from dts_assets.wire.format import ENTRIES

_WITH_TEXTS = pa.array(["DDL", "QUERY"])
"""Message types that may hold the text of a transaction's statement."""

_MESSAGE_TYPE = ENTRIES.get_field_index("message_type")


def with_rollbacks(batch: pa.RecordBatch, columns: EntryColumns) -> tuple[pa.RecordBatch, EntryColumns]:
    """Return a decoded batch and its columns, in which statements that take rows back are ROLLBACK entries."""
    rows = np.flatnonzero(np.asarray(pc.fill_null(pc.is_in(batch["message_type"], value_set=_WITH_TEXTS), False)))
    if not len(rows):
        return batch, columns
    texts = pc.map_lookup(batch["properties"].take(pa.array(rows)), pa.scalar("sql"), "first")
    named = np.asarray(pc.fill_null(pc.match_substring(texts, "rollback", ignore_case=True), False))
    back = [
        row for row, at in zip(rows[named], np.flatnonzero(named), strict=True) if takes_rows_back(texts[at].as_py())
    ]
    if not back:
        return batch, columns
    chosen, kinds = np.isin(np.arange(len(batch)), back), columns.kinds.copy()
    kinds[chosen] = ROLLBACK
    types = pc.if_else(pa.array(chosen), "ROLLBACK", batch["message_type"])
    return batch.set_column(_MESSAGE_TYPE, ENTRIES.field(_MESSAGE_TYPE), types), replace(columns, kinds=kinds)
