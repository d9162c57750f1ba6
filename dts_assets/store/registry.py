"""The table registry: the source tables of a subscription and their columns.

It is a file that people can read and diff, and a cache: the truth is the table ``table_shapes`` of the ledger. Definitions
read it to draw the graph without a network, so this module needs nothing but the standard library. The file names the lake that
it was made from. Entries are only ever added or widened; a table that the source dropped stays, because its windows are still
in the lake. A table that a person has removed stays, too, with a note, because it may be added again.
A damaged file counts as lost.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dts_assets.errors import LakeTableError
from dts_assets.model.collections import DOCUMENT_TYPE
from dts_assets.model.columns import Column, same_name
from dts_assets.model.tables import TableId
from dts_assets.store.durable import sync_folder
from dts_assets.store.locks import locked

VERSION = 1

_WAY_OUT = "`dts-assets run` writes it anew from the ledger"
_OTHER_WAY_OUT = "remove it, and `dts-assets run` writes it anew from the ledger"
_UNREADABLE_WAY_OUT = "let the user of this process read it"
_ELSEWHERE = "make its folder writable, or set DAGSTER_HOME to a folder that is"


_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The errors that last until somebody changes something; a full disk may have room again."""


@dataclass(frozen=True)  # without slots, for the cached property
class RegisteredColumn:
    """A column by its name in the lake, with the source's latest type text and the lake type.

    ``spellings`` and ``own_types`` are as in :class:`dts_assets.model.columns.Column`.
    """

    name: str
    original_type: str
    type: str
    is_key: bool
    spellings: tuple[str, ...] = ()
    own_types: tuple[tuple[str, str], ...] = ()

    @cached_property
    def column(self) -> Column:
        """The column as the lake holds it."""
        is_document = self.original_type == DOCUMENT_TYPE
        return Column(self.name, self.type, self.is_key, self.spellings, self.own_types, is_document)


@dataclass(frozen=True)
class RegisteredTable:
    """A source table with its columns, in the order in which they were first seen.

    ``removed`` says that a person has taken it out of the lake: the graph does not show it. ``sources`` are the source tables
    whose changes it gets, where these are not the table of its own name alone. ``several_keys`` says that events told several
    keys.
    """

    table: TableId
    columns: tuple[RegisteredColumn, ...]
    removed: bool = False
    sources: tuple[TableId, ...] = ()
    several_keys: bool = False

    @cached_property
    def shape(self) -> tuple[Column, ...]:
        """The columns as the lake holds them."""
        return tuple(column.column for column in self.columns)


@dataclass(frozen=True, slots=True)
class Registry:
    """The content of a registry file: its tables by name, and the identity of its lake.

    ``lacks_renames`` says that the file was lost and written anew, without columns that statements alone brought.
    """

    lake: str | None
    tables: Mapping[TableId, RegisteredTable]
    lacks_renames: bool = False


def read_registry(path: Path) -> dict[TableId, RegisteredTable]:
    """Return the registered tables, by name; none if there is no file.

    Raises:
        LakeTableError: The file cannot be read, is no registry, or a registry of another version.
    """
    found = _read(path)
    return {} if found is None else dict(found.tables)


def read_registry_of(path: Path, lake: str) -> dict[TableId, RegisteredTable] | None:
    """Return the registered tables of a lake, by name. None stands for no file, a damaged one, or one of another lake.

    Raises:
        LakeTableError: The file cannot be read, or is a registry of another version.
    """
    found = _read_or_lost(path)
    return None if found is None or found.lake != lake else dict(found.tables)


def lacks_renames(path: Path, lake: str | None) -> bool:
    """Return whether a lake's file was lost and written anew, without columns that statements alone brought.

    Raises:
        LakeTableError: The file cannot be read, or is a registry of another version.
    """
    found = _read_or_lost(path)
    return found is not None and found.lake == lake and found.lacks_renames


class DamagedRegistryError(LakeTableError):
    """A file that should be a registry and is none."""


