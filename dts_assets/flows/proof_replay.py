"""The statements of a changelog, run in a scratch server.

Those of the source were written anew before, and are about tables of the named databases alone. Whatever else the source did, it
does not do it here: an account, a view or another database on that server is not touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from dts_assets.errors.scratch import FullDatabasesError
from dts_assets.flows.scratch_server import ScratchServer, StatementRefused
from dts_assets.model.columns import quoted
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.statement_script import ROW_KIND
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.reading import effects_of

_AT_ONCE = 2_000
"""Changes of one transaction."""

_NAMED = 10


class Existing(StrEnum):
    """The treatment of databases that have tables already."""

    REFUSE = "refuse"
    DROP = "drop"
    USE = "use"


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

    ``missed`` are changes that found no row, ``refused`` the statements that the server did not run, and ``first_refused`` the
    first ones.
    """

    changes: int = 0
    ddl: int = 0
    missed: int = 0
    refused: int = 0
    first_refused: list[RefusedStatement] = field(default_factory=list)


def prepare_databases(server: ScratchServer, databases: Collection[str], *, existing: Existing) -> None:
    """Make sure that databases can be filled.

    Raises:
        FullDatabasesError: Some have tables, and they are neither to be dropped nor to be used.
        StatementRefused: The server refuses to drop one.
        ScratchServerError: The connection is lost.
    """
    full = sorted(name for name, tables in server.tables_in(databases).items() if tables)
    if full and existing is Existing.REFUSE:
        raise FullDatabasesError(str(server.address), full)
    if existing is Existing.DROP:
        for name in full:
            server.run(f"DROP DATABASE {quoted(name)}")


@dataclass(slots=True)
class Replay:
    """The running of statements in a server, in tables of some databases. ``preamble`` prepares the session."""

    server: ScratchServer
    preamble: Sequence[str]
    databases: Collection[str]
    done: Replayed = field(default_factory=Replayed)
    _open: int = 0

    def run(self, parts: Iterable[pa.Table]) -> Replayed:
        """Run the rows of a script (:data:`dts_assets.stages.statement_script.SCRIPT`), and return what was done.

        Raises:
            ScratchServerError: The connection is lost.
        """
        for statement in self.preamble:
            self.server.run(statement)
        for name in sorted(set(self.databases) - set(self.server.tables_in(self.databases))):
            self.server.run(f"CREATE DATABASE {quoted(name)} CHARACTER SET utf8mb4")
        for rows in parts:
            names = ("lineage", "file", "position", "kind", "text", "otherwise")
            for *place, kind, text, otherwise in zip(*(rows[name].to_pylist() for name in names), strict=True):
                if kind == ROW_KIND:
                    self._change(text, otherwise, SourcePosition(*place))
                else:
                    self._statement(text, SourcePosition(*place))
        self.server.commit()
        return self.done

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

    def _statement(self, text: str, position: SourcePosition) -> None:
        self.done.ddl += 1
        try:
            self._without_empty(text)
            self.server.run(text)
        except StatementRefused as error:
            self._refused(position, "DDL", error)

    def _without_empty(self, text: str) -> None:
        """Drop an empty database that was made for the source's own CREATE DATABASE, which expects none."""
        for effect in effects_of(text, "").effects:
            name = effect.database
            makes = effect.kind is EffectKind.CREATE_DATABASE
            if makes and name is not None and self.server.tables_in({name}).get(name) == 0:
                self.server.run(f"DROP DATABASE {quoted(name)}")

    def _refused(self, position: SourcePosition, kind: str, error: StatementRefused) -> None:
        self.done.refused += 1
        if len(self.done.first_refused) < _NAMED:
            self.done.first_refused.append(RefusedStatement(position, kind, error.code))
