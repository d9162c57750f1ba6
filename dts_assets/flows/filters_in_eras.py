"""The row filters of tables with the names that statements give to their columns, from position to position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.filter_names import FilterSince
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.filter_names import filters_by_position
from dts_assets.wire.ddl.schema_history import SourceStatement


def filters_in_eras(
    pipeline: Pipeline,
    sources: Mapping[TableId, tuple[TableId, ...]],
    tables: Iterable[TableId],
    said: Sequence[SourceStatement] | None,
) -> dict[TableId, dict[TableId | None, tuple[FilterSince, ...]]]:
    """Return the row filters of tables from position to position, by source table.

    ``sources`` are those of each table. There are none where one filter has one name for each column. Of merged tables each shard
    has statements of its own, and so has each set of a TDSQL. None stands for all sources of a table.
    """
    settings = pipeline.settings
    filters = {table: parts for table in tables if (parts := settings.row_filters(table))}
    if not filters:
        return {}
    said = tuple(stored_statements(pipeline, None)) if said is None else said
    by_set = dict[str, list[SourceStatement]]()
    for one in said:
        by_set.setdefault(one.source_set, []).append(one)
    found = dict[TableId, dict[TableId | None, tuple[FilterSince, ...]]]()
    for table, parts in filters.items():
        mine = {
            source: filters_by_position(by_set.get(source.source_set, ()), source.of_all_sets, parts)
            for source in sources.get(table, ())
        }
        if any(mine.values()) and len(mine) == 1:
            found[table] = {None: next(iter(mine.values()))}
        elif any(mine.values()):
            found[table] = {source: some or (FilterSince(None, parts[-1][1]),) for source, some in mine.items()}
    return found
