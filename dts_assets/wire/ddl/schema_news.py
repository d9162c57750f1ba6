"""News of statements for their tables, for the people who watch a run.

A statement is judged by its text and by columns that are told of its time, which may be those behind it. Values are never news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.change_words import words_of
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.effects import HARMLESS, Effect, EffectKind
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_changes import (
    ColumnAdded,
    ColumnModified,
    DatabaseCharsetChanged,
    DatabaseCreated,
    DatabaseDropped,
    Doubted,
    RowsChanged,
    SchemaChange,
    TableRenamed,
    TableTruncated,
)
from dts_assets.wire.ddl.schema_history import NO_DATABASE, SourceStatement
from dts_assets.wire.ddl.schema_model import NO_COPIED_TABLE, NO_TABLE, apply
from dts_assets.wire.ddl.table_schemas import Catalog, TableSchema

APPLIED = "yes"
NOT_KNOWN = "not a statement that is known"

_UNDERSTOOD = (None, NO_TABLE, NO_COPIED_TABLE)


@dataclass(frozen=True, slots=True)
class SchemaNews:
    """A change of a table's schema, or of rows that no event tells.

    ``text`` says it in words: ``column note varchar(80) added after id``. ``doubt`` says why the table's
    columns or rows are not proven behind it. ``position`` is None where an event told it. ``column`` is the one whose values may
    have changed, empty where there is none.
    """

    text: str
    position: SourcePosition | None = None
    doubt: str | None = None
    column: str = ""

    def __str__(self) -> str:
        """Return the news as one line."""
        at = "" if self.position is None else f"{self.position}: "
        shown = f"{at}{self.text}" + ("" if self.doubt is None else f" (not proven: {self.doubt})")
        return " ".join(shown.split())


Tables = Mapping[TableId, TableSchema]


def statement_news(one: SourceStatement, tables: Tables) -> tuple[list[tuple[TableId, SchemaNews]], Tables]:
    """Return the news of a statement for each table that it is about, and the tables behind it.

    ``tables`` are those that are known, with the columns that were told last. A statement that may be about none of them has no
    news, nor has one that changes neither columns nor unseen rows.
    """
    if one.is_first_state:
        return [], tables
    known = one.applied_to(Catalog(tables=tables))
    if known.problem is None:
        return list(_of_changes(one, known.changes, tables)), known.catalog.tables
    alone = one.applied_to(Catalog())
    if alone.problem in _UNDERSTOOD:  # it does not fit columns that may be those behind it
        doubts = (change for change in known.changes if isinstance(change, Doubted) and change.reason == NO_DATABASE)
        return [*_of_effects(one), *_of_changes(one, doubts, tables)], tables
    news = [
        (change.table, SchemaNews("a statement that is not understood", one.position, known.problem))
        for change in known.changes
        if not isinstance(change, DatabaseCreated | DatabaseCharsetChanged | DatabaseDropped)
    ]
    return news, tables


def applied_text(sql: str, database: str) -> str:
    """Return ``yes`` where snapshots follow a statement as a whole, else the reason why they do not."""
    alone = apply(Catalog(), sql, database)
    if alone.problem not in _UNDERSTOOD:
        return alone.problem or APPLIED
    parsed = effects_of(sql, database)
    if not parsed.parsed:
        return NOT_KNOWN
    return next(filter(None, map(doubt_of_effect, parsed.effects)), APPLIED)


def _of_changes(
    one: SourceStatement, changes: Iterable[SchemaChange], tables: Tables
) -> Iterable[tuple[TableId, SchemaNews]]:
    for change in changes:
        if isinstance(change, DatabaseDropped):
            for table in tables:
                if table.database == change.database:
                    yield table, SchemaNews(words_of(change), one.position)
        elif not isinstance(change, DatabaseCreated | DatabaseCharsetChanged | TableTruncated):
            column = change.new if isinstance(change, ColumnModified) else None
            column = change.column if isinstance(change, ColumnAdded) else column
            name = "" if column is None else column.name
            news = SchemaNews(words_of(change), one.position, doubt_of(change), name)
            yield change.table, news
            if isinstance(change, TableRenamed):
                yield change.new, news


def doubt_of(change: SchemaChange) -> str | None:
    """Return why rows are not proven behind a change; None where all of them are told."""
    if isinstance(change, RowsChanged | Doubted):
        return change.reason
    if isinstance(change, ColumnAdded):
        return _doubt_of_fill(change.column.type, change.fill)
    return None


def _doubt_of_fill(kind: str, fill: Fill) -> str | None:
    # The time of a statement is that of its event in UTC and whole seconds: enough for TIMESTAMP without a fraction.
    if fill is Fill.UNKNOWN or (fill is Fill.NOW and kind.partition("(")[0] + kind.partition("(")[2] != "timestamp"):
        return "the statement does not say which value rows have that were there"
    return None


def _of_effects(one: SourceStatement) -> Iterable[tuple[TableId, SchemaNews]]:
    parsed = one.parsed
    for effect in parsed.effects:
        if effect.kind is not EffectKind.TRUNCATE_TABLE and effect.kind not in HARMLESS:
            for table in effect.tables:
                name = "" if effect.definition is None else effect.columns[-1]
                yield table, SchemaNews(_effect_words(effect), one.position, doubt_of_effect(effect), name)


def _effect_words(effect: Effect) -> str:
    kind = "" if effect.definition is None else f" {effect.definition.type}"
    return f"{effect}{kind}"


def doubt_of_effect(effect: Effect) -> str | None:
    """Return why rows are not proven behind an effect of a statement; None where all are."""
    if effect.kind is EffectKind.ROWS:
        return "rows changed by no event"
    if effect.kind is EffectKind.ADD_COLUMN and effect.definition is not None:
        return _doubt_of_fill(effect.definition.type, effect.definition.fill)
    return None
