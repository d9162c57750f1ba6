"""The history of tables' schemas: statements in source order, held against the columns that events list.

Statements tell everything of a table; an event's list of columns is the truth about names, types and key at its position. So
where no statement explains what an event lists, as after a statement that was not understood, or behind the begin of a
subscription, the event counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum

from dts_assets.model.collections import COLLECTION
from dts_assets.model.positions import SourcePosition
from dts_assets.model.source_types import MONGODB, ORACLE, OTHER_DIALECTS
from dts_assets.model.statement_words import naming_text
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.effects import NOT_PARSED, EffectKind, ParsedDdl
from dts_assets.wire.ddl.oracle_statements import oracle_effects
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnModified,
    ColumnsRenamed,
    DatabaseCharsetChanged,
    DatabaseCreated,
    DatabaseDropped,
    Doubted,
    RowsChanged,
    SchemaChange,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from dts_assets.wire.ddl.schema_model import NO_TABLE, Applied, apply, not_followed
from dts_assets.wire.ddl.table_schemas import Catalog, ServerRules, TableSchema
from dts_assets.wire.ddl.told_schemas import Shape, ToldShapes, fits, told_schema

_IF_ABSENT = re.compile(r"\bIF\s+NOT\s+EXISTS\b", re.I)
"""The words by which a statement does nothing where its object is there.

Elsewhere in a text they do no harm.
"""

_MOST_TRIED = 8
"""Shapes that are tried as the first one, where the order is not known.

A hundred times as many statements are tried on them.
"""

_OF_ROWS = TableCreated | TableRenamed | RowsChanged | ColumnDropped | ColumnAdded | ColumnModified | ColumnsRenamed
"""The changes behind which rows may be others although the columns are as before."""

SEVERAL_SHAPES = "events list columns in several ways, in an order that is not known"


OTHER_DIALECT = "statements of sources beside the MySQL family are not followed"
PERHAPS_THERE = "the table may have been there before, with other columns"
NOT_KNOWN = "the table that got this name is not known"
NO_DATABASE = "a RENAME without a database may mean this table: the database of its message has no such table"


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """A statement at its place in the source's log.

    ``time`` is that of its begin, and it took so many ``seconds``; ``window_start`` is the window that brought it. Statements at
    one position are in order of ``place``. ``is_first_state`` says that it is a table's definition before a full load.
    ``source_type`` is the kind of the source; statements of kinds beside the MySQL family are kept and not followed.
    ``source_set`` is the set of a TDSQL whose tables alone it is about; empty where no set is told.
    """

    position: SourcePosition
    database: str
    sql: str
    time: datetime | None = None
    seconds: int = 0
    gtid: str | None = None
    window_start: datetime | None = None
    place: tuple[int, int] = (0, 0)
    is_first_state: bool = False
    source_type: str = ""
    source_set: str = ""

    @property
    def is_of_other_dialect(self) -> bool:
        """True if the statement is of a source beside the MySQL family."""
        return self.source_type in OTHER_DIALECTS

    @property
    def naming_text(self) -> str:
        """The text in which names of tables stand, as far as a statement may name them."""
        return naming_text(self.sql, self.source_type)

    @property
    def parsed(self) -> ParsedDdl:
        """The effects of the statement."""
        return parsed_statement(self.sql, self.database, self.source_type)

    def applied_to(self, catalog: Catalog) -> Applied:
        """Return the catalog behind the statement, with what it changed."""
        if self.is_of_other_dialect:
            emptied = [effect.tables[0] for effect in self.parsed.effects]
            if emptied:  # what makes such a table anew is not followed
                return Applied(catalog, tuple(map(TableTruncated, emptied)), None)
            return not_followed(catalog, self.naming_text, self.database, OTHER_DIALECT)
        applied = apply(catalog, self.sql, self.database)
        if self.source_type == MONGODB:
            return _emptied_alone(applied, catalog)
        return _with_namesakes_doubted(applied, catalog, self)

    @property
    def ended(self) -> datetime | None:
        """The time at which the statement had taken effect."""
        return None if self.time is None else self.time + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema that a table has from a source position on, until its next state.

    ``schema`` is None where there is no table. The ``changes`` of the ``statement`` led there; without a statement an event told
    the columns. ``schema.doubt`` says why the columns are not proven. ``window_start`` is the window that told it.
    """

    position: SourcePosition
    schema: TableSchema | None
    window_start: datetime | None = None
    statement: SourceStatement | None = None
    changes: tuple[SchemaChange, ...] = ()

    @property
    def doubt(self) -> str | None:
        """The reason why the columns are not proven; None where they are."""
        return None if self.schema is None else self.schema.doubt


