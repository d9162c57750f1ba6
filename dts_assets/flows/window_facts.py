"""Facts about a table at the end of a window, such as why it is not proven.

They follow from the ledger up to this window, whichever windows were made together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.foreign_keys import KeyedTables, UnseenAt
from dts_assets.flows.known_tables import known_sources
from dts_assets.flows.lacked_origins import lacked_origins
from dts_assets.flows.lake_shapes import routed_shapes
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.lost_keys import doubt_of
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import LayerOutcome, TableFacts
from dts_assets.flows.schema_news import News
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.columns import Column, ColumnShape, same_name
from dts_assets.model.frontier import Frontier
from dts_assets.model.lost_keys import LostKey
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.column_types import ConvertedColumn, converted_in_windows
from dts_assets.wire.ddl.schema_news import SchemaNews

UnseenByWindow = Mapping[datetime, UnseenAt]
"""The tables that foreign keys may have changed without events, at the ends of windows."""


def unseen_by_window(pipeline: Pipeline, windows: Iterable[Window]) -> UnseenByWindow:
    """Return the tables that foreign keys may have changed without events, at the ends of windows.

    Nothing is looked at where there is no foreign key.
    """
    tables = KeyedTables(pipeline)
    starts = [window.start for window in windows] if tables.are_followed else []
    return {start: tables.at(Frontier(start, start, None)) for start in starts}


def windows_concerned(
    pipeline: Pipeline, windows: Sequence[Window], news: News, unseen: UnseenByWindow
) -> dict[TableId, frozenset[datetime]]:
    """Return the windows with changes of a table's rows or schema, as the ledger has them.

    They are by table and window start. Changes that foreign keys may have made without events are among them.
    """
    found: dict[TableId, set[datetime]] = {table: {*some} for table, some in news.items()}
    for row in pipeline.ledger.window_tables(windows):
        if row.changes:
            found.setdefault(row.table, set()).add(row.window_start)
    for start, at in unseen.items():
        for table, some in at.windows.items():
            if start in some:
                found.setdefault(table, set()).add(start)
    return {table: frozenset(some) for table, some in found.items()}


def window_facts(
    pipeline: Pipeline,
    concerned: Mapping[TableId, Collection[datetime]],
    outcomes: Mapping[TableId, LayerOutcome],
    *,
    news: News,
    unseen: UnseenByWindow,
    columns: Mapping[TableId, Sequence[Column]],
) -> dict[TableId, TableFacts]:
    """Return the facts about tables at the ends of the windows that concern them.

    Args:
        pipeline: The subscription.
        concerned: The starts of the windows with changes of each table.
        outcomes: What became of the snapshots that the run looked at.
        news: The changes of schemas that the windows of the run brought.
        unseen: The tables that foreign keys may have changed without events.
        columns: All columns of the tables.
    """
    concerned = {table: some for table, some in concerned.items() if table in columns and some}
    starts = {start for some in concerned.values() for start in some}
    converted = window_conversions(pipeline, starts, {table: columns[table] for table in concerned})
    doubtful = {
        table: some for table, some in concerned.items() if table in news or _is_doubted(pipeline, table, outcomes)
    }
    doubts = window_doubts(pipeline, doubtful, news=news, columns=columns)
    lacked, found = _lacked_doubts(pipeline, {table: columns[table] for table in concerned}, concerned), {}
    for table, some in concerned.items():
        outcome = outcomes.get(table, LayerOutcome())
        misfits = 0 if outcome.not_removed is None else outcome.not_removed.misfits
        found[table] = TableFacts(
            {**_unseen_doubts(table, some, unseen), **lacked.get(table, {}), **doubts.get(table, {})},
            converted.get(table, {}),
            unknown_by_window(outcome.unknown_values, news.get(table, {}), some),
            {max(some): misfits} if misfits else {},
        )
    return found


def _lacked_doubts(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]], starts: Mapping[TableId, Collection[datetime]]
) -> dict[TableId, dict[datetime, str]]:
    """Return which rows of other names tables lack at the ends of windows."""
    lacked, found = lacked_origins(pipeline, tables), dict[TableId, dict[datetime, str]]()
    for table, one in lacked.results.items():
        if one is not None:
            found[table] = {start: one.said for start in starts[table] if start >= one.window_start}
    return found | {table: dict.fromkeys(starts[table], one.sentence) for table, one in lacked.failures.items()}


def _unseen_doubts(table: TableId, starts: Iterable[datetime], unseen: UnseenByWindow) -> dict[datetime, str]:
    """Return why foreign keys leave a table not proven, by window start; nothing where people accept it."""
    found = {start: unseen[start] for start in starts if start in unseen}
    return {start: at.reasons[table] for start, at in found.items() if table in at.reasons and not at.are_accepted}


def _is_doubted(pipeline: Pipeline, table: TableId, outcomes: Mapping[TableId, LayerOutcome]) -> bool:
    """Return whether the snapshot of a table is not proven, or was not before the run."""
    if table in outcomes:
        return bool(outcomes[table].doubt) or outcomes[table].was_doubted
    return bool(stored_state(pipeline, SNAPSHOT.name, table)[1].doubt)


def window_doubts(
    pipeline: Pipeline,
    due: Mapping[TableId, Collection[datetime]],
    *,
    news: News,
    columns: Mapping[TableId, Sequence[Column]],
) -> dict[TableId, dict[datetime, str]]:
    """Return why tables are not proven at the ends of windows.

    Args:
        pipeline: The subscription.
        due: The starts of the windows to judge.
        news: The changes of schemas that the windows of the run brought.
        columns: All columns of the tables.
    """
    followed = FollowedTables(pipeline, {table: columns[table] for table in due})
    found = one_by_one(  # the windows are marked already: a table that cannot be judged fails its own check
        due,
        lambda table: _doubts_of(
            followed,
            table,
            sorted(due[table]),
            news.get(table, {}),
            stored_state(pipeline, SNAPSHOT.name, table)[1].lost,
        ),
        named=lambda table: f"The look at the statements of {table}",
    )
    failed = {table: dict.fromkeys(due[table], one.sentence) for table, one in found.failures.items()}
    return {**found.results, **failed}


def _doubts_of(
    followed: FollowedTables,
    table: TableId,
    starts: Sequence[datetime],
    news: Mapping[datetime, Sequence[SchemaNews]],
    lost: LostKey | None,
) -> dict[datetime, str]:
    found: dict[datetime, str] = {}
    doubt, before = "", None
    for start in starts:
        # Between two windows with news nothing changes what is known of a table, but a copy of it does.
        if before is None or followed.is_copied(table) or any(before < one <= start for one in news):
            doubt = _doubt_at(followed, table, start, news, lost)
        if doubt:
            found[start] = doubt
        before = start
    return found


def _doubt_at(
    followed: FollowedTables,
    table: TableId,
    start: datetime,
    news: Mapping[datetime, Sequence[SchemaNews]],
    lost: LostKey | None,
) -> str:
    if followed.is_followed(table):
        return doubt_of(followed.at(table, Frontier(start, start, None)), lost)
    return next((f"{one.position}: {one.doubt}" for one in news.get(start, ()) if one.doubt is not None), "")


def window_conversions(
    pipeline: Pipeline, starts: Collection[datetime], tables: Mapping[TableId, Sequence[Column]]
) -> dict[TableId, dict[datetime, tuple[ConvertedColumn, ...]]]:
    """Return the columns whose values the lake holds in another form, by table and window start."""
    own = {table: columns for table, columns in tables.items() if any(one.own_types for one in columns)}
    if not own:
        return {}
    sources = known_sources(pipeline)
    rows = pipeline.ledger.of_tables({one for table in own for one in sources.get(table, (table,))})[0]
    told: dict[TableId, dict[datetime, list[tuple[ColumnShape, ...]]]] = {}
    for row in routed_shapes(pipeline, rows):
        if row.table in own:
            told.setdefault(row.table, {}).setdefault(row.window_start, []).append(row.columns)
    return {
        table: converted_in_windows(columns, told.get(table, {}), starts, partial(pipeline.lake_type, table))
        for table, columns in own.items()
    }


def unknown_by_window(
    counts: Mapping[str, int], news: Mapping[datetime, Sequence[SchemaNews]], changed: Iterable[datetime]
) -> dict[datetime, dict[str, int]]:
    """Return the values that a commit made NULL by the windows that brought the statements.

    Without such a window they are at the newest ``changed`` one. A commit counts them by column for all its windows together.
    """
    found: dict[datetime, dict[str, int]] = {}
    said = {start: [one for one in some if one.position is not None] for start, some in news.items()}
    said = {start: some for start, some in said.items() if some}
    for column, count in counts.items():
        named = [
            start for start, some in said.items() if any(same_name(one.column) == same_name(column) for one in some)
        ]
        for start in named or said or sorted(changed)[-1:]:
            found.setdefault(start, {})[column] = count
    return found
