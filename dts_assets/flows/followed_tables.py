"""The schemas of tables up to the frontiers that their snapshots get, read once for all tables of a run.

They are read for tables of which something says that their columns changed: a statement, or events with other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dts_assets.flows.known_tables import known_sources, known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_history import RULES, related_tables, stored_statements
from dts_assets.model.column_rules import RuleKind
from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.followed_schemas import FollowedTable, followed_table
from dts_assets.stages.history_statements import HistoryStatement, arrived_columns, history_statements
from dts_assets.stages.row_origins import RowOrigins, name_changes, row_origins
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from dts_assets.wire.ddl.told_schemas import ToldShapes, told_shapes


def followed_source(pipeline: Pipeline, table: TableId) -> TableId | None:
    """Return the source table whose statements a snapshot follows; None where it follows none.

    The rows of a merged table come from several source tables, each of which has columns of its own.
    """
    if pipeline.settings.routes.shard_columns(table):
        return None
    sources = known_sources(pipeline).get(table, ())
    return sources[0] if len(sources) == 1 else None


@dataclass(frozen=True, slots=True)
class _Readers:
    """The functions that say how the lake has a table's columns: types, what is left out, other values."""

    lake_type: Callable[[SchemaColumn], str]
    is_left_out: Callable[[str], bool]
    is_shown_otherwise: Callable[[SchemaColumn], bool]


@dataclass
class FollowedTables:
    """The schemas of some tables, by their names in the lake, with all columns that their changelogs have."""

    pipeline: Pipeline
    tables: Mapping[TableId, Sequence[Column]]

    def at(self, table: TableId, frontier: Frontier) -> FollowedTable | None:
        """Return a table with the columns of its last schema that a frontier holds; None where no schema is known."""
        source = self.sources[table]
        return self._followed(table, row_origins(self._histories(frontier), source, self._columns))

    def history(self, table: TableId, frontier: Frontier) -> tuple[HistoryStatement, ...]:
        """Return the statements that change a table's history by no event, as far as a frontier holds them."""
        histories, source = self._histories(frontier), self.sources[table]
        return history_statements(
            histories.get(source, ()),
            name_changes(histories, source, self._columns),
            self.tables[table],
            shown_otherwise=self._readers(table).is_shown_otherwise,
        )

    def arrived(self, table: TableId, rows: RowOrigins) -> FollowedColumns | None:
        """Return the way of changes under former names to a history; None where no schema is known."""
        found = self._followed(table, rows)
        return None if found is None else arrived_columns(found, self.tables[table])

    def _followed(self, table: TableId, rows: RowOrigins) -> FollowedTable | None:
        source, readers = self.sources[table], self._readers(table)
        return followed_table(
            rows,
            {**self._columns, source: self.tables[table]},
            source,
            readers.lake_type,
            left_out=readers.is_left_out,
            shown_otherwise=readers.is_shown_otherwise,
        )

    def _readers(self, table: TableId) -> _Readers:
        settings = self.pipeline.settings
        rule_of, declared = settings.rule_finder(table), settings.types_of(table)

        def lake_type(column: SchemaColumn) -> str:
            if (rule := rule_of(column.name)) is not None and rule.kind is not RuleKind.DROP:
                return next((one.type for one in self.tables[table] if column.name in one.source_names), "string")
            return declared.get(column.name) or self.pipeline.lake_type(table, column.type)

        def is_shown_otherwise(column: SchemaColumn) -> bool:
            # The zone of a clock that became an instant is the settings', which no conversion knows.
            kind = lake_type(column)
            zoned = kind == "timestamp" and mysql_type(column.type) != kind
            return rule_of(column.name) is not None or zoned

        def is_left_out(name: str) -> bool:
            rule = rule_of(name)
            return rule is not None and rule.kind is RuleKind.DROP

        return _Readers(lake_type, is_left_out, is_shown_otherwise)

    def _histories(self, frontier: Frontier) -> Mapping[TableId, tuple[SchemaState, ...]]:
        if frontier not in self._by_frontier:
            held = [
                one for one in self._statements if one.window_start and frontier.holds(one.window_start, one.position)
            ]
            told = [one for one in self._told if one.window_start and frontier.holds(one.window_start, one.first)]
            self._by_frontier[frontier] = schema_history(held, told, rules=RULES)
        return self._by_frontier[frontier]

    @cached_property
    def _by_frontier(self) -> dict[Frontier, Mapping[TableId, tuple[SchemaState, ...]]]:
        return {}

    def lake_table(self, source: TableId) -> TableId:
        """Return the name in the lake of an origin of rows."""
        return self._lake_names[source]

    @cached_property
    def _columns(self) -> Mapping[TableId, Sequence[Column]]:
        """The columns of all changelogs whose rows can move to another name, by source table."""
        known = known_tables(self.pipeline)
        return {source: known[table] for source, table in self._lake_names.items()}

    @cached_property
    def _lake_names(self) -> Mapping[TableId, TableId]:
        found = {table: followed_source(self.pipeline, table) for table in known_sources(self.pipeline)}
        return {source: table for table, source in found.items() if source is not None}

    @cached_property
    def sources(self) -> Mapping[TableId, TableId]:
        """The source tables of the tables."""
        found = {table: followed_source(self.pipeline, table) for table in self.tables}
        return {table: source for table, source in found.items() if source is not None}

    @cached_property
    def _statements(self) -> tuple[SourceStatement, ...]:
        return tuple(stored_statements(self.pipeline, None))

    @cached_property
    def _told(self) -> tuple[ToldShapes, ...]:
        known: Collection[TableId] = {one for some in known_sources(self.pipeline).values() for one in some}
        related = related_tables(self.sources.values(), known, self._statements)
        shapes, counts = self.pipeline.ledger.of_tables(related)
        return tuple(told_shapes(counts, shapes))
