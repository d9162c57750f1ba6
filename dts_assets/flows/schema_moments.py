"""The columns that a table has at a moment, or the reason why they cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.errors import NothingFoundError
from dts_assets.flows.known_moments import frontier_words, held_window, known_position, refuse_later
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import (
    AtTime,
    AtWindow,
    Moment,
)
from dts_assets.wire.ddl.change_words import all_words
from dts_assets.wire.ddl.schema_history import SchemaState, state_at


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """The schema of a table at a moment.

    ``states`` are all states that are known, ``at`` is the number of the state at the moment. ``where`` says the moment in words.
    ``times`` has the source's time of each state that is known, by number.
    """

    table: TableId
    states: tuple[SchemaState, ...]
    at: int
    where: str
    times: Mapping[int, datetime]

    @property
    def state(self) -> SchemaState:
        """The state at the moment."""
        return self.states[self.at]

    @property
    def later(self) -> range:
        """The numbers of the states behind the moment."""
        return range(self.at + 1, len(self.states))


def schema_at(pipeline: Pipeline, table: TableId, moment: Moment | None) -> SchemaAnswer:
    """Return the schema of a table at a moment, and its later states.

    Without a moment all that is complete counts.

    Raises:
        NothingFoundError: There is no answer: the moment is not known, or lies before the table's first trace or behind what is
            complete.
    """
    sources = SchemaSources.of(pipeline)
    states = sources.states(table)
    if not states:
        raise NothingFoundError(
            "The lake", f"columns of {table}", "no statement and no event up to the frontier told any"
        )
    times = _times(sources, table, states)
    if isinstance(moment, AtWindow):
        window = held_window(sources, moment.start)
        before = SchemaSources.of(pipeline, until=window).states(table)
        at, where = _last_like(before, states), f"as of window {window.key}"
    elif isinstance(moment, AtTime):
        refuse_later(sources, moment.time, sought="schemas")
        known = [number for number in range(len(states)) if times[number] <= moment.time]
        at, where = max(known, default=-1), f"as of {moment.time:%Y-%m-%d %H:%M:%S} UTC"
    elif moment is None:
        at, where = len(states) - 1, f"as of {frontier_words(sources)}"
    else:
        position, where = known_position(sources, moment, sought="schemas")
        found = state_at(states, position)
        at = -1 if found is None else states.index(found)
    if at < 0:
        first = states[0]
        by = "an event told its columns" if first.statement is None else all_words(first.changes)
        hint = f"its first trace stands at {first.position}, in window {_window_of(sources, first)}: {by}"
        raise NothingFoundError("The lake", f"columns of {table} {where}", hint)
    return SchemaAnswer(table, states, at, where, times)


def _last_like(before: tuple[SchemaState, ...], states: tuple[SchemaState, ...]) -> int:
    """Return the number of the state that was the last one, as far as an earlier frontier knew."""
    if not before:
        return -1
    last = before[-1]
    alike = [number for number, one in enumerate(states) if (one.position, one.schema) == (last.position, last.schema)]
    near = [number for number, one in enumerate(states) if one.position <= last.position]
    return max(alike or near, default=-1)


def _times(sources: SchemaSources, table: TableId, states: tuple[SchemaState, ...]) -> dict[int, datetime]:
    """Return the time of each state; where none is known it is the end of the state's window."""
    told, found = sources.event_times(table, states), dict[int, datetime]()
    for number, one in enumerate(states):
        time = told.get(one.position) if one.statement is None else one.statement.ended
        if time is None and one.window_start is not None:
            time = sources.pipeline.grid.of_start(one.window_start).end
        assert time is not None, "what is held has a window"
        found[number] = time
    return found


def _window_of(sources: SchemaSources, state: SchemaState) -> str:
    return "" if state.window_start is None else sources.pipeline.grid.of_start(state.window_start).key
