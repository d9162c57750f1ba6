"""Histories that follow statements: the eras that these end, and the changelogs of rows from other names.

A history whose statements are not those that it was made by is made anew from all changes. Else it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.following import ChangesOrigin, origins_of
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import KeyPeriod, KeySpan, spans_of
from dts_assets.model.present_columns import columns_digest
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotPlan, SnapshotState, TableWindow
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.history_statements import statements_text
from dts_assets.stages.row_origins import held_counts, moved_changes
from dts_assets.stages.version_eras import VersionEra, version_eras


@dataclass(frozen=True, slots=True)
class FollowedHistory:
    """The statements that a history follows up to a frontier.

    ``text`` stands for them, and is empty if there is none. ``eras`` are those that they end. The rows that came by one have
    ``origins``, by the number of the arrival; ``truncating`` are the windows with truncations of these, and ``keys`` say by which
    key such rows are found. ``absent`` says that their changes lack columns, ``moves`` that some of these move rows, and
    ``unfit`` that keys may have values that do not fit. ``changes`` says which defaults inserts have that lack a column; None
    where no default is known.
    """

    text: str
    eras: tuple[VersionEra, ...] = ()
    origins: Mapping[int, tuple[ChangesOrigin, ...]] = field(default_factory=dict)
    truncating: frozenset[datetime] = frozenset()
    absent: bool = False
    moves: bool = False
    unfit: bool = False
    keys: tuple[KeyPeriod, ...] = ()
    changes: FollowedColumns | None = None

    def goes_on(self, before: SnapshotState, plan: SnapshotPlan) -> bool:
        """Tell whether a history in a state takes changes over, and is not made anew.

        Keys are computed again without a statement alone.
        """
        digest, made_by = (text.partition(":")[2] for text in (self.text, before.followed))
        return digest == made_by and not (self.eras and plan.recomputes)

    @property
    def without_eras(self) -> FollowedHistory:
        """The same for a history that goes on: what statements did to it stands in its rows."""
        return replace(self, eras=(), origins={}, truncating=frozenset())

    def spans(self, windows: Iterable[TableWindow]) -> tuple[KeySpan, ...]:
        """Return the keys that changes told, and those that rows had since they came until the next statement.

        Changes behind a statement that gives columns of the key other values are a span of their own. There is none if the
        changes of the table's ``windows`` tell no key.
        """
        windows = tuple(windows)
        told = tuple(period for one in windows for period in one.keys)
        if not told and any(one.changes for one in windows):
            return ()
        return spans_of((*told, *self.keys), [era.position for era in self.eras if era.fills_key])

    def state(self, planned: SnapshotState, columns: Sequence[Column]) -> SnapshotState:
        """Return the state that a history of some columns is in behind its plan."""
        return replace(
            planned,
            absent=planned.absent or self.absent,
            moves=planned.moves or self.moves,
            unfit=planned.unfit or self.unfit,
            followed=self.text,
            followed_columns=columns_digest(columns) if self.text else "",
        )


def followed_history(
    pipeline: Pipeline,
    tables: FollowedTables,
    table: TableId,
    frontier: Frontier,
    counts: Callable[[TableId], Sequence[TableWindow]],
    *,
    lacking: bool,
) -> FollowedHistory:
    """Return the statements that a history follows up to a frontier.

    ``counts`` has the windows of a table in the lake, ``lacking`` says that its changes lack columns.
    """
    statements = tables.history(table, frontier)
    changes = tables.history_changes(table, frontier) if lacking else None
    eras, origins = list[VersionEra](), dict[int, tuple[ChangesOrigin, ...]]()
    windows, keys = list[TableWindow](), list[KeyPeriod]()
    for era in version_eras(statements):
        rows = None if era.arrival is None else statements[era.arrival].rows
        if era.arrival is None or rows is None:
            eras.append(era)
            continue
        arrived, schema = tables.arrived(table, rows), rows.states[-1].state.schema
        if arrived is not None and schema is not None:
            eras.append(replace(era, arrived=arrived))
            origins[era.arrival] = origins_of(pipeline, tables, table, rows.origins)
            windows += [window for origin in origins[era.arrival] for window in counts(origin.table)]
            until = statements[era.arrival].until or era.position
            keys.append(KeyPeriod(era.position, until, tuple(sorted(schema.key))))
    filled = [path for era in eras for fill in era.fills for _, path in fill.ways]
    came = [path for era in eras if era.arrived for schema in era.arrived.schemas for path in schema.paths]
    defaults = () if changes is None else (one for schema in changes.schemas for one in schema.defaults)
    told = (*_told(pipeline, table, frontier, origins), *_arrived_columns(eras, tables.tables[table]))
    return FollowedHistory(
        statements_text(statements, told, changes),
        tuple(eras),
        origins,
        frozenset(window.window_start for window in windows if window.truncations),
        absent=any(window.absent_rows for window in windows),
        moves=any(window.partial_moves for window in windows),
        unfit=any(path.steps for path in filled)
        or any(path.may_not_fit or path.own_type for path in (*filled, *came))
        or any(one is not None and one.may_not_fit for one in defaults)
        or any(window.invalid_values for window in windows),
        keys=tuple(keys),
        changes=changes,
    )


def _arrived_columns(eras: Sequence[VersionEra], columns: Sequence[Column]) -> tuple[str, ...]:
    """Return texts for the columns of a history that rows of other names have.

    Each has the type of its values if the column need not hold them. What events tell of them later makes the history anew.
    """
    return tuple(
        repr((era.position, column.name, path.own_type))
        for era in eras
        if era.arrived is not None
        for column, path in zip(columns, era.arrived.schemas[-1].paths, strict=True)
        if path.origin is not None
    )


def _told(
    pipeline: Pipeline, table: TableId, frontier: Frontier, origins: Mapping[int, tuple[ChangesOrigin, ...]]
) -> tuple[str, ...]:
    """Return texts for the changes under other names that count."""
    bounds = {(one.table, one.source.until) for some in origins.values() for one in some if one.table != table}
    if not bounds:
        return ()
    _, rows = pipeline.ledger.of_tables({name for name, _ in bounds})
    return moved_changes(bounds, held_counts(rows, frontier))
