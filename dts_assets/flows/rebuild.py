"""Tables made again from nothing: their snapshots and histories from changelogs, and their changelogs from entries if asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from dts_assets.flows.layers import CHANGELOG, Selection
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window

_WINDOWS_AT_ONCE = 200
"""Windows whose changelogs one call makes again: its memory is bounded, whatever a subscription has."""


class RebuildFrom(StrEnum):
    """The rows that tables are rebuilt from."""

    CHANGELOG = "changelog"
    ENTRIES = "entries"


def rebuild_tables(
    pipeline: Pipeline,
    tables: Collection[TableId],
    source: RebuildFrom,
    *,
    spark: SparkProvider,
    progress: Progress,
) -> int:
    """Make tables again in all windows that have tables, and return how many windows these are.

    All rows of their snapshots and histories are made anew and take the place of the old ones in one commit of each table:
    readers see the old rows or the new ones. Other tables, and the marks of the windows, stay as they are. A table that is
    paused stands still.

    Raises:
        NotReadyError: A Kafka partition of a window has no entries any more.
        IncompleteWindowError: A window is incomplete, and the settings say that such windows block.
    """
    windows = sorted(mark.window for mark in pipeline.ledger.cuts())
    if not windows:
        progress("rebuild: no window has tables yet, so there is nothing to rebuild")
        return 0
    layers = [layer.name for layer in pipeline.layers]
    if source is RebuildFrom.ENTRIES:
        changelogs = Selection({name: tables if name == CHANGELOG.name else () for name in layers})
        for some in _parts(windows):
            progress(f"rebuild: decoding the entries of {len(some)} windows again, {some[0].key} to {some[-1].key}")
            materialize_tables(pipeline, some, selection=changelogs, spark=spark, progress=progress)
    others = Selection({name: () if name == CHANGELOG.name else tables for name in layers}, anew=True)
    materialize_tables(pipeline, windows[-1:], selection=others, spark=spark, progress=progress)
    return len(windows)


def _parts(windows: Sequence[Window]) -> list[Sequence[Window]]:
    return [windows[first : first + _WINDOWS_AT_ONCE] for first in range(0, len(windows), _WINDOWS_AT_ONCE)]
