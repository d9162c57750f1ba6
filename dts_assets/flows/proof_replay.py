"""The statements of a changelog, run in a scratch server.

Only statements about tables of the named databases are run. Whatever else the source did, it does not do it here: an account,
a view or another database on that server is not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from dts_assets.errors.scratch import FullDatabasesError
from dts_assets.flows.scratch_server import ScratchAddress, ScratchServer, StatementRefused
from dts_assets.model.columns import quoted
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.sql_dialect import Dialect
from dts_assets.stages.statement_script import ROW_KIND
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.reading import effects_of

_AT_ONCE = 2_000
"""Changes of one transaction."""

_NAMED = 10

_NOT_ABOUT_TABLES = frozenset({EffectKind.VIEW, EffectKind.ROUTINE, EffectKind.OTHER})


class Existing(StrEnum):
    """The treatment of databases that have tables already."""

    REFUSE = "refuse"
    DROP = "drop"
    USE = "use"


class LeftOut(StrEnum):
    """The reason why a statement of the source is not run."""

    NOT_TABLES = "not about tables"
    NOT_READ = "not understood"
    ELSEWHERE = "about another database"
    BY_ITSELF = "a trigger or an event"


@dataclass(frozen=True, slots=True)
class RefusedStatement:
    """A statement that the server refused: its position, ``change`` or ``DDL``, and the server's number of the error."""

    position: SourcePosition
    kind: str
    code: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.position} (error {self.code})"


@dataclass(slots=True)
class Replayed:
    """The statements that were run in a server, counted.

    ``missed`` are changes that found no row, ``refused`` the statements that the server did not run, ``first_refused`` the first
    ones, and ``left_out`` the statements of the source that are not run, by reason.
    """

    changes: int = 0
    ddl: int = 0
    missed: int = 0
    refused: int = 0
    first_refused: list[RefusedStatement] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)


def prepare_databases(
    server: ScratchServer, databases: Collection[str], *, existing: Existing, address: ScratchAddress
) -> None:
    """Make sure that databases can be filled.

    Raises:
        FullDatabasesError: Some have tables, and they are neither to be dropped nor to be used.
        StatementRefused: The server refuses to drop one.
        ScratchServerError: The connection is lost.
    """
    full = sorted(name for name, tables in server.tables_in(databases).items() if tables)
    if full and existing is Existing.REFUSE:
        raise FullDatabasesError(str(address), full)
    if existing is Existing.DROP:
        for name in full:
            server.run(f"DROP DATABASE {quoted(name)}")


@dataclass(slots=True)
class Replay:
    """The running of statements in a server, in tables of some databases."""

    server: ScratchServer
    dialect: Dialect
    databases: Collection[str]
    done: Replayed = field(default_factory=Replayed)
    _there: set[str] = field(default_factory=set)
    _default: str = ""
    _open: int = 0

    def run(self, parts: Iterable[pa.Table]) -> Replayed:
        """Run the rows of a script (:data:`dts_assets.stages.statement_script.SCRIPT`), and return what was done.

        Raises:
            ScratchServerError: The connection is lost.
        """
        for statement in self.dialect.preamble:
            self.server.run(statement)
        self._there = set(self.server.tables_in(self.databases))
        for name in sorted(set(self.databases) - self._there):
            self._make(name)
        for rows in parts:
            names = ("lineage", "file", "position", "kind", "text", "otherwise", "database")
            for *place, kind, text, otherwise, database in zip(
                *(rows[name].to_pylist() for name in names), strict=True
            ):
                if kind == ROW_KIND:
                    self._change(text, otherwise, SourcePosition(*place))
                elif text.strip():
                    self._statement(text, database or "", SourcePosition(*place))
        self.server.commit()
        return self.done

    def _make(self, database: str) -> None:
        self.server.run(f"CREATE DATABASE {quoted(database)} CHARACTER SET utf8mb4")
        self._there.add(database)

    def _change(self, text: str, otherwise: str | None, position: SourcePosition) -> None:
        if text.startswith("--"):  # nobody can write it; whoever made the rows has counted it
            return
        self.done.changes += 1
        try:
            found = self.server.run(text) > 0
            if not found and otherwise is not None:
                found = self.server.run(otherwise) > 0
            self.done.missed += not found
        except StatementRefused as error:
            self._refused(position, "change", error)
        self._open += 1
        if self._open == _AT_ONCE:
            self.server.commit()
            self._open = 0

    def _statement(self, text: str, database: str, position: SourcePosition) -> None:
        reason = self._reason(text, database)
        if reason is not None:
            self.done.left_out[reason] += 1
            return
        self.done.ddl += 1
        try:
            self._in_databases(text, database)
            self.server.run(text.strip().rstrip(";"))
        except StatementRefused as error:
            self._refused(position, "DDL", error)

    def _reason(self, text: str, database: str) -> LeftOut | None:
        """Return why a statement is not run, None if it is."""
        if all(line.startswith("--") for line in self.dialect.statement(text)):
            return LeftOut.BY_ITSELF
        parsed = effects_of(text, database)
        if not parsed.parsed:
            return LeftOut.NOT_READ
        if all(effect.kind in _NOT_ABOUT_TABLES for effect in parsed.effects):
            return LeftOut.NOT_TABLES
        named = {table.database for effect in parsed.effects for table in effect.tables}
        named |= {effect.database for effect in parsed.effects if effect.database is not None}
        return None if named <= set(self.databases) else LeftOut.ELSEWHERE

    def _in_databases(self, text: str, database: str) -> None:
        """Bring databases and the session to what a statement expects.

        The source's own CREATE DATABASE finds none: an empty one that was made for it goes.
        """
        effects = effects_of(text, database).effects
        made = {one.database for one in effects if one.kind is EffectKind.CREATE_DATABASE and one.database is not None}
        dropped = {one.database for one in effects if one.kind is EffectKind.DROP_DATABASE and one.database is not None}
        for name in made:
            if self.server.tables_in({name}).get(name) == 0:
                self.server.run(f"DROP DATABASE {quoted(name)}")
        if made | dropped:
            self._default = ""
        elif database and database in self.databases and database != self._default:
            self.server.use(database)
            self._default = database

    def _refused(self, position: SourcePosition, kind: str, error: StatementRefused) -> None:
        self.done.refused += 1
        if len(self.done.first_refused) < _NAMED:
            self.done.first_refused.append(RefusedStatement(position, kind, error.code))