def parsed_statement(sql: str, database: str, source_type: str) -> ParsedDdl:
    """Return the effects of a statement of a kind of source; ``database`` is Oracle's schema."""
    if source_type == ORACLE:
        return oracle_effects(sql, database)
    return NOT_PARSED if source_type in OTHER_DIALECTS else effects_of(sql, database)


def schema_history(
    statements: Iterable[SourceStatement], told: Iterable[ToldShapes], *, rules: ServerRules
) -> Mapping[TableId, tuple[SchemaState, ...]]:
    """Return the states of every table that a statement or an event tells of, in source order.

    The result is the same for statements and shapes in any order. A position may have several states, of which the last counts.
    """
    in_order = sorted(statements, key=lambda one: (one.position, one.place, one.sql))
    points = [_Point(one.position, _Kind.STATEMENT, number) for number, one in enumerate(in_order)]
    shapes = sorted(told, key=lambda one: (one.first, one.last, one.table, repr(one.shapes)))
    for number, one in enumerate(shapes):
        points += [_Point(place, _Kind.FIRST, number, part) for part, (place, _) in enumerate(one.begins)]
        if one.ends and (one.last > one.first or len(one.shapes) > 1):
            points.append(_Point(one.last, _Kind.LAST, number))
    following = _Following(Catalog(rules=rules), in_order)
    for point in sorted(points, key=lambda one: (one.position, one.kind, one.number, one.part)):
        if point.kind is _Kind.STATEMENT:
            following.carry_out(point.number)
        elif point.kind is _Kind.FIRST:
            following.begin(shapes[point.number], point.part)
        else:
            following.end(shapes[point.number])
    return {table: tuple(states) for table, states in sorted(following.states.items())}


def state_at(states: Sequence[SchemaState], position: SourcePosition) -> SchemaState | None:
    """Return the state of a table behind a position and everything before it.

    There is none before the first state.
    """
    return next((one for one in reversed(states) if one.position <= position), None)


class _Kind(IntEnum):
    """The kinds of points, in the order that they have at one position.

    A statement stands before the rows of its position.
    """

    STATEMENT = 0
    FIRST = 1
    LAST = 2


@dataclass(frozen=True, slots=True)
class _Point:
    position: SourcePosition
    kind: _Kind
    number: int
    part: int = 0


