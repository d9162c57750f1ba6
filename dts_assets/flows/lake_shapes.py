"""The shapes that the ledger has: as those of lake tables, and in the order of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dts_assets.flows.partial_images import whole_shapes
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import ColumnShape
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.routes import NO_ROUTES, Routes, routed_columns
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import told_places
from dts_assets.model.windows import Window
from dts_assets.wire.format import TableShape


def lake_shapes(pipeline: Pipeline, windows: Sequence[Window] | None = None) -> list[TableShapeRow]:
    """Return the shapes that the ledger has of some windows (None: of all), as shapes of lake tables.

    Those of tables that are not decoded are left out.
    """
    return routed_shapes(pipeline, pipeline.ledger.table_shapes(windows))


def shapes_in_windows(
    pipeline: Pipeline, wanted: Collection[tuple[TableId, datetime]]
) -> dict[TableId, set[tuple[datetime, tuple[ColumnShape, ...]]]]:
    """Return the columns that events have of lake tables in windows, with the starts of these.

    ``wanted`` are pairs of a table and the start of a window.
    """
    found: dict[TableId, set[tuple[datetime, tuple[ColumnShape, ...]]]] = {}
    starts = {start for _, start in wanted}
    for row in lake_shapes(pipeline, [pipeline.grid.of_start(one) for one in starts]) if starts else ():
        if (row.table, row.window_start) in wanted:
            found.setdefault(row.table, set()).add((row.window_start, row.columns))
    return found


def routed_shapes(pipeline: Pipeline, rows: list[TableShapeRow]) -> list[TableShapeRow]:
    """Return shapes of source tables as :func:`lake_shapes` has them."""
    settings, routes = pipeline.settings, pipeline.settings.routes
    if not routes:
        return rows
    return [
        replace(row, table=routes.lake_table(row.table), columns=routed_columns(routes, row.source, row.columns))
        for row in rows
        if settings.tables.takes(row.table)
    ]


def stored_shapes(
    rows: Iterable[TableShapeRow], counts: Iterable[WindowTable] = (), routes: Routes = NO_ROUTES
) -> list[TableShape]:
    """Return the shapes of rows of the ledger, in the source's order as far as it is known.

    Without the ``counts`` of their windows it may be another one where a server took over.
    """
    return [TableShape(row.source, row.columns) for _, row in told_places(rows, counts, routes.named)]


def shapes_as_told(
    pipeline: Pipeline,
    tables: Collection[TableId],
    sources: Mapping[TableId, Iterable[TableId]],
    *,
    whole: bool = False,
) -> Iterator[TableShapeRow]:
    """Yield the shapes of some lake tables, in the order in which events told them last.

    ``whole`` leaves out the shapes of images that lack columns of their table's key.
    """
    names = {*tables, *(source.of_all_sets for table in tables for source in sources.get(table, ()))}
    shapes, counts = pipeline.ledger.of_tables(names) if names else ([], [])
    shapes = whole_shapes(pipeline, shapes) if whole else shapes
    places = told_places(shapes, counts, pipeline.settings.routes.named)
    for _, row in sorted(places, key=lambda one: one[0].end):
        yield from (one for one in routed_shapes(pipeline, [row]) if one.table in tables)
