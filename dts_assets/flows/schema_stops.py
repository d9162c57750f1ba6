"""Tables that stop when their columns change, until a person takes the change over by resuming them.

What a person has accepted stands in the properties of the snapshot table: the source position up to which every change may be
taken over. A rebuild of the rows leaves it there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault, resume_command
from dts_assets.stages.followed_schemas import FollowedTable
from dts_assets.store.schemas import snapshot_layout
from dts_assets.wire.ddl.change_words import told_words, words_of
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import TableSchema

ACCEPTED_PROPERTY = "dts-assets.schema-accepted"
"""The property of a snapshot table with the position up to which schema changes are accepted: ``0/3/1187``."""

_MOST_WORDS = 3
"""Changes of one statement that a reason names."""


def stop_of(
    pipeline: Pipeline,
    table: TableId,
    stood_at: Frontier,
    before: FollowedTable | None,
    now: FollowedTable | None,
    *,
    found: Mapping[datetime, SourcePosition] = {},
) -> Fault | None:
    """Return the fault of a table that stops at a schema change; None for one that goes on.

    ``stood_at`` is the frontier of the snapshot as it stands, and ``before`` has the schemas that it holds. Where no snapshot
    stands there is nothing to protect. ``found`` has by window the position from which on a run found new statements: the
    snapshot does not know them, even if it holds the window.
    """
    stops = pipeline.settings.schema_policy(table) is SchemaPolicy.STOP
    if now is None or not stops or stood_at.window is None:
        return None
    since = min((position for start, position in found.items() if start <= stood_at.window), default=None)
    changed = changed_states(before, now, stood_at, _accepted(pipeline, table), since=since)
    if not changed:
        return None
    state, more = now.states[changed[0]], len(changed) - 1
    others = f", and {more} later {'change' if more == 1 else 'changes'}" if more else ""
    return Fault(
        SNAPSHOT.name,
        f"schema change of {table} at {state.position}",
        f"The schema of {table} changed at source position {state.position}{_window(state)}: "
        f"{_words(now.states, changed[0])}{others}; take it over with `{resume_command(table)}`.",
    )


def rows_of_other_keys(table: TableId) -> Fault:
    """Return the fault of a table to which statements moved rows with another primary key.

    It is a merged table, or one with sets.
    """
    return Fault(
        SNAPSHOT.name,
        f"primary keys of the shards of {table}",
        f"RENAME TABLE moved rows to or from {table}, and its shards or sets have different primary keys, so its rows cannot be "
        f"found by one key; give all the same key at the source and take the table up again with `{resume_command(table)}`.",
    )


def changed_states(
    before: FollowedTable | None,
    now: FollowedTable,
    stood_at: Frontier,
    accepted: SourcePosition | None,
    *,
    since: SourcePosition | None = None,
) -> tuple[int, ...]:
    """Return the numbers of the states behind a frontier that change columns, types or the key.

    ``accepted`` is the position up to which a person has taken changes over; None where nobody has. A table that another one
    took the place of is held against the columns that it had. States at or behind ``since`` are new, whatever the frontier.
    """
    known = [] if before is None else [one for one in before.states if since is None or one.position < since]
    found, shape = list[int](), _shape(known[-1].schema) if known else None
    for place, state in enumerate(now.states):
        if _holds(stood_at, state) and (since is None or state.position < since):
            continue
        mine = _shape(state.schema)
        if shape is not None and mine != shape and (accepted is None or state.position > accepted):
            found.append(place)
        shape = mine
    return tuple(found)


def accept_changes(pipeline: Pipeline, tables: Collection[TableId]) -> None:
    """Take over all known schema changes of those tables among some that stop at changes."""
    known = known_tables(pipeline)
    stopping = {
        table: known[table]
        for table in tables
        if table in known and pipeline.settings.schema_policy(table) is SchemaPolicy.STOP
    }
    found = FollowedTables(pipeline, stopping)
    for table in found.sources:
        position = found.last_position(table)
        path = pipeline.table_path(SNAPSHOT.name, table)
        if position is not None and pipeline.lake.table(path) is not None:
            text = f"{position.lineage}/{position.file}/{position.position}"
            layout = snapshot_layout(table, tuple(known[table]))
            pipeline.lake.remember(path, layout, name=ACCEPTED_PROPERTY, value=text, again=True)


def _accepted(pipeline: Pipeline, table: TableId) -> SourcePosition | None:
    opened = pipeline.lake.table(pipeline.table_path(SNAPSHOT.name, table))
    text = None if opened is None else opened.properties.get(ACCEPTED_PROPERTY)
    return None if text is None else SourcePosition(*map(int, text.split("/")))


def _holds(frontier: Frontier, state: SchemaState) -> bool:
    return state.window_start is not None and frontier.holds(state.window_start, state.position)


def _shape(schema: TableSchema | None) -> object:
    """Return what counts as a change: everything but defaults and doubts."""
    if schema is None:
        return None
    columns = [(one.name, one.type, one.charset, one.nullable, one.generated) for one in schema.columns]
    return columns, schema.key


def _window(state: SchemaState) -> str:
    return "" if state.window_start is None else f" (window {state.window_start:%Y-%m-%d-%H:%M})"


def _words(states: Sequence[SchemaState], place: int) -> str:
    state, before = states[place], states[place - 1].schema if place else None
    words = [words_of(change) for change in state.changes]
    if not words and state.schema is not None:
        words = [told_words(before, state.schema)]
    more = len(words) - _MOST_WORDS
    return ", ".join(words[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")