@dataclass(slots=True)
class _Following:
    """The catalog on its way through the source's log, and the states that tables had.

    ``open`` has, by table, the shapes that events have begun to tell, with those of them that no state has explained yet.
    ``whole`` are the databases of which every table is known: a statement made them, or has dropped them.
    """

    catalog: Catalog
    statements: Sequence[SourceStatement]
    states: dict[TableId, list[SchemaState]] = field(default_factory=dict)
    open: dict[TableId, list[tuple[ToldShapes, set[Shape]]]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    done: int = 0

    def carry_out(self, number: int) -> None:
        """Carry out a statement, and note the states that it leads to."""
        one, before = self.statements[number], self.catalog
        self.done = number + 1
        applied = one.applied_to(before)
        self.catalog = applied.catalog
        for table in sorted(_of_unknown(applied.changes, before)):
            is_collection = one.source_type == MONGODB
            unknown = (
                told_schema(COLLECTION, None, tells_keys=True) if is_collection else TableSchema((), doubt=NOT_KNOWN)
            )
            self.catalog = _with_table(self.catalog, table, unknown)
        self._look_at_conditions(one, applied.changes)
        perhaps_back = set[TableId]()
        if applied.problem not in (None, NO_TABLE):
            perhaps_back = {
                table
                for table in self.states
                if table not in self.catalog.tables and names_table(one.naming_text, table)
            }
            for table in sorted(perhaps_back):
                self.catalog = _with_table(self.catalog, table, TableSchema((), doubt=applied.problem))
        for table in sorted(perhaps_back | _concerned(applied.changes, before, self.catalog)):
            schema = self.catalog.tables.get(table)
            changes = tuple(change for change in applied.changes if _is_about(change, table))
            # A column may go and come again as it was, and tables with equal columns may change places: then rows change alone.
            has_other_rows = not one.is_first_state and any(isinstance(change, _OF_ROWS) for change in changes)
            if schema != before.tables.get(table) or has_other_rows:
                self._note(table, SchemaState(one.position, schema, one.window_start, one, changes))
                for told, missing in self.open.get(table, ()):
                    missing -= _explained(schema, told)

    def _look_at_conditions(self, one: SourceStatement, changes: Iterable[SchemaChange]) -> None:
        """Doubt tables and databases of IF NOT EXISTS that may have been there before all known statements."""
        if_absent = _IF_ABSENT.search(one.sql) is not None
        for change in changes:
            if isinstance(change, DatabaseDropped) or (isinstance(change, DatabaseCreated) and not if_absent):
                self.whole.add(change.database)
            elif isinstance(change, DatabaseCreated) and change.database not in self.whole:
                databases = {**self.catalog.databases, change.database: None}
                self.catalog = Catalog(databases, self.catalog.tables, self.catalog.rules)
            elif isinstance(change, TableCreated) and if_absent and change.table.database not in self.whole:
                seen, schema = self.states.get(change.table), self.catalog.tables.get(change.table)
                if not seen and schema is not None:
                    self.catalog = _with_table(self.catalog, change.table, schema.doubted(PERHAPS_THERE))

    def begin(self, told: ToldShapes, part: int) -> None:
        """Hold the first event of some shapes, a part of those of a cell, against the table's schema."""
        place, shapes = told.begins[part]
        missing = set(shapes) - _explained(self._trusted(told.table), told)
        if len(missing) == len(shapes):
            shape = self._first_of(told, [one for one in shapes if one not in told.unsure] or shapes)
            self._tell(told, shape, place)
            missing.discard(shape)
        mine = self.open.setdefault(told.table, [])
        if part == 0:
            mine.append((told, missing))
        else:
            next(one for other, one in mine if other is told).update(missing)

    def end(self, told: ToldShapes) -> None:
        """Hold the last event of some shapes against the table's schema."""
        mine = self.open[told.table]
        place = next(place for place, (one, _) in enumerate(mine) if one is told)
        missing = mine.pop(place)[1] - told.unsure
        now = self._trusted(told.table)
        if not missing and _explained(now, told):
            return
        # What nothing explains came later than what statements explain.
        later = sorted(missing or {*told.shapes} - told.unsure or told.shapes, key=repr)
        self._tell(told, later[-1], told.last, SEVERAL_SHAPES if len(later) > 1 else None)

    def _trusted(self, table: TableId) -> TableSchema | None:
        """Return the schema of a table, unless it is doubted: then an event tells more."""
        schema = self.catalog.tables.get(table)
        return None if schema is None or schema.doubt is not None else schema

    def _tell(self, told: ToldShapes, shape: Shape, position: SourcePosition, doubt: str | None = None) -> None:
        schema = told_schema(shape, self.catalog.tables.get(told.table), tells_keys=told.tells_keys)
        schema = schema if doubt is None else schema.doubted(doubt)
        self.catalog = _with_table(self.catalog, told.table, schema)
        self._note(told.table, SchemaState(position, schema, told.window_start))

    def _first_of(self, told: ToldShapes, shapes: Sequence[Shape]) -> Shape:
        """Return the one of some shapes that most likely was told first.

        It is the shape from which the statements up to the last event lead to most of the others.
        """
        best, most = shapes[0], -1
        if len(shapes) == 1:
            return best
        later: list[SourceStatement] = []
        for one in self.statements[self.done :]:
            if one.position > told.last or len(later) > 100 * _MOST_TRIED:
                break
            later.append(one)
        for shape in sorted(shapes, key=repr)[:_MOST_TRIED]:
            schema = told_schema(shape, self.catalog.tables.get(told.table), tells_keys=told.tells_keys)
            catalog = _with_table(self.catalog, told.table, schema)
            found: set[Shape] = set()
            for one in later:
                catalog = one.applied_to(catalog).catalog
                found |= _explained(catalog.tables.get(told.table), told)
            if len(found - {shape}) > most:
                best, most = shape, len(found - {shape})
        return best

    def _note(self, table: TableId, state: SchemaState) -> None:
        self.states.setdefault(table, []).append(state)


def _emptied_alone(applied: Applied, before: Catalog) -> Applied:
    """Return a catalog in which dropped collections are there, and empty.

    The next document makes a collection anew, by no statement.
    """
    tables, changes = dict(applied.catalog.tables), list[SchemaChange]()
    for change in applied.changes:
        match change:
            case TableDropped():
                gone = [change.table]
            case DatabaseDropped():
                gone = [table for table in before.tables if table.database == change.database]
            case _:
                changes.append(change)
                continue
        changes += [TableTruncated(table) for table in gone]
        tables |= {table: before.tables[table] for table in gone if table in before.tables}
    return Applied(replace(applied.catalog, tables=tables), tuple(changes), applied.problem)


def _with_namesakes_doubted(applied: Applied, before: Catalog, one: SourceStatement) -> Applied:
    """Return a catalog in which tables are doubted that a RENAME without a database may mean.

    The database of its message is another one then: there no table has the name.
    """
    if not any(isinstance(change, TableRenamed) and change.table not in before.tables for change in applied.changes):
        return applied
    names, made = set[str](), set[TableId]()
    for effect in effects_of(one.sql, "").effects:
        if effect.kind is EffectKind.RENAME_TABLE:
            old, new = (TableId(table.database or one.database, "", table.table) for table in effect.tables)
            if not effect.tables[0].database and old not in made and old not in before.tables:
                names.add(old.table)
            made.add(new)
    found = [table for table in sorted(before.tables) if table.table in names and table in applied.catalog.tables]
    tables = dict(applied.catalog.tables)
    tables |= {table: tables[table].doubted(NO_DATABASE) for table in found}
    doubts = (Doubted(table, NO_DATABASE) for table in found)
    return Applied(replace(applied.catalog, tables=tables), (*applied.changes, *doubts), applied.problem)


def _explained(schema: TableSchema | None, told: ToldShapes) -> set[Shape]:
    """Return the shapes that events of a table with this schema may tell."""
    if schema is None or schema.doubt is not None:
        return set()
    return {shape for shape in told.shapes if fits(schema, shape, tells_keys=told.tells_keys)}


def _with_table(catalog: Catalog, table: TableId, schema: TableSchema) -> Catalog:
    return Catalog(catalog.databases, {**catalog.tables, table: schema}, catalog.rules)


def _concerned(changes: Iterable[SchemaChange], before: Catalog, after: Catalog) -> set[TableId]:
    """Return the tables that changes are about, and all tables of databases that go."""
    found: set[TableId] = set()
    for change in changes:
        if isinstance(change, DatabaseDropped):
            found.update(table for table in (*before.tables, *after.tables) if table.database == change.database)
        elif isinstance(change, TableRenamed):
            found.update((change.table, change.new))
        elif not isinstance(change, DatabaseCreated | DatabaseCharsetChanged):
            found.add(change.table)
    return found


def names_table(sql: str, table: TableId) -> bool:
    """Return whether a text has a table's name anywhere, as a word of its own."""
    return re.search(rf"(?<![\w$]){re.escape(table.table)}(?![\w$])", sql) is not None


def _of_unknown(changes: Iterable[SchemaChange], before: Catalog) -> set[TableId]:
    """Return the tables that exist behind some changes because another table, which is not known, got their name."""
    known, unknown = set(before.tables), set[TableId]()
    for change in changes:
        if isinstance(change, TableRenamed):
            (known if change.table in known else unknown).add(change.new)
            (unknown if change.table in known else known).discard(change.new)
            known.discard(change.table)
            unknown.discard(change.table)
        elif isinstance(change, TableCreated):
            known.add(change.table)
            unknown.discard(change.table)
        elif isinstance(change, TableDropped):
            unknown.discard(change.table)
        elif isinstance(change, DatabaseDropped):
            unknown = {table for table in unknown if table.database != change.database}
    return unknown


def _is_about(change: SchemaChange, table: TableId) -> bool:
    if isinstance(change, DatabaseDropped | DatabaseCreated | DatabaseCharsetChanged):
        return change.database == table.database and isinstance(change, DatabaseDropped)
    return table == change.table or (isinstance(change, TableRenamed) and table == change.new)
