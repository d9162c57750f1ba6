"""The parts of a table's log in which one primary key finds the rows of all changes.

Statements say the key, and so do changes, which count where they say another one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.key_periods import KeySpan
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.value_paths import value_path, value_paths
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import folded


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of the log in which one key finds the rows of all changes.

    Its changes stand behind ``since`` and not behind ``until``; None stands for no bound. ``last`` is the number of its last
    state, whose names the ``keys`` are.
    """

    since: SourcePosition | None
    until: SourcePosition | None
    last: int
    keys: tuple[str, ...]


def key_parts(states: Sequence[SchemaState], told: Iterable[KeySpan], *, since: int) -> tuple[KeyPart, ...]:
    """Return the parts of a table's log, from one of its ``states`` on. ``told`` has the keys that changes told."""
    begins = _keys_begun(states, told, since)
    parts: list[KeyPart] = []
    for place, (begin, keys) in enumerate(begins):
        border = None if begin is None else begin.previous
        end = begins[place + 1][0] if place + 1 < len(begins) else None
        until = None if end is None else end.previous
        first = since if begin is None else max(since, last_state(states, begin))
        last = len(states) - 1 if until is None else max(since, last_state(states, until))
        part = KeyPart(border, until, last, _later_names(states, first, last, keys))
        if parts and _find_alike(states, parts[-1], part):
            parts[-1] = replace(part, since=parts[-1].since)
        else:
            parts.append(part)
    return tuple(parts)


def last_state(states: Sequence[SchemaState], position: SourcePosition) -> int:
    """Return the place of the last state at or before a position; the first one where none is."""
    return max(bisect_right(states, position, key=lambda one: one.position) - 1, 0)


def _keys_begun(
    states: Sequence[SchemaState], told: Iterable[KeySpan], since: int
) -> list[tuple[SourcePosition | None, tuple[str, ...]]]:
    """Return the keys from a state on, each with its first position (None: the first change's)."""
    begun: dict[SourcePosition | None, tuple[str, ...]] = {None: _key(states[since])}
    for number in range(since + 1, len(states)):
        if states[number].changes and _finds_other_rows(states, number):
            begun[states[number].position] = _key(states[number])
    for span in told:
        first = None if span.since is None else span.since.next
        begun[first] = span.columns
    return sorted(begun.items(), key=lambda one: _in_order(one[0]))


def _later_names(states: Sequence[SchemaState], first: int, last: int, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the names that some columns of a state have in a later one."""
    schema = states[last].schema
    if first >= last or schema is None or {*map(folded, keys)} == {*map(folded, schema.key)}:
        return tuple(keys)  # changes behind the statements may have told them first
    found = value_paths(states, first, last, schema.names)[0]
    later = {folded(one.origin): name for name, one in found.items() if one.origin is not None}
    return tuple(later.get(folded(name), name) for name in keys)


def _find_alike(states: Sequence[SchemaState], part: KeyPart, later: KeyPart) -> bool:
    """Return whether the keys of two parts find the same rows."""
    mine = [value_path(states, part.last, later.last, name) for name in later.keys]
    return {folded(one.origin or "") for one in mine} == {*map(folded, part.keys)} and not any(
        one.has_steps for one in mine
    )


def _in_order(position: SourcePosition | None) -> tuple[bool, SourcePosition]:
    return position is not None, position or SourcePosition(0, 0, 0)


def _key(state: SchemaState) -> tuple[str, ...]:
    return () if state.schema is None else state.schema.key


def _finds_other_rows(states: Sequence[SchemaState], number: int) -> bool:
    """Return whether rows of a state have other keys than in the state before.

    A statement may have made one value of two, such as 1 of ``1`` and ``01``: then rows that were gone before it would count as
    gone behind it.
    """
    mine = [value_path(states, number - 1, number, name) for name in _key(states[number])]
    keys = {folded(name) for name in _key(states[number - 1])}
    return {folded(one.origin or "") for one in mine} != keys or any(one.has_steps for one in mine)
