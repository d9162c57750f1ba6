"""Statements of a source that are about chosen tables and their databases, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.other_parts import Part
from dts_assets.wire.ddl.reading import statements_between
from dts_assets.wire.ddl.tokens import Token, TokenKind, Unreadable, readings, source_text
from dts_assets.wire.ddl.written_anew import NewStatement, drop_text, written_anew


class LeftOut(StrEnum):
    """The reason why a statement of the source is left out."""

    NOT_TABLES = "about no table (an account, a setting, a view, a routine, a trigger, an event)"
    NOT_READ = "not understood"
    ELSEWHERE = "about other tables"


OF_SERVERS = frozenset({"mysql", "sys", "information_schema", "performance_schema", "ndbinfo"})
"""The databases that servers have for themselves; no statement about them is chosen."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The tables that are chosen: those that ``takes`` takes, in these databases.

    With ``anew`` every statement is written anew for a server. Otherwise it stands as the source has it, unless a part of it
    reaches beyond the chosen tables.
    """

    takes: Callable[[TableId], bool]
    databases: frozenset[str]
    anew: bool = False

    def has(self, table: TableId) -> bool:
        """Tell whether a table is chosen."""
        return table.database in self.databases and table.database.lower() not in OF_SERVERS and self.takes(table)


@dataclass(slots=True)
class ChosenStatements:
    """The statements of a text that are chosen.

    The others are counted, and so are parts of the chosen ones that are left out.
    """

    texts: list[str] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    parts: Counter[Part] = field(default_factory=Counter)

    def add(self, other: ChosenStatements) -> None:
        """Add those of another text."""
        self.texts += other.texts
        self.left_out += other.left_out
        self.parts += other.parts


def chosen_statements(sql: str, database: str, choice: Choice) -> ChosenStatements:
    """Return the statements of a text that are about chosen tables; never raise.

    Names without a database are of ``database``. Code of version comments is taken as older servers do; where newer ones
    would do other work, the text is not understood.
    """
    try:
        found = [
            (tokens, [written_anew(one, database) for one in statements_between(tokens)]) for tokens in readings(sql)
        ]
    except (Unreadable, RecursionError):
        return ChosenStatements(left_out=Counter([LeftOut.NOT_READ]))
    tokens, statements = found[-1]
    others = [_work(one) for _, one in found[:-1]]
    if any(one != _work(statements) for one in others) or any(token.text == "\\" for token in tokens):
        return ChosenStatements(left_out=Counter([LeftOut.NOT_READ]))
    chosen = ChosenStatements()
    for one in statements:
        _choose(one, sql if len(statements) == 1 else "", choice, chosen)
    return chosen


def _work(statements: Sequence[NewStatement | None]) -> list[tuple[str, list[TableId], list[str]] | None]:
    return [None if one is None else (one.text, one.tables, one.databases) for one in statements]


def _choose(new: NewStatement | None, sql: str, choice: Choice, chosen: ChosenStatements) -> None:
    """Add a statement to the chosen ones, or count it."""
    if new is None:
        chosen.left_out[LeftOut.NOT_TABLES] += 1
        return
    named = {table.database for table in new.tables} | set(new.databases)
    foreign = named - choice.databases | {name for name in named if name.lower() in OF_SERVERS}
    if new.drops and (kept := [table for table in new.tables if choice.has(table)]) != new.tables:
        chosen.left_out[LeftOut.ELSEWHERE] += 1
        chosen.texts += [drop_text(kept)] if kept else []
    elif foreign or (new.tables and not any(map(choice.takes, new.tables))):
        chosen.left_out[LeftOut.ELSEWHERE] += 1
    elif choice.anew or new.reaches(choice.has):
        chosen.texts += [new.text] if new.text else []
        chosen.parts += new.counts
    else:
        chosen.texts.append(_as_it_is(new.read, sql))


def _as_it_is(tokens: Sequence[Token], sql: str) -> str:
    """Return the text of a statement, or its words alone if comments or others stand in it.

    A client of MySQL takes a line with the word DELIMITER for a command of its own.
    """
    words = "".join(token.text for token in tokens)
    if "".join(words.split()) == "".join(sql.strip().rstrip(";").split()) and "delimiter" not in sql.lower():
        return sql
    return source_text([_no_command(token) for token in tokens])


def _no_command(token: Token) -> Token:
    return Token(TokenKind.NAME, f"`{token.text}`", token.spaced) if token.keyword == "DELIMITER" else token
