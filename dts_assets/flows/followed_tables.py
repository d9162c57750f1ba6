"""The schemas of tables up to their snapshots' frontiers, read once for a run.

They are read for tables of which something says that their columns changed: a statement, or events with other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dts_assets.flows.known_tables import known_sources, known_tables, ruled_tables, source_types
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.schema_history import RULES, ledger_rows, related_tables, told_by_events
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import RuleKind, RuleOf
from dts_assets.model.columns import Column, widened
from dts_assets.model.copied_tables import CopiedTable, CopyKind
from dts_assets.model.frontier import Frontier
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.key_periods import list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_tables import copies_in_force
from dts_assets.planning.kept_positions import first_lacking, kept_positions
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.followed_schemas import FollowedTable, followed_table
from dts_assets.stages.history_statements import (
    HistoryColumns,
    HistoryStatement,
    arrived_columns,
    history_statements,
    with_defaults,
)
from dts_assets.stages.keyed_values import text_by_rule
from dts_assets.stages.merged_schemas import FollowedShards, followed_shards, known_origins
from dts_assets.stages.mixed_keys import first_mixed
from dts_assets.stages.row_origins import (
    RowOrigin,
    RowOrigins,
    arrivals,
    held_counts,
    moved_changes,
    name_changes,
    origins_in_set,
    row_origins,
)
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.stages.shard_truncations import Shard
from dts_assets.stages.value_paths import TextByRule
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.set_histories import NO_HISTORIES, Histories, histories_by_set
from dts_assets.wire.ddl.table_schemas import SchemaColumn, folded
from dts_assets.wire.ddl.told_schemas import ToldColumn, ToldShapes, types_alike


def followed_sources(pipeline: Pipeline) -> Mapping[TableId, TableId]:
    """Return the one source table whose statements a snapshot follows, by the table's name in the lake.

    The rows of a merged table come from its shards, each of which has columns of its own.
    """
    merged = pipeline.settings.routes.shard_columns
    return {
        table: sources[0]
        for table, sources in known_sources(pipeline).items()
        if len(sources) == 1 and not merged(table)
    }


@dataclass(frozen=True, slots=True)
class _Readers:
    """The functions that say how the lake has a table's columns."""

    lake_type: Callable[[SchemaColumn], str]
    is_left_out: Callable[[str], bool]
    is_shown_otherwise: Callable[[SchemaColumn], bool]
    by_rule: TextByRule


