"""Statements that are not understood: which tables they may be about shows in their words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dts_assets.model.tables import TableId

_WORD = re.compile(r"[\w$]+")


def words_of(sql: str) -> str:
    """Return the words of a text, each once and in order: ``ALTER TABLE orders``."""
    return " ".join(sorted(set(_WORD.findall(sql))))


def tables_in_words(words: str, tables: Iterable[TableId]) -> list[TableId]:
    """Return those of some tables whose names consist of such words, in their order.

    Every table whose name stands in a text is among them, and so may others be: of two words that stand apart in the text, or
    of another database.
    """
    there = frozenset(words.split(" "))
    return [table for table in tables if _words_of_name(table.table) <= there]


@lru_cache(maxsize=65536)
def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name))
