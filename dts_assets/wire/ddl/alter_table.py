"""The actions of an ALTER TABLE, each to its effects (MySQL manual, "ALTER TABLE Statement")."""

from __future__ import annotations

from collections.abc import Iterator

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.alter_actions import (
    Action,
    AddColumn,
    AlterColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropKey,
    LoseRows,
    PartitionRows,
    RenameColumn,
    RenameTo,
    alter_actions,
)
from dts_assets.wire.ddl.declared_columns import DeclaredColumn, definition_of
from dts_assets.wire.ddl.effects import Effect, EffectKind
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.table_clauses import DeclaredKey
from dts_assets.wire.ddl.tokens import Reader, words

_WIDE_CHARACTER_SETS = words("utf8mb4 utf16 utf32")
_INDEXES = frozenset({Part.INDEX, Part.CHECK, Part.FOREIGN_KEY, Part.CASCADE})


def table_name(reader: Reader, database: str) -> TableId:
    """Take the name of a table, with its database or without."""
    name = reader.name()
    if reader.takes("."):
        return TableId(name, "", reader.name())
    return TableId(database, "", name)


def wait(reader: Reader) -> None:
    """Take the words that say how long MariaDB may wait for a lock."""
    if not reader.takes("NOWAIT") and reader.takes("WAIT"):
        reader.take()


def alter_table(reader: Reader, table: TableId, database: str, *, ignores: bool) -> list[Effect]:
    """Return the effects of the actions on ``table``, in their order.

    The actions of one statement happen at once: old names are the names before it, so that two columns may change names.
    ``ignores`` says that rows in the way are dropped.

    Raises:
        Unreadable: an action is not understood.
    """
    effects = [effect for action in alter_actions(reader.rest) for effect in _effects(action, table, database)]
    # The new name is the table's own from the end of the statement on, wherever it stands in it.
    effects.sort(key=lambda effect: effect.kind is EffectKind.RENAME_TABLE)
    if ignores:
        effects.insert(0, Effect(EffectKind.ROWS, (table,)))
    return [one for one in effects if one.kind is not EffectKind.OTHER] or [Effect(EffectKind.OTHER, (table,))]


def _effects(action: Action, table: TableId, database: str) -> Iterator[Effect]:
    match action:
        case AddColumn(column):
            yield from _defined(EffectKind.ADD_COLUMN, column, table)
        case ChangeColumn(old, column):
            if old != column.name:
                yield Effect(EffectKind.RENAME_COLUMN, (table,), (old, column.name))
            yield from _defined(EffectKind.MODIFY_COLUMN, column, table)
        case DropColumn(name):
            yield Effect(EffectKind.DROP_COLUMN, (table,), (name,))
        case RenameColumn(old, new):
            yield Effect(EffectKind.RENAME_COLUMN, (table,), (old, new))
        case AlterColumn(name, invisible=None):
            yield Effect(EffectKind.DEFAULT, (table,), (name,))
        case DeclaredKey() | DropKey():
            yield Effect(EffectKind.PRIMARY_KEY, (table,))
        case RenameTo(other, name):
            yield Effect(EffectKind.RENAME_TABLE, (table, TableId(database if other is None else other, "", name)))
        case PartitionRows(_, other):
            yield Effect(EffectKind.ROWS, (table,))
            if other is not None:
                yield Effect(EffectKind.ROWS, (TableId(database if other[0] is None else other[0], "", other[1]),))
        case LoseRows():
            yield Effect(EffectKind.ROWS, (table,))
        case ConvertCharset(charset):
            # Characters that the new character set lacks become question marks.
            yield Effect(EffectKind.OTHER if charset in _WIDE_CHARACTER_SETS else EffectKind.ROWS, (table,))
        case OtherPart(part) if part in _INDEXES:
            yield Effect(EffectKind.INDEX, (table,))
        case _:
            yield Effect(EffectKind.OTHER, (table,))


def _defined(kind: EffectKind, column: DeclaredColumn, table: TableId) -> Iterator[Effect]:
    yield Effect(kind, (table,), (column.name,), definition_of(column))
    if column.is_key:
        yield Effect(EffectKind.PRIMARY_KEY, (table,))
