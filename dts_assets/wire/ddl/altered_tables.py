"""ALTER TABLE carried out on a table's schema, as the server carries it out.

All actions of a statement happen at once (MySQL's ``mysql_prepare_alter_table``): columns are found by the names before it, and
AFTER names columns as they are called behind it. Columns that stay come first, in their order; then added columns, and changed
ones with a place of their own, are put to their places one by one. A column that the statement adds may be changed by the same
statement, and is found by its new name then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.alter_actions import (
    Action,
    AddColumn,
    AlterColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropKey,
    RenameColumn,
    SetCharset,
)
from dts_assets.wire.ddl.charsets import BINARY, DEFAULT
from dts_assets.wire.ddl.column_definitions import is_now
from dts_assets.wire.ddl.column_types import converted
from dts_assets.wire.ddl.declared_columns import DeclaredColumn, Place, column_of, fill_of
from dts_assets.wire.ddl.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnModified,
    ColumnsRenamed,
    ColumnsReordered,
    DefaultChanged,
    KeyChanged,
    TableChange,
    TableCharsetChanged,
)
from dts_assets.wire.ddl.table_clauses import DeclaredKey
from dts_assets.wire.ddl.table_schemas import SchemaColumn, ServerRules, TableSchema, folded
from dts_assets.wire.ddl.tokens import Unreadable


@dataclass(slots=True, eq=False)
class _Slot:
    """A column on its way: the column it was, its declaration, and the column it becomes.

    ``old`` is None for an added column, ``declared`` for a column that is not declared again.
    """

    old: SchemaColumn | None
    declared: DeclaredColumn | None
    column: SchemaColumn


@dataclass(frozen=True, slots=True)
class _Charsets:
    """The table's default character set behind the statement, and the character set that all texts are converted to."""

    table: str | None
    all_texts: str | None


def altered(
    table: TableId, schema: TableSchema, actions: Sequence[Action], *, database_charset: str | None, rules: ServerRules
) -> tuple[TableSchema, list[TableChange]]:
    """Return the table's schema behind the statement, and its changes in an order to follow.

    Raises:
        Unreadable: the statement does not fit the schema, so that one of them is not what the server had.
    """
    charsets = _charsets(schema, actions, database_charset)
    slots = _placed(schema, actions, charsets, rules)
    key = _key(schema, actions, slots)
    in_key = {folded(name) for name in key}
    for slot in slots:
        if folded(slot.column.name) in in_key:
            slot.column = replace(slot.column, nullable=False)
    columns = tuple(slot.column for slot in slots)
    if len({folded(column.name) for column in columns}) < len(columns):
        raise Unreadable("two columns of one name")
    if not columns:
        raise Unreadable("a table without columns")
    after = TableSchema(columns, key, charsets.table, schema.doubt)
    return after, list(_changes(table, schema, after, slots))


def _charsets(schema: TableSchema, actions: Sequence[Action], database_charset: str | None) -> _Charsets:
    """Return the character sets that the statement decides.

    Raises:
        Unreadable: texts are converted to the database's character set, which is not known, or to another than new columns get.
    """
    said = all_texts = None
    for action in actions:
        if isinstance(action, SetCharset | ConvertCharset):
            charset = database_charset if action.charset == DEFAULT else action.charset
            if isinstance(action, SetCharset):
                said = charset
            elif charset is None:
                raise Unreadable("a conversion to a character set that is not known")
            else:
                all_texts = charset
    if said is not None and all_texts not in (None, said):
        raise Unreadable("two character sets in one statement")
    return _Charsets(said or all_texts or schema.charset, all_texts)


def _placed(schema: TableSchema, actions: Sequence[Action], charsets: _Charsets, rules: ServerRules) -> list[_Slot]:
    """Return the columns behind the statement in their order.

    Raises:
        Unreadable: the actions do not fit the columns.
    """
    there = {folded(column.name): column for column in schema.columns}
    by_name, of_declared = _actions_by_name(actions, there)
    kept = {
        name: _kept(column, own, charsets, rules)
        for name, column in there.items()
        if not isinstance(own := by_name.get(name), DropColumn)
    }
    order = _Order(kept.values())
    named: set[str] = set()
    for action in actions:
        if not isinstance(action, AddColumn | ChangeColumn):
            continue
        name = folded(action.column.name)
        if isinstance(action, AddColumn) and action.if_absent and (name in there or name in named):
            continue
        named.add(name)
        if isinstance(action, AddColumn):
            slot = _Slot(None, action.column, _declared(action.column, charsets, rules))
        elif by_name.get(folded(action.old)) is action:
            slot = kept[folded(action.old)]
            if action.column.place is None:
                continue
            order.take_out(slot)
        elif not action.if_exists or folded(action.old) in there:
            slot = _Slot(None, action.column, _declared(action.column, charsets, rules))
            order.take_out(slot)
        else:
            continue
        own_default = of_declared.pop(folded(slot.column.name), None)
        if own_default is not None and not _has_time_as_default(slot.column):
            slot.column = _altered(slot.column, own_default)
        order.put(slot, action.column.place)
    if of_declared:
        raise Unreadable("another default of a column that is changed or not there")
    return order.slots()


