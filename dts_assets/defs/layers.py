"""The layers of source tables as Dagster shows them: one value for each layer.

A new layer is one value here, with one stage and one flow that make its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs.checks import (
    BALANCE,
    COMPLETENESS,
    PAUSED,
    SCHEMA,
    completeness_result,
    paused_result,
    schema_result,
    window_balance_result,
)
from dts_assets.defs.metadata import (
    Metadata,
    changelog_metadata,
    history_metadata,
    of_run,
    snapshot_metadata,
    statement_metadata,
)
from dts_assets.defs.policies import asset_key
from dts_assets.flows.layers import CHANGELOG, HISTORY, SNAPSHOT, SQL, Layer
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    from dts_assets.flows.reports import TableReport, TablesReport, WindowReport
    from dts_assets.settings import Subscription


@dataclass(frozen=True, slots=True)
class LayerCheck:
    """A check of each window over all tables. It stands once, at the first table of its layer."""

    name: str
    description: str
    judge: Callable[[TablesReport, WindowReport], dg.AssetCheckResult]


@dataclass(frozen=True, slots=True)
class TableCheck:
    """A check of each window about one table alone. It stands at each table of its layer."""

    name: str
    description: str
    judge: Callable[[TableReport, WindowReport], dg.AssetCheckResult]
    is_about: Callable[[TableReport, WindowReport], bool]


@dataclass(frozen=True, slots=True)
class AssetLayer:
    """A layer and the assets of its tables.

    `description` says what a table's asset is, with `{table}` in place of the table's name. `metadata` gives the numbers of one
    window of one table. ``checks`` are about all tables of a window, ``table_checks`` about one.
    """

    stored: Layer
    description: str
    metadata: Callable[[TableReport, WindowReport], Metadata]
    checks: tuple[LayerCheck, ...] = ()
    table_checks: tuple[TableCheck, ...] = ()

    @property
    def name(self) -> str:
        """The layer's name: `snapshot`."""
        return self.stored.name

    def key(self, subscription: str, table: TableId) -> dg.AssetKey:
        """Return the asset key of a table: `shop/changelog/shopdb/orders`."""
        return asset_key(subscription, self.name, *table.path)

    def source_key(self, subscription: str, table: TableId) -> dg.AssetKey:
        """Return the key of the asset that a table is made from: another layer's table, or entries."""
        source = self.stored.made_from
        return asset_key(subscription, *(("entries",) if source is None else (source.name, *table.path)))

    def run_metadata(self, subscription: Subscription, table: TableReport, report: TablesReport) -> Mapping[str, Any]:
        """Return the metadata that all windows of a run share."""
        columns = table.layers[self.name].columns if self.name in table.layers else None
        columns = table.columns if columns is None else columns
        return of_run(
            report.seconds,
            paused=[str(one) for one, pause in sorted(report.paused.items()) if not pause.is_removed],
            columns=self.stored.columns_of(subscription, table.table, columns),
            keys=self.stored.key_columns(columns),
            decoder=report.decoder if self.stored.made_from is None else "",
        )


def lacks(window: WindowReport, table: TableReport) -> bool:
    """Return whether a window lacks a table, which stood still when it was made."""
    return any(one.id == table.table for one in window.row.paused)


LAYERS = (
    AssetLayer(
        CHANGELOG,
        "Every row change of {table}, in the source's own order, with both images.",
        changelog_metadata,
        checks=(
            LayerCheck(
                COMPLETENESS,
                "How complete the window is known to be over all Kafka partitions; holds for every table.",
                lambda _, window: completeness_result(window.judgement),
            ),
            LayerCheck(
                BALANCE,
                "Every change of the window was kept, was delivered before, or is in quarantine; holds for every table.",
                lambda _, window: window_balance_result(window),
            ),
        ),
    ),
    AssetLayer(
        SNAPSHOT,
        "The current rows of {table}, at the same transaction as every other snapshot.",
        snapshot_metadata,
        table_checks=(
            TableCheck(
                SCHEMA,
                "The columns follow the source: changes are listed, columns in another form warn, and a statement "
                "behind which the table is not proven is an error.",
                schema_result,
                lambda table, window: window.row.window.start in table.concerned and not lacks(window, table),
            ),
            TableCheck(
                PAUSED,
                "The table did not stand still when the window was made; else it says why, and how it goes on.",
                paused_result,
                lambda table, window: window.row.window.start in table.concerned or lacks(window, table),
            ),
        ),
    ),
    AssetLayer(
        HISTORY,
        "Every version of every row of {table}: from when to when it was so, and the operation that made it so.",
        history_metadata,
    ),
    AssetLayer(
        SQL,
        "Every row change of {table} as a statement of SQL; dts-assets statements prints those of all tables in source order.",
        statement_metadata,
    ),
)
"""All layers, each after the layer that it is made from."""


def layers_of(table: TableReport) -> tuple[AssetLayer, ...]:
    """Return the layers that have a table, in the order of `LAYERS`."""
    return tuple(layer for layer in LAYERS if layer.name in table.layers)
