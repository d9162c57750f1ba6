"""Rules, filters and globs that match nothing: they are named, and rules among them may be refused."""

from __future__ import annotations

from dts_assets.errors.settings import UnmatchedRulesError
from dts_assets.flows.known_tables import registered_columns
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.tables import TableId
from dts_assets.settings.unmatched import Unmatched, unmatched


def refuse_unmatched(pipeline: Pipeline, progress: Progress) -> None:
    """Name the rules that match nothing, before anything typed is stored.

    Raises:
        UnmatchedRulesError: There are some, and the settings say that this is not to be.
    """
    settings = pipeline.settings
    if not settings.has_rules or not [one for one in unmatched(settings, _registered(pipeline), ()) if one.is_rule]:
        return
    rules = [str(one) for one in unmatched_settings(pipeline) if one.is_rule]
    for one in rules:
        progress(f"settings: {one}")
    if rules and settings.strict_rules:
        raise UnmatchedRulesError(pipeline.name, tuple(rules))


def unmatched_settings(pipeline: Pipeline) -> tuple[Unmatched, ...]:
    """Return the settings that match no table or column of which a stored message tells.

    Of a table that statements alone name, any column may be meant. All marks of entries are read.
    """
    routes, takes = pipeline.settings.routes, pipeline.settings.tables.takes
    tables, described = _registered(pipeline), {row.table for row in pipeline.ledger.table_shapes()}
    for named in {one.id for row in pipeline.ledger.windows() for one in row.altered if one.table}:
        described.add(named)
        if takes(named):
            tables.setdefault(routes.lake_table(named), None)
    return unmatched(pipeline.settings, tables, described)


def _registered(pipeline: Pipeline) -> dict[TableId, set[str] | None]:
    return {
        table: {name for column in columns for name in (*column.source_names, column.name)}
        for table, columns in registered_columns(pipeline).items()
    }