_OnColumn = DropColumn | ChangeColumn | RenameColumn | AlterColumn


def _actions_by_name(
    actions: Sequence[Action], there: dict[str, SchemaColumn]
) -> tuple[dict[str, _OnColumn], dict[str, AlterColumn]]:
    """Return the action on each column that is there, and defaults of columns added or moved.

    Raises:
        Unreadable: an action is about a column that is not there, or two are about one column.
    """
    found: dict[str, _OnColumn] = {}
    for action in actions:
        if isinstance(action, DropColumn):
            name = folded(action.name)
            if not action.if_exists and (name not in there or name in found):
                raise Unreadable("a column that the table does not have")
            if name in there:
                found[name] = action
    for action in actions:
        if isinstance(action, ChangeColumn | RenameColumn):
            name = folded(action.old)
            if name in there and name not in found:
                found[name] = action
            elif isinstance(action, RenameColumn) and not (action.if_exists and name not in there):
                raise Unreadable("a column that the table does not have")
    others: dict[str, AlterColumn] = {}
    for action in actions:
        if isinstance(action, AlterColumn):
            name = folded(action.name)
            if name in there and name not in found:
                found[name] = action
            elif name in there or not action.if_exists:
                others[name] = action
    return found, others


def _altered(column: SchemaColumn, action: AlterColumn) -> SchemaColumn:
    if action.invisible is None:
        return column if column.auto_increment else replace(column, default=action.default)
    return replace(column, invisible=action.invisible)


def _has_time_as_default(column: SchemaColumn) -> bool:
    """Tell whether a column has the statement's time as its default.

    To servers that is no value but a property.
    """
    return is_now(column.default) and column.type.startswith(("datetime", "timestamp"))


def _kept(
    column: SchemaColumn,
    action: ChangeColumn | RenameColumn | AlterColumn | None,
    charsets: _Charsets,
    rules: ServerRules,
) -> _Slot:
    """Return a column that stays: declared again, renamed, with another default, or as it was.

    Raises:
        Unreadable: a conversion is from or to a character set that is not known.
    """
    if isinstance(action, ChangeColumn):
        return _Slot(column, action.column, _declared(action.column, charsets, rules))
    new = column
    if isinstance(action, RenameColumn):
        new = replace(column, name=action.new)
    elif isinstance(action, AlterColumn):
        new = _altered(column, action)
    if charsets.all_texts is not None:
        new = _converted(new, charsets.all_texts, rules)
    return _Slot(column, None, new)


def _converted(column: SchemaColumn, charset: str, rules: ServerRules) -> SchemaColumn:
    """Return a column after CONVERT TO CHARACTER SET.

    Raises:
        Unreadable: its character set is not known.
    """
    name = column.type.partition("(")[0]
    if column.charset is None:
        if name in ("char", "varchar", "enum", "set") or name.endswith("text"):
            raise Unreadable("a conversion from a character set that is not known")
        return column
    shown, new = converted(column.type, column.charset, charset, rules)
    return replace(column, type=shown, charset=new)


def _declared(declared: DeclaredColumn, charsets: _Charsets, rules: ServerRules) -> SchemaColumn:
    """Return a column that the statement declares; a conversion counts more than the column's own character set."""
    if charsets.all_texts is None or not declared.type.has_charset or declared.charset == BINARY:
        column = column_of(declared, charsets.table, rules)
        return column if charsets.all_texts is None else _converted(column, charsets.all_texts, rules)
    return column_of(replace(declared, charset=charsets.all_texts), charsets.table, rules)


