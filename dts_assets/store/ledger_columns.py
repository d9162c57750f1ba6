"""The columns of the ledger's tables, which follow from the rows in :mod:`dts_assets.model.ledger_rows`.

They are apart from the columns of the other tables: definitions load in every process of Dagster, and need no row of the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.delivery import CellDelivery
from dts_assets.model.ledger_rows import (
    BacklogTable,
    Comparison,
    Counts,
    Cut,
    IngestWindow,
    Lease,
    PausedTable,
    QuarantineRow,
    RawWindow,
    SettledDay,
    TableShapeRow,
    WindowTable,
)
from dts_assets.model.lineages import Lineage
from dts_assets.model.message_retention import RemovedRows
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.store.columns import NamedType, columns_of

SPREAD: Mapping[Any, str] = MappingProxyType(
    {Window: "window_{}", OffsetRange: "{}_offset", TableId: "{}", Counts: "{}", CellDelivery: "{}"}
)
"""The types that take several columns, with the names of the columns: a window's are ``window_start`` and ``window_end``."""

LEDGER_COLUMNS: Mapping[str, tuple[NamedType, ...]] = MappingProxyType(
    {
        "quarantine": columns_of(QuarantineRow, SPREAD),
        "lineages": columns_of(Lineage, SPREAD),
        "raw_windows": columns_of(RawWindow, SPREAD),
        "windows": columns_of(IngestWindow, SPREAD),
        "window_tables": columns_of(WindowTable, SPREAD),
        "cuts": columns_of(Cut, SPREAD),
        "table_shapes": columns_of(TableShapeRow, SPREAD),
        "comparisons": columns_of(Comparison, SPREAD),
        "leases": columns_of(Lease, SPREAD),
        "paused_tables": columns_of(PausedTable, SPREAD),
        "settled_days": columns_of(SettledDay, SPREAD),
        "backlog": columns_of(BacklogTable, SPREAD),
        "removed_rows": columns_of(RemovedRows, SPREAD),
        "copied_tables": columns_of(CopiedTable, SPREAD),
    }
)
"""The columns of each table of the ledger. A table that an earlier version made is widened when it is opened."""
