"""Tables as a server's catalog has them at some position of its binlog: values that statements change.

The values know no statement. :mod:`dts_assets.wire.ddl.schema_model` makes the next catalog from one catalog and a statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dts_assets.model.tables import TableId


class Family(StrEnum):
    """The server's family, where MySQL and MariaDB keep the same statement in different ways."""

    MYSQL = "mysql"
    MARIADB = "mariadb"


_FIRST_OF_MYSQL, _LAST_OF_MYSQL = 50_700, 99_999
"""Versions in comments that mean MySQL alone (MariaDB's documentation, "Comment Syntax")."""


@dataclass(frozen=True, slots=True)
class ServerRules:
    """Settings of a server that decide the meaning of a statement which does not say them.

    ``version`` is the server's, such as 80036 or 101119; None says that version comments may be code or not.
    ``charset`` is the character set of databases that are made without one (None: not known). ``lower_case_names`` is
    ``lower_case_table_names=1``: names of databases and tables are kept in small letters. ``explicit_timestamps`` is
    ``explicit_defaults_for_timestamp``: False makes a TIMESTAMP without NULL a NOT NULL column. It is on since MySQL 8.0 and
    MariaDB 10.10.
    """

    family: Family = Family.MYSQL
    version: int | None = None
    charset: str | None = None
    lower_case_names: bool = False
    explicit_timestamps: bool = True

    def runs(self, is_mariadb: bool, version: int) -> bool:
        """Tell whether the server carries out a version comment, which begins with ``/*M!`` or not.

        MariaDB passes over code that is meant for MySQL 5.7 to 9.
        """
        if self.version is None or version > self.version:
            return False
        if self.family is Family.MARIADB:
            return is_mariadb or not _FIRST_OF_MYSQL <= version <= _LAST_OF_MYSQL
        return not is_mariadb


def folded(name: str) -> str:
    """Return a column's name as servers compare it: ``id`` for ``ID``, but ``ς`` and ``σ`` for themselves.

    Servers compare small letters, character by character. Spark's rule (:func:`dts_assets.model.columns.same_name`) is another.
    """
    return name.lower() if name.isascii() else "".join(character.lower()[0] for character in name)


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a table, such as ``amount`` with type ``decimal(10,2)``.

    ``type`` is the full type as COLUMN_TYPE of information_schema shows it up to MySQL 5.7 and in MariaDB: integers with their
    width, ``int(11)``. ``charset`` is the character set of a text, enum or set, None for all else and where it is not known.
    ``default`` is the SQL text of the default, None without one and for NULL.
    """

    name: str
    type: str
    charset: str | None = None
    nullable: bool = True
    default: str | None = None
    generated: bool = False
    invisible: bool = False
    auto_increment: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: its columns in order, its primary key in the key's order, its default character set.

    ``doubt`` is the reason why the schema, or the rows under it, are not proven: a statement that was not understood. None means
    that both follow from statements.
    """

    columns: tuple[SchemaColumn, ...]
    key: tuple[str, ...] = ()
    charset: str | None = None
    doubt: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in their order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> SchemaColumn | None:
        """Return the column of a name, which servers compare without case; None if there is none."""
        wanted = folded(name)
        return next((column for column in self.columns if folded(column.name) == wanted), None)

    def has_in_key(self, column: SchemaColumn) -> bool:
        """Return whether a column belongs to the primary key."""
        return folded(column.name) in map(folded, self.key)

    def doubted(self, reason: str) -> TableSchema:
        """Return the same table, not proven any more; the first reason stays."""
        return self if self.doubt is not None else replace(self, doubt=reason)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Databases with their default character sets, tables, and the server's rules; nothing changes it in place.

    Of a database that is not listed, the default character set is not known.
    """

    databases: Mapping[str, str | None] = field(default_factory=dict)
    tables: Mapping[TableId, TableSchema] = field(default_factory=dict)
    rules: ServerRules = ServerRules()

    def table_id(self, database: str, table: str) -> TableId:
        """Return the table's name as the server keeps it."""
        if self.rules.lower_case_names:
            return TableId(database.lower(), "", table.lower())
        return TableId(database, "", table)
