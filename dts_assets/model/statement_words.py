"""The words of statements, in which names of tables show also where nothing understands the statement."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dts_assets.model.source_types import OTHER_DIALECTS
from dts_assets.model.tables import TableId

_WORD = re.compile(r"[\w$\u0080-\U0010ffff]+")
"""Letters of names that need no quotes (https://dev.mysql.com/doc/refman/8.4/en/identifiers.html)."""


def words_of(sql: str) -> str:
    """Return the words of a text, each once and in order: ``ALTER TABLE orders``."""
    return " ".join(sorted(set(_WORD.findall(sql))))


def naming_text(sql: str, source_type: str) -> str:
    """Return a text in which names of tables stand as the source of a statement spells them.

    PostgreSQL keeps names without quotes in lower case, and Oracle in upper case, however a statement writes them.
    """
    return f"{sql} {sql.lower()} {sql.upper()}" if source_type in OTHER_DIALECTS else sql


def tables_in_words(words: str, tables: Iterable[TableId]) -> list[TableId]:
    """Return those of some tables whose names consist of such words, in their order.

    Every table whose name stands in a text is among them, and so may others be: of two words that stand apart in the text, or
    of another database.
    """
    there = frozenset(words.split(" "))
    return [table for table in tables if _words_of_name(table.table) <= there]


class TablesByWord:
    """Some tables by a word of their names, for many statements."""

    def __init__(self, tables: Iterable[TableId]) -> None:
        """Take the tables."""
        self._by_word: dict[str, list[TableId]] = {}
        for table in tables:
            word = min(_words_of_name(table.table), default="")
            self._by_word.setdefault(word, []).append(table)

    def named_in(self, sql: str) -> frozenset[TableId]:
        """Return the tables that a statement may name, as :func:`tables_in_words` says it."""
        there = frozenset(_WORD.findall(sql))
        return frozenset(
            table
            for word in ("", *there)  # a name of signs alone has no word
            for table in self._by_word.get(word, ())
            if _words_of_name(table.table) <= there
        )


@lru_cache(maxsize=65536)
def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name))
