"""The names that statements give the columns of a row filter."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dts_assets.model.columns import same_name
from dts_assets.model.filter_names import FilterNames, FilterSince
from dts_assets.model.positions import SourcePosition
from dts_assets.model.row_filters import RowFilter, columns_of, renamed
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.effects import Effect, EffectKind
from dts_assets.wire.ddl.schema_history import SourceStatement


def filter_names(
    statements: Iterable[SourceStatement], table: TableId, columns: Iterable[str]
) -> tuple[FilterNames, ...]:
    """Return the names of a filter's columns in a source table; none where no statement gave them others.

    A filter may call a column by its first name, or by a later one: a name is that of the column which has it before or behind
    the first statement about the name. The result is the same for statements in any order, and for one that is there twice.
    Columns are followed through other names of their table, as of a tool that alters a copy and swaps the two.
    """
    following = _Following(table)
    seen = set[tuple[object, ...]]()
    for one in sorted(statements, key=lambda one: (one.position, one.place, one.sql)):
        if one.is_first_state or one.is_of_other_dialect or (key := (one.position, one.database, one.sql)) in seen:
            continue
        seen.add(key)
        following.carry_out(one)
    return following.names_of(sorted(columns))


def filters_by_position(
    statements: Iterable[SourceStatement], table: TableId, parts: Sequence[tuple[datetime | None, RowFilter]]
) -> tuple[FilterSince, ...]:
    """Return the row filters of a source table from position to position.

    There are none for one filter whose columns have one name. Each of the ``parts`` has the start of the window until which it is
    in force: until the first statement of that window which drops a column of it, or brings a tool's copy that has lost one. It
    stays in force while no such statement is known.
    """
    said, found, begin = tuple(statements), list[FilterSince](), None
    for place, (until, rows) in enumerate(parts):
        names = filter_names(said, table, columns_of(rows)) or (FilterNames(None),)
        end = None if until is None else _drop_of(said, table, columns_of(rows), names, until)
        later = (*(one.since for one in names[1:]), None)
        for one, behind in zip(names, later, strict=True):
            if (behind is not None and begin is not None and behind <= begin) or (
                end and one.since and one.since >= end
            ):
                continue
            since = begin if one.since is None or (begin is not None and one.since < begin) else one.since
            found.append(FilterSince(since, renamed(rows, one.name_of), place > 0))
        if end is None:
            break
        begin = end
    return () if len(found) == len(parts) == 1 else tuple(found)


def _drop_of(
    statements: Iterable[SourceStatement],
    table: TableId,
    columns: Iterable[str],
    names: Sequence[FilterNames],
    start: datetime,
) -> SourcePosition | None:
    """Return the first statement of a window that takes a filter's column from its table, if any.

    It drops the column, or it gives the table's name to another table that has lost the column: a tool's altered copy.
    """
    columns = tuple(columns)
    eras = names[1:] if names[0].since is None else names
    begins = [one.since for one in eras if one.since is not None]
    lost = dict[TableId, set[str]]()
    for one in sorted(statements, key=lambda one: (one.position, one.place)):
        there = names[max(bisect_left(begins, one.position) + len(names) - len(eras) - 1, 0)]
        wanted = {same_name(there.name_of(name)) for name in columns}
        for effect in one.parsed.effects:
            gone = _lost_by(effect, table, lost)
            if one.window_start == start and not wanted.isdisjoint(gone):
                return one.position
    return None


def _lost_by(effect: Effect, table: TableId, lost: dict[TableId, set[str]]) -> set[str]:
    """Return the columns that a table loses by an effect.

    Those that other tables have lost are noted in ``lost``.
    """
    first = effect.tables[0] if effect.tables else None
    if first is None:
        return set()
    if effect.kind is EffectKind.CREATE_TABLE:
        lost.pop(first, None)
    elif effect.kind is EffectKind.DROP_COLUMN:
        name = same_name(effect.columns[0])
        if first == table:
            return {name}
        lost.setdefault(first, set()).add(name)
    elif effect.kind is EffectKind.RENAME_TABLE:
        gone, new = lost.pop(first, set()), effect.tables[1]
        if new == table:
            return gone
        lost[new] = gone
    return set()


@dataclass(slots=True)
class _Column:
    """A column of its own: its first name, and later ones with the positions of their statements."""

    begins: list[SourcePosition]
    names: list[str]

    def name_at(self, position: SourcePosition | None) -> str:
        return self.names[0 if position is None else bisect_right(self.begins, position)]


@dataclass(slots=True)
class _Columns:
    """The columns of a table that statements gave other names, by their names of now.

    Names are without case. ``first`` has the first statement about each name, with the column that had the name before it, or
    else behind it.
    """

    by_name: dict[str, _Column] = field(default_factory=dict)
    first: dict[str, tuple[SourcePosition, _Column]] = field(default_factory=dict)

    def rename(self, position: SourcePosition, pairs: Iterable[tuple[str, str]]) -> None:
        """Give columns other names, all at once."""
        moved = [(new, self._taken(old)) for old, new in pairs]
        for _, column in moved:
            self.first.setdefault(same_name(column.names[-1]), (position, column))
        for new, column in moved:
            self.first.setdefault(same_name(new), (position, column))
            self.by_name[same_name(new)] = column
            column.begins.append(position)
            column.names.append(new)

    def _taken(self, name: str) -> _Column:
        key = same_name(name)
        return self.by_name.pop(key) if key in self.by_name else _Column([], [name])


class _Following:
    """The columns of all tables on their way through the log.

    Those that one table had one after the other are kept.
    """

    def __init__(self, table: TableId) -> None:
        self._table = table
        self._tables: dict[TableId, _Columns] = {table: _Columns()}
        self._lives: list[tuple[SourcePosition | None, _Columns]] = [(None, self._tables[table])]

    def carry_out(self, one: SourceStatement) -> None:
        """Carry out a statement: first its new names of columns, then those of tables."""
        pairs: dict[TableId, list[tuple[str, str]]] = {}
        effects = one.parsed.effects
        for effect in effects:
            if effect.kind is EffectKind.RENAME_COLUMN:
                pairs.setdefault(effect.tables[0], []).append((effect.columns[0], effect.columns[1]))
        for table, names in pairs.items():
            self._tables.setdefault(table, _Columns()).rename(one.position, names)
        for effect in effects:
            self._name_table(effect, one.position)

    def names_of(self, columns: Iterable[str]) -> tuple[FilterNames, ...]:
        """Return the names of some columns of the table from position to position."""
        found = list[FilterNames]()
        for place, (begin, life) in enumerate(self._lives):
            end = self._lives[place + 1][0] if place + 1 < len(self._lives) else None
            mine = {name: one for name in columns if (one := _followed(life, name, end)) is not None}
            begins = dict.fromkeys([begin, *sorted({at for one in mine.values() for at in _between(one, begin, end)})])
            for since in begins:
                names = ((name, one.name_at(since)) for name, one in mine.items())
                others = tuple(pair for pair in names if same_name(pair[0]) != same_name(pair[1]))
                if not found or found[-1].names != others:
                    found.append(FilterNames(since, others))
        return tuple(found) if any(one.names for one in found) else ()

    def _name_table(self, effect: Effect, position: SourcePosition) -> None:
        if effect.kind is EffectKind.CREATE_TABLE:
            self._begin(effect.tables[0], _Columns(), position)
        elif effect.kind is EffectKind.RENAME_TABLE:
            old, new = effect.tables
            self._begin(new, self._tables.pop(old) if old in self._tables else _Columns(), position)

    def _begin(self, table: TableId, columns: _Columns, position: SourcePosition) -> None:
        self._tables[table] = columns
        if table == self._table:
            self._lives.append((position, columns))


def _followed(life: _Columns, name: str, end: SourcePosition | None) -> _Column | None:
    """Return the column that a filter means by a name.

    None stands for a name that no statement of its table's life is about.
    """
    first = life.first.get(same_name(name))
    return None if first is None or (end is not None and first[0] >= end) else first[1]


def _between(column: _Column, begin: SourcePosition | None, end: SourcePosition | None) -> Iterator[SourcePosition]:
    """Yield the positions behind one and before another at which a column got other names."""
    place = 0 if begin is None else bisect_right(column.begins, begin)
    for position in column.begins[place:]:
        if end is not None and position >= end:
            return
        yield position
