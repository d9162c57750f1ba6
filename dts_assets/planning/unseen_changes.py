"""Rows that foreign keys change without events, followed from table to table.

A parent's delete, or another value of a referenced column, changes rows of its children, and these pass it on to theirs. No
message shows whether the server did it: with foreign_key_checks=0 it does nothing. So a table is only not proven.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.columns import same_name
from dts_assets.model.foreign_keys import KeyHistory, KeyPeriod, PositionSpan
from dts_assets.model.positions import SourcePosition


@dataclass(frozen=True, slots=True)
class TableChange:
    """Changes of a table in a window: deletes, or other values of columns.

    ``columns`` are names without case, and None for deletes. The changes stand within ``span``, whose ends are changes, and
    only those from ``since`` to ``until`` count. ``window`` is None for a table whose changes the lake does not get: they may
    stand anywhere.
    """

    span: PositionSpan
    since: SourcePosition
    until: SourcePosition
    columns: frozenset[str] | None = None
    window: datetime | None = None

    def within(self, since: SourcePosition, until: SourcePosition | None) -> TableChange | None:
        """Return the changes from a position on and before another one; None where there are none."""
        least = max(self.since, since)
        most = self.until if until is None else min(self.until, until.previous)
        found = replace(self, since=least, until=most)
        return None if found.first is None else found

    @property
    def first(self) -> SourcePosition | None:
        """The position of the first change that counts; None if none does.

        Where both ends of the span are out of bounds, changes between them may count: then it is the first bound.
        """
        if self.since > self.until or self.span.first > self.until or self.span.last < self.since:
            return None
        if self.window is None:
            return self.since
        if self.span.first >= self.since:
            return self.span.first
        return self.span.last if self.span.last <= self.until else self.since


@dataclass(frozen=True, slots=True)
class Unseen:
    """Changes of a table's rows without events.

    They follow from changes of the parent and the foreign key that passes them on.
    """

    change: TableChange
    by: KeyPeriod
    is_delete: bool


def unseen_changes(history: KeyHistory, told: Mapping[int, Iterable[TableChange]]) -> dict[int, tuple[Unseen, ...]]:
    """Return the changes without events by the number of the table; ``told`` has those that events told."""
    of_parent: dict[int, list[KeyPeriod]] = {}
    for key in history.keys:
        of_parent.setdefault(key.parent, []).append(key)
    found: dict[int, dict[TableChange, Unseen]] = {}
    work = deque((number, change) for number, some in sorted(told.items()) for change in some if number in of_parent)
    while work:
        number, change = work.popleft()
        for key in of_parent.get(number, ()):
            passed = _passed_on(key, change)
            mine = found.setdefault(key.child, {})
            if passed is not None and passed not in mine:
                mine[passed] = Unseen(passed, key, change.columns is None)
                work.append((key.child, passed))
    return {number: tuple(some.values()) for number, some in found.items() if some}


def _passed_on(key: KeyPeriod, change: TableChange) -> TableChange | None:
    """Return the change of the child that a change of the parent makes by a foreign key.

    It is None where the key passes nothing on.
    """
    rule = key.key.on_delete if change.columns is None else key.key.on_update
    if not rule or not (change.columns is None or _touches(change.columns, key.key.parent_columns)):
        return None
    goes = change.columns is None and rule == "CASCADE"
    columns = None if goes else frozenset(map(same_name, key.key.columns))
    here = change.within(key.since, key.until)
    return None if here is None else replace(here, columns=columns)


def _touches(columns: Collection[str], referenced: Iterable[str]) -> bool:
    """Return whether some columns are among referenced ones; without names any may be meant."""
    names = {same_name(one) for one in referenced}
    return not names or not columns or not names.isdisjoint(columns)


def first_unseen(
    found: Iterable[Unseen], *, since: SourcePosition | None, held_at: datetime | None = None
) -> tuple[SourcePosition, Unseen] | None:
    """Return the first change without an event behind a position, and where it stands; None without one.

    ``held_at`` is the window whose end is meant, if it took the rows of that position: changes that nobody sees do not count
    there yet.
    """
    best: tuple[SourcePosition, Unseen] | None = None
    for one in found:
        if one.change.window is None and held_at is not None:
            continue
        here = one.change if since is None else one.change.within(since.next, None)
        at = None if here is None else here.first
        if at is not None and (best is None or at < best[0]):
            best = at, one
    return best
