"""The reading of tables' schemas over time: from the ledger and the table ``ddl``, without Spark.

What was read up to the frontier counts: it is complete, so that later windows change none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

import numpy as np

from dts_assets.flows.known_tables import known_sources
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.statement_words import TablesByWord
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import Shard
from dts_assets.model.windows import Window
from dts_assets.planning.cuts import WindowCut, frontier, window_cut
from dts_assets.stages.row_places import positions_of
from dts_assets.store.files import read_batches
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.set_histories import histories_by_set
from dts_assets.wire.ddl.table_schemas import ServerRules
from dts_assets.wire.ddl.told_schemas import ToldShapes, told_shapes


def _reached(pipeline: Pipeline, until: Window | None = None) -> tuple[dict[datetime, WindowCut], Frontier]:
    """Return the windows whose tables are made, up to one, and the frontier that they make."""
    cuts = {row.window.start: window_cut(row) for row in pipeline.ledger.cuts()}
    counted = {start: cut for start, cut in cuts.items() if until is None or start <= until.start}
    return counted, frontier(counted, pipeline.grid, first=pipeline.first_window() if counted else None)


RULES = ServerRules()
"""The rules of a server of which nothing is known but that it is of the MySQL family."""


@dataclass(frozen=True, slots=True)
class SchemaSources:
    """Everything that tells of schemas, up to a frontier.

    ``later`` is the number of windows behind the frontier whose tables are made.
    """

    pipeline: Pipeline
    frontier: Frontier
    statements: tuple[SourceStatement, ...]
    later: int

    @classmethod
    def of(cls, pipeline: Pipeline, *, until: Window | None = None) -> SchemaSources:
        """Read the statements up to the frontier, or up to the frontier as it was behind a window.

        Raises:
            LakeFormatError: Another version of dts-assets made the lake.
        """
        counted, reached = _reached(pipeline, until)
        found = stored_statements(pipeline, counted)
        held = tuple(one for one in found if one.window_start and reached.holds(one.window_start, one.position))
        later = sum(1 for start in counted if reached.window is None or start > reached.window)
        return cls(pipeline, reached, held, later)

    @staticmethod
    def frontier_of(pipeline: Pipeline) -> Frontier:
        """Return the frontier as it stands, without reading statements."""
        return _reached(pipeline)[1]

    @property
    def tables(self) -> tuple[TableId, ...]:
        """All tables that statements or events tell of, by their names at the source.

        Those that were there within one statement alone are left out.
        """
        histories = schema_history(self.statements, (), rules=RULES)
        told = (table for table, states in histories.items() if any(one.schema is not None for one in states))
        return tuple(sorted({*source_tables(self.pipeline), *told}))

    def states(self, table: TableId) -> tuple[SchemaState, ...]:
        """Return the states of the schema of a source table, in source order.

        Of a TDSQL they are those in the set with the newest schema.
        """
        shapes, counts = ledger_rows(self.pipeline, self.related(table))
        told = (one.held_by(self.frontier) for one in told_by_events(self.pipeline, shapes, counts))
        found = histories_by_set(
            self.statements, filter(None, told), rules=RULES, by_set=self.pipeline.settings.routes.by_set
        )
        some = [states for one in sorted(found) if (states := found[one].get(table, ()))]
        # Of several sets the one counts whose schema is the newest, as its columns stand first in the snapshot.
        states = max(some, key=lambda one: one[-1].position, default=())
        return tuple(one for one in states if self._holds(one.window_start, one.position))

    def related(self, table: TableId) -> frozenset[TableId]:
        """Return a source table and all known ones whose columns may have become its own."""
        return related_tables([table], source_tables(self.pipeline), self.statements)

    def event_times(self, table: TableId, states: Iterable[SchemaState]) -> Mapping[SourcePosition, datetime]:
        """Return the source's times of the events that told states, as far as changelogs have them, by position."""
        wanted: dict[datetime, set[SourcePosition]] = {}
        for one in states:
            if one.statement is None and one.window_start is not None:
                wanted.setdefault(one.window_start, set()).add(one.position)
        found: dict[SourcePosition, datetime] = {}
        path = self.pipeline.table_path(CHANGELOG.name, self.pipeline.settings.routes.lake_table(table))
        files = self.pipeline.lake.data_files(path, {"window_start": set(wanted)}) if wanted else []
        store = self.pipeline.lake.file_store(path)
        for file in files:
            positions = wanted[file.partition["window_start"]]
            for rows in read_batches(store, [file.path], ("source_position", "event_time")):
                places = positions_of(rows)
                for position in positions - found.keys():
                    wanted_place = (position.lineage, position.file, position.position)
                    here = np.flatnonzero(
                        np.logical_and.reduce([part == at for part, at in zip(places, wanted_place, strict=True)])
                    )
                    if len(here):
                        found[position] = rows["event_time"][int(here[0])].as_py()
        return found

    def _holds(self, start: datetime | None, position: SourcePosition) -> bool:
        return start is not None and self.frontier.holds(start, position)


def source_tables(pipeline: Pipeline) -> tuple[TableId, ...]:
    """Return the known tables by their names at the source, shards among them, whatever their set."""
    return tuple(sorted({one.of_all_sets for some in known_sources(pipeline).values() for one in some}))


def ledger_rows(pipeline: Pipeline, tables: Collection[TableId]) -> tuple[list[TableShapeRow], list[WindowTable]]:
    """Return the shapes and the counts of source tables, by the names of these.

    Counts of merged tables stand by their own names.
    """
    routes = pipeline.settings.routes
    names = {routes.lake_table(one): one for one in tables}
    shapes, counts = pipeline.ledger.of_tables({*names, *tables})
    return shapes, [
        row if routes.shard_columns(row.table) else replace(row, table=names.get(row.table, row.table))
        for row in counts
    ]


def told_by_events(
    pipeline: Pipeline, shapes: Iterable[TableShapeRow], counts: Iterable[WindowTable]
) -> list[ToldShapes]:
    """Return the shapes that events of source tables told, from :func:`ledger_rows`."""
    routes = pipeline.settings.routes

    def named(source: TableId) -> tuple[TableId, Shard]:
        table, shard = routes.named(source)
        return (table, shard) if shard else (source, ())

    return told_shapes(counts, shapes, named)


def related_tables(
    tables: Iterable[TableId], known: Iterable[TableId], statements: Iterable[SourceStatement]
) -> frozenset[TableId]:
    """Return tables, and all ``known`` tables whose columns may have become those of one of them.

    A rename, a copy or an exchange does that. Two tables are related if one statement has both names, whatever it does.
    """
    related = set(tables)
    by_word = TablesByWord({*known, *related})
    groups = [found for one in statements if len(found := by_word.named_in(one.naming_text)) > 1]
    of_table: dict[TableId, list[frozenset[TableId]]] = {}
    for group in groups:
        for one in group:
            of_table.setdefault(one, []).append(group)
    left = list(related)
    while left:
        found = frozenset(chain(*of_table.pop(left.pop(), ()))) - related
        related |= found
        left += found
    return frozenset(related)