def _read_or_lost(path: Path) -> Registry | None:
    """Return the content of a registry file; None if there is no file, or a damaged one.

    Raises:
        LakeTableError: The file cannot be read, or is a registry of another version.
    """
    try:
        return _read(path)
    except DamagedRegistryError:
        return None


def _read(path: Path) -> Registry | None:
    """Return the content of a registry file; None if there is no file.

    Raises:
        DamagedRegistryError: The file is no registry.
        LakeTableError: The file cannot be read, or is a registry of another version.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise LakeTableError(str(path), f"it cannot be read ({reason})", _UNREADABLE_WAY_OUT) from None
    try:
        return _parsed(content)
    except _OtherVersionError as other:
        raise LakeTableError(
            str(path),
            f"it is a table registry of version {other}, and this version of dts-assets reads {VERSION}",
            _OTHER_WAY_OUT,
        ) from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise DamagedRegistryError(str(path), "it is damaged, and no table registry", _WAY_OUT) from None


class _OtherVersionError(Exception):
    """A registry of another version."""


@lru_cache(maxsize=4)
def _parsed(content: bytes) -> Registry:
    """Return the registry in the bytes of a file.

    A run asks for it many times, and mostly the bytes are as before.

    Raises:
        _OtherVersionError: It is a registry of another version.
        Exception: It is no registry.
    """
    document = json.loads(content)
    if document["version"] != VERSION:
        raise _OtherVersionError(document["version"])
    found = [_table(entry) for entry in document["tables"].values()]
    tables = {one.table: one for one in sorted(found, key=lambda one: one.table)}
    return Registry(document.get("lake"), tables, bool(document.get("lacks_renames", False)))


def merge_registry(
    path: Path, tables: Iterable[RegisteredTable], *, lake: str | None = None, lacks_renames: bool | None = None
) -> dict[TableId, RegisteredTable]:
    """Add tables, columns and newer types to the file, and return all tables that it holds then.

    A damaged file and one of another lake are replaced. A file that would not change is not touched. Several processes may do so
    at once; a reader sees the old file or the new one. The note ``lacks_renames`` stays as it is where None is given.

    Raises:
        LakeTableError: The file must not be read or written, or is of another version.
        OSError: The disk failed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock")):
            there = _read_or_lost(path)
            if there is None or there.lake != lake:
                there = None
            before = {} if there is None else there.tables
            noted = there is not None and there.lacks_renames
            lacks = noted if lacks_renames is None else lacks_renames
            after = dict(before)
            for one in tables:
                after[one.table] = merged(after[one.table], one) if one.table in after else one
            after = dict(sorted(after.items()))
            if after != before or lacks != noted or (path.exists() and there is None):
                _write(path, Registry(lake, after, lacks))
    except OSError as error:
        if error.errno not in _FORBIDDEN:
            raise
        reason = (error.strerror or "unknown reason").lower()
        raise LakeTableError(str(path), f"it cannot be written ({reason})", _ELSEWHERE) from None
    return after


def note_removed(path: Path, removed: Collection[TableId], *, lake: str | None) -> None:
    """Note in the file which of its tables are removed; all others are not.

    A damaged file, one of another lake, and one that is not there stay as they are.

    Raises:
        LakeTableError: The file cannot be read, or is of another version.
        OSError: The file cannot be written.
    """
    _note(path, lake, lambda one: replace(one, removed=one.table in removed))


def _note(path: Path, lake: str | None, noted: Callable[[RegisteredTable], RegisteredTable]) -> None:
    """Write the tables of a lake's file with a note, if that changes any."""
    if not path.exists():
        return
    with locked(path.with_name(f".{path.name}.lock")):
        there = _read_or_lost(path)
        if there is None or there.lake != lake:
            return
        after = {table: noted(entry) for table, entry in there.tables.items()}
        if after != there.tables:
            _write(path, replace(there, tables=after))


def note_several_keys(path: Path, tables: Collection[TableId], *, lake: str | None) -> None:
    """Note in the file that events told several keys of some of its tables.

    A damaged file, one of another lake, and one that is not there stay as they are.

    Raises:
        LakeTableError: The file cannot be read, or is of another version.
        OSError: The file cannot be written.
    """
    _note(path, lake, lambda one: replace(one, several_keys=one.several_keys or one.table in tables))


