"""Tables whose rows foreign keys may have changed without events.

They follow from the ledger and the statements up to a frontier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from dts_assets.flows.changed_columns import changed_columns
from dts_assets.flows.known_tables import known_names
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements, windows_with_keys
from dts_assets.model.columns import same_name
from dts_assets.model.copied_tables import CopiedTable, CopyKind
from dts_assets.model.foreign_keys import ForeignKeys, KeyHistory, NamePeriod, PositionSpan
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_tables import copies_in_force
from dts_assets.planning.unseen_changes import TableChange, Unseen, first_unseen, unseen_changes
from dts_assets.wire.ddl.foreign_key_history import ShownKeys, foreign_key_history
from dts_assets.wire.ddl.schema_history import SourceStatement

_BEGIN = SourcePosition(0, 0, 0)
_END = SourcePosition((1 << 31) - 1, (1 << 62), (1 << 62))


@dataclass(frozen=True, slots=True)
class UnseenAt:
    """The tables that foreign keys may have changed without events at a frontier.

    They stand by their names in the lake, each with its reason.

    ``windows`` are those with changes that their parents pass on to them. What is accepted fails no check.
    """

    reasons: Mapping[TableId, str] = field(default_factory=dict)
    windows: Mapping[TableId, frozenset[datetime]] = field(default_factory=dict)
    are_accepted: bool = False


NOTHING_UNSEEN = UnseenAt()


@dataclass
class KeyedTables:
    """The foreign keys of a subscription and the changes that they pass on.

    Nothing is read where there are none.
    """

    pipeline: Pipeline

    @property
    def are_followed(self) -> bool:
        """True if there are any whose changes the server does not write as events."""
        return self.pipeline.settings.source.foreign_keys is not ForeignKeys.LOGGED and self._has_keys

    def at(self, frontier: Frontier) -> UnseenAt:
        """Return the tables that are not proven at a frontier."""
        if frontier.window is None or not self.are_followed:
            return NOTHING_UNSEEN
        reasons, windows = dict[TableId, tuple[SourcePosition, str]](), dict[TableId, set[datetime]]()
        for source_set in self._sets:
            history = self._history(frontier, source_set)
            numbers = {number for key in history.keys for number in (key.child, key.parent)}
            named = (self.lake_table(one.name) for one in history.names if one.number in numbers)
            self.read_rows(table for table in named if table is not None)
            held = _Held(self, frontier, history)
            for table, found in held.doubts():
                if table not in reasons or found < reasons[table]:
                    reasons[table] = found
            for table, starts in held.windows():
                windows.setdefault(table, set()).update(starts)
        return UnseenAt(
            {table: f"{position}: {said}" for table, (position, said) in sorted(reasons.items())},
            {table: frozenset(starts) for table, starts in windows.items()},
            self.pipeline.settings.source.foreign_keys is ForeignKeys.ACCEPTED,
        )

    @cached_property
    def _has_keys(self) -> bool:
        return any(one.foreign_keys for one in self.copies) or bool(windows_with_keys(self.pipeline))

    @cached_property
    def copies(self) -> list[CopiedTable]:
        """The copies that windows have taken."""
        taken = (one for one in self.pipeline.ledger.copied_tables() if one.window_start is not None)
        return copies_in_force(taken)

    @cached_property
    def paused(self) -> frozenset[TableId]:
        """The tables that stand still, or were removed: their changes do not reach the lake."""
        return frozenset(paused_here(self.pipeline))

    @cached_property
    def _statements(self) -> tuple[SourceStatement, ...]:
        return tuple(stored_statements(self.pipeline, None))

    @property
    def _sets(self) -> Sequence[str]:
        """The sets of a TDSQL that sent statements; one without a name elsewhere."""
        if not self.pipeline.settings.routes.by_set:
            return [""]
        return sorted({one.source_set for one in self._statements} - {""}) or [""]

    def _history(self, frontier: Frontier, source_set: str) -> KeyHistory:
        held = tuple(
            one
            for one in self._statements
            if one.source_set in ("", source_set)
            and one.window_start is not None
            and frontier.holds(one.window_start, one.position)
        )
        shown = tuple(
            ShownKeys(one.low, one.table, one.foreign_keys)
            for one in self.copies
            if one.foreign_keys and one.low is not None and self.holds(frontier, one)
        )
        if (held, shown) not in self._histories:
            self._histories[held, shown] = foreign_key_history(held, shown)
        return self._histories[held, shown]

    @cached_property
    def _histories(self) -> dict[tuple[tuple[SourceStatement, ...], tuple[ShownKeys, ...]], KeyHistory]:
        return {}

    @staticmethod
    def holds(frontier: Frontier, copy: CopiedTable) -> bool:
        """Return whether a frontier holds a copy."""
        return copy.low is not None and copy.window_start is not None and frontier.holds(copy.window_start, copy.low)

    def lake_table(self, source: TableId) -> TableId | None:
        """Return the lake table of a source table; None of one whose changes are not decoded.

        A name that no table has may be that of one in another case, as it is for servers with lower_case_table_names=1.
        """
        settings = self.pipeline.settings
        source = source if source in self._known else self._without_case.get(_folded(source), source)
        table = settings.routes.decoded_table(source) if settings.routes else source
        return table if settings.tables.takes(source) else None

    @cached_property
    def _known(self) -> frozenset[TableId]:
        return frozenset(known_names(self.pipeline))

    @cached_property
    def _without_case(self) -> Mapping[TableId, TableId]:
        return {_folded(one): one for one in sorted(self._known, reverse=True)}

    def rows_of(self, table: TableId) -> Sequence[WindowTable]:
        """Return the counts of a lake table, by window."""
        return self._rows.get(table, ())

    def read_rows(self, tables: Iterable[TableId]) -> None:
        """Read the counts of some lake tables together."""
        lacking = {*tables} - self._rows.keys()
        found: dict[TableId, list[WindowTable]] = {table: [] for table in lacking}
        for row in self.pipeline.ledger.of_tables(lacking)[1] if lacking else ():
            found[row.table].append(row)
        for table, rows in found.items():
            self._rows[table] = tuple(sorted(rows, key=lambda row: (row.window_start, row.kafka_partition)))

    @cached_property
    def _rows(self) -> dict[TableId, tuple[WindowTable, ...]]:
        return {}

    def changed(self, row: WindowTable, columns: tuple[str, ...]) -> PositionSpan | None:
        """Return where updates of a window changed some columns beside the key."""
        key = (row.table, row.window_start, columns)
        if key not in self._changed:
            self._changed[key] = changed_columns(self.pipeline, row.table, row.window_start, columns)
        return self._changed[key]

    @cached_property
    def _changed(self) -> dict[tuple[TableId, datetime, tuple[str, ...]], PositionSpan | None]:
        return {}


def _folded(table: TableId) -> TableId:
    return TableId(table.database.lower(), "", table.table.lower())


@dataclass
class _Held:
    """The foreign keys that a frontier holds, and what they change."""

    tables: KeyedTables
    frontier: Frontier
    history: KeyHistory

    def doubts(self) -> Iterator[tuple[TableId, tuple[SourcePosition, str]]]:
        """Yield the lake tables that are not proven, with the first position and a sentence."""
        for number, found in self._unseen.items():
            table = self._present(number)
            if table is None:
                continue
            proven = max(self._copied(number), default=None)
            since = None if proven is None else proven[0]
            empty = self.history.without_rows.get(number)
            since = max(filter(None, (since, None if empty is None else empty.previous)), default=None)
            held_at = None if proven is None or proven[1] != self.frontier.window else proven[1]
            first = first_unseen(found, since=since, held_at=held_at)
            if first is not None and self._may_have_rows(table, first[0], first[1], empty):
                yield table, (first[0], self._sentence(first[0], first[1]))

    def windows(self) -> Iterator[tuple[TableId, set[datetime]]]:
        """Yield the windows with changes that parents pass on to each table, and those with its copies."""
        for number, found in self._unseen.items():
            table = self._present(number)
            if table is not None:
                starts = {one.change.window for one in found if one.change.window is not None}
                yield table, starts | {start for _, start in self._copied(number)}

    @cached_property
    def _unseen(self) -> Mapping[int, tuple[Unseen, ...]]:
        parents = {one.parent for one in self.history.keys}
        return unseen_changes(self.history, {number: tuple(self._told(number)) for number in parents})

    def _present(self, number: int) -> TableId | None:
        """Return the lake table of a table that is there at the frontier."""
        name = next((one.name for one in self._names[number] if one.until is None), None)
        return None if name is None else self.tables.lake_table(name)

    @cached_property
    def _names(self) -> Mapping[int, Sequence[NamePeriod]]:
        found: dict[int, list[NamePeriod]] = {}
        for one in self.history.names:
            found.setdefault(one.number, []).append(one)
        return found

    def _periods(self, number: int) -> list[tuple[NamePeriod, TableId]]:
        named = ((one, self.tables.lake_table(one.name)) for one in self._names[number])
        return [(one, table) for one, table in named if table is not None and table not in self.tables.paused]

    def _told(self, number: int) -> Iterator[TableChange]:
        """Yield the changes of a parent that events told.

        Where the lake gets none of its changes they are all that may be.
        """
        referenced, is_taken = self._referenced(number), False
        for period, table in self._periods(number):
            since = period.since or _BEGIN
            until = _END if period.until is None else period.until.previous
            for row, last in self._rows(table):
                is_taken = is_taken or row.changes > 0 or row.kept > 0
                for span, columns in self._changes(row, referenced):
                    if span is not None:
                        yield TableChange(span, since, min(until, last), columns, row.window_start)
        if not is_taken:
            for columns in (None, frozenset[str]()):
                yield TableChange(PositionSpan(_BEGIN, _END), _BEGIN, _END.previous, columns)

    def _rows(self, table: TableId) -> Iterator[tuple[WindowTable, SourcePosition]]:
        """Yield the counts of a table that the frontier holds.

        With each comes the last position that it holds of them.
        """
        for row in self.tables.rows_of(table):
            if self.frontier.window is None or row.window_start > self.frontier.window:
                continue
            whole = self.frontier.whole_until is not None and row.window_start <= self.frontier.whole_until
            if whole or self.frontier.cut is not None:
                yield row, _END if whole or self.frontier.cut is None else self.frontier.cut

    def _changes(
        self, row: WindowTable, referenced: Iterable[tuple[str, ...]]
    ) -> Iterator[tuple[PositionSpan | None, frozenset[str] | None]]:
        yield row.deletes, None
        keys = frozenset(same_name(name) for period in row.keys for name in period.columns)
        yield row.moves, keys
        for columns in referenced:
            if not {*map(same_name, columns)} <= keys and (row.kept or row.filtered):
                yield self.tables.changed(row, columns), frozenset(map(same_name, columns))

    def _referenced(self, number: int) -> set[tuple[str, ...]]:
        """Return the columns of a parent whose values keys pass on when they change."""
        mine = (one.key for one in self.history.keys if one.parent == number and one.key.on_update)
        return {one.parent_columns for one in mine if one.parent_columns}

    def _copied(self, number: int) -> Iterator[tuple[SourcePosition, datetime]]:
        """Yield the positions at which all rows of a table were those of the source.

        With each comes the window that took the copy.
        """
        for one in self.tables.copies:
            if one.kind is CopyKind.REPAIR and not one.proves:
                continue
            if one.low is None or one.window_start is None or not self.tables.holds(self.frontier, one):
                continue
            if number in self.history.numbers_of(one.table, one.low):
                yield one.low, one.window_start

    def _may_have_rows(
        self, table: TableId, position: SourcePosition, one: Unseen, empty: SourcePosition | None
    ) -> bool:
        """Return whether the table may have rows before the last of some changes."""
        until = position if one.change.first == position and one.change.span.first == position else _END
        named = (self.tables.lake_table(period.name) for period in self._names[one.by.child])
        names = {name for name in named if name is not None}
        spans = (
            (row.first_position, row.last_position)
            for name in {table, *names}
            for row, _ in self._rows(name)
            if row.kept
        )
        return any(
            first < until and (empty is None or empty <= last)
            for first, last in spans
            if first is not None and last is not None
        )

    def _sentence(self, position: SourcePosition, one: Unseen) -> str:
        periods = self._names[one.by.parent]
        named = (period.name for period in periods if period.until is None or position < period.until)
        parent = next(named, one.by.key.parent)
        key = f"the foreign key {one.by.key.name} ({one.by.key.rules})"
        if one.change.window is None:
            return f"{key} changes its rows without events, by changes of {parent}, of which the lake has none"
        what = f"rows of {parent} go" if one.is_delete else f"a referenced column of {parent} changes"
        return f"{key} may have changed its rows without events: it does so when {what}"