class _Order:
    """Columns in their order, to which others are put one by one.

    A list would be walked for every AFTER: 4,096 columns would take as many steps each. So each column knows its neighbours.
    """

    def __init__(self, slots: Iterable[_Slot]) -> None:
        self._next: dict[str | None, str | None] = {None: None}
        self._before: dict[str | None, str | None] = {None: None}
        self._slots: dict[str, _Slot] = {}
        for slot in slots:
            self.put(slot, None)

    def take_out(self, slot: _Slot) -> None:
        """Take out a column that is to be put elsewhere, or the added one that it stands for.

        Raises:
            Unreadable: there is none of its name, or another one that was there before.
        """
        name = folded(slot.column.name)
        found = self._slots.get(name)
        if found is not slot and (found is None or found.old is not None):
            raise Unreadable("a column that the table does not have")
        del self._slots[name]
        before, behind = self._before.pop(name), self._next.pop(name)
        self._next[before], self._before[behind] = behind, before

    def put(self, slot: _Slot, place: Place | None) -> None:
        """Put a column to its place; without one, to the end.

        Raises:
            Unreadable: it is to stand behind a column that is not there, or a column of its name is there.
        """
        name = folded(slot.column.name)
        if name in self._slots:
            raise Unreadable("two columns of one name")
        if place is None:
            before = self._before[None]
        else:
            before = None if place.after is None else folded(place.after)
            if before is not None and before not in self._slots:
                raise Unreadable("a place behind a column that the table does not have")
        behind = self._next[before]
        self._next[before] = self._before[behind] = name
        self._next[name], self._before[name] = behind, before
        self._slots[name] = slot

    def slots(self) -> list[_Slot]:
        """Return the columns from first to last."""
        found: list[_Slot] = []
        name = self._next[None]
        while name is not None:
            found.append(self._slots[name])
            name = self._next[name]
        return found


def _key(schema: TableSchema, actions: Sequence[Action], slots: list[_Slot]) -> tuple[str, ...]:
    """Return the primary key behind the statement.

    A column of the key that is dropped leaves it, unless the statement adds another one of its name. Servers take the first
    column that had, or has, the name.

    Raises:
        Unreadable: a key names a column that is not there.
    """
    key = schema.key
    if any(isinstance(action, DropKey) for action in actions):
        key = ()
    new_names: dict[str, str] = {}
    for slot in slots:
        new_names.setdefault(folded((slot.old or slot.column).name), slot.column.name)
    key = tuple(new_names[folded(name)] for name in key if folded(name) in new_names)
    names = {folded(slot.column.name): slot.column.name for slot in slots}
    for action in actions:
        columns: tuple[str, ...] = ()
        if isinstance(action, DeclaredKey):
            columns, may_be_there = action.columns, action.if_absent
        elif isinstance(action, AddColumn | ChangeColumn) and action.column.is_key:
            # The key counts even where IF NOT EXISTS keeps the column from being added.
            columns = (action.column.name,)
            may_be_there = action.if_absent if isinstance(action, AddColumn) else action.if_exists
        if not columns or (may_be_there and schema.key):
            continue
        if not all(folded(name) in names for name in columns):
            raise Unreadable("a key on a column that the table does not have")
        key = tuple(names[folded(name)] for name in columns)
    return key


def _changes(table: TableId, before: TableSchema, after: TableSchema, slots: list[_Slot]) -> Iterator[TableChange]:
    kept = [(slot.old, slot.column) for slot in slots if slot.old is not None]
    stay = {old.name for old, _ in kept}
    for column in before.columns:
        if column.name not in stay:
            yield ColumnDropped(table, column.name)
    new_names = {old.name: new.name for old, new in kept}
    if renamed := tuple((old, new) for old, new in new_names.items() if old != new):
        yield ColumnsRenamed(table, renamed)
    for old, new in kept:
        known = replace(old, name=new.name)
        if replace(known, default=new.default) != new:
            yield ColumnModified(table, known, new)
        elif known != new:
            yield DefaultChanged(table, new.name, new.default)
    order = tuple(new.name for _, new in kept)
    if order != tuple(new_names[column.name] for column in before.columns if column.name in stay):
        yield ColumnsReordered(table, order)
    behind: str | None = None
    for slot in slots:
        if slot.old is None and slot.declared is not None:
            yield ColumnAdded(table, slot.column, behind, *fill_of(slot.declared, slot.column))
        behind = slot.column.name
    if before.charset != after.charset:
        yield TableCharsetChanged(table, after.charset)
    if tuple(new_names.get(name) for name in before.key) != after.key:
        yield KeyChanged(table, before.key, after.key)
