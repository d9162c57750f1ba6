"""Turns in the tables of marks: a writer enters its name, and no other's mark lands afterwards.

A mark says what the files of another table hold, and no catalog commits two tables at once. So a writer (1) enters its name for
its part in every table that it writes marks to, (2) reads what it plans on, (3) looks that its name still stands and takes back
the marks of what it is going to replace, (4) commits files, each commit asserting the files that were there in (2), and
(5) commits the mark, which asserts the name. If a second writer enters its name anywhere between, either the first one's files
are not there for the second one's assertion, or the first one's mark is refused.

The names stand in the summary of the table's current Iceberg snapshot, so a look costs no more than loading the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyiceberg.table import Table

from dts_assets.errors import OvertakenError
from dts_assets.model.turns import Turn
from dts_assets.store.commit import Assertion
from dts_assets.store.new_version import TURNS


def turns_of(table: Table) -> dict[str, str]:
    """Return the names of the writers by part: ``{"p00": "7-1f0c"}``."""
    head = table.current_snapshot()
    text = None if head is None or head.summary is None else head.summary.additional_properties.get(TURNS)
    found: dict[str, str] = json.loads(text) if text else {}
    return found


def has_turn(table: Table, turn: Turn) -> bool:
    """Return whether a writer's name stands for all of its parts."""
    found = turns_of(table)
    return all(found.get(part) == name for part, name in turn.names.items())


def entering(turn: Turn) -> Assertion:
    """Return the assertion that enters a writer's name with a commit."""

    def enter(table: Table) -> Mapping[str, str]:
        return {TURNS: json.dumps({**turns_of(table), **turn.names}, sort_keys=True)}

    return enter


def having(turn: Turn) -> Assertion:
    """Return the assertion that a writer's name stands."""

    def check(table: Table) -> Mapping[str, str]:
        require_turn(table, turn)
        return {}

    return check


def require_turn(table: Table, turn: Turn) -> None:
    """Raise an error unless a writer's name stands for all of its parts.

    Raises:
        OvertakenError: Another writer has entered its name.
    """
    turn.still()
    found = turns_of(table)
    for part, name in turn.names.items():
        if found.get(part) != name:
            raise OvertakenError(table.name()[0], part)