def merged(old: RegisteredTable, new: RegisteredTable) -> RegisteredTable:
    """Return the table with the columns of both: the old columns in their order, then the new ones.

    A column that both have is taken from ``new``, and so are its names unless ``old`` knows more of them.
    """
    named = {same_name(column.name): column for column in new.columns}
    kept = tuple(_merged(column, named.pop(same_name(column.name), column)) for column in old.columns)
    several = old.several_keys or new.several_keys
    return RegisteredTable(old.table, kept + tuple(named.values()), old.removed, _joined_sources(old, new), several)


def _joined_sources(old: RegisteredTable, new: RegisteredTable) -> tuple[TableId, ...]:
    if old.sources == new.sources:
        return old.sources
    both = {source for one in (old, new) for source in (one.sources or (one.table,))}
    return tuple(sorted(both))


def _merged(old: RegisteredColumn, new: RegisteredColumn) -> RegisteredColumn:
    if {*old.spellings} > {*new.column.source_names}:
        return replace(new, name=old.name, spellings=old.spellings)
    return new


@lru_cache(maxsize=1 << 14)
def _column(name: Any, original_type: Any, kind: Any, is_key: Any) -> RegisteredColumn:
    """Return a column that has had one name and one type; thousands of tables repeat such columns."""
    return RegisteredColumn(str(name), str(original_type), str(kind), bool(is_key))


def _table(entry: Mapping[str, Any]) -> RegisteredTable:
    columns = []
    for one in entry["columns"]:
        column = _column(one["name"], one["original_type"], one["type"], one["is_key"])
        if "spellings" in one or "own_types" in one:
            spellings = tuple(map(str, one.get("spellings", ())))
            own_types = tuple((str(text), str(kind)) for text, kind in one.get("own_types", ()))
            column = replace(column, spellings=spellings, own_types=own_types)
        columns.append(column)
    database, schema, table = map(str, entry["name"])
    sources = tuple(TableId(*map(str, name)) for name in entry.get("sources", ()))
    removed, several = (bool(entry.get(name, False)) for name in ("removed", "several_keys"))
    return RegisteredTable(TableId(database, schema, table), tuple(columns), removed, sources, several)


def _parts(source: TableId) -> tuple[str, ...]:
    """Return the parts of a source table as the file shows them, with its set if any."""
    return (*source.names, source.source_set) if source.source_set else source.names


def _shown(column: RegisteredColumn) -> dict[str, Any]:
    """Return a column as the file shows it, without spellings and own types where there are none."""
    return {name: value for name, value in asdict(column).items() if name not in ("spellings", "own_types") or value}


def _write(path: Path, registry: Registry) -> None:
    """Put the new file in the place of the old one at once.

    The file has one line per column, so that a diff shows the columns that came.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as stream:
            stream.write(_text(registry))
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.chmod(0o644)
        unfinished.replace(path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _text(registry: Registry) -> str:
    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    entries, removed, several = [], '      "removed": true,\n', '      "several_keys": true,\n'
    for table, registered in registry.tables.items():
        columns = ",\n".join(f"        {line(_shown(column))}" for column in registered.columns)
        names = ",\n".join(f"        {line(_parts(source))}" for source in registered.sources)
        notes = (removed if registered.removed else "") + (several if registered.several_keys else "")
        sources = f'      "sources": [\n{names}\n      ],\n' if names else ""
        entries.append(
            f'    {line(table.exact_name)}: {{\n      "name": {line(table.names)},\n      "path": {line(table.path)},\n'
            f'{notes}{sources}      "columns": [\n{columns}\n      ]\n    }}'
        )
    body = ",\n".join(entries)
    named = "" if registry.lake is None else f'  "lake": {line(registry.lake)},\n'
    named += '  "lacks_renames": true,\n' if registry.lacks_renames else ""
    return f'{{\n  "version": {VERSION},\n{named}  "tables": {{\n{body}\n  }}\n}}\n'