@dataclass
class FollowedTables:
    """The schemas of some tables, by their names in the lake, with all columns that their changelogs have."""

    pipeline: Pipeline
    tables: Mapping[TableId, Sequence[Column]]

    def is_followed(self, table: TableId) -> bool:
        """Return whether a table's schemas can be known."""
        return table in self.sources or bool(self.pipeline.settings.routes.shard_columns(table))

    def is_copied(self, table: TableId) -> bool:
        """Return whether a table, or a shard of it, was copied."""
        return any(one.table in self._known.get(table, (table,)) for one in self._copied)

    def at(self, table: TableId, frontier: Frontier) -> FollowedTable | FollowedShards | None:
        """Return a table with the last schema that a frontier holds; None where no schema is known."""
        if self.pipeline.settings.routes.shard_columns(table):
            return self._shards_at(table, frontier)
        source = self.sources[table]
        rows = row_origins(self._histories(frontier), source, self._columns)
        found = self._followed(table, source, rows, self.pipeline.settings.schema_policy(table), frontier)
        if found is None:
            return None
        names = {source, *(one.table for one in found.origins)}
        return replace(
            found,
            proven_at=self._copied_at(source, frontier),
            left_out=self._lacked_rows(table, source, found.origins, self._histories(frontier)),
            kept=kept_positions(self._ledger_rows[1], names, frontier),
            in_part=self._in_part(table, names, frontier),
        )

    def _in_part(
        self, table: TableId, names: Collection[TableId], frontier: Frontier
    ) -> tuple[SourcePosition, frozenset[str]] | None:
        """Return since when rows may have come into a row filter without all columns, and its columns."""
        if self.pipeline.settings.row_filter(table) is None:
            return None
        since = first_lacking(self._ledger_rows[1], names, frontier)
        rules = None if since is None else ruled_tables(self.pipeline, [table], self._statements).get(table)
        return None if rules is None or since is None else (since, frozenset(map(folded, rules.looked_at)))

    def _lacked_rows(
        self, table: TableId, source: TableId, origins: Sequence[RowOrigin], histories: Histories
    ) -> tuple[SourcePosition, str] | None:
        """Return since where a table lacks rows of another name, and why; None where it lacks none."""
        return self._left_out(table, origins) or self._left_elsewhere(table, source, histories)

    def _left_out(self, table: TableId, origins: Sequence[RowOrigin]) -> tuple[SourcePosition, str] | None:
        """Return where rows came from a name whose row filter, another one, had left some out."""
        settings = self.pipeline.settings
        ours = settings.row_filter(table)
        for one in reversed(origins):
            name = settings.routes.lake_table(one.table)
            theirs = None if one.until is None else settings.row_filter(name)
            if one.until is not None and theirs is not None and theirs != ours:
                counted = (row for row in self._ledger_rows[1] if row.table in (one.table, name))
                if any(row.filtered for row in counted):
                    return one.until.next, f"the row filter of {one.table} left out rows, which the table lacks"
        return None

    def _left_elsewhere(
        self, table: TableId, source: TableId, histories: Histories
    ) -> tuple[SourcePosition, str] | None:
        """Return where a table got rows that do not move to it.

        They are those of a shard of another table, of a table that is not decoded, or, for a merged table with several sets,
        those of a table outside. A name that a table without known rows takes over keeps its own rows.
        """
        routes, name = self.pipeline.settings.routes, source.of_all_sets
        for position, former in arrivals(histories, source.of_all_sets):
            into, name, taken = routes.lake_table(former), former, name
            if not self.pipeline.settings.tables.takes(former) and not _was_there(histories[taken], position):
                return position, f"the table was {former}, which is not decoded"
            if routes.takes_shard(table, former):
                continue
            if routes.merges_into(into, former):
                return position, f"the table was {former}, a shard of {into}, whose rows do not move to it"
            is_known = former.of_set(source.source_set) in self._known.get(into, ())
            if is_known and helped_table(former) is None and not self._takes_others(table):
                return position, f"the table was {former}, whose rows do not move to a merged table with several sets"
        return None

    def _takes_others(self, table: TableId) -> bool:
        """Return whether a table can take rows of changelogs outside.

        Those of several sets do not tell the shard of a row.
        """
        routes = self.pipeline.settings.routes
        return not routes.by_set or len(routes.shard_columns(table)) == 1

    def exists(self, table: TableId, frontier: Frontier) -> bool:
        """Tell whether a table exists as of a frontier.

        Anything has told of it then, and no statement has removed it since. A merged table exists as long as one of its shards
        does.
        """
        histories = self._histories_of_sets(frontier).values()
        names = {one.of_all_sets for one in self._known.get(table, (table,))}
        told = [states for mine in histories for name in names if (states := mine.get(name))]
        return any(states[-1].schema is not None for states in told)

    def _shards_at(self, table: TableId, frontier: Frontier) -> FollowedShards | None:
        """Return a merged table with the columns of its shards.

        A shard counts as soon as an event told of it, or a table with rows got its name: a run may not know more of the others.
        """
        histories, routes = self._histories_of_sets(frontier), self.pipeline.settings.routes
        known = {*self._known.get(table, ())}
        mine = frozenset(known)
        if self._takes_others(table):
            known |= self._columns.keys()
        shards, gone = dict[Shard, FollowedTable](), set[Shard]()
        # Counts of merged tables are by their own name, so all shards have these in common.
        kept = kept_positions(self._ledger_rows[1], {table}, frontier)
        in_part = self._in_part(table, {table}, frontier)
        every = ((name.of_set(one), states) for one, some in histories.items() for name, states in some.items())
        for source, states in every:
            if source in mine and routes.takes_shard(table, source):
                rows = known_origins(origins_in_set(histories[source.source_set], source, known))
                found = self._followed(table, source, rows, SchemaPolicy.FOLLOW, frontier)
                if found is not None:
                    shards[routes.shard(source)] = replace(
                        found,
                        proven_at=self._copied_at(source, frontier),
                        kept=kept,
                        in_part=in_part,
                        left_out=self._lacked_rows(table, source, found.origins, histories[source.source_set]),
                    )
                    if states[-1].schema is None:
                        gone.add(routes.shard(source))
        merged = followed_shards(
            shards,
            gone,
            routes.shard_columns(table),
            keeps_deleted=DELETED_AT in self.pipeline.settings.snapshot_columns(table),
        )
        if merged is None or merged.key is not None:
            return merged
        window = frontier.window
        counts = (one for one in self._ledger_rows[1] if one.table == table and window and one.window_start <= window)
        told = [period for one in counts for period in one.keys]
        return replace(merged, mixed=first_mixed(told, keeps_deleted=merged.keeps_deleted))

    def history(self, table: TableId, frontier: Frontier) -> tuple[HistoryStatement, ...]:
        """Return the statements that change a table's history by no event, as far as a frontier holds them."""
        histories, source = self._histories(frontier), self.sources[table]
        moves = name_changes(histories, source, self._columns)
        return history_statements(histories.get(source, ()), moves, self._history_columns(table))

    def history_changes(self, table: TableId, frontier: Frontier) -> FollowedColumns | None:
        """Return how a table's own changes are read in its history, where inserts may lack columns.

        It is None where no default is known, as far as a frontier holds the statements.
        """
        return with_defaults(self._histories(frontier).get(self.sources[table], ()), self._history_columns(table))

    def _history_columns(self, table: TableId) -> HistoryColumns:
        readers = self._readers(table)
        return HistoryColumns(
            self.tables[table],
            readers.is_shown_otherwise,
            readers.by_rule,
            readers.lake_type,
            self.pipeline.clock_zone,
        )

    def arrived(self, table: TableId, rows: RowOrigins) -> FollowedColumns | None:
        """Return the way of changes under former names to a history; None where no schema is known."""
        found = self._followed(table, self.sources[table], rows, SchemaPolicy.FOLLOW)
        return None if found is None else arrived_columns(found, self.tables[table])

    def _followed(
        self, table: TableId, source: TableId, rows: RowOrigins, policy: SchemaPolicy, frontier: Frontier | None = None
    ) -> FollowedTable | None:
        readers = self._readers(table)
        merged = dict.fromkeys([source, *self._known.get(table, ())], self.tables[table])
        found = followed_table(
            rows,
            {**self._columns, **merged},
            source,
            readers.lake_type,
            left_out=readers.is_left_out,
            shown_otherwise=readers.is_shown_otherwise,
            policy=policy,
            rule_on=self._rule_on if self.pipeline.settings.columns else None,
        )
        found = None if found is None else replace(found, zone=self.pipeline.clock_zone, by_rule=readers.by_rule)
        if found is None or not found.is_moved or frontier is None:
            return found
        return replace(found, moved_rows=self._moved_rows(rows.origins, frontier))

    def _rule_on(self, source: TableId, name: str) -> str:
        if source not in self._rules:
            self._rules[source] = rule_finder(self.pipeline, self._lake_names.get(source, source))
        rule = self._rules[source](name)
        return "" if rule is None else rule.fingerprint

    @cached_property
    def _rules(self) -> dict[TableId, RuleOf]:
        return {}

    def _copied_at(self, source: TableId, frontier: Frontier) -> SourcePosition | None:
        """Return the position of the last copy of a table that a frontier holds.

        It is None where there is none.
        """
        found = (
            one.low
            for one in self._copied
            if one.table == source
            and one.low is not None
            and one.window_start is not None
            and frontier.holds(one.window_start, one.low)
        )
        return max(found, default=None)

    @cached_property
    def _copied(self) -> list[CopiedTable]:
        taken = (one for one in self.pipeline.ledger.copied_tables() if one.window_start is not None)
        return [one for one in copies_in_force(taken) if one.kind is not CopyKind.REPAIR]

    def _readers(self, table: TableId) -> _Readers:
        settings = self.pipeline.settings
        rule_of, declared = rule_finder(self.pipeline, table), settings.types_of(table)

        def lake_type(column: SchemaColumn) -> str:
            if (rule := rule_of(column.name)) is not None and rule.kind is not RuleKind.DROP:
                return next((one.type for one in self.tables[table] if column.name in one.source_names), "string")
            return declared.get(column.name) or self._lake_type(table, column)

        def is_shown_otherwise(column: SchemaColumn) -> bool:
            return rule_of(column.name) is not None

        def is_left_out(name: str) -> bool:
            rule = rule_of(name)
            return rule is not None and rule.kind is RuleKind.DROP

        def by_rule(column: SchemaColumn, text: str) -> str | None:
            rule, kind = rule_of(column.name), server_type(column)
            is_text = kind is not None and kind.kind is Kind.TEXT
            return text_by_rule(text, rule) if rule is not None and is_text else None

        return _Readers(lake_type, is_left_out, is_shown_otherwise, by_rule)

    def _lake_type(self, table: TableId, column: SchemaColumn) -> str:
        """Return the lake type of a column: that of events which call its type so, where they do.

        Events may say less of a type than statements: a format without signs has ``bigint`` for ``int(11)``.
        """
        stored = next((one for one in self.tables[table] if column.name in one.source_names), None)
        own = {} if stored is None else dict(stored.own_types)
        if isinstance(column, ToldColumn) and column.type in own:
            return own[column.type]
        told = None if stored is None else self._told_types.get(table, {}).get(stored.name)
        if stored is None or not told or not types_alike(column.type, told):
            return self.pipeline.lake_type(table, column.type)
        kind = own.get(told) or self.pipeline.lake_type(table, told)
        is_wider = widened(kind, stored.type) == stored.type
        return stored.type if isinstance(column, ToldColumn) and is_wider and not stored.own_types else kind

    @cached_property
    def _told_types(self) -> Mapping[TableId, Mapping[str, str]]:
        return source_types(self.pipeline)

    def _moved_rows(self, origins: Sequence[RowOrigin], frontier: Frontier) -> str:
        """Return a digest of the changes under earlier names that a frontier holds, whatever files have them."""
        routes = self.pipeline.settings.routes
        bounds = {
            (routes.lake_table(one.table) if routes.by_set else one.table, one.until)
            for one in origins
            if one.until is not None
        }
        return list_digest(moved_changes(bounds, held_counts(self._ledger_rows[1], frontier)))

    def last_position(self, table: TableId) -> SourcePosition | None:
        """Return the position of the last state of a table that anything tells of; None where nothing does."""
        histories = schema_history(self._statements, self._told, rules=RULES)
        found = row_origins(histories, self.sources[table], self._columns).states
        return max((one.state.position for one in found), default=None)

    def _histories(self, frontier: Frontier) -> Histories:
        return self._histories_of_sets(frontier).get("", NO_HISTORIES)

    def _histories_of_sets(self, frontier: Frontier) -> Mapping[str, Histories]:
        if frontier not in self._by_frontier:
            held = [
                one for one in self._statements if one.window_start and frontier.holds(one.window_start, one.position)
            ]
            told = [found for one in self._told if (found := one.held_by(frontier)) is not None]
            self._by_frontier[frontier] = histories_by_set(
                held, told, rules=RULES, by_set=self.pipeline.settings.routes.by_set
            )
        return self._by_frontier[frontier]

    @cached_property
    def _by_frontier(self) -> dict[Frontier, Mapping[str, Histories]]:
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
        routes = self.pipeline.settings.routes
        in_sets = {
            source: table
            for table, sources in (self._known.items() if routes.by_set else ())
            if len(routes.shard_columns(table)) == 1
            for source in sources
        }
        return in_sets | {source: table for table, source in self._all_sources.items()}

    @cached_property
    def _all_sources(self) -> Mapping[TableId, TableId]:
        return followed_sources(self.pipeline)

    @cached_property
    def _known(self) -> Mapping[TableId, tuple[TableId, ...]]:
        return known_sources(self.pipeline)

    @cached_property
    def sources(self) -> Mapping[TableId, TableId]:
        """The source tables of the tables."""
        return {table: self._all_sources[table] for table in self.tables if table in self._all_sources}

    @property
    def _shards(self) -> Iterator[TableId]:
        """The known shards of the merged tables."""
        routes, known = self.pipeline.settings.routes, self._known
        for table in self.tables:
            if routes.shard_columns(table):
                yield from known.get(table, ())

    @cached_property
    def _statements(self) -> tuple[SourceStatement, ...]:
        return tuple(stored_statements(self.pipeline, None))

    @cached_property
    def _told(self) -> tuple[ToldShapes, ...]:
        return tuple(told_by_events(self.pipeline, *self._ledger_rows))

    @cached_property
    def _ledger_rows(self) -> tuple[list[TableShapeRow], list[WindowTable]]:
        """The shapes and counts by source tables; counts of merged tables stand by these."""
        known: Collection[TableId] = {one.of_all_sets for some in self._known.values() for one in some}
        mine = {one.of_all_sets for one in (*self.sources.values(), *self._shards)}
        related = related_tables(mine, known, self._statements)
        return ledger_rows(self.pipeline, related)


def _was_there(states: Sequence[SchemaState], position: SourcePosition) -> bool:
    """Return whether a table was there before a position."""
    before = [one for one in states if one.position < position]
    return bool(before) and before[-1].schema is not None
