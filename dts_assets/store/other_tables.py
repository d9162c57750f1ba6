"""The other tables of a catalog, asked before files are removed.

A file that one of them names stays.

Programs let tables share files (Spark's ``add_files``, a table that is registered twice), and manifests alone say which. No run
of this project names a file outside of its own table's folders, so its tables are read only where folders overlap. All other ones
are read. The catalog says anew in each pass which metadata a table has; what the same metadata name is read once in a process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from dts_assets.errors import LakeTableError
from dts_assets.store.catalog import SqliteCatalog
from dts_assets.store.schemas import FORMAT_PROPERTY, FORMAT_TABLE, SOURCE_TABLE_PROPERTY, SYSTEM_TABLES
from dts_assets.store.table_files import named_places
from dts_assets.store.table_folders import folders_of

_GONE = (NoSuchTableError, NoSuchIcebergTableError, NoSuchNamespaceError, FileNotFoundError)
"""The errors of a table that is gone, or that only its name is left of."""

_CANNOT_TELL = "its files are not known, so no file that it may name can be removed"
_WAY_OUT = "let it be read, or drop it from the catalog; maintenance.other_tables: near leaves it out"


@dataclass(frozen=True, slots=True)
class _Other:
    """A table, as it was when the catalog was read: its folders, and whether this project made it."""

    folders: tuple[str, ...]
    ours: bool
    table: Table


Found = TypeVar("Found")

_Known: TypeAlias = tuple[str, int, frozenset[str]]

_KNOWN: dict[tuple[Identifier, str, bool], _Known] = {}
"""The places that tables named when they were last read.

Beside them stand the files of metadata that say so, and their times. They are by name, by id, and by whether folders
overlap. A new look at the catalog compares these files.
"""

_MOST = 10_000
"""The tables whose places are known at most.

Most of them name no place outside of their own folders.
"""


@dataclass(slots=True)
class OtherTables:
    """The tables of a catalog as they stand when they are first asked for. One is used for one pass over many tables.

    ``near`` says that only those are read whose folders overlap with those of the table whose files go.
    """

    catalog: Catalog
    near: bool = False
    _found: list[_Other] | LakeTableError | None = field(default=None, init=False, repr=False)
    _folders: list[tuple[str, int]] = field(default_factory=list, init=False, repr=False)
    _names: dict[tuple[int, bool], frozenset[str] | LakeTableError] = field(
        default_factory=dict, init=False, repr=False
    )
    _said: set[str] = field(default_factory=set, init=False, repr=False)

    def say_once(self, error: LakeTableError, warn: Callable[[str], None]) -> None:
        """Say why old versions stay, unless this pass has said it of the same table."""
        if (line := f"old versions stay, because another table may name their files: {error}") not in self._said:
            self._said.add(line)
            warn(line)

    def naming(self, table: Table, places: Collection[str]) -> set[str]:
        """Return those of a table's places that another table names.

        Raises:
            LakeTableError: Another table cannot be read, so that nobody can say.
        """
        found = set[str]()
        if not places:
            return found
        others = self._others()
        near = {number for folder in folders_of(table) for number in self._overlapping(folder)}
        far = () if self.near else (number for number, one in enumerate(others) if not one.ours)
        for number in sorted(near.union(far)):
            other = others[number]
            if not _is_same(other.table, table):
                found.update(self._named(number, other, number in near).intersection(places))
        return found

    def _overlapping(self, folder: str) -> Iterator[int]:
        """Yield the numbers of the tables with a folder that lies in this one, or that has it."""
        known = self._folders
        for place in range(bisect_left(known, (folder,)), len(known)):
            if not known[place][0].startswith(folder):
                break
            yield known[place][1]
        for end in (place for place, sign in enumerate(folder, 1) if sign == "/"):
            above = folder[:end]
            for place in range(bisect_left(known, (above,)), len(known)):
                if known[place][0] != above:
                    break
                yield known[place][1]

    def _others(self) -> list[_Other]:
        if self._found is None:
            self._found = _or_error(partial(_all_of, self.catalog))
            found = [] if isinstance(self._found, LakeTableError) else self._found
            self._folders = sorted((folder, number) for number, one in enumerate(found) for folder in one.folders)
        if isinstance(self._found, LakeTableError):
            raise self._found
        return self._found

    def _named(self, number: int, other: _Other, near: bool) -> frozenset[str]:
        """Return the places that a table names.

        Of one that shares no folder they are those outside of its own folders.

        Raises:
            LakeTableError: The table cannot be read.
        """
        if (number, near) not in self._names:
            self._names[number, near] = _or_error(partial(_places, other, near))
        found = self._names[number, near]
        if isinstance(found, LakeTableError):
            raise found
        return found


def _or_error(look: Callable[[], Found]) -> Found | LakeTableError:
    """Return what a look finds, or its error.

    A pass does not look again at what it could not read.
    """
    try:
        return look()
    except LakeTableError as error:
        return error


def _places(other: _Other, near: bool) -> frozenset[str]:
    """Return the places that a table names, read once for each of its files of metadata.

    Raises:
        LakeTableError: The table cannot be read.
    """
    table = other.table
    key = table.name(), str(table.metadata.table_uuid), near
    version = table.metadata_location, table.metadata.last_updated_ms
    known = _KNOWN.get(key)
    if known is not None and known[:2] == version:
        return known[2]
    try:
        named = named_places(table)
    except Exception as error:  # whatever a damaged or foreign file makes its reader raise
        raise LakeTableError(".".join(table.name()), _CANNOT_TELL, _WAY_OUT) from error
    found = frozenset(one for one in named if near or not one.startswith(other.folders))
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    _KNOWN[key] = (*version, found)
    return found


def _all_of(catalog: Catalog) -> list[_Other]:
    """Return all tables of a catalog.

    Raises:
        LakeTableError: A table, or the list of all, cannot be read.
    """
    opened = list(_opened(catalog))
    made, found = {one.name()[:-1] for one in opened if _has_format(one)}, list[_Other]()
    for one in opened:
        with _readable(one.name()):
            found.append(_Other(folders_of(one), _is_ours(one, made), one))
    return found


def _is_same(one: Table, other: Table) -> bool:
    return one.name() == other.name() and one.metadata.table_uuid == other.metadata.table_uuid


def _has_format(table: Table) -> bool:
    return table.name()[-1] == FORMAT_TABLE and FORMAT_PROPERTY in table.properties


def _is_ours(table: Table, namespaces: Collection[Identifier]) -> bool:
    """Return whether a subscription made a table. ``namespaces`` are those of subscriptions' own tables."""
    *namespace, name = table.name()
    return SOURCE_TABLE_PROPERTY in table.properties or (tuple(namespace) in namespaces and name in SYSTEM_TABLES)


def _opened(catalog: Catalog) -> Iterator[Table]:
    """Yield all tables of a catalog, those of other names in the same SQLite file among them.

    Raises:
        LakeTableError: A table, or the list of all, cannot be read.
    """
    for name, open_table in catalog.openers() if isinstance(catalog, SqliteCatalog) else _openers(catalog):
        with suppress(*_GONE), _readable(name):
            yield open_table()


def _openers(catalog: Catalog) -> Iterator[tuple[Identifier, Callable[[], Table]]]:
    with _readable(("",)):
        spaces = list(catalog.list_namespaces())
    while spaces:
        space = spaces.pop()
        with suppress(*_GONE), _readable(space):
            spaces += [one for one in catalog.list_namespaces(space) if len(one) > len(space)]
            for name in catalog.list_tables(space):
                yield name, partial(catalog.load_table, name)


@contextmanager
def _readable(name: Identifier) -> Iterator[None]:
    """Say which table, namespace or catalog cannot be read.

    Raises:
        LakeTableError: It cannot be read; it is not just gone.
    """
    try:
        yield
    except (*_GONE, LakeTableError):
        raise
    except Exception as error:  # whatever a damaged or foreign file makes its reader raise
        raise LakeTableError(".".join(name) or "the catalog", _CANNOT_TELL, _WAY_OUT) from error
